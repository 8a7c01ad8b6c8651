//! One HTTP request as a peer saw it, and the answers that a script gives at the level of HTTP.

use std::time::Duration;

use async_compression::tokio::bufread::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::io::AsyncReadExt;

use crate::patience::Gate;

/// One HTTP request as the peer saw it.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The path, without the query.
    pub path: String,
    /// The query, without the question mark.
    pub query: Option<String>,
    /// All headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl HttpRequest {
    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as JSON.
    pub fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The JSON-RPC method of the body.
    pub fn rpc_method(&self) -> Option<String> {
        self.json()?["method"].as_str().map(str::to_owned)
    }

    /// True for a POST of this JSON-RPC method.
    pub fn calls(&self, rpc_method: &str) -> bool {
        self.rpc_method().as_deref() == Some(rpc_method)
    }

    /// The JSON-RPC id of the body, or null.
    pub fn id(&self) -> Value {
        self.json().map(|body| body["id"].clone()).unwrap_or_default()
    }
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Brotli.
    Br,
    /// Gzip.
    Gzip,
    /// What HTTP calls deflate: the zlib format.
    Deflate,
    /// What some servers send under the name of deflate: the same without the zlib format around it.
    RawDeflate,
}

impl Coding {
    /// Its name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Br => "br",
            Self::Gzip => "gzip",
            Self::Deflate | Self::RawDeflate => "deflate",
        }
    }

    /// Compresses all of `plain`.
    pub async fn encode(self, plain: &[u8]) -> Bytes {
        let mut coded = Vec::new();
        let done = match self {
            Self::Br => BrotliEncoder::new(plain).read_to_end(&mut coded).await,
            Self::Gzip => GzipEncoder::new(plain).read_to_end(&mut coded).await,
            Self::RawDeflate => DeflateEncoder::new(plain).read_to_end(&mut coded).await,
            Self::Deflate => ZlibEncoder::new(plain).read_to_end(&mut coded).await,
        };
        done.expect("compressing in memory does not fail");
        coded.into()
    }
}

/// An answer at the level of HTTP, polite or rude.
#[derive(Debug, Clone)]
#[must_use]
pub struct HttpReply {
    pub(crate) start: Start,
    pub(crate) status: Option<u16>,
    pub(crate) headers: HeaderMap,
    pub(crate) coding: Option<Coding>,
    pub(crate) delay: Option<Duration>,
    pub(crate) gate: Option<Gate>,
    pub(crate) mishap: Option<Mishap>,
    pub(crate) loss: Option<Loss>,
}

/// What happens to the whole server before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// It forgets its sessions.
    Forgets,
    /// It forgets its sessions, and every connection is closed.
    Restarts,
}

/// How much of a finished answer is lost on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The second half.
    Half,
    /// All of it.
    Whole,
}

#[derive(Debug, Clone)]
pub(crate) enum Start {
    /// What the peer would have answered.
    Usual,
    /// A body of the script.
    Body(Script),
    /// No head at all: the connection ends in this way.
    Nothing(Ending),
}

/// A body in chunks, each flushed on its own.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) chunks: Vec<Bytes>,
    /// Announced in `Content-Length`; without it the body is chunked.
    pub(crate) length: Option<usize>,
    pub(crate) ending: Ending,
}

/// What happens after the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete,
    Hang,
    Cut,
    Reset,
}

impl HttpReply {
    fn new(start: Start) -> Self {
        Self {
            start,
            status: None,
            headers: HeaderMap::new(),
            coding: None,
            delay: None,
            gate: None,
            mishap: None,
            loss: None,
        }
    }

    /// What the peer would have answered, to be changed by the methods below.
    pub fn usual() -> Self {
        Self::new(Start::Usual)
    }

    /// An answer with this status, `Content-Length: 0` and no content type.
    pub fn status(status: u16) -> Self {
        let script = Script { chunks: Vec::new(), length: Some(0), ending: Ending::Complete };
        Self { status: Some(status), ..Self::new(Start::Body(script)) }
    }

    /// A JSON answer with status 200.
    pub fn json(value: &Value) -> Self {
        Self::status(200).content_type("application/json").body(value.to_string())
    }

    /// An HTML page.
    pub fn html(status: u16, page: &str) -> Self {
        Self::status(status).content_type("text/html; charset=utf-8").body(page.to_owned())
    }

    /// An event stream of these messages, which then ends.
    pub fn sse<'a>(messages: impl IntoIterator<Item = &'a Value>) -> Self {
        Self::event_stream(messages.into_iter().map(|message| format!("event: message\ndata: {message}\n\n")))
    }

    /// An event stream of exactly these bytes, each chunk flushed on its own, which then ends.
    pub fn event_stream<T: Into<Bytes>>(chunks: impl IntoIterator<Item = T>) -> Self {
        Self::status(200).content_type("text/event-stream").chunks(chunks)
    }

    /// A redirect; 307 and 308 keep method and body.
    pub fn redirect(status: u16, location: &str) -> Self {
        let location = HeaderValue::from_str(location).expect("the location is a valid header value");
        let mut reply = Self::status(status);
        reply.headers.insert(LOCATION, location);
        reply
    }

    /// Never answers.
    pub fn hang() -> Self {
        Self::new(Start::Nothing(Ending::Hang))
    }

    /// Closes the connection without an answer.
    pub fn cut() -> Self {
        Self::new(Start::Nothing(Ending::Cut))
    }

    /// Resets the connection (RST) without an answer.
    pub fn reset() -> Self {
        Self::new(Start::Nothing(Ending::Reset))
    }

    /// Adds a header.
    ///
    /// # Panics
    /// When the name or the value is not valid.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("the header name is valid");
        self.headers.append(name, HeaderValue::from_str(value).expect("the header value is valid"));
        self
    }

    /// Sets the content type.
    ///
    /// # Panics
    /// When the value is not valid.
    pub fn content_type(mut self, value: &str) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_str(value).expect("the content type is valid"));
        self
    }

    /// Sets the status.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// A whole body with its length.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let script = self.script();
        script.length = Some(body.len());
        script.chunks = vec![body];
        self
    }

    /// A body without a length, each chunk written and flushed on its own.
    pub fn chunks<T: Into<Bytes>>(mut self, chunks: impl IntoIterator<Item = T>) -> Self {
        let script = self.script();
        script.chunks = chunks.into_iter().map(Into::into).collect();
        script.length = None;
        self
    }

    /// Splits the body into chunks of `size` bytes, each flushed on its own. A length that was announced stays so.
    pub fn in_pieces(mut self, size: usize) -> Self {
        let script = self.script();
        let whole = script.chunks.concat();
        script.chunks = whole.chunks(size.max(1)).map(Bytes::copy_from_slice).collect();
        self
    }

    /// Announces the whole body, sends the first `count` bytes of it and cuts the connection.
    pub fn truncated(mut self, count: usize) -> Self {
        let script = self.script();
        let mut whole = script.chunks.concat();
        whole.truncate(count);
        script.chunks = vec![whole.into()];
        script.ending = Ending::Cut;
        self
    }

    /// After the last byte the connection stays open without an end of the body.
    pub fn then_hang(self) -> Self {
        self.ending(Ending::Hang)
    }

    /// After the last byte the connection is closed without an end of the body.
    pub fn then_cut(self) -> Self {
        self.ending(Ending::Cut)
    }

    /// After the last byte the connection is reset.
    pub fn then_reset(self) -> Self {
        self.ending(Ending::Reset)
    }

    /// Compresses the whole body and says so in `Content-Encoding`.
    pub fn encoded(mut self, coding: Coding) -> Self {
        self.coding = Some(coding);
        self
    }

    /// Waits before the head of the answer, on tokio's clock.
    pub fn delay(mut self, duration: Duration) -> Self {
        self.delay = Some(duration);
        self
    }

    /// Holds the head of the answer back until the test opens the gate.
    pub fn when(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Before it answers, the server forgets its sessions, as [`HttpPeer::forget_sessions`](crate::HttpPeer) does.
    pub fn forgets_sessions(mut self) -> Self {
        self.mishap = Some(Mishap::Forgets);
        self
    }

    /// In place of an answer the server restarts: it forgets its sessions and closes every connection, this one included.
    pub fn restart() -> Self {
        Self { mishap: Some(Mishap::Restarts), ..Self::cut() }
    }

    /// The request is carried out, but half-way through the body of the answer the connection is closed. For answers that
    /// end by themselves.
    pub fn lost_midway(mut self) -> Self {
        self.loss = Some(Loss::Half);
        self
    }

    /// The request is carried out, but the connection is closed in place of the answer. For answers that end by themselves.
    pub fn lost(mut self) -> Self {
        self.loss = Some(Loss::Whole);
        self
    }

    fn ending(mut self, ending: Ending) -> Self {
        let script = self.script();
        script.ending = ending;
        if script.length == Some(0) {
            script.length = None;
        }
        self
    }

    /// The body of the script, which takes the place of whatever the answer was before.
    fn script(&mut self) -> &mut Script {
        if !matches!(self.start, Start::Body(_)) {
            self.start = Start::Body(Script { chunks: Vec::new(), length: Some(0), ending: Ending::Complete });
        }
        match &mut self.start {
            Start::Body(script) => script,
            Start::Usual | Start::Nothing(_) => unreachable!("it was just made a body"),
        }
    }

    pub(crate) fn status_code(&self) -> Option<StatusCode> {
        self.status.map(|status| StatusCode::from_u16(status).expect("the status is a valid one"))
    }
}
