//! Streams opened by GET: the one on which a legacy server speaks unasked, and those that go on behind an event.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::HttpTransport;
use super::status::status_error;
use crate::transport::body::{Body, EVENT_STREAM, excerpt, media_type};
use crate::transport::sse::{Cursor, EventStream};
use crate::transport::{Dialect, TransportError};
use crate::wire::Message;

/// How long a server may take to begin a stream. What it takes to say something on it is its own affair.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// How much is read of a page that came in place of a stream.
const PAGE: usize = 4 << 10;

/// The event stream that answers a GET.
///
/// # Errors
/// When the answer is no success, or something else than an event stream.
pub(in crate::transport) async fn event_stream(response: Response<Incoming>) -> Result<Body, TransportError> {
    if !response.status().is_success() {
        return Err(status_error(response).await);
    }
    let (parts, body) = response.into_parts();
    let body = Body::new(&parts.headers, body)?;
    let media_type = media_type(&parts.headers);
    if media_type != EVENT_STREAM {
        let what = excerpt(&body.head(PAGE).await);
        let what = format!("the answer to the GET has the media type `{}`: {what}", media_type.escape_debug());
        return Err(TransportError::NotMcp(what));
    }
    Ok(body)
}

impl HttpTransport {
    /// Opens a stream, behind an event if there is one to resume behind.
    ///
    /// # Errors
    /// Among others those that [`refuses_stream`](super::refuses_stream) knows.
    pub(crate) async fn open_stream(&self, dialect: Dialect, cursor: &Cursor) -> Result<Body, TransportError> {
        self.in_session(dialect)?;
        let headers = || Ok(self.stream_headers(dialect, cursor.last_event_id()));
        let sent = self.client.send(&self.address, &Method::GET, headers, Bytes::new());
        let late = |_| TransportError::Lost(format!("no stream began within {} s", HEAD_LIMIT.as_secs()).into());
        let response = tokio::time::timeout(HEAD_LIMIT, sent).await.map_err(late)??;
        event_stream(response).await
    }

    /// Reads a stream on which nothing is waited for to its end. The cursor says where it stands then.
    ///
    /// # Errors
    /// When it broke.
    pub(crate) async fn read_unasked(
        self: &Arc<Self>,
        dialect: Dialect,
        body: Body,
        cursor: &mut Cursor,
    ) -> Result<(), TransportError> {
        let mut stream = EventStream::resumed(body, self.limit, std::mem::take(cursor));
        let _listening = Listening::begin(&self.is_listening);
        let outcome = loop {
            match stream.next(&*self.receiver).await {
                Ok(Some(messages)) => {
                    for message in messages {
                        self.heard(dialect, message);
                    }
                }
                Ok(None) => break Ok(()),
                // The stream goes on behind it.
                Err(TransportError::TooLarge { limit }) => {
                    self.receiver.odd(&format!("an event that is larger than the limit of {limit} bytes"));
                }
                Err(error) => break Err(error),
            }
        };
        *cursor = stream.into_cursor();
        outcome
    }

    /// Takes in what came on the standalone stream.
    fn heard(self: &Arc<Self>, dialect: Dialect, message: Message) {
        match message {
            Message::Response { id: id @ Some(_), outcome } => {
                if !self.callers.answer(id, outcome) {
                    self.receiver.odd("an unmatched reply");
                }
            }
            message => self.pass_on(dialect, message),
        }
    }
}

/// The standalone stream is open, until this is dropped.
struct Listening<'a>(&'a watch::Sender<bool>);

impl<'a> Listening<'a> {
    fn begin(is_listening: &'a watch::Sender<bool>) -> Self {
        is_listening.send_replace(true);
        Self(is_listening)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}
