//! The time that one request has, and what the server reports of its progress meanwhile.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;

use crate::status::clean;
use crate::wire::Json;
use crate::wire::model::member;

/// How many reports wait for whoever follows them.
pub(crate) const KEPT_REPORTS: usize = 32;

/// How far a request is, by the server's own word.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How much is done. It should grow from report to report; with some servers it does not.
    pub progress: f64,
    /// How much there is to do.
    pub total: Option<f64>,
    /// What is being done, without control characters and cut at 500 characters.
    pub message: Option<String>,
}

impl Progress {
    /// The report in a `notifications/progress`; `None` when it does not say how far things are.
    fn read(params: &Json) -> Option<Self> {
        let number = |name| member(params, name)?.to_value().as_f64();
        let message = || member(params, "message")?.read::<String>().ok();
        Some(Self {
            progress: number("progress")?,
            total: number("total"),
            message: message().map(|text| clean(&text)),
        })
    }
}

/// Follows the progress of one call; see [`ToolCall::progress`](crate::ToolCall::progress).
#[derive(Debug)]
pub struct ProgressStream {
    receiver: broadcast::Receiver<Progress>,
}

impl ProgressStream {
    /// A stream, and what feeds it.
    pub(crate) fn new() -> (broadcast::Sender<Progress>, Self) {
        let (sender, receiver) = broadcast::channel(KEPT_REPORTS);
        (sender, Self { receiver })
    }

    /// A further stream of the same reports.
    pub(crate) fn of(sender: &broadcast::Sender<Progress>) -> Self {
        Self { receiver: sender.subscribe() }
    }

    /// The next report, in the server's order; `None` when the call has ended.
    ///
    /// Up to 32 reports wait for a follower. One that is slower than the server misses the oldest of them, never the
    /// latest, and never holds up the call.
    ///
    /// Cancel safety: dropping the future loses no report.
    pub async fn next(&mut self) -> Option<Progress> {
        loop {
            match self.receiver.recv().await {
                Ok(report) => return Some(report),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// When a request is given up: each progress report puts it off, up to a limit.
#[derive(Debug)]
pub(crate) struct Deadline {
    began: Instant,
    due: Mutex<Instant>,
    timeout: Duration,
    limit: Instant,
    reports: Option<broadcast::Sender<Progress>>,
    /// The server's reason, when it has given the request up.
    cancelled: OnceLock<String>,
    cancel: Notify,
}

impl Deadline {
    /// A deadline `timeout` from now, that progress can put off until `max` from now.
    pub(crate) fn new(timeout: Duration, max: Duration) -> Self {
        let began = Instant::now();
        let limit = began + max;
        let (due, cancelled, cancel) = (Mutex::new((began + timeout).min(limit)), OnceLock::new(), Notify::new());
        Self { began, due, timeout, limit, reports: None, cancelled, cancel }
    }

    /// The same deadline, whose reports are passed on.
    pub(crate) fn reporting(self, reports: Option<broadcast::Sender<Progress>>) -> Self {
        Self { reports, ..self }
    }

    /// When the request is given up, as things stand.
    pub(crate) fn due(&self) -> Instant {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time until then.
    pub(crate) fn left(&self) -> Duration {
        self.due().saturating_duration_since(Instant::now())
    }

    /// The time since the request was made.
    pub(crate) fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until the request is given up: by its time, which may move meanwhile, or by the server.
    pub(super) async fn passed(&self) {
        while self.cancelled().is_none() && Instant::now() < self.due() {
            tokio::select! {
                () = tokio::time::sleep_until(self.due()) => {}
                () = self.cancel.notified() => {}
            }
        }
    }

    /// Why the server has given the request up, if it has.
    pub(super) fn cancelled(&self) -> Option<&str> {
        self.cancelled.get().map(String::as_str)
    }

    /// The server has given the request up.
    pub(super) fn cancel(&self, reason: Option<&str>) {
        // The first reason counts.
        let _ = self.cancelled.set(clean(reason.unwrap_or("no reason")));
        self.cancel.notify_one();
    }

    /// Takes in a progress report.
    pub(super) fn report(&self, params: &Json) {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now() + self.timeout).min(self.limit);
        if let Some(reports) = self.reports.as_ref().filter(|reports| reports.receiver_count() > 0)
            && let Some(report) = Progress::read(params)
        {
            // Whoever followed may have just gone.
            let _ = reports.send(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(deadline: &Deadline, params: &str) {
        deadline.report(&params.parse().unwrap());
    }

    #[tokio::test]
    async fn a_slow_follower_misses_the_oldest_reports_and_never_the_latest() {
        let (sender, mut stream) = ProgressStream::new();
        let deadline = Deadline::new(Duration::from_secs(1), Duration::from_secs(1)).reporting(Some(sender));
        for done in 0..100 {
            report(&deadline, &format!(r#"{{"progressToken":1,"progress":{done}}}"#));
        }
        drop(deadline);
        let mut seen = Vec::new();
        while let Some(report) = stream.next().await {
            seen.push(report.progress);
        }
        let expected: Vec<f64> = (100 - KEPT_REPORTS..100).map(|done| done as f64).collect();
        assert_eq!(seen, expected);
    }

    #[tokio::test]
    async fn odd_reports_are_passed_on_as_far_as_they_say_something() {
        let (sender, mut stream) = ProgressStream::new();
        let deadline = Deadline::new(Duration::from_secs(1), Duration::from_secs(1)).reporting(Some(sender));
        for params in [
            r#"{"progressToken":1,"progress":"much"}"#,
            r#"{"progressToken":1}"#,
            r#"{"progressToken":1,"progress":5,"total":"?","message":7}"#,
            r#"{"progressToken":1,"progress":2.5,"total":10,"message":"half\u001b[2J way"}"#,
        ] {
            report(&deadline, params);
        }
        drop(deadline);
        assert_eq!(stream.next().await, Some(Progress { progress: 5.0, total: None, message: None }));
        let last = stream.next().await.unwrap();
        assert_eq!((last.progress, last.total), (2.5, Some(10.0)));
        assert!(!last.message.unwrap().contains('\u{1b}'));
        assert_eq!(stream.next().await, None);
    }
}
