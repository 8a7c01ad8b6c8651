//! Waiting without sleeping: signals, gates, and a bound in real time that a paused tokio clock does not touch.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

/// How long a test waits in real time for something that should happen before it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Raised whenever something that tests wait for may have changed.
#[derive(Debug)]
pub(crate) struct Signal(watch::Sender<u64>);

impl Default for Signal {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Signal {
    pub(crate) fn raise(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Waits, without a bound, until `check` finds what it looks for.
    pub(crate) async fn found<T>(&self, mut check: impl FnMut() -> Option<T>) -> T {
        let mut changes = self.0.subscribe();
        loop {
            if let Some(found) = check() {
                return found;
            }
            // The sender is `self`, so this cannot fail.
            let _ = changes.changed().await;
        }
    }

    /// Waits until `check` finds what it looks for, and panics with `lament` when that takes too long in real time.
    pub(crate) async fn until<T>(&self, lament: impl FnOnce() -> String, mut check: impl FnMut() -> Option<T>) -> T {
        let mut found = std::pin::pin!(self.found(&mut check));
        if let Some(found) = futures_util::FutureExt::now_or_never(found.as_mut()) {
            return found;
        }
        let mut alarm = Alarm::after(PATIENCE);
        tokio::select! {
            found = found => found,
            () = alarm.rings() => panic!("waited {PATIENCE:?} in vain: {}", lament()),
        }
    }
}

/// Rings after some time on the wall clock. A thread keeps the time, so that a paused tokio clock neither rings it early
/// nor is held up by it. Dropping it ends the thread.
pub(crate) struct Alarm {
    _hang_up: Sender<()>,
    ring: oneshot::Receiver<()>,
}

impl Alarm {
    pub(crate) fn after(duration: Duration) -> Self {
        let (hang_up, hung_up) = channel();
        let (bell, ring) = oneshot::channel();
        std::thread::spawn(move || {
            if hung_up.recv_timeout(duration) == Err(RecvTimeoutError::Timeout) {
                let _ = bell.send(());
            }
        });
        Self { _hang_up: hang_up, ring }
    }

    pub(crate) async fn rings(&mut self) {
        let _ = (&mut self.ring).await;
    }
}

/// Waits a short while in real time, for things that give no notice, such as processes of other parents.
pub(crate) async fn breath() {
    Alarm::after(Duration::from_millis(5)).rings().await;
}

/// A door that a test opens: replies that wait for it are held until then.
///
/// Clones share the door. Once open it stays open.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Lets everything through that waits now or comes later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the gate is open.
    pub async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_keeps_real_time_while_the_tokio_clock_is_paused() {
        let before = std::time::Instant::now();
        Alarm::after(Duration::from_millis(30)).rings().await;
        assert!(before.elapsed() >= Duration::from_millis(30));
    }

    #[tokio::test]
    async fn a_gate_holds_back_until_it_is_opened() {
        let gate = Gate::new();
        let mut waiting = Box::pin(gate.wait());
        assert!(futures_util::poll!(&mut waiting).is_pending());
        gate.open();
        waiting.await;
    }
}
