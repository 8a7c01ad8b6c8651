//! The one place where tasks are started, and where they are waited for and ended.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A group of tasks with one owner.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    cut: CancellationToken,
}

impl Tasks {
    /// Runs `work` until it ends or the group is cut.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        self.tracker.spawn(async move {
            // What is cut is dropped, and its guards say so.
            cut.run_until_cancelled(work).await;
        });
    }

    /// Waits until every task has ended; after `grace` cuts those that have not. How many were cut.
    pub(crate) async fn finish(&self, grace: Duration) -> usize {
        self.tracker.close();
        if tokio::time::timeout(grace, self.tracker.wait()).await.is_ok() {
            return 0;
        }
        let left = self.tracker.len();
        self.cut.cancel();
        self.tracker.wait().await;
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_end_in_time_is_cut_and_counted() {
        let tasks = Tasks::default();
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn(async move {
            let _held = sender;
            std::future::pending().await
        });
        tasks.spawn(async {});
        assert_eq!(tasks.finish(Duration::from_secs(5)).await, 1);
        assert!(receiver.await.is_err(), "the task was dropped with all it held");
    }
}
