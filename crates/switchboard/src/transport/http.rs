//! Streamable HTTP, both eras: each message is a POST; its answer is one JSON body or an event stream.
//!
//! Sources: specification 2026-07-28 and 2025-11-25, "Streamable HTTP".

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

use super::body::{ACCEPTED_CODINGS, Body, excerpt, media_type};
use super::connector::Connector;
use super::sse::EventStream;
use super::{Answer, Dialect, Outgoing, Receiver, StatusError, TransportError};
use crate::spec::HttpTarget;
use crate::tasks::Tasks;
use crate::wire::{Message, message, meta};

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How many redirects one request follows.
const REDIRECTS: usize = 5;
/// How much of an error's body is read.
const ERROR_BODY: usize = 64 << 10;
/// How long a server may take to accept what nobody waits for; as long as that, it keeps its transport alive.
const UNASKED_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of a session may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// The process's one HTTP client: a pool of connections, shared by all servers.
#[derive(Clone)]
pub(crate) struct HttpClient(Client<Connector, Full<Bytes>>);

impl HttpClient {
    pub(crate) fn new() -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .build(Connector::default());
        Self(client)
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

/// One server over Streamable HTTP, in one life of its connection.
pub(crate) struct HttpTransport {
    client: HttpClient,
    url: Url,
    uri: Uri,
    /// Headers of every POST.
    base: HeaderMap,
    /// Given by the server's answer to `initialize`, if at all.
    session: OnceLock<HeaderValue>,
    /// Whether the server has ended that session. Its id is not sent again then.
    is_gone: AtomicBool,
    /// The limit of one message, in bytes.
    limit: usize,
    receiver: Arc<dyn Receiver>,
    tasks: Tasks,
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

/// How a standalone stream ended.
#[derive(Debug, Default)]
pub(crate) struct StreamEnd {
    /// Behind which event it can be resumed.
    pub(crate) last_event_id: Option<String>,
    /// How long the server asked us to wait before that.
    pub(crate) retry: Option<Duration>,
    /// Whether any event came.
    pub(crate) gave_events: bool,
}

impl HttpTransport {
    pub(crate) fn new(
        client: HttpClient,
        target: &HttpTarget,
        limit: usize,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Self, TransportError> {
        let uri = target
            .url
            .as_str()
            .parse()
            .map_err(|error: http::uri::InvalidUri| TransportError::Connect(error.into()))?;
        let mut base = HeaderMap::with_capacity(12);
        for (name, value) in target.headers.iter() {
            base.append(name, value.clone());
        }
        base.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        base.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        base.insert(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED_CODINGS));
        let (session, is_gone) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Self { client, url: target.url.clone(), uri, base, session, is_gone, limit, receiver, tasks: Tasks::new() })
    }

    pub(crate) async fn request(self: &Arc<Self>, outgoing: Outgoing<'_>) -> Result<Answer, TransportError> {
        let response = self.send(&Method::POST, || self.headers(&outgoing), outgoing.body.clone()).await?;
        if outgoing.method == "initialize"
            && response.status().is_success()
            && let Some(id) = response.headers().get(SESSION_ID)
        {
            // Copied, as the header's own bytes keep the connection's buffer alive. A new handshake has a new transport, so
            // there is none yet.
            let _ = HeaderValue::from_bytes(id.as_bytes()).map(|id| self.session.set(id));
        }
        self.read_answer(outgoing, response).await
    }

    pub(crate) async fn notify(&self, dialect: Dialect, body: Bytes) -> Result<(), TransportError> {
        let response = self.send(&Method::POST, || Ok(self.dialect_headers(dialect)), body).await?;
        if response.status().is_success() {
            self.tasks.spawn(drain(response));
            return Ok(());
        }
        Err(self.refusal(dialect, response).await)
    }

    /// Sends a notification without waiting.
    pub(super) fn notify_soon(self: &Arc<Self>, dialect: Dialect, body: Bytes) {
        if self.is_gone.load(Ordering::Acquire) {
            return;
        }
        let this = self.clone();
        self.tasks.spawn(async move {
            match tokio::time::timeout(UNASKED_LIMIT, this.notify(dialect, body)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a notification was not delivered"),
                Err(_) => tracing::debug!("a notification was not taken in time"),
            }
        });
    }

    /// Opens the optional stream on which a legacy server speaks unasked, and reads it to its end.
    ///
    /// # Errors
    /// [`TransportError::Status`] when the server does not offer one.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        dialect: Dialect,
        last_event_id: Option<&str>,
    ) -> Result<StreamEnd, TransportError> {
        let headers = || {
            let mut headers = self.dialect_headers(dialect);
            headers.remove(CONTENT_TYPE);
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(id).ok()) {
                headers.insert(LAST_EVENT_ID, id);
            }
            Ok(headers)
        };
        let response = self.send(&Method::GET, headers, Bytes::new()).await?;
        if !response.status().is_success() {
            return Err(status_error(response).await);
        }
        let (parts, body) = response.into_parts();
        let media_type = media_type(&parts.headers);
        if media_type != "text/event-stream" {
            return Err(TransportError::NotMcp(format!("the stream has the media type `{media_type}`")));
        }
        let mut stream = EventStream::new(Body::new(&parts.headers, body)?, self.limit);
        let mut end = StreamEnd::default();
        let outcome = loop {
            match stream.next(&*self.receiver).await {
                Ok(Some(messages)) => {
                    end.gave_events = true;
                    for message in messages {
                        self.pass_on(dialect, message);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        end.last_event_id = stream.last_event_id().map(str::to_owned);
        end.retry = stream.retry().map(Duration::from_millis);
        match outcome {
            Err(error) if !end.gave_events => Err(error),
            _ => Ok(end),
        }
    }

    /// Ends the session with a DELETE, when there is one, and all that still runs.
    pub(super) async fn close(&self) {
        if self.session.get().is_some() && !self.is_gone.load(Ordering::Acquire) {
            let headers = || {
                let mut headers = self.dialect_headers(Dialect::Handshake);
                headers.remove(CONTENT_TYPE);
                Ok(headers)
            };
            let ended = tokio::time::timeout(CLOSE_LIMIT, self.send(&Method::DELETE, headers, Bytes::new())).await;
            if let Ok(Err(error)) = ended {
                tracing::debug!(%error, "the session could not be ended");
            }
        }
        self.tasks.end(CLOSE_LIMIT).await;
    }

    fn dialect_headers(&self, dialect: Dialect) -> HeaderMap {
        let mut headers = self.base.clone();
        if let Dialect::Legacy(version) | Dialect::Modern(version) = dialect {
            headers.insert(VERSION, HeaderValue::from_static(version));
        }
        if let (Dialect::Legacy(_) | Dialect::Handshake, Some(session)) = (dialect, self.session.get()) {
            headers.insert(SESSION_ID, session.clone());
        }
        headers
    }

    fn headers(&self, outgoing: &Outgoing<'_>) -> Result<HeaderMap, TransportError> {
        let mut headers = self.dialect_headers(outgoing.dialect);
        if let Some(given) = outgoing.headers {
            for (name, _) in given.iter() {
                headers.remove(name);
            }
            for (name, value) in given.iter() {
                headers.append(name, value.clone());
            }
        }
        if let Dialect::Modern(_) = outgoing.dialect {
            let value = |text: &str| {
                HeaderValue::from_str(text)
                    .map_err(|error| TransportError::NotMcp(format!("a header of ours: {error}")))
            };
            headers.insert(METHOD, value(outgoing.method)?);
            if let Some(name) = outgoing.name {
                headers.insert(NAME, value(&meta::header_value(name))?);
            }
            for (name, text) in outgoing.param_headers {
                let name = HeaderName::from_bytes(name.as_bytes());
                let name = name.map_err(|error| TransportError::NotMcp(format!("a header of a tool: {error}")))?;
                headers.insert(name, value(text)?);
            }
        }
        Ok(headers)
    }

    /// Sends one HTTP request, following redirects within the origin, with method and body kept. `headers` makes the
    /// headers, anew for each hop.
    async fn send(
        &self,
        method: &Method,
        headers: impl Fn() -> Result<HeaderMap, TransportError>,
        body: Bytes,
    ) -> Result<Response<Incoming>, TransportError> {
        let mut uri = self.uri.clone();
        let mut url = None;
        for _ in 0..=REDIRECTS {
            let request = request(method, uri, headers()?, body.clone());
            let response = self.client.0.request(request).await.map_err(client_error)?;
            if !matches!(response.status().as_u16(), 301 | 302 | 307 | 308) {
                return Ok(response);
            }
            let here = url.as_ref().unwrap_or(&self.url);
            let there = redirect_target(here, response.headers())?;
            uri = there.as_str().parse().map_err(|_| TransportError::NotMcp(format!("a redirect to `{there}`")))?;
            url = Some(there);
        }
        Err(TransportError::NotMcp(format!("more than {REDIRECTS} redirects")))
    }

    async fn read_answer(
        self: &Arc<Self>,
        outgoing: Outgoing<'_>,
        response: Response<Incoming>,
    ) -> Result<Answer, TransportError> {
        let status = response.status();
        if !status.is_success() {
            return match self.refusal(outgoing.dialect, response).await {
                // A modern server says what is wrong in JSON-RPC, whatever the status.
                TransportError::Status(error) if error.rpc.is_some() && !is_refusal(status) => {
                    Ok(Err(take_rpc(*error)))
                }
                error => Err(error),
            };
        }
        let (parts, body) = response.into_parts();
        let body = Body::new(&parts.headers, body)?;
        match &*media_type(&parts.headers) {
            "text/event-stream" => self.read_stream(outgoing, EventStream::new(body, self.limit)).await,
            media_type => {
                let text = body.collect(self.limit).await?;
                self.read_body(outgoing, &text, media_type, status)
            }
        }
    }

    /// What an answer that is no success means; it may be that the session is gone.
    async fn refusal(&self, dialect: Dialect, response: Response<Incoming>) -> TransportError {
        match status_error(response).await {
            TransportError::Status(error)
                if matches!(dialect, Dialect::Legacy(_)) && self.session.get().is_some() && ends_session(&error) =>
            {
                self.is_gone.store(true, Ordering::Release);
                TransportError::SessionGone(error)
            }
            error => error,
        }
    }

    fn read_body(
        self: &Arc<Self>,
        outgoing: Outgoing<'_>,
        text: &Bytes,
        media_type: &str,
        status: StatusCode,
    ) -> Result<Answer, TransportError> {
        if text.trim_ascii().is_empty() || status == StatusCode::ACCEPTED {
            return Err(TransportError::NoAnswer("the HTTP exchange"));
        }
        if !matches!(media_type, "" | "application/json" | "text/json") && !media_type.ends_with("+json") {
            let what = format!("the media type `{media_type}`: {}", excerpt(text));
            return Err(TransportError::NotMcp(what));
        }
        if let Ok(Message::Response { id: Some(id), outcome }) = Message::parse(text)
            && id == outgoing.id
        {
            return Ok(outcome);
        }
        let messages = Message::parse_all(text)
            .map_err(|error| TransportError::NotMcp(format!("the body is {error}: {}", excerpt(text))))?;
        let mut answer = None;
        let mut stray = None;
        for message in messages {
            match message {
                Message::Response { id, outcome } if is_answer(id, outgoing.id, &outcome) => answer = Some(outcome),
                Message::Response { id, .. } => stray = Some(id),
                other => self.pass_on(outgoing.dialect, other),
            }
        }
        match (answer, stray) {
            (Some(answer), _) => Ok(answer),
            (None, Some(id)) => Err(wrong_id(outgoing.id, id)),
            (None, None) => Err(TransportError::NoAnswer("the HTTP exchange")),
        }
    }

    async fn read_stream(
        self: &Arc<Self>,
        outgoing: Outgoing<'_>,
        mut stream: EventStream,
    ) -> Result<Answer, TransportError> {
        let mut stray = None;
        while let Some(messages) = stream.next(&*self.receiver).await? {
            let mut answer = None;
            for message in messages {
                match message {
                    Message::Response { id, outcome } if is_answer(id, outgoing.id, &outcome) => answer = Some(outcome),
                    Message::Response { id, .. } => {
                        self.receiver.odd("an answer to nobody");
                        stray = Some(id);
                    }
                    other => self.pass_on(outgoing.dialect, other),
                }
            }
            if let Some(answer) = answer {
                stream.finish();
                return Ok(answer);
            }
        }
        Err(stray.map_or(TransportError::NoAnswer("the event stream"), |id| wrong_id(outgoing.id, id)))
    }

    /// Gives a message to the receiver and sends what it answers on a POST of its own, so that a stream that waits for
    /// the answer is read on meanwhile.
    fn pass_on(self: &Arc<Self>, dialect: Dialect, message: Message) {
        let Some(reply) = self.receiver.receive(message) else { return };
        let this = self.clone();
        self.tasks.spawn(async move {
            let sent = this.send(&Method::POST, || Ok(this.dialect_headers(dialect)), reply);
            match tokio::time::timeout(UNASKED_LIMIT, sent).await {
                Ok(Ok(response)) => drain(response).await,
                Ok(Err(error)) => tracing::debug!(%error, "an answer of ours was not delivered"),
                Err(_) => tracing::debug!("an answer of ours was not taken in time"),
            }
        });
    }
}

fn request(method: &Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

/// Reads an answer that says nothing to us, which frees the connection for the next request. Some servers never end it.
async fn drain(response: Response<Incoming>) {
    let (parts, body) = response.into_parts();
    if let Ok(body) = Body::new(&parts.headers, body) {
        let _ = tokio::time::timeout(CLOSE_LIMIT, body.head(ERROR_BODY)).await;
    }
}

/// Whether a response answers our request: by its id, or because it is an error that could not read the id.
fn is_answer(id: Option<u64>, ours: u64, outcome: &Answer) -> bool {
    id == Some(ours) || (id.is_none() && outcome.is_err())
}

fn wrong_id(ours: u64, theirs: Option<u64>) -> TransportError {
    let theirs = theirs.map_or_else(|| "no id of ours".to_owned(), |id| format!("id {id}"));
    TransportError::NotMcp(format!("an unmatched reply with {theirs} to the request with id {ours}"))
}

/// Statuses that are decided by themselves, whatever the body says.
fn is_refusal(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 429) || status.is_server_error()
}

/// Whether the answer to a request in a session says that there is no such session. That is 404 (specification 2025-11-25,
/// "Session Management"), unless it names our request or says what is wrong with it; many servers say it with 400 and
/// an error of their own that answers no request.
fn ends_session(error: &StatusError) -> bool {
    let is_about_the_request =
        error.rpc.as_ref().is_some_and(|rpc| matches!(rpc.code, message::METHOD_NOT_FOUND | message::INVALID_PARAMS));
    let is_of_the_server = error.rpc.as_ref().is_some_and(|rpc| (-32_099..=-32_000).contains(&rpc.code));
    match error.status {
        404 => !is_about_the_request,
        400 => is_of_the_server && !error.has_id,
        _ => false,
    }
}

fn take_rpc(error: StatusError) -> crate::error::RpcError {
    // Asked for only when it is there.
    error.rpc.unwrap_or_else(|| crate::error::RpcError::new(i64::from(error.status), error.excerpt, None))
}

fn client_error(error: hyper_util::client::legacy::Error) -> TransportError {
    let is_connect = error.is_connect();
    // The layer that says only "client error" is left out of the chain.
    let cause: super::Cause = match std::error::Error::source(&error) {
        Some(source) => flatten(source).into(),
        None => error.into(),
    };
    if is_connect { TransportError::Connect(cause) } else { TransportError::Lost(cause) }
}

/// A chain of causes that cannot be taken over, as one text.
fn flatten(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}

fn redirect_target(here: &Url, headers: &HeaderMap) -> Result<Url, TransportError> {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| TransportError::NotMcp("a redirect without an address".to_owned()))?;
    let there = here.join(location).map_err(|_| TransportError::NotMcp("a redirect to no address".to_owned()))?;
    if there.origin() != here.origin() {
        let origin = there.origin().ascii_serialization();
        return Err(TransportError::NotMcp(format!("a redirect to another origin, `{origin}`, which is not followed")));
    }
    Ok(there)
}

async fn status_error(response: Response<Incoming>) -> TransportError {
    let (parts, body) = response.into_parts();
    let retry_after = parts.headers.get(http::header::RETRY_AFTER).and_then(retry_after);
    let text = match Body::new(&parts.headers, body) {
        Ok(body) => body.head(ERROR_BODY).await,
        Err(_) => Bytes::new(),
    };
    let (rpc, has_id) = match Message::parse(&text) {
        Ok(Message::Response { id, outcome: Err(rpc) }) if has_rpc_shape(&text) => (Some(rpc), id.is_some()),
        _ => (None, false),
    };
    let status = parts.status.as_u16();
    TransportError::Status(Box::new(StatusError { status, rpc, has_id, retry_after, excerpt: excerpt(&text) }))
}

/// Many servers answer `{"error": "text"}` without meaning JSON-RPC.
fn has_rpc_shape(text: &Bytes) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok_and(|body| body["error"]["code"].is_i64())
}

/// The wait that a `Retry-After` header asks for: seconds, or an HTTP date.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}
