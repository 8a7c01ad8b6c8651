//! One life of a connection: the handshake of either era, requests with their deadlines, and what the server says unasked.

pub(crate) mod detect;
pub(crate) mod era;
pub(crate) mod incoming;
pub(crate) mod lifecycle;
pub(crate) mod listen;
pub(crate) mod progress;
pub(crate) mod request;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use self::incoming::{Changed, Inbox};
use crate::error::RpcError;
use crate::event::LogLevel;
use crate::secret::Secret;
use crate::spec::{Target, TransportKind};
use crate::store::record::SessionRecord;
use crate::transport::{Dialect, Transport};
use crate::wire::model::{ListKind, member};
use crate::wire::{Era, Json, message, meta};

/// Who we are, as servers are told.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// `clientInfo`: our name and version.
    pub(crate) info: Json,
    /// What we offer to servers.
    pub(crate) capabilities: Json,
}

/// What a server said of itself when the connection was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServerFacts {
    /// `capabilities`, as it came.
    pub(crate) capabilities: Option<Json>,
    /// `serverInfo`, as it came.
    pub(crate) info: Option<Json>,
    /// `instructions`.
    pub(crate) instructions: Option<String>,
}

impl ServerFacts {
    /// The facts in an `initialize` or `server/discover` result.
    fn read(result: &Json) -> Self {
        // What is kept for long is cut from a copy, not from the buffer of the connection that it came over.
        let result = &result.detached();
        let text = |json: Json| json.read::<String>().ok();
        let in_meta = || member(&member(result, "_meta")?, meta::SERVER_INFO);
        Self {
            capabilities: member(result, "capabilities").filter(Json::is_object),
            info: member(result, "serverInfo").or_else(in_meta).filter(Json::is_object),
            instructions: member(result, "instructions").and_then(text),
        }
    }

    /// Whether the server offers `capability`.
    pub(crate) fn offers(&self, capability: &str) -> bool {
        let one = self.capabilities.as_ref().and_then(|all| member(all, capability));
        one.is_some_and(|one| !matches!(one.as_str(), "null" | "false"))
    }

    /// The lists of whose changes the server says that it gives notice.
    pub(crate) fn announced(&self) -> Changed {
        let announced = ListKind::ALL.into_iter().filter(|kind| self.promises(kind.capability(), "listChanged"));
        announced.fold(Changed::default(), |lists, kind| lists.and(Changed::only(kind)))
    }

    /// Whether the server says that it tells of updates of resources that are subscribed to.
    pub(crate) fn tells_updates(&self) -> bool {
        self.promises("resources", "subscribe")
    }

    fn promises(&self, capability: &str, part: &str) -> bool {
        let one = self.capabilities.as_ref().and_then(|all| member(&member(all, capability)?, part));
        one.is_some_and(|one| one.as_str() == "true")
    }
}

/// An open connection: a transport, and what was agreed on over it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) transport: Transport,
    pub(crate) facts: ServerFacts,
    /// The revision spoken.
    pub(crate) version: &'static str,
    pub(crate) era: Era,
    /// The discover result, of modern servers.
    pub(crate) discover: Option<Json>,
    /// Whether it was opened on the word of an earlier life, without asking the server anything.
    pub(crate) is_trusted: bool,
    pub(crate) inbox: Arc<Inbox>,
    ids: Arc<AtomicU64>,
    /// How long the last quick question took, in microseconds; 0: none was answered yet.
    latency: AtomicU64,
    /// The inside of `_meta` that each request carries.
    meta: ArcSwap<String>,
    /// Set when it is closed, which ends the requests under way.
    closed: CancellationToken,
}

impl Session {
    /// A session whose ids begin behind those that the handshake used.
    fn new(link: Link, (version, era): (&'static str, Era), facts: ServerFacts, identity: &Identity) -> Self {
        let meta = match era {
            Era::Modern => meta::envelope(version, &identity.info, &identity.capabilities),
            Era::Legacy => String::new(),
        };
        let Link { transport, inbox, ids } = link;
        let (meta, latency, closed) = (ArcSwap::from_pointee(meta), AtomicU64::new(0), CancellationToken::new());
        Self { transport, facts, version, era, discover: None, is_trusted: false, inbox, ids, latency, meta, closed }
    }

    /// Whether it goes on with what an earlier life agreed on with a legacy server.
    pub(crate) fn is_resumed(&self) -> bool {
        self.is_trusted && self.era == Era::Legacy
    }

    /// What a later life needs to go on with this session, where the server has one.
    pub(crate) fn record(&self) -> Option<SessionRecord> {
        let (Transport::Http(http), Era::Legacy) = (&self.transport, self.era) else { return None };
        let id = Secret::new(http.session_id()?.to_str().ok()?.to_owned());
        Some(SessionRecord { id, protocol_version: self.version.to_owned() })
    }

    /// Whether an error that the server answered with makes it doubtful that it is what it was taken for. One that speaks
    /// of what was asked is an ordinary one.
    pub(crate) fn is_doubted_by(&self, error: &RpcError) -> bool {
        let is_of_protocol = matches!(error.code, message::INVALID_REQUEST | message::INVALID_PARAMS)
            || (-32_099..=-32_000).contains(&error.code);
        self.is_trusted && (self.era == Era::Modern || is_of_protocol)
    }

    /// Ends it in good order, and the requests under way with it; whether nothing is left that could be taken up again.
    /// Bounded in time.
    pub(crate) async fn close(&self) -> bool {
        self.closed.cancel();
        self.transport.close(self.dialect()).await
    }

    /// The inside of `_meta`, as it stands.
    fn meta(&self) -> Arc<String> {
        self.meta.load_full()
    }

    /// From now on asks for log entries of that level and above with each request, which is how modern servers are asked.
    pub(crate) fn ask_for_logs(&self, level: LogLevel) {
        if self.era == Era::Modern {
            self.meta.rcu(|meta| meta::with_log_level(meta, level.as_str()));
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        match self.era {
            Era::Modern => Dialect::Modern(self.version),
            Era::Legacy => Dialect::Legacy(self.version),
        }
    }

    /// The name of the transport that is spoken to `target`.
    pub(crate) fn transport_name(&self, target: &Target) -> &'static str {
        self.transport.kind().map_or(target.transport(), TransportKind::as_str)
    }

    /// Whether the requests of this session are mirrored into HTTP headers.
    pub(crate) fn mirrors_headers(&self) -> bool {
        self.era == Era::Modern && matches!(self.transport, Transport::Http(_))
    }

    /// How long the server took for the last question that any server answers at once.
    pub(crate) fn latency(&self) -> Option<Duration> {
        Some(self.latency.load(Ordering::Relaxed)).filter(|micros| *micros > 0).map(Duration::from_micros)
    }

    /// Keeps how long such a question took.
    pub(crate) fn took(&self, time: Duration) {
        self.latency.store(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, text: Bytes) -> Result<(), crate::transport::TransportError> {
        self.transport.notify(self.dialect(), text).await
    }
}

/// A transport with nothing agreed on yet. Clones are the same way to the server.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) transport: Transport,
    pub(crate) inbox: Arc<Inbox>,
    ids: Arc<AtomicU64>,
}

impl Link {
    pub(crate) fn new(transport: Transport, inbox: Arc<Inbox>) -> Self {
        // Ids begin at 1, so that a server that always answers with 0 never answers the wrong request.
        Self { transport, inbox, ids: Arc::new(AtomicU64::new(1)) }
    }
}

fn next_id(ids: &AtomicU64) -> u64 {
    ids.fetch_add(1, Ordering::Relaxed)
}

/// The notice that a request is not wanted any more.
fn cancelled(id: u64, reason: &str) -> Bytes {
    let params = message::Params::new().json("requestId", &Json::trusted(id.to_string())).text("reason", reason);
    message::notification("notifications/cancelled", &params)
}
