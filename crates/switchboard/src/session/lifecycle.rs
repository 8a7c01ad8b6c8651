//! Opens a connection: finds out the server's era and does its handshake.
//!
//! A server is asked `server/discover` first. What it makes of that decides; the table is in [`judge`]. The verdict is kept
//! with the registration and trusted next time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::era::{Because, PROBE, Probed, Verdict, is_era_status, judge, supported};
use super::request::{Request, RequestError};
use super::{Identity, Link, ServerFacts, Session};
use crate::spec::{EraChoice, Timeouts, TransportKind};
use crate::store::record::SessionRecord;
use crate::time::Timestamp;
use crate::transport::{Dialect, Receiver as _, Transport, TransportError};
use crate::wire::message::{self, Params};
use crate::wire::model::member;
use crate::wire::{Era, Json, meta, version};

/// How long the answer to the notice that ends the handshake is waited for.
const NOTICE_LIMIT: Duration = Duration::from_secs(3);

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// A request of the handshake failed.
    #[error("the handshake failed at `{step}`")]
    Step {
        /// The request.
        step: &'static str,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// The way to the server could not be opened.
    #[error(transparent)]
    Dial(TransportError),
    /// No revision is spoken by both sides.
    #[error("the server speaks {theirs}, and this client speaks {ours}")]
    NoCommonVersion {
        /// The server's.
        theirs: String,
        /// Ours.
        ours: String,
    },
    /// The server's answer to the handshake cannot be used.
    #[error("the server's answer to `{step}` cannot be used: {why}")]
    Unusable {
        /// The request.
        step: &'static str,
        /// Why.
        why: &'static str,
    },
    /// The event stream of HTTP+SSE did not say in time where messages go.
    #[error("no event stream with an `endpoint` event came in {after:.1?}")]
    NoEndpoint {
        /// How long was waited.
        after: Duration,
    },
    /// Neither HTTP transport works; the first failure decides what comes next.
    #[error("neither HTTP transport works")]
    Neither {
        /// The transport tried first, and its failure.
        first: (TransportKind, Box<OpenError>),
        /// The other.
        second: (TransportKind, Box<OpenError>),
    },
}

impl OpenError {
    /// The handshake was not done in time.
    pub(crate) fn late(limit: Duration) -> Self {
        let source = RequestError::Timeout { method: "the handshake".to_owned(), after: limit, unmatched: 0 };
        Self::Step { step: "handshake", source }
    }

    /// Whether no answer came in time, or the process ended instead. What was known of the server is then no longer relied
    /// on.
    pub(crate) fn is_silence(&self) -> bool {
        let ended = |error: &TransportError| matches!(error, TransportError::Exited(_));
        match self {
            Self::Step { source: RequestError::Timeout { .. }, .. } | Self::NoEndpoint { .. } => true,
            Self::Step { source: RequestError::Transport(error), .. } => ended(error),
            Self::Neither { first: (_, error), .. } => error.is_silence(),
            _ => false,
        }
    }

    /// Whether the process ended when it was asked for its era. It may be a legacy one that does not bear the question.
    pub(crate) fn is_end_at_probe(&self) -> bool {
        matches!(self, Self::Step { step: PROBE, .. }) && self.is_silence()
    }

    pub(super) fn step(step: &'static str) -> impl Fn(RequestError) -> Self {
        move |source| Self::Step { step, source }
    }

    pub(super) fn no_common<T: AsRef<str>>(theirs: &[T]) -> Self {
        let quoted = theirs.iter().map(|version| format!("`{}`", version.as_ref().escape_debug())).collect::<Vec<_>>();
        let ours = std::iter::once(version::MODERN).chain(version::LEGACY).map(|version| format!("`{version}`"));
        Self::NoCommonVersion { theirs: quoted.join(", "), ours: ours.collect::<Vec<_>>().join(", ") }
    }
}

/// Opens connections to one server.
pub(crate) struct Opening<'a> {
    /// Makes a new way to the server.
    pub(crate) dial: &'a (dyn Fn() -> Result<Link, TransportError> + Send + Sync),
    /// Who we are.
    pub(crate) identity: &'a Identity,
    /// The server's time limits.
    pub(crate) timeouts: &'a Timeouts,
    /// When all must be done. Each request ends by then, so that its error can say what came instead of an answer.
    pub(crate) until: Instant,
    /// How the era is chosen.
    pub(crate) choice: EraChoice,
    /// Whether the server has answered anything.
    pub(crate) is_heard: AtomicBool,
    /// Whether its process ended at the probe the last time.
    pub(crate) ended_at_probe: bool,
}

impl Opening<'_> {
    /// Goes on in a session of an earlier life with a server that said this of itself. Nothing is sent: whether the server
    /// still knows the session shows when its lists are read. `None` when too little is known, or that is not possible.
    pub(crate) fn resume(&self, known: &SessionRecord, facts: &ServerFacts) -> Result<Option<Session>, OpenError> {
        let version = version::known(&known.protocol_version).filter(|(_, era)| *era == Era::Legacy);
        let (Some(version), true, true) = (version, self.is_allowed(Era::Legacy), facts.capabilities.is_some()) else {
            return Ok(None);
        };
        let link = self.link()?;
        let Transport::Http(http) = &link.transport else { return Ok(None) };
        http.resume(known.id.expose().as_bytes());
        // No id may be used twice in one session, not even by another process. Time goes on faster than requests.
        link.ids.store(Timestamp::now().as_millis(), Ordering::Relaxed);
        let mut session = Session::new(link, version, facts.clone(), self.identity);
        session.is_trusted = true;
        Ok(Some(session))
    }

    fn is_allowed(&self, era: Era) -> bool {
        match self.choice {
            EraChoice::Auto => true,
            EraChoice::Modern => era == Era::Modern,
            EraChoice::Legacy => era == Era::Legacy,
        }
    }

    /// Opens a connection, relying on `known` where that is still good.
    pub(crate) async fn open(&self, known: Option<&Verdict>) -> Result<Session, OpenError> {
        let is_allowed = |era| self.is_allowed(era);
        if self.choice == EraChoice::Legacy {
            return self.legacy(self.link()?).await;
        }
        let Some(known) = known.filter(|known| version::known(&known.version).is_some_and(|(_, era)| is_allowed(era)))
        else {
            if self.ended_at_probe && is_allowed(Era::Legacy) {
                return self.legacy(self.link()?).await;
            }
            return self.open_unknown().await;
        };
        match (&known.discover, known.era) {
            (Some(discover), Era::Modern) if known.is_fresh(Timestamp::now()) => {
                let mut session = self.modern(self.link()?, discover.clone());
                session.is_trusted = true;
                Ok(session)
            }
            (_, Era::Legacy) if known.is_fresh(Timestamp::now()) => match self.legacy(self.link()?).await {
                Err(error) if is_doubtful(&error) => self.open_unknown().await,
                outcome => outcome,
            },
            _ => self.open_unknown().await,
        }
    }

    async fn open_unknown(&self) -> Result<Session, OpenError> {
        let link = self.link()?;
        let because = match self.probe(&link).await? {
            Probed::Modern(discover) => return Ok(self.modern(link, discover)),
            Probed::Legacy(because) => because,
            Probed::AskAgain => match self.probe(&link).await? {
                Probed::Modern(discover) => return Ok(self.modern(link, discover)),
                Probed::Legacy(because) => because,
                Probed::AskAgain => {
                    let why = "it refuses the revision that it says it supports";
                    return Err(OpenError::Unusable { step: PROBE, why });
                }
            },
        };
        if self.choice == EraChoice::Modern {
            let why = "it does not say that the server speaks a modern revision, which its registration asks for";
            return Err(OpenError::Unusable { step: PROBE, why });
        }
        let link = if because == Because::Gone {
            // What is left of it ends before it is started again: it may hold something that only one can have.
            drop(link);
            self.link()?
        } else {
            link
        };
        let was_probed = because != Because::Gone && matches!(link.transport, Transport::Pipe(_));
        match self.legacy(link.clone()).await {
            // It may be one of those that end at a method they do not know, only later than we waited.
            Err(error) if was_probed && is_pipe_end(&error) => {
                drop(link);
                self.legacy(self.link()?).await
            }
            // It was slow to start, and refuses a legacy handshake: it may be modern after all.
            Err(error) if because == Because::Silent && is_refused(&error) => match self.probe(&link).await? {
                Probed::Modern(discover) => Ok(self.modern(link, discover)),
                _ => self.legacy(link).await,
            },
            outcome => outcome,
        }
    }

    fn link(&self) -> Result<Link, OpenError> {
        (self.dial)().map_err(OpenError::Dial)
    }

    async fn probe(&self, link: &Link) -> Result<Probed, OpenError> {
        let identity = self.identity;
        let meta = meta::envelope(version::MODERN, &identity.info, &identity.capabilities);
        let request = Request::new(PROBE, Params::new(), self.timeouts.probe.min(self.left()));
        let outcome = self.noted(link.request(Dialect::Modern(version::MODERN), &meta, request).await);
        judge(outcome, matches!(link.transport, Transport::Pipe(_)))
    }

    fn modern(&self, link: Link, discover: Json) -> Session {
        let discover = discover.detached();
        let facts = ServerFacts::read(&discover);
        let mut session = Session::new(link, (version::MODERN, Era::Modern), facts, self.identity);
        session.discover = Some(discover);
        session
    }

    /// The handshake of the legacy era.
    pub(super) async fn legacy(&self, link: Link) -> Result<Session, OpenError> {
        let mut offer = version::LEGACY[0];
        let mut older = version::LEGACY[1..].iter();
        let mut was_told = false;
        let result = loop {
            match self.initialize(&link, offer).await {
                Ok(result) => break result,
                // Some servers end the exchange without a word when they do not know the revision.
                Err(RequestError::Transport(TransportError::NoAnswer(what))) => match older.next() {
                    Some(next) => offer = next,
                    None => {
                        let source = TransportError::NoAnswer(what).into();
                        return Err(OpenError::Step { step: "initialize", source });
                    }
                },
                Err(RequestError::Rpc(rpc)) if !was_told && supported(rpc.data.as_ref()).is_some() => {
                    was_told = true;
                    let offered = supported(rpc.data.as_ref()).unwrap_or_default();
                    offer = version::common_legacy(&offered).ok_or_else(|| OpenError::no_common(&offered))?;
                }
                Err(error) => return Err(OpenError::step("initialize")(error)),
            }
        };
        let unusable = |why| OpenError::Unusable { step: "initialize", why };
        let agreed = member(&result, "protocolVersion").and_then(|version| version.read::<String>().ok());
        let agreed = agreed.ok_or_else(|| unusable("it names no protocol version"))?;
        let (version, era) = version::known(&agreed).ok_or_else(|| OpenError::no_common(&[&agreed]))?;
        if era != Era::Legacy {
            return Err(unusable("it names a revision that has no such handshake"));
        }
        let session = Session::new(link, (version, era), ServerFacts::read(&result), self.identity);
        let notice = session.notify(message::notification("notifications/initialized", &Params::new()));
        // A child that takes nothing in is of no use; over HTTP the notice has arrived, and only its answer is missing.
        let limit = session.transport.kind().map_or(self.left(), |_| NOTICE_LIMIT.min(self.left() / 2));
        match tokio::time::timeout(limit, notice).await.unwrap_or_else(|_| {
            session.inbox.odd("no answer to `notifications/initialized`");
            Ok(())
        }) {
            Ok(()) => {}
            // The server has agreed already; what it makes of this notice is its own affair.
            Err(TransportError::Status(error) | TransportError::SessionGone(error))
                if error.status < 500 && error.status != 401 =>
            {
                session.inbox.odd(&format!("HTTP {} in answer to `notifications/initialized`", error.status));
            }
            Err(error) => return Err(OpenError::step("notifications/initialized")(error.into())),
        }
        Ok(session)
    }

    async fn initialize(&self, link: &Link, offer: &'static str) -> Result<Json, RequestError> {
        let params = Params::new()
            .text("protocolVersion", offer)
            .json("capabilities", &self.identity.capabilities)
            .json("clientInfo", &self.identity.info);
        self.noted(link.request(Dialect::Handshake, "", Request::new("initialize", params, self.left())).await)
    }

    /// Notes whether anything was heard of the server.
    fn noted(&self, outcome: Result<Json, RequestError>) -> Result<Json, RequestError> {
        if !matches!(outcome, Err(RequestError::Timeout { .. })) {
            self.is_heard.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// The time that is left.
    pub(super) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Whether a trusted verdict may be to blame for a failure.
fn is_doubtful(error: &OpenError) -> bool {
    match error {
        OpenError::Step { source, .. } => match source {
            RequestError::Rpc(_) => true,
            RequestError::Timeout { .. }
            | RequestError::NoTurn { .. }
            | RequestError::Refused(_)
            | RequestError::Cancelled { .. } => false,
            RequestError::Transport(error) => match error {
                TransportError::Status(status) => is_era_status(status.status),
                // Some servers close the connection at a handshake that they do not know. A process that ended is started
                // again by the next attempt, which then asks.
                TransportError::NoAnswer(_) | TransportError::Lost(_) => true,
                _ => false,
            },
        },
        OpenError::NoCommonVersion { .. } | OpenError::Unusable { .. } => true,
        OpenError::Dial(_) | OpenError::NoEndpoint { .. } | OpenError::Neither { .. } => false,
    }
}

/// Whether the server has answered a request of the handshake, with an error.
fn is_refused(error: &OpenError) -> bool {
    match error {
        OpenError::Step { source: RequestError::Rpc(_), .. } => true,
        OpenError::Step { source: RequestError::Transport(TransportError::Status(error)), .. } => error.rpc.is_some(),
        _ => false,
    }
}

fn is_pipe_end(error: &OpenError) -> bool {
    let is_end = |error: &RequestError| match error {
        RequestError::Transport(TransportError::Lost(_)) => true,
        RequestError::Transport(TransportError::Exited(exit)) => !exit.is_failure(),
        _ => false,
    };
    matches!(error, OpenError::Step { source, .. } if is_end(source))
}
