//! A daemon on a port of its own, and a client that asks it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use switchboard::secret::Secret;
use switchboard::{Error, ErrorKind, Manager};
use switchboard_host::{Access, ApiOptions, Host, HostOptions, ServeOptions, Stopped, bind, serve};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

/// The token of the owner of every daemon here.
pub(crate) const OWNER: &str = "owner-token";

/// A daemon that serves until it is dropped.
pub(crate) struct Daemon {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Stopped>>,
    abort: AbortHandle,
}

/// How a daemon is set up.
pub(crate) struct Setup {
    options: ServeOptions,
    host: Host,
}

impl Setup {
    /// A daemon whose instances are real, each with a store in memory.
    pub(crate) fn real() -> Self {
        Self::of(Host::new(HostOptions::default(), |_| Manager::builder("switchboard-test", "1.0.0").start()))
    }

    /// A daemon whose instances cannot be opened, for what needs none.
    pub(crate) fn bare() -> Self {
        Self::of(Host::new(HostOptions::default(), |name| async move {
            Err(Error::new(ErrorKind::Store, format!("no store for `{name}`")))
        }))
    }

    pub(crate) fn of(host: Host) -> Self {
        let access = Access::for_listener(([127, 0, 0, 1], 0).into()).owner_token(Secret::new(OWNER.to_owned()));
        Self { options: ServeOptions::new(ApiOptions::new(access)), host }
    }

    pub(crate) fn access(mut self, edit: impl FnOnce(Access) -> Access) -> Self {
        self.options.api.access = edit(self.options.api.access);
        self
    }

    pub(crate) fn options(mut self, edit: impl FnOnce(&mut ServeOptions)) -> Self {
        edit(&mut self.options);
        self
    }

    pub(crate) async fn start(self) -> Daemon {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = serve(listener, self.host, self.options, async {
            let _ = stopped.await;
        });
        let serving = Spawned::task(serving);
        Daemon { address, stop: Some(stop), abort: serving.abort_handle(), serving: Some(serving) }
    }
}

/// The one place in these tests where tasks are started.
struct Spawned;

impl Spawned {
    #[expect(clippy::disallowed_methods, reason = "tests own their tasks")]
    fn task<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        tokio::spawn(work)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

impl Daemon {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path of `rest` in the default instance.
    pub(crate) fn path(rest: &str) -> String {
        format!("/agents/switchboard/default/{rest}")
    }

    /// Asks the daemon to stop.
    pub(crate) fn begin_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// What had to be cut, when the daemon has stopped.
    pub(crate) async fn stopped(&mut self) -> Stopped {
        let serving = self.serving.take().unwrap();
        tokio::time::timeout(Duration::from_secs(20), serving).await.expect("the daemon stops").unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Ask::new(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask(Ask::new(Method::POST, path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Ask::new(Method::DELETE, path)).await
    }

    /// Registers a server at `url` under `id`, which must become ready.
    pub(crate) async fn add(&self, id: &str, url: &str) {
        let answer = self.post(&Self::path("servers"), &json!({"name": id, "id": id, "url": url})).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(answer.json(), json!({"id": id, "state": "ready"}));
    }

    /// Asks, and reads the whole answer.
    pub(crate) async fn ask(&self, ask: Ask) -> Answer {
        self.open(ask).await.whole().await
    }

    /// Asks in a task of its own, for requests that are held open.
    pub(crate) fn ask_aside(&self, ask: Ask) -> JoinHandle<Answer> {
        let address = self.address;
        Spawned::task(async move { open(address, ask).await.whole().await })
    }

    /// Asks, and reads the head of the answer.
    pub(crate) async fn open(&self, ask: Ask) -> Opened {
        open(self.address, ask).await
    }
}

async fn open(address: SocketAddr, ask: Ask) -> Opened {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = Spawned::task(async move {
        let _ = connection.await;
    });
    let mut request = Request::builder().method(ask.method).uri(ask.path);
    if !ask.headers.contains_key(header::HOST) {
        request = request.header(header::HOST, address.to_string());
    }
    let mut request = request.body(Full::new(ask.body)).unwrap();
    request.headers_mut().extend(ask.headers);
    let response = sender.send_request(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Opened {
        status: parts.status,
        headers: parts.headers,
        body,
        connection: AbortOnDrop(connection.abort_handle()),
        _sender: sender,
    }
}

/// A request to be sent.
pub(crate) struct Ask {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Ask {
    pub(crate) fn new(method: Method, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.append(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub(crate) fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    pub(crate) fn owner(self) -> Self {
        self.header("authorization", &format!("Bearer {OWNER}"))
    }
}

struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer whose body is still to be read. Dropping it hangs up.
pub(crate) struct Opened {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    connection: AbortOnDrop,
    _sender: http1::SendRequest<Full<Bytes>>,
}

impl Opened {
    async fn whole(self) -> Answer {
        let body = self.body.collect().await.unwrap().to_bytes();
        drop(self.connection);
        Answer { status: self.status.as_u16(), headers: self.headers, body }
    }

    /// The next part of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let frame = tokio::time::timeout(Duration::from_secs(20), self.body.frame()).await.expect("something comes");
        let data = frame?.ok()?.into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    /// The problem document, which must be one of this status and code.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let document = self.json();
        assert_eq!((self.status, document["code"].as_str()), (status, Some(code)), "{document}");
        assert_eq!(document["status"], status);
        assert!(document["type"].is_string() && document["title"].is_string(), "{document}");
        assert!(document["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{document}");
        document
    }
}
