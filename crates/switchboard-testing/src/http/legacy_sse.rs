//! HTTP+SSE, the transport of 2024-11-05, beside Streamable HTTP: a GET of `/sse` opens a stream whose `endpoint` event
//! names where messages go, and what is posted there is answered on the stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Response, StatusCode};
use serde_json::Value;

use crate::http::body::{self, Act, Body};
use crate::http::exchange::{Ending, HttpRequest};
use crate::http::serve::{self, Exchange};
use crate::lines::Connection;
use crate::peer::Kind;
use crate::reply::{Output, Outputs};

/// Where streams are opened.
pub(crate) const STREAM: &str = "/sse";
/// Where messages are posted.
pub(crate) const MESSAGES: &str = "/messages";

/// What each stream begins with, and the streams that are open.
#[derive(Debug)]
pub(crate) struct LegacySse {
    /// The data of the `endpoint` events; `{session}` and `{origin}` are filled in.
    pub(crate) endpoints: Vec<String>,
    pub(crate) opened: usize,
    pub(crate) sessions: Sessions,
}

impl Default for LegacySse {
    fn default() -> Self {
        let endpoints = vec![format!("{MESSAGES}?session={{session}}")];
        Self { endpoints, opened: 0, sessions: Sessions::default() }
    }
}

/// The open streams, by session.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<String, Connection>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Connection>> {
        self.0.lock().expect("no test thread panics while it holds the sessions")
    }
}

/// Ends a session with its stream.
struct Ended(Sessions, String);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

impl Exchange {
    /// Opens a stream, which is a session of its own; `None` when the peer does not speak this transport.
    pub(crate) fn open_legacy_stream(&self, request: &HttpRequest) -> Option<Response<Body>> {
        let (sessions, session, endpoints) = self.shared.begin_legacy_session()?;
        let host = request.header("host").unwrap_or_default();
        let events = endpoints.iter().map(|endpoint| {
            let data = endpoint.replace("{session}", &session).replace("{origin}", &format!("http://{host}"));
            Act::Write(Bytes::from(format!("event: endpoint\ndata: {data}\n\n")))
        });
        let begin = futures_util::stream::iter(events.collect::<Vec<_>>());
        let (outputs, queue) = Outputs::channel();
        let hold = self.shared.peer.open_channel(outputs.clone(), Kind::Legacy);
        sessions.lock().insert(session.clone(), Connection::new(self.shared.peer.clone(), outputs));
        let ended = Ended(sessions, session);
        let rest = futures_util::stream::unfold((queue, hold, ended), |(mut queue, hold, ended)| async move {
            let output = tokio::select! {
                output = queue.recv() => output?,
                () = hold.ended() => return None,
            };
            let acts = match output {
                Output::Cut => vec![Act::End(Ending::Cut)],
                Output::Message(message) => body::acts_of(body::event(&message.bytes), &message),
            };
            Some((futures_util::stream::iter(acts), (queue, hold, ended)))
        });
        Some(serve::event_stream(body::scripted(begin.chain(rest.flatten()), Arc::clone(&self.socket))))
    }

    /// Takes a message for a session; its answer goes to the session's stream.
    pub(crate) fn take_legacy_message(&self, request: &HttpRequest, message: Option<Value>) -> Response<Body> {
        let query = request.query.as_deref().unwrap_or_default();
        let session = query.split('&').find_map(|pair| pair.strip_prefix("session="));
        let sessions = self.shared.legacy_sessions();
        let mut sessions = sessions.lock();
        let Some(connection) = session.and_then(|session| sessions.get_mut(session)) else {
            return serve::empty(StatusCode::NOT_FOUND);
        };
        let Some(message) = message.filter(Value::is_object) else { return serve::empty(StatusCode::BAD_REQUEST) };
        connection.message(message);
        let mut response = Response::new(body::full("Accepted"));
        *response.status_mut() = StatusCode::ACCEPTED;
        response
    }
}
