//! Keeps the optional stream open on which a legacy server speaks unasked. A server that refuses it, in whatever way, is a
//! server without one: nothing else depends on it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{Shared, failure};
use crate::backoff::Ladder;
use crate::event::EventKind;
use crate::session::Session;
use crate::transport::{Cursor, HttpTransport, Transport, TransportError, refuses_stream};
use crate::wire::Era;

/// How long a stream must live, or else give an event, for its end to count as the first again.
const PROVEN: Duration = Duration::from_secs(5);

/// Opens the stream, and again whenever it ends, until it is refused or ends too often in a row.
///
/// # Errors
/// When its end makes it doubtful whether the server is there, or the session.
pub(super) async fn keep_open(session: Arc<Session>, shared: Arc<Shared>) -> Result<(), TransportError> {
    let (Transport::Http(http), Era::Legacy) = (&session.transport, session.era) else { return Ok(()) };
    let mut stream = Stream { session: &session, http, shared: &shared, cursor: Cursor::default(), opened: 0 };
    let ladder = Ladder::reconnect();
    let mut random = fastrand::Rng::new();
    let (mut failures, mut idle) = (0, 0);
    loop {
        let error = match stream.run().await {
            Ok(life) => {
                if life.is_proven {
                    failures = 0;
                }
                idle = if life.is_idle { idle + 1 } else { 0 };
                life.error
            }
            Err(error) => match stream.judge(error) {
                Verdict::Again(error) => Some(error),
                Verdict::Over(outcome) => return outcome,
            },
        };
        failures += 1;
        if failures == ladder.attempts {
            stream.emit("given_up", error.as_ref());
            return match error {
                Some(error @ TransportError::Connect(_)) => Err(error),
                _ => Ok(()),
            };
        }
        let own = ladder.delay(failures, &mut random);
        let asked = error.as_ref().and_then(TransportError::retry_after);
        let wait = stream.cursor.wait(failures, own).max(patience(idle));
        tokio::time::sleep(wait.max(asked.unwrap_or_default())).await;
    }
}

/// The least wait after so many polls in a row that brought nothing, however soon the server wants to be asked again.
fn patience(idle: u32) -> Duration {
    let (first, most) = (Duration::from_millis(50), Duration::from_secs(5));
    first.saturating_mul(1 << (idle / 10).min(16)).min(most)
}

/// The stream over all the exchanges that carry it, one after the other.
struct Stream<'a> {
    session: &'a Session,
    http: &'a Arc<HttpTransport>,
    shared: &'a Shared,
    cursor: Cursor,
    /// How often it was opened.
    opened: u64,
}

/// How one exchange went.
struct Life {
    /// Whether it lived long enough, or gave an event.
    is_proven: bool,
    /// Whether it ended soon and brought nothing.
    is_idle: bool,
    /// How it broke, if it did not end.
    error: Option<TransportError>,
}

/// What a stream that could not be opened means.
enum Verdict {
    Again(TransportError),
    Over(Result<(), TransportError>),
}

impl Stream<'_> {
    /// Opens it and reads it to its end, however long that takes: no time limit is for a stream.
    async fn run(&mut self) -> Result<Life, TransportError> {
        let body = self.http.open_stream(self.session.dialect(), &self.cursor).await?;
        let has_gap = self.opened > 0 && self.cursor.last_event_id().is_none();
        self.emit(if self.opened == 0 { "opened" } else { "reopened" }, None);
        self.opened += 1;
        if has_gap {
            self.announce_lists();
        }
        let (began, events, messages) = (Instant::now(), self.cursor.events(), self.cursor.messages());
        let outcome = self.http.read_unasked(self.session.dialect(), body, &mut self.cursor).await;
        let has_held = began.elapsed() >= PROVEN;
        let is_proven = self.cursor.events() > events || has_held;
        let is_idle = self.cursor.messages() == messages && !has_held;
        Ok(Life { is_proven, is_idle, error: outcome.err() })
    }

    fn judge(&mut self, error: TransportError) -> Verdict {
        match &error {
            TransportError::SessionGone(_) => return Verdict::Over(Err(error)),
            // The server offered the stream before, so now it is the server that is gone, or the session.
            TransportError::Connect(_) if self.opened > 0 => return Verdict::Over(Err(error)),
            _ if !refuses_stream(&error) => return Verdict::Again(error),
            _ => {}
        }
        if let TransportError::Status(status) = &error
            && self.opened > 0
            && failure::is_to_a_stranger(status)
        {
            if status.status == 400 && self.cursor.last_event_id().is_some() {
                // It may be the event that the server does not know any more.
                self.cursor.forget_event_id();
                return Verdict::Again(error);
            }
            return Verdict::Over(Err(error));
        }
        self.emit("refused", Some(&error));
        Verdict::Over(Ok(()))
    }

    /// Has the lists read again of whose changes nothing was heard meanwhile, and takes resources for updated.
    fn announce_lists(&self) {
        let lists = self.session.facts.announced();
        if !lists.is_empty() {
            self.session.inbox.announce(lists);
        }
        for uri in &self.shared.wishes.borrow().resources {
            self.session.inbox.update(uri);
        }
    }

    fn emit(&self, state: &str, error: Option<&TransportError>) {
        let error = error.map(ToString::to_string);
        tracing::debug!(server = %self.shared.id, state, error, "the server's own stream");
        let payload = json!({ "state": state, "resumed": self.cursor.last_event_id().is_some(), "error": error });
        self.shared.surroundings.events.emit(EventKind::Stream, Some(&self.shared.id), payload);
    }
}
