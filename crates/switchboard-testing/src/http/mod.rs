//! A peer behind a real socket: Streamable HTTP in both eras, HTTP+SSE, and whatever else a script wants to do over HTTP.

mod body;
mod exchange;
mod headers;
mod legacy_sse;
mod serve;
mod socket;

use std::borrow::Borrow;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub use exchange::{Coding, HttpReply, HttpRequest};

use crate::patience::{Alarm, PATIENCE, Signal};
use crate::peer::Peer;
use legacy_sse::{LegacySse, Sessions};
use serve::Exchange;
use socket::{Counters, Socket};

/// In what an HTTP peer wraps its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerWith {
    /// A JSON body, or an event stream where there is more to say than the answer.
    Json,
    /// Always an event stream, whose head goes out before the answer is there.
    Sse,
}

/// What an HTTP peer does with the GET of a legacy client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GetStream {
    /// Opens a stream, on which [`Peer::push`] speaks.
    Open,
    /// Refuses it with this status and no body.
    Refused(u16),
    /// Answers with this status and an HTML page.
    Html(u16),
}

type Override = Arc<dyn Fn(&HttpRequest) -> Option<HttpReply> + Send + Sync>;

/// A peer served over HTTP on a port of its own, until it is dropped.
///
/// It derefs to its [`Peer`]. The methods that set something take effect for the requests that come after.
#[derive(Debug)]
pub struct HttpPeer {
    shared: Arc<Shared>,
    address: SocketAddr,
    serving: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    peer: Peer,
    state: Mutex<State>,
    counters: Arc<Counters>,
    arrived: Signal,
}

struct State {
    settings: Settings,
    on_http: Option<Override>,
    requests: Vec<HttpRequest>,
    sessions: HashSet<String>,
    sessions_begun: usize,
    legacy_sse: Option<LegacySse>,
    connections: CancellationToken,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("State").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    answer_with: AnswerWith,
    get_stream: GetStream,
    sessions: bool,
}

impl HttpPeer {
    /// Serves the peer on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// When no port can be had.
    pub async fn start(peer: impl Borrow<Peer>) -> Self {
        let settings = Settings { answer_with: AnswerWith::Json, get_stream: GetStream::Open, sessions: true };
        let state = State {
            settings,
            on_http: None,
            requests: Vec::new(),
            sessions: HashSet::new(),
            sessions_begun: 0,
            legacy_sse: None,
            connections: CancellationToken::new(),
        };
        let shared = Arc::new(Shared {
            peer: peer.borrow().clone(),
            state: Mutex::new(state),
            counters: Arc::default(),
            arrived: Signal::default(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("the loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let serving = Mutex::new(Some(accept(listener, Arc::clone(&shared))));
        Self { shared, address, serving }
    }

    /// Wraps answers in JSON bodies (the default) or in event streams.
    #[must_use]
    pub fn answer_with(self, answer_with: AnswerWith) -> Self {
        self.shared.lock().settings.answer_with = answer_with;
        self
    }

    /// What the GET of a legacy client gets; by default a stream.
    #[must_use]
    pub fn get_stream(self, get_stream: GetStream) -> Self {
        self.shared.lock().settings.get_stream = get_stream;
        self
    }

    /// Gives legacy clients no session ids.
    #[must_use]
    pub fn without_sessions(self) -> Self {
        self.shared.lock().settings.sessions = false;
        self
    }

    /// Speaks HTTP+SSE too, the transport of 2024-11-05, at `/sse`: a GET opens a stream, a POST is refused with 405.
    ///
    /// Each stream is a session of its own, which ends with it, and begins with an `endpoint` event that leads to
    /// `/messages`. [`Peer::end_streams`] and [`Peer::cut_streams`] end the streams that are open.
    #[must_use]
    pub fn legacy_sse(self) -> Self {
        self.shared.lock().legacy_sse.get_or_insert_default();
        self
    }

    /// As [`legacy_sse`](Self::legacy_sse), with an `endpoint` event for each of these texts. `{session}` stands for the
    /// session, and `{origin}` for the server's own.
    #[must_use]
    pub fn endpoints(self, texts: &[&str]) -> Self {
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        self.shared.lock().legacy_sse.get_or_insert_default().endpoints = texts;
        self
    }

    /// Answers some requests at the level of HTTP; `None` leaves a request to the peer. The request is recorded, and
    /// the peer has received its message, in either case.
    #[must_use]
    pub fn on_http(self, answer: impl Fn(&HttpRequest) -> Option<HttpReply> + Send + Sync + 'static) -> Self {
        self.shared.lock().on_http = Some(Arc::new(answer));
        self
    }

    /// The peer that is served.
    pub fn peer(&self) -> &Peer {
        &self.shared.peer
    }

    /// The address of the MCP endpoint.
    pub fn url(&self) -> String {
        self.url_at("/mcp")
    }

    /// Another address of this server. Every path that begins with `/mcp` is the MCP endpoint.
    pub fn url_at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The address at which [`legacy_sse`](Self::legacy_sse) opens streams.
    pub fn sse_url(&self) -> String {
        self.url_at(legacy_sse::STREAM)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Every request so far, in the order in which their bodies were complete.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.shared.lock().requests.clone()
    }

    /// The requests that carry this JSON-RPC method.
    pub fn requests_of(&self, rpc_method: &str) -> Vec<HttpRequest> {
        self.requests().into_iter().filter(|request| request.calls(rpc_method)).collect()
    }

    /// Waits for the request that is number `nth` (from one) of those that `wanted` picks.
    ///
    /// # Panics
    /// When it does not come within 20 s of real time.
    pub async fn wait_for_request(&self, nth: usize, wanted: impl Fn(&HttpRequest) -> bool) -> HttpRequest {
        let lament = || {
            let seen = self.requests().into_iter();
            let seen: Vec<_> = seen.map(|request| (request.method.to_string(), request.rpc_method())).collect();
            format!("the HTTP request did not come; there were {seen:?}")
        };
        let find = || self.shared.lock().requests.iter().filter(|it| wanted(it)).nth(nth.saturating_sub(1)).cloned();
        self.shared.arrived.until(lament, find).await
    }

    /// The session ids that are valid now.
    pub fn sessions(&self) -> Vec<String> {
        self.shared.lock().sessions.iter().cloned().collect()
    }

    /// How many sessions were begun so far.
    pub fn sessions_begun(&self) -> usize {
        self.shared.lock().sessions_begun
    }

    /// Forgets every session, as a server does that was restarted: their ids are answered with 404 from now on.
    pub fn forget_sessions(&self) {
        self.shared.forget_sessions();
    }

    /// The sockets that are open now.
    pub fn open_sockets(&self) -> usize {
        self.shared.counters.now().open
    }

    /// The connections that were accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.counters.now().accepted
    }

    /// Waits until this many sockets are open.
    ///
    /// # Panics
    /// When it does not come to that within 20 s of real time.
    pub async fn wait_for_open_sockets(&self, count: usize) {
        self.wait_for_sockets(&count.to_string(), |open| open == count).await;
    }

    /// Waits until this many sockets are open at most.
    ///
    /// # Panics
    /// When it does not come to that within 20 s of real time.
    pub async fn wait_for_few_sockets(&self, most: usize) {
        self.wait_for_sockets(&format!("{most} at most"), |open| open <= most).await;
    }

    async fn wait_for_sockets(&self, wanted: &str, are_enough: impl Fn(usize) -> bool) {
        let mut changes = self.shared.counters.changes();
        let mut alarm = Alarm::after(PATIENCE);
        tokio::select! {
            _ = changes.wait_for(|counts| are_enough(counts.open)) => {}
            () = alarm.rings() => panic!("{} sockets are open, not {wanted}", self.open_sockets()),
        }
    }

    /// Closes every open connection, but goes on listening.
    pub fn cut_connections(&self) {
        self.shared.cut_connections();
    }

    /// Stops listening and closes every connection: the port refuses from now on.
    pub async fn stop(&self) {
        let serving = self.serving.lock().expect("no test thread panics while it holds the server").take();
        if let Some(serving) = serving {
            serving.abort();
            let _ = serving.await;
            self.wait_for_open_sockets(0).await;
        }
    }

    /// Listens again on the same port after [`stop`](Self::stop). Sessions are remembered.
    ///
    /// # Panics
    /// When the port has been taken meanwhile.
    pub async fn start_again(&self) {
        let listener = TcpListener::bind(self.address).await.expect("the port is still free");
        let serving = accept(listener, Arc::clone(&self.shared));
        *self.serving.lock().expect("no test thread panics while it holds the server") = Some(serving);
    }
}

impl Deref for HttpPeer {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        &self.shared.peer
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test thread panics while it holds the state")
    }

    fn settings(&self) -> Settings {
        self.lock().settings
    }

    fn note(&self, request: &HttpRequest) {
        self.lock().requests.push(request.clone());
        self.arrived.raise();
    }

    fn scripted(&self, request: &HttpRequest) -> Option<HttpReply> {
        let on_http = self.lock().on_http.clone();
        on_http.and_then(|answer| answer(request))
    }

    fn new_session(&self) -> Option<String> {
        let mut state = self.lock();
        if !state.settings.sessions {
            return None;
        }
        state.sessions_begun += 1;
        let session = format!("session-{}", state.sessions_begun);
        state.sessions.insert(session.clone());
        Some(session)
    }

    fn knows_session(&self, session: Option<&str>) -> bool {
        let state = self.lock();
        !state.settings.sessions || session.is_some_and(|session| state.sessions.contains(session))
    }

    fn forget_sessions(&self) {
        self.lock().sessions.clear();
    }

    fn cut_connections(&self) {
        let connections = std::mem::take(&mut self.lock().connections);
        connections.cancel();
    }

    fn forget_session(&self, session: &str) {
        self.lock().sessions.remove(session);
    }

    fn speaks_legacy_sse(&self) -> bool {
        self.lock().legacy_sse.is_some()
    }

    /// A new session over HTTP+SSE, and what its stream begins with.
    fn begin_legacy_session(&self) -> Option<(Sessions, String, Vec<String>)> {
        let mut state = self.lock();
        let legacy = state.legacy_sse.as_mut()?;
        legacy.opened += 1;
        Some((legacy.sessions.clone(), format!("stream-{}", legacy.opened), legacy.endpoints.clone()))
    }

    fn legacy_sessions(&self) -> Sessions {
        self.lock().legacy_sse.as_ref().map(|legacy| legacy.sessions.clone()).unwrap_or_default()
    }

    /// Counts from now on and gives what ends the connection from outside.
    fn admit(&self, stream: tokio::net::TcpStream) -> (Socket, CancellationToken) {
        (Socket::new(stream, Arc::clone(&self.counters)), self.lock().connections.clone())
    }
}

fn accept(listener: TcpListener, shared: Arc<Shared>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            while connections.try_join_next().is_some() {}
            let (socket, closed) = shared.admit(stream);
            connections.spawn(serve_socket(socket, closed, Arc::clone(&shared)));
        }
    }))
}

async fn serve_socket(socket: Socket, closed: CancellationToken, shared: Arc<Shared>) {
    let state = socket.state();
    let service = service_fn(move |request| {
        let exchange = Exchange { shared: Arc::clone(&shared), socket: Arc::clone(&state) };
        exchange.serve(request)
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    let connection = builder.header_read_timeout(None).serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        _ = connection => {}
        () = closed.cancelled() => {}
    }
}
