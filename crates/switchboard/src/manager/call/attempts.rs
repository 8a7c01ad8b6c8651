//! Whether, when and on which session a request is sent again. The one place that decides it for calls.
//!
//! What surely did not run is sent again by itself: once on the session that comes after one that the server ended, and
//! after a wait where a connection could not be made or the server asked for patience. What may have run is repeated
//! once, and only where that does no harm and the caller allows it. All of it is in the time of the one call.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::backoff::Ladder;
use crate::connection::{Connection, Live};
use crate::error::{Error, Result};
use crate::session::progress::Deadline;
use crate::session::request::RequestError;
use crate::status::State;
use crate::transport::{StatusError, TransportError};

/// One request's attempts.
pub(super) struct Attempts<'a> {
    connection: &'a Connection,
    deadline: &'a Deadline,
    /// What fails, for the errors.
    name: &'a str,
    tries: Tries,
    /// Whether an earlier attempt may have run.
    maybe_ran: bool,
}

/// What was tried so far.
#[derive(Debug, Default)]
struct Tries {
    refusals: u32,
    limits: u32,
    has_renewed: bool,
    has_repeated: bool,
}

/// What a server refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// That one request, or nothing.
    Alone,
    /// All that belongs to the session.
    Session,
    /// All that it is asked: another one stands in its place.
    Everything,
}

/// What becomes of a request that has no result.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Next {
    /// The caller is told.
    Tell,
    /// It is sent again on the session that comes after this one.
    Renew,
    /// It is sent again after this wait, on whatever session there is then.
    Again(Duration),
}

impl Tries {
    /// What becomes of the request. `is_repeatable`: running it twice is allowed and does no harm.
    fn next(&mut self, error: &RequestError, refused: Refused, is_repeatable: bool) -> Next {
        let RequestError::Transport(error) = error else { return Next::Tell };
        match error {
            _ if refused == Refused::Session && !std::mem::replace(&mut self.has_renewed, true) => Next::Renew,
            _ if refused == Refused::Everything => self.refused(),
            TransportError::Connect(_) | TransportError::Unsent(_) => self.refused(),
            TransportError::Status(error) if matches!(error.status, 429 | 503) => self.limited(error, is_repeatable),
            TransportError::Status(error) if matches!(error.status, 502 | 504) => self.lost(is_repeatable),
            TransportError::Lost(_) | TransportError::NoAnswer(_) | TransportError::Exited(_) => {
                self.lost(is_repeatable)
            }
            _ => Next::Tell,
        }
    }

    fn refused(&mut self) -> Next {
        self.refusals += 1;
        let ladder = Ladder::unsent();
        if self.refusals > ladder.attempts { Next::Tell } else { Next::Again(ladder.step(self.refusals)) }
    }

    fn limited(&mut self, error: &StatusError, is_repeatable: bool) -> Next {
        if error.maybe_ran() && !is_repeatable {
            return Next::Tell;
        }
        self.limits += 1;
        // A server that asks for no wait at all is not to be hammered either.
        let wait = Ladder::limited().step(self.limits);
        Next::Again(error.retry_after.unwrap_or_default().max(wait))
    }

    fn lost(&mut self, is_repeatable: bool) -> Next {
        if !is_repeatable || std::mem::replace(&mut self.has_repeated, true) {
            return Next::Tell;
        }
        Next::Again(Ladder::unsent().step(1))
    }
}

impl<'a> Attempts<'a> {
    pub(super) fn new(connection: &'a Connection, deadline: &'a Deadline, name: &'a str) -> Self {
        Self { connection, deadline, name, tries: Tries::default(), maybe_ran: false }
    }

    /// The session for the next attempt, after the last one ended with `error` on `live`.
    ///
    /// # Errors
    /// When there is no further attempt.
    pub(super) async fn next(
        &mut self,
        live: Arc<Live>,
        error: RequestError,
        is_repeatable: bool,
    ) -> Result<Arc<Live>> {
        let refused = if self.tries.has_renewed { Refused::Alone } else { self.refused(&live, &error).await };
        if refused != Refused::Session {
            self.connection.doubt(&live, &error).await;
        }
        let generation = live.generation;
        drop(live);
        // What a person has closed is not opened again for a call that was under way.
        let is_closed = || self.connection.state() == State::Closed;
        let next = if is_closed() { Next::Tell } else { self.tries.next(&error, refused, is_repeatable) };
        let wait = match next {
            Next::Tell => return Err(self.told(error)),
            Next::Renew => Duration::ZERO,
            Next::Again(wait) => spread(wait),
        };
        if wait >= self.deadline.left() {
            return Err(self.told(error));
        }
        tokio::time::sleep(wait).await;
        if is_closed() {
            return Err(self.told(error));
        }
        let session = match next {
            Next::Renew => self.connection.renewed(generation, self.deadline.left()).await,
            _ => self.connection.session(self.deadline.left()).await,
        };
        let may_have_run = error.maybe_ran() == Some(true);
        match session {
            Ok(live) => {
                self.maybe_ran |= may_have_run;
                Ok(live)
            }
            // What became of the call says more than that the server did not come back.
            Err(_) if may_have_run => Err(self.told(error)),
            Err(error) => Err(self.after_all(error)),
        }
    }

    /// What a refusal means. Many servers say with a bare 400 that the session is gone, and gateways with a bare 404 that the
    /// server is, which may as well be about what was asked. Whether a bare question is refused too tells.
    async fn refused(&self, live: &Live, error: &RequestError) -> Refused {
        let RequestError::Transport(error) = error else { return Refused::Alone };
        let (status, refused) = match error {
            TransportError::SessionGone(_) => return Refused::Session,
            TransportError::Status(error) if error.rpc.is_none() && live.session.record().is_some() => {
                (error.status, Refused::Session)
            }
            TransportError::Status(error) if error.rpc.is_none() => (error.status, Refused::Everything),
            _ => return Refused::Alone,
        };
        let may_be = matches!(status, 404 | 410) || (status == 400 && refused == Refused::Session);
        let asked = async { may_be && self.connection.refuses(live).await };
        let is_refused = timeout(self.deadline.left(), asked).await.unwrap_or(false);
        if is_refused { refused } else { Refused::Alone }
    }

    fn told(&self, error: RequestError) -> Error {
        self.after_all(error.outward(&format!("`{}` failed", self.name)))
    }

    /// The error of the last attempt, as one of the whole request.
    fn after_all(&self, error: Error) -> Error {
        let error = error.of(self.connection.id());
        if self.maybe_ran { error.with(|data| data.maybe_ran = Some(true)) } else { error }
    }
}

/// The wait and up to a tenth more, so that many calls that were refused together do not come back together.
fn spread(wait: Duration) -> Duration {
    wait + wait.mul_f64(fastrand::f64() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> RequestError {
        let retry_after = retry_after.map(Duration::from_secs);
        let error = StatusError { status, retry_after, ..StatusError::default() };
        RequestError::Transport(TransportError::Status(Box::new(error)))
    }

    fn gone() -> RequestError {
        RequestError::Transport(TransportError::SessionGone(Box::default()))
    }

    fn lost() -> RequestError {
        RequestError::Transport(TransportError::Lost("reset".into()))
    }

    fn refused() -> RequestError {
        RequestError::Transport(TransportError::Connect("refused".into()))
    }

    fn unsent(cause: TransportError) -> RequestError {
        RequestError::Transport(TransportError::Unsent(Box::new(cause)))
    }

    fn again(millis: u64) -> Next {
        Next::Again(Duration::from_millis(millis))
    }

    fn next(tries: &mut Tries, error: &RequestError, is_repeatable: bool) -> Next {
        let is_of_the_session = matches!(error, RequestError::Transport(TransportError::SessionGone(_)));
        tries.next(error, if is_of_the_session { Refused::Session } else { Refused::Alone }, is_repeatable)
    }

    fn first(error: &RequestError, is_repeatable: bool) -> Next {
        next(&mut Tries::default(), error, is_repeatable)
    }

    #[test]
    fn what_surely_did_not_run_is_sent_again_by_itself() {
        for is_repeatable in [false, true] {
            let table = [
                (gone(), Next::Renew),
                (refused(), again(100)),
                (unsent(TransportError::Closed), again(100)),
                (unsent(TransportError::Lost("gone".into())), again(100)),
                (status(429, None), again(500)),
                (status(429, Some(0)), again(500)),
                (status(429, Some(7)), again(7000)),
                (status(503, Some(2)), again(2000)),
            ];
            for (error, expected) in table {
                assert_eq!(error.maybe_ran(), Some(false), "{error:?}");
                assert_eq!(first(&error, is_repeatable), expected, "{error:?}");
            }
        }
    }

    #[test]
    fn b095_what_may_have_run_is_repeated_only_where_that_does_no_harm_and_is_allowed() {
        let no_answer = RequestError::Transport(TransportError::NoAnswer("the stream"));
        for error in [lost(), no_answer, status(502, None), status(504, None), status(503, None)] {
            assert_eq!(error.maybe_ran(), Some(true), "{error:?}");
            assert_eq!(first(&error, false), Next::Tell, "{error:?}");
            assert!(matches!(first(&error, true), Next::Again(_)), "{error:?}");
        }
    }

    #[test]
    fn other_failures_are_told_at_once() {
        let timeout = RequestError::Timeout { method: "m".into(), after: Duration::ZERO, unmatched: 0 };
        let no_turn = RequestError::NoTurn { method: "m".into(), after: Duration::ZERO };
        let closed = RequestError::Transport(TransportError::Closed);
        let rpc = RequestError::Rpc(crate::error::RpcError::new(404, "no", None));
        let statuses = [400, 401, 403, 404, 408, 500, 501].map(|code| status(code, Some(1)));
        let others = [timeout, no_turn, closed, rpc];
        for error in others.into_iter().chain(statuses) {
            assert_eq!(first(&error, true), Next::Tell, "{error:?}");
        }
    }

    #[test]
    fn a_session_is_renewed_once_and_a_repetition_happens_once() {
        let mut tries = Tries::default();
        assert_eq!(next(&mut tries, &gone(), true), Next::Renew);
        assert_eq!(next(&mut tries, &gone(), true), Next::Tell);
        assert_eq!(next(&mut tries, &lost(), true), again(100));
        assert_eq!(next(&mut tries, &lost(), true), Next::Tell);
    }

    #[test]
    fn waits_grow_up_to_a_bound_and_attempts_to_connect_are_few() {
        let mut tries = Tries::default();
        let waits: Vec<_> = (0..6).map(|_| next(&mut tries, &status(429, None), false)).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 5000, 5000].map(again));
        let waits: Vec<_> = (0..4).map(|_| next(&mut tries, &refused(), false)).collect();
        assert_eq!(waits, [again(100), again(200), again(400), Next::Tell]);
    }

    #[test]
    fn a_wait_is_never_cut_short() {
        for _ in 0..100 {
            let wait = spread(Duration::from_secs(10));
            assert!((Duration::from_secs(10)..=Duration::from_secs(11)).contains(&wait));
        }
    }

    #[test]
    fn every_failure_says_whether_the_request_may_have_run() {
        let transport = RequestError::Transport;
        let table = [
            (transport(TransportError::NoAnswer("the stream")), true),
            (transport(TransportError::NotMcp("html".into())), true),
            (transport(TransportError::TooLarge { limit: 1 }), true),
            (transport(TransportError::Closed), true),
            (RequestError::Timeout { method: "m".into(), after: Duration::ZERO, unmatched: 0 }, true),
            (RequestError::NoTurn { method: "m".into(), after: Duration::ZERO }, false),
        ];
        let statuses = [(400, false), (401, false), (404, false), (408, true), (409, false), (429, false), (499, true)];
        let servers = [(500, true), (501, false), (502, true), (503, true), (504, true)];
        let statuses = statuses.into_iter().chain(servers).map(|(code, maybe)| (status(code, None), maybe));
        for (error, maybe) in table.into_iter().chain(statuses) {
            let shown = format!("{error:?}");
            assert_eq!(error.outward("x").data().maybe_ran, Some(maybe), "{shown}");
        }
    }
}
