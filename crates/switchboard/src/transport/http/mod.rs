//! Streamable HTTP, both eras: each message is a POST; its answer is one JSON body or an event stream.
//!
//! Sources: specification 2026-07-28 and 2025-11-25, "Streamable HTTP".

mod answer;
mod client;
mod headers;
mod resume;
mod status;
mod stream;

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::watch;

pub(super) use self::client::Address;
pub(crate) use self::client::HttpClient;
use self::headers::SESSION_ID;
pub(super) use self::headers::{VERSION, of_posts, of_streams};
use self::status::ERROR_BODY;
pub(crate) use self::status::refuses_stream;
pub(super) use self::status::status_error;
pub(super) use self::stream::event_stream;
use super::body::Body;
use super::callers::Callers;
use super::unasked::{CLOSE_LIMIT, Unasked};
use super::{Answer, Dialect, Outgoing, Receiver, TransportError};
use crate::spec::HttpTarget;
use crate::wire::Message;

/// One server over Streamable HTTP, in one life of its connection.
pub(crate) struct HttpTransport {
    client: HttpClient,
    address: Address,
    /// Headers of every POST.
    base: HeaderMap,
    /// Given by the server's answer to `initialize`, if at all.
    session: OnceLock<HeaderValue>,
    /// The status with which the server has ended that session. Its id is not sent again then.
    gone: OnceLock<u16>,
    /// The limit of one message, in bytes.
    limit: usize,
    receiver: Arc<dyn Receiver>,
    unasked: Unasked,
    /// Callers whose answers may come on the standalone stream.
    callers: Callers,
    /// Whether that stream is open.
    is_listening: watch::Sender<bool>,
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").field("host", &self.address.url.host_str()).finish_non_exhaustive()
    }
}

impl HttpTransport {
    pub(crate) fn new(
        client: HttpClient,
        target: &HttpTarget,
        limit: usize,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Self, TransportError> {
        let (address, base) = (Address::new(&target.url)?, of_posts(target));
        let (session, gone) = (OnceLock::new(), OnceLock::new());
        Ok(Self {
            client,
            address,
            base,
            session,
            gone,
            limit,
            receiver,
            unasked: Unasked::new(),
            callers: Callers::default(),
            is_listening: watch::Sender::new(false),
        })
    }

    /// Goes on in the session with this id, unless there is one already.
    pub(crate) fn resume(&self, id: &[u8]) {
        // Copied, as the bytes of a header keep the connection's buffer alive. A new handshake has a new transport, so there
        // is none yet.
        let _ = HeaderValue::from_bytes(id).map(|id| self.session.set(id));
    }

    /// The id of the session, until the server has ended it.
    pub(crate) fn session_id(&self) -> Option<&HeaderValue> {
        self.session.get().filter(|_| self.gone.get().is_none())
    }

    /// Sends a request. Its answer comes with the exchange; some servers accept the request with 202 and send the answer on
    /// the standalone stream, where one is open.
    pub(crate) async fn request(self: &Arc<Self>, outgoing: Outgoing<'_>) -> Result<Answer, TransportError> {
        if !*self.is_listening.borrow() {
            let response = self.post(outgoing).await?;
            return self.read_answer(outgoing, response).await;
        }
        let mut elsewhere = self.callers.enter(outgoing.id)?;
        let exchange = async {
            let response = self.post(outgoing).await?;
            if response.status() != StatusCode::ACCEPTED {
                return self.read_answer(outgoing, response).await;
            }
            self.unasked.finish(drain(response));
            // The sender lives in `self`, so the wait cannot fail.
            let _ = self.is_listening.subscribe().wait_for(|is_listening| !is_listening).await;
            Err(TransportError::NoAnswer("the HTTP exchange"))
        };
        tokio::select! {
            biased;
            answer = elsewhere.answer() => answer,
            outcome = exchange => outcome,
        }
    }

    async fn post(self: &Arc<Self>, outgoing: Outgoing<'_>) -> Result<Response<Incoming>, TransportError> {
        self.in_session(outgoing.dialect)?;
        let response =
            self.client.send(&self.address, &Method::POST, || self.headers(&outgoing), outgoing.body.clone()).await?;
        if outgoing.method == "initialize"
            && response.status().is_success()
            && let Some(id) = response.headers().get(SESSION_ID)
            // Some servers without sessions send the header nevertheless.
            && !id.is_empty()
        {
            self.resume(id.as_bytes());
        }
        Ok(response)
    }

    pub(crate) async fn notify(&self, dialect: Dialect, body: Bytes) -> Result<(), TransportError> {
        self.in_session(dialect)?;
        let response =
            self.client.send(&self.address, &Method::POST, || Ok(self.dialect_headers(dialect)), body).await?;
        if response.status().is_success() {
            self.unasked.finish(drain(response));
            return Ok(());
        }
        // That the session is gone is for the answer to a request to say: many servers refuse notices which they do not know.
        Err(status_error(response).await)
    }

    /// Sends a notification without waiting.
    pub(super) fn notify_soon(self: &Arc<Self>, dialect: Dialect, body: Bytes) {
        let this = self.clone();
        self.unasked.notice(async move { this.notify(dialect, body).await });
    }

    /// Ends the session with a DELETE, when there is one, and all that still runs; whether no session is left.
    pub(super) async fn close(&self, dialect: Dialect) -> bool {
        let is_ended = self.session_id().is_none() || self.end_session(dialect).await;
        self.unasked.end().await;
        is_ended
    }

    async fn end_session(&self, dialect: Dialect) -> bool {
        let headers = || Ok(self.bodiless_headers(dialect));
        let sent = self.client.send(&self.address, &Method::DELETE, headers, Bytes::new());
        match tokio::time::timeout(CLOSE_LIMIT, sent).await {
            Ok(Ok(response)) => {
                let status = response.status();
                status.is_success() || matches!(status.as_u16(), 404 | 410)
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "the session could not be ended");
                false
            }
            Err(_) => false,
        }
    }

    /// Gives a message to the receiver and sends what it answers on a POST of its own, so that a stream that waits for
    /// the answer is read on meanwhile.
    fn pass_on(self: &Arc<Self>, dialect: Dialect, message: Message) {
        let Some(reply) = self.receiver.receive(message) else { return };
        let this = self.clone();
        if !self.unasked.reply(async move { this.notify(dialect, reply).await }) {
            self.receiver.odd("more requests than it takes answers to");
        }
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.unasked.stop();
    }
}

/// Reads an answer that says nothing to us, which frees the connection for the next request. Some servers never end it.
pub(super) async fn drain(response: Response<Incoming>) {
    let (parts, body) = response.into_parts();
    if let Ok(body) = Body::new(&parts.headers, body) {
        body.head(ERROR_BODY).await;
    }
}

#[cfg(test)]
mod tests;
