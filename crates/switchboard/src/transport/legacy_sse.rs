//! HTTP+SSE, the transport of 2024-11-05: one event stream for all that the server says, and POSTs for all that it is told.
//!
//! The GET opens the stream, whose `endpoint` event names where messages are posted. Answers come on the stream, so they
//! find their callers through the table of `callers.rs`. The stream is the connection: when it ends, that is over, and a
//! new one has a new endpoint. Nothing limits how long it may be silent.
//!
//! Source: specification 2024-11-05, "Transports", "HTTP with SSE".

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::HeaderValue;
use http::{HeaderMap, Method};
use hyper::body::Body as _;
use tokio::sync::watch;
use url::Url;

use super::callers::{Broken, Callers};
use super::http::{Address, HttpClient, VERSION, drain, event_stream, of_posts, of_streams, status_error};
use super::sse::EventStream;
use super::unasked::Unasked;
use super::{Answer, Dialect, Outgoing, Receiver, TransportError};
use crate::error::chain;
use crate::spec::HttpTarget;
use crate::status::clean;
use crate::tasks::OwnedTask;
use crate::wire::Message;
use crate::wire::frame::SseEvent;

/// One server over HTTP+SSE, in one life of its event stream.
pub(crate) struct SseTransport {
    poster: Arc<Poster>,
    callers: Arc<Callers>,
    broken: watch::Receiver<Option<Broken>>,
    /// Reads the stream, and holds it open; taken away when the transport is closed.
    reader: Mutex<Option<OwnedTask>>,
}

impl fmt::Debug for SseTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SseTransport")
            .field("host", &self.poster.endpoint.load().url.host_str())
            .finish_non_exhaustive()
    }
}

impl SseTransport {
    /// Opens the event stream and waits for its `endpoint` event, for as long as the caller does.
    ///
    /// Cancel safety: dropping the future closes the stream.
    ///
    /// # Errors
    /// When the server gives no such stream, or names an endpoint at another origin.
    pub(crate) async fn open(
        client: HttpClient,
        target: &HttpTarget,
        message_limit: usize,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Self, TransportError> {
        let (mut stream, url) = get(&client, target, message_limit).await?;
        let endpoint = first_endpoint(&mut stream, &url, &*receiver).await?;
        let poster = Arc::new(Poster {
            client,
            base: of_posts(target),
            version: OnceLock::new(),
            endpoint: ArcSwap::from_pointee(endpoint),
            unasked: Unasked::new(),
        });
        let callers = Arc::new(Callers::default());
        let reading = Reading { url, poster: poster.clone(), callers: callers.clone(), receiver };
        let (broken_sender, broken) = watch::channel(None);
        let reader = OwnedTask::spawn(async move {
            let reason = reading.run(stream).await;
            reading.callers.fail_all(reason.clone());
            broken_sender.send_replace(Some(reason));
        });
        Ok(Self { poster, callers, broken, reader: Mutex::new(Some(reader)) })
    }

    pub(super) async fn request(&self, outgoing: Outgoing<'_>) -> Result<Answer, TransportError> {
        let mut waiting = self.callers.enter(outgoing.id)?;
        let mut posting = Box::pin(self.poster.post_request(&outgoing));
        tokio::select! {
            biased;
            answer = waiting.answer() => {
                // The answer was quicker than the end of the POST, whose connection can be used again after that.
                self.poster.unasked.finish(async move { drop(posting.await) });
                return answer;
            }
            posted = &mut posting => posted?,
        }
        waiting.answer().await
    }

    pub(super) async fn notify(&self, dialect: Dialect, body: Bytes) -> Result<(), TransportError> {
        self.poster.post(dialect, body).await
    }

    /// Sends a notification without waiting.
    pub(super) fn notify_soon(&self, dialect: Dialect, body: Bytes) {
        self.poster.unasked.notice(self.poster.post(dialect, body));
    }

    /// Answers that belonged to nobody.
    pub(crate) fn unmatched(&self) -> u64 {
        self.callers.unmatched()
    }

    pub(super) async fn broken(&self) -> TransportError {
        let mut broken = self.broken.clone();
        let reason = broken.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.as_ref().map(Broken::error)).unwrap_or(TransportError::Closed)
    }

    /// Ends the stream, which ends the server's session, and all that still runs.
    pub(super) async fn close(&self) {
        // First, so that callers are told that we closed it.
        self.callers.fail_all(Broken::Closed);
        drop(self.reader.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.poster.unasked.end().await;
    }
}

impl Drop for SseTransport {
    fn drop(&mut self) {
        self.poster.unasked.stop();
    }
}

/// Asks for the event stream. Gives it with the address that it came from.
async fn get(
    client: &HttpClient,
    target: &HttpTarget,
    message_limit: usize,
) -> Result<(EventStream, Url), TransportError> {
    let headers = of_streams(target);
    let address = Address::new(&target.url)?;
    let (response, moved) = client.follow(&address, &Method::GET, || Ok(headers.clone()), Bytes::new()).await?;
    let body = event_stream(response).await?;
    Ok((EventStream::new(body, message_limit), moved.unwrap_or_else(|| target.url.clone())))
}

/// Where messages are posted: the endpoint that an event of a stream from `stream_url` names. Messages may carry secrets in
/// their headers, so they go nowhere but to the server that was registered.
fn endpoint(stream_url: &Url, data: &[u8]) -> Result<Address, TransportError> {
    let text = std::str::from_utf8(data).unwrap_or_default().trim();
    let shown = || clean(text).chars().take(200).collect::<String>();
    let url = Some(text).filter(|text| !text.is_empty()).and_then(|text| stream_url.join(text).ok());
    let mut url =
        url.ok_or_else(|| TransportError::NotMcp(format!("its `endpoint` event names no address: `{}`", shown())))?;
    if url.origin() != stream_url.origin() || !url.username().is_empty() || url.password().is_some() {
        let (theirs, ours) = (url.origin().ascii_serialization(), stream_url.origin().ascii_serialization());
        let text =
            format!("its `endpoint` event names another origin, `{theirs}`; messages are posted to `{ours}` only");
        return Err(TransportError::NotMcp(text));
    }
    url.set_fragment(None);
    Address::new(&url)
}

/// Reads the stream up to its `endpoint` event.
async fn first_endpoint(
    stream: &mut EventStream,
    stream_url: &Url,
    receiver: &dyn Receiver,
) -> Result<Address, TransportError> {
    while let Some(event) = stream.event().await? {
        match event {
            Ok(event) if event.kind == "endpoint" => return endpoint(stream_url, &event.data),
            Ok(event) if event.data.is_empty() => {}
            Ok(_) | Err(_) => receiver.odd("an event before the `endpoint` event"),
        }
    }
    Err(TransportError::NoAnswer("the event stream"))
}

/// Posts messages.
struct Poster {
    client: HttpClient,
    /// Headers of every POST.
    base: HeaderMap,
    /// The revision that was agreed on.
    version: OnceLock<&'static str>,
    endpoint: ArcSwap<Address>,
    unasked: Unasked,
}

impl Poster {
    /// Posts a message; any success will do, as the answer comes on the stream. The future is independent of this.
    fn post(&self, dialect: Dialect, body: Bytes) -> impl Future<Output = Result<(), TransportError>> + Send + use<> {
        self.post_with(self.headers(dialect), body)
    }

    fn post_request(&self, outgoing: &Outgoing<'_>) -> impl Future<Output = Result<(), TransportError>> + Send + use<> {
        let mut headers = self.headers(outgoing.dialect);
        outgoing.put_headers(&mut headers);
        self.post_with(headers, outgoing.body.clone())
    }

    fn headers(&self, dialect: Dialect) -> HeaderMap {
        if let Dialect::Legacy(version) = dialect {
            self.version.get_or_init(|| version);
        }
        let mut headers = self.base.clone();
        if let Some(version) = self.version.get() {
            headers.insert(VERSION, HeaderValue::from_static(version));
        }
        headers
    }

    fn post_with(
        &self,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl Future<Output = Result<(), TransportError>> + Send + use<> {
        let (client, endpoint, unasked) = (self.client.clone(), self.endpoint.load_full(), self.unasked.clone());
        async move {
            let response = client.send(&endpoint, &Method::POST, || Ok(headers.clone()), body).await?;
            if response.status().is_success() {
                if !response.body().is_end_stream() {
                    unasked.finish(drain(response));
                }
                return Ok(());
            }
            Err(match status_error(response).await {
                // The endpoint is the session, and the server does not know it any more.
                TransportError::Status(error) if matches!(error.status, 404 | 410) => {
                    TransportError::SessionGone(error)
                }
                error => error,
            })
        }
    }
}

/// What the reading task needs.
struct Reading {
    /// Where the stream came from.
    url: Url,
    poster: Arc<Poster>,
    callers: Arc<Callers>,
    receiver: Arc<dyn Receiver>,
}

impl Reading {
    /// Reads to the end.
    async fn run(&self, mut stream: EventStream) -> Broken {
        loop {
            match stream.event().await {
                Ok(Some(Ok(event))) if event.kind == "endpoint" => self.moved(&event),
                Ok(Some(Ok(event))) => self.event(&event).await,
                Ok(Some(Err(large))) => {
                    self.receiver.odd(&large.to_string());
                    self.callers.too_large(&large);
                }
                Ok(None) => return Broken::Failed("the server ended its event stream".to_owned()),
                Err(TransportError::Lost(cause)) => {
                    return Broken::Failed(format!("its event stream broke: {}", chain(cause.as_ref())));
                }
                Err(error) => return Broken::Failed(format!("its event stream broke: {}", chain(&error))),
            }
        }
    }

    /// The server names another endpoint from now on.
    fn moved(&self, event: &SseEvent) {
        match endpoint(&self.url, &event.data) {
            Ok(endpoint) => self.poster.endpoint.store(Arc::new(endpoint)),
            Err(error) => self.receiver.odd(&format!("an endpoint that is not used: {error}")),
        }
    }

    async fn event(&self, event: &SseEvent) {
        if event.data.is_empty() {
            return;
        }
        if !matches!(event.kind.as_str(), "" | "message") {
            self.receiver.odd(&format!("an event of type `{}`", event.kind.escape_debug()));
            return;
        }
        match Message::parse_all(&event.data) {
            Ok(messages) => {
                for message in messages {
                    self.message(message).await;
                }
            }
            Err(error) => {
                let shown = clean(&String::from_utf8_lossy(&event.data[..event.data.len().min(200)]));
                self.receiver.odd(&format!("an event that is {error}: {shown}"));
                self.callers.garbled(event.data.trim_ascii(), &shown);
            }
        }
    }

    async fn message(&self, message: Message) {
        if let Message::Response { id, outcome } = message {
            if !self.callers.answer(id, outcome) {
                self.receiver.odd("an unmatched reply");
            }
            return;
        }
        if let Some(reply) = self.receiver.receive(message) {
            let posting = self.poster.post(Dialect::Handshake, reply);
            if !self.poster.unasked.reply(posting) {
                self.receiver.odd("more requests than it takes answers to");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_resolved_against_the_stream_and_stays_at_its_origin() {
        let stream = Url::parse("https://h.example/a/sse?key=1").unwrap();
        for (named, expected) in [
            ("/messages?session=1", "https://h.example/messages?session=1"),
            ("messages/?session=1", "https://h.example/a/messages/?session=1"),
            ("?session=1", "https://h.example/a/sse?session=1"),
            (" https://H.example:443/messages#x\n", "https://h.example/messages"),
        ] {
            assert_eq!(endpoint(&stream, named.as_bytes()).ok().unwrap().url.as_str(), expected, "{named}");
        }
        for (named, why) in [
            ("https://evil.example/messages", "`https://evil.example`"),
            ("//evil.example/messages", "another origin"),
            ("http://h.example/messages", "another origin"),
            ("https://h.example:444/messages", "another origin"),
            ("https://me:pass@h.example/messages", "another origin"),
            ("javascript:alert(1)", "another origin"),
            ("", "no address"),
            ("https://", "no address"),
        ] {
            let error = endpoint(&stream, named.as_bytes()).err().unwrap().to_string();
            assert!(error.contains(why), "{named}: {error}");
        }
    }
}
