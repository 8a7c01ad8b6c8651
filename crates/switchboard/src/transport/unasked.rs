//! What is sent over HTTP without anybody waiting for it: answers to the server's own requests, and notices. Bounded in
//! number and in time, whatever the server does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::TransportError;
use crate::tasks::Tasks;

/// How many answers to the server's own requests may be on their way at once.
const REPLIES: usize = 16;
/// How many of them there may be in all. A server that asks for more than it takes answers to is not answered.
const WAITING_REPLIES: usize = 1024;
/// How many notices and ends of exchanges may be under way. Beyond that they are dropped: nothing depends on them.
const OTHERS: usize = 256;
/// How long a server may take to accept a message; as long as that, it keeps its transport alive.
const LIMIT: Duration = Duration::from_secs(10);
/// How long the end of an exchange, or of all that is under way, may take.
pub(super) const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Messages of one transport that nobody waits for. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Unasked {
    tasks: Tasks,
    /// Places for answers, those that wait included.
    places: Arc<Semaphore>,
    replies: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Unasked {
    pub(super) fn new() -> Self {
        let of = |places| Arc::new(Semaphore::new(places));
        Self { tasks: Tasks::new(), places: of(WAITING_REPLIES), replies: of(REPLIES), others: of(OTHERS) }
    }

    /// Posts an answer to a request of the server's in its turn, so that the stream on which it asked is read on meanwhile;
    /// `false` when there is no room for it.
    pub(super) fn reply(&self, posting: impl Future<Output = Result<(), TransportError>> + Send + 'static) -> bool {
        let Ok(place) = self.places.clone().try_acquire_owned() else { return false };
        let turns = self.replies.clone();
        self.post(place, async move {
            // The semaphore is never closed.
            let _turn = turns.acquire().await;
            posting.await
        });
        true
    }

    /// Posts a notice, if there is room for it.
    pub(super) fn notice(&self, posting: impl Future<Output = Result<(), TransportError>> + Send + 'static) {
        match self.others.clone().try_acquire_owned() {
            Ok(place) => self.post(place, posting),
            Err(_) => tracing::debug!("a notice was dropped: the server takes none of those before it"),
        }
    }

    /// Reads an exchange to its end that says nothing more to us, so that its connection can be used again. Without room
    /// the connection is given up instead.
    pub(super) fn finish(&self, rest: impl Future<Output = ()> + Send + 'static) {
        if let Ok(place) = self.others.clone().try_acquire_owned() {
            self.tasks.spawn(async move {
                let _ = tokio::time::timeout(CLOSE_LIMIT, rest).await;
                drop(place);
            });
        }
    }

    fn post(
        &self,
        place: OwnedSemaphorePermit,
        posting: impl Future<Output = Result<(), TransportError>> + Send + 'static,
    ) {
        self.tasks.spawn(async move {
            match tokio::time::timeout(LIMIT, posting).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a message of ours was not delivered"),
                Err(_) => tracing::debug!("a message of ours was not taken in time"),
            }
            drop(place);
        });
    }

    /// Drops all of it, without waiting.
    pub(super) fn stop(&self) {
        self.tasks.stop();
    }

    /// Drops all of it and waits until it is gone, within the limit of time.
    pub(super) async fn end(&self) {
        self.tasks.end(CLOSE_LIMIT).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_nothing_holds_up_few_answers_and_few_notices() {
        let unasked = Unasked::new();
        for _ in 0..OTHERS * 4 {
            unasked.notice(std::future::pending());
            unasked.finish(std::future::pending());
        }
        assert_eq!(unasked.others.available_permits(), 0);
        for _ in 0..WAITING_REPLIES {
            assert!(unasked.reply(std::future::pending()));
        }
        assert!(!unasked.reply(std::future::pending()), "there is no room for more");
        tokio::time::sleep(LIMIT * 2).await;
        let left = [&unasked.places, &unasked.replies, &unasked.others].map(|places| places.available_permits());
        assert_eq!(left, [WAITING_REPLIES, REPLIES, OTHERS]);
    }
}
