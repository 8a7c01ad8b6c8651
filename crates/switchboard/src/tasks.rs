//! The one place that spawns. Every task belongs to an owner that ends it.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A set of tasks that end together. Clones are the same set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Runs `future` until it ends or the set is told to stop, which drops it at its next await.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        // Boxed for the same reason as below.
        let future = Box::pin(future);
        let bounded = self.tracker.track_future(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = future => {}
            }
        });
        spawn(bounded);
    }

    /// Tells all tasks to stop, without waiting.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for all tasks up to `limit`, then tells those that are left to stop; how many these were.
    pub(crate) async fn finish(&self, limit: Duration) -> usize {
        self.tracker.close();
        let left = match tokio::time::timeout(limit, self.tracker.wait()).await {
            Ok(()) => 0,
            Err(_) => self.tracker.len(),
        };
        self.stop.cancel();
        left
    }

    /// Tells all tasks to stop and waits for them up to `grace`; whether they all ended.
    pub(crate) async fn end(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait()).await.is_ok()
    }
}

/// A task that ends when its handle is dropped.
#[derive(Debug)]
pub(crate) struct OwnedTask<T = ()>(JoinHandle<T>);

impl<T: Send + 'static> OwnedTask<T> {
    /// Runs `future`. It is boxed, so that a handle to a task that has ended holds no more than its output: tokio keeps the
    /// room of the future itself for as long as there is a handle.
    pub(crate) fn spawn(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(spawn(Box::pin(future)))
    }
}

impl<T> Drop for OwnedTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_set_ends_its_tasks() {
        let tasks = Tasks::new();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn(async move {
            let _held = sender;
            std::future::pending::<()>().await;
        });
        assert!(tasks.end(Duration::from_secs(1)).await);
        assert!(receiver.await.is_err(), "the task was dropped");
    }
}
