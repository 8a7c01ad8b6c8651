//! Those who carry a call out, and those who wait for its end.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{CallTable, Outcome};

/// The right, and the duty, to end one call. Dropped without [`Ticket::finish`] the call counts as cut.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(super) table: Arc<CallTable>,
    pub(super) follower: Follower,
    pub(super) cancel: CancellationToken,
    pub(super) is_kept: bool,
    pub(super) is_finished: bool,
}

impl Ticket {
    /// Waits for the end of the same call.
    pub(crate) fn follower(&self) -> Follower {
        self.follower.clone()
    }

    /// Carries the call out, unless it is cancelled first.
    pub(crate) async fn run(self, work: impl Future<Output = Outcome>) -> Outcome {
        let outcome = self.cancel.run_until_cancelled(work).await.unwrap_or(Outcome::Cancelled);
        self.finish(outcome.clone());
        outcome
    }

    fn finish(mut self, outcome: Outcome) {
        self.is_finished = true;
        self.table.finish(&self.follower.id, outcome, self.is_kept);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_finished {
            self.table.finish(&self.follower.id, Outcome::Cut, self.is_kept);
        }
    }
}

/// Waits for the end of a call that somebody else carries out.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    pub(super) id: Arc<str>,
    pub(super) outcome: watch::Receiver<Option<Outcome>>,
}

impl Follower {
    /// The call's id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// How the call ended, when it has.
    ///
    /// Cancel safety: dropping the future leaves the call running.
    pub(crate) async fn outcome(mut self) -> Outcome {
        let ended = self.outcome.wait_for(Option::is_some).await;
        ended.ok().and_then(|outcome| outcome.clone()).unwrap_or(Outcome::Cut)
    }
}
