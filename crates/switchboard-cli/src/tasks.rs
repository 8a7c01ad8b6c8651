//! The one place that starts tasks, and the runtime that carries them.

use std::future::Future;

use tokio::task::JoinHandle;

/// Starts a task. It ends with the runtime at the latest; whoever must not outlive its owner is aborted by it.
#[expect(clippy::disallowed_methods, reason = "this is the place that tasks are started in")]
pub(crate) fn spawn<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    tokio::spawn(task)
}
