//! Keeps the stream open on which a modern server gives notice of changes, and says what may have been missed without it.
//!
//! There is one for each connection whose server advertises notices. When other resources are wanted it is replaced: the
//! new stream is open before the old one is given up. A server without one is a server without one, quietly.

use std::pin::Pin;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::state::Failure;
use super::wishes::Wishes;
use super::{Shared, failure};
use crate::backoff::Ladder;
use crate::event::EventKind;
use crate::session::Session;
use crate::session::listen::Filter;
use crate::transport::{Answer, Transport, TransportError, refuses_stream};
use crate::wire::message::{INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};

/// How soon a stream must end for its end to count as quick.
const QUICK: Duration = Duration::from_secs(5);
/// How many quick ends of reopened streams in a row are the last.
const QUICK_ENDS: u32 = 3;
/// How long an acknowledgement is waited for. Some servers never send one, and are taken at their silence.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);
/// When the first stream is open later than that, lists that were read meanwhile may have changed since.
const LATE: Duration = Duration::from_secs(1);

/// How a modern server's stream of notices stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is not open, or nothing is asked of it.
    #[default]
    Pending,
    /// It is open.
    Open {
        /// What was asked.
        asked: Filter,
        /// What of that the server does not do.
        refused: Filter,
    },
    /// There is none in this life of the connection.
    Absent,
}

/// Whether the server may have something to say on such a stream.
pub(super) fn is_offered(session: &Session) -> bool {
    !session.facts.announced().is_empty() || session.facts.tells_updates()
}

/// Opens the stream, and again whenever it ends, until it is refused or ends quickly too often in a row.
///
/// # Errors
/// When its ends make it doubtful whether the server is there.
pub(super) async fn keep_open(shared: &Shared, session: &Session) -> Result<(), TransportError> {
    let mut wishes = shared.wishes.subscribe();
    let mut keeper = Keeper {
        shared,
        session,
        stream: None,
        // What was wanted in an earlier life may have been updated since.
        missed: Filter::of(&session.facts, &wishes.borrow().resources).of_resources(),
        reopenings: 0,
        quick_ends: 0,
        random: fastrand::Rng::new(),
    };
    loop {
        let wanted = Filter::of(&session.facts, &wishes.borrow_and_update().resources);
        let end = match keeper.open(&wanted).await {
            Ok(()) => tokio::select! {
                end = ended(keeper.stream.as_mut()) => end,
                () = changed(&mut wishes, session, &wanted) => continue,
            },
            Err(end) => end,
        };
        if let Some(outcome) = keeper.after(end).await {
            shared.standing.send_replace(Standing::Absent);
            return outcome;
        }
    }
}

/// One stream: the request that is open.
struct Stream<'a> {
    filter: Filter,
    request: Pin<Box<dyn Future<Output = Result<Answer, TransportError>> + Send + 'a>>,
    acknowledged: Option<oneshot::Receiver<Filter>>,
    began: Instant,
}

/// How a stream ended.
enum End {
    /// The server has no such stream, or not for this filter.
    Refused(String),
    /// The whole connection has ended, which others notice.
    Over,
    /// It broke, or the server ended it.
    Broken { error: TransportError, lived: Duration },
    /// Somebody must sign in.
    SignIn(TransportError),
}

struct Keeper<'a> {
    shared: &'a Shared,
    session: &'a Session,
    stream: Option<Stream<'a>>,
    /// Of what nothing was heard for a while.
    missed: Filter,
    /// Openings since the last stream that lived.
    reopenings: u32,
    quick_ends: u32,
    random: fastrand::Rng,
}

impl<'a> Keeper<'a> {
    /// Has a stream open that brings what is wanted; the present one is given up when it is.
    async fn open(&mut self, wanted: &Filter) -> Result<(), End> {
        if wanted.is_empty() {
            self.stream = None;
            self.shared.standing.send_replace(Standing::Pending);
            return Ok(());
        }
        let mut next = match &self.stream {
            Some(present) if present.filter == *wanted => {
                self.stands(wanted, Filter::default());
                return Ok(());
            }
            _ => Stream::open(self.session, wanted.clone()),
        };
        let agreed = loop {
            tokio::select! {
                agreed = next.agreed() => break agreed,
                _ = ended(self.stream.as_mut()) => self.miss(),
            }
        };
        let refused = match (agreed, &self.stream) {
            (Ok(agreed), _) => {
                if self.is_first() && next.began.elapsed() >= LATE {
                    self.missed = self.missed.and(wanted);
                }
                self.stream = Some(next);
                self.tell(if self.reopenings == 0 { "opened" } else { "reopened" }, None);
                agreed.map(|agreed| wanted.without(&agreed)).unwrap_or_default()
            }
            // What was agreed on before stands.
            (Err(End::Refused(why)), Some(present)) => {
                tracing::debug!(server = %self.shared.id, why, "the server does not widen its stream of notices");
                wanted.without(&present.filter)
            }
            (Err(end), _) => return Err(end),
        };
        self.stands(wanted, refused);
        self.make_good();
        Ok(())
    }

    fn is_first(&self) -> bool {
        self.stream.is_none() && self.reopenings == 0
    }

    fn stands(&self, wanted: &Filter, refused: Filter) {
        if !refused.is_empty() {
            tracing::debug!(server = %self.shared.id, ?refused, "the server does not give all notices that it advertises");
        }
        self.shared.standing.send_replace(Standing::Open { asked: wanted.clone(), refused });
    }

    /// Has what was missed looked at: the lists are read, and the resources count as updated.
    fn make_good(&mut self) {
        let missed = std::mem::take(&mut self.missed);
        if !missed.lists().is_empty() {
            self.session.inbox.announce(missed.lists());
        }
        for uri in missed.resources() {
            self.session.inbox.update(uri);
        }
    }

    /// The present stream has ended.
    fn miss(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.missed = self.missed.and(&stream.filter);
        }
    }

    /// Waits until the stream may be opened again; `Some` when it is not.
    async fn after(&mut self, end: End) -> Option<Result<(), TransportError>> {
        self.miss();
        let (error, lived) = match end {
            End::Over => return Some(Ok(())),
            End::Refused(why) => {
                tracing::debug!(server = %self.shared.id, why, "the server has no stream of notices");
                self.tell("refused", Some(&why));
                return Some(Ok(()));
            }
            End::SignIn(error) => return Some(Err(error)),
            End::Broken { error, lived } => (error, lived),
        };
        if lived >= QUICK {
            (self.reopenings, self.quick_ends) = (0, 0);
        } else if self.reopenings > 0 {
            self.quick_ends += 1;
        }
        if self.quick_ends == QUICK_ENDS {
            self.tell("given_up", Some(&crate::error::chain(&error)));
            self.make_good();
            return Some(Err(error));
        }
        tracing::debug!(server = %self.shared.id, %error, "the stream of notices ended; it is opened again");
        self.shared.standing.send_replace(Standing::Pending);
        self.reopenings += 1;
        tokio::time::sleep(Ladder::reconnect().delay(self.reopenings, &mut self.random)).await;
        None
    }

    fn tell(&self, state: &str, why: Option<&str>) {
        let payload = json!({ "stream": "listen", "state": state, "error": why });
        self.shared.surroundings.events.emit(EventKind::Stream, Some(&self.shared.id), payload);
    }
}

impl<'a> Stream<'a> {
    fn open(session: &'a Session, filter: Filter) -> Self {
        let (sender, acknowledged) = oneshot::channel();
        let asked = filter.clone();
        let is_pipe = matches!(session.transport, Transport::Pipe(_));
        let request = Box::pin(async move {
            match session.listen(&asked, sender).await {
                // The whole connection has ended.
                Err(TransportError::Lost(_) | TransportError::Exited(_)) if is_pipe => Err(TransportError::Closed),
                end => end,
            }
        });
        Self { filter, request, acknowledged: Some(acknowledged), began: Instant::now() }
    }

    /// Waits until the server says what it agrees to; `None` when it has had its time and said nothing.
    ///
    /// Cancel safety: nothing is lost.
    async fn agreed(&mut self) -> Result<Option<Filter>, End> {
        let acknowledged = async {
            match &mut self.acknowledged {
                Some(acknowledged) => acknowledged.await.ok(),
                None => None,
            }
        };
        tokio::select! {
            biased;
            Some(agreed) = acknowledged => {
                self.acknowledged = None;
                Ok(Some(agreed))
            }
            end = &mut self.request => Err(End::of(end, self.began)),
            () = tokio::time::sleep_until(self.began + ACKNOWLEDGED) => Ok(None),
        }
    }
}

/// Waits for the end of a stream; for ever when there is none.
///
/// Cancel safety: nothing is lost.
async fn ended(stream: Option<&mut Stream<'_>>) -> End {
    match stream {
        Some(stream) => {
            let end = (&mut stream.request).await;
            End::of(end, stream.began)
        }
        None => std::future::pending().await,
    }
}

/// Waits until something else is wanted of the stream.
async fn changed(wishes: &mut watch::Receiver<Wishes>, session: &Session, present: &Filter) {
    let is_other = |wishes: &Wishes| Filter::of(&session.facts, &wishes.resources) != *present;
    // The sender lives as long as the connection.
    if wishes.wait_for(is_other).await.is_err() {
        std::future::pending().await
    }
}

impl End {
    fn of(end: Result<Answer, TransportError>, began: Instant) -> Self {
        let error = match end {
            Ok(Ok(_)) => TransportError::Lost("the server ended its stream of notices".into()),
            Ok(Err(rpc)) if matches!(rpc.code, METHOD_NOT_FOUND | INVALID_PARAMS | INVALID_REQUEST) => {
                return Self::Refused(rpc.to_string());
            }
            Ok(Err(rpc)) => TransportError::Lost(rpc.to_string().into()),
            Err(TransportError::Closed) => return Self::Over,
            Err(error) if failure::of_transport(&error) == Failure::SignIn => return Self::SignIn(error),
            Err(error) if refuses_stream(&error) => return Self::Refused(error.to_string()),
            Err(error) => error,
        };
        Self::Broken { error, lived: began.elapsed() }
    }
}
