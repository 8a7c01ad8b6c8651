//! Counts how often each server was dialled, and knows how often it may be.
//!
//! The ladders allow a burst of five, and one a second after that:
//! - A connect that somebody asked for has three attempts with waits of anything from nothing (full jitter).
//! - The first loss after it, or after five seconds of holding, may be an ended session, which is opened again at once.
//!   The way back from there takes five attempts, behind waits of at least 0.375, 0.375, 0.75, 1.5 and 3 s.
//! - Then the server has failed: a call has it dialled again a second after that at the earliest, and by itself it is
//!   dialled after 22 s at the earliest.
//!
//! So no minute has more than 65 dials of one server, and that many only while calls ask for a dead one all the time.

use std::collections::HashMap;

use switchboard::event::{Event, EventKind};
use switchboard::{Manager, ServerId};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Dials that may follow one another at once.
const BURST: f64 = 5.0;
/// For the clock, which shows milliseconds and may be read a little late.
const TOLERANCE: f64 = 0.25;

/// When each server was dialled, in milliseconds.
#[derive(Default)]
pub(super) struct Dials {
    of: HashMap<ServerId, Vec<u64>>,
    last: u64,
}

/// A task that listens for dials.
pub(super) struct Following {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Dials>,
}

impl Dials {
    pub(super) fn follow(manager: &Manager) -> Following {
        let (stop, mut stopped) = oneshot::channel();
        let manager = manager.clone();
        #[expect(clippy::disallowed_methods, reason = "a test ends it itself")]
        let task = tokio::spawn(async move {
            let (mut dials, mut stream) = (Self::default(), manager.events());
            loop {
                tokio::select! {
                    Some(event) = stream.next() => dials.take(&manager, event),
                    _ = &mut stopped => return dials,
                }
            }
        });
        Following { stop, task }
    }

    /// Takes an event; when some were missed, all that are kept.
    fn take(&mut self, manager: &Manager, event: Event) {
        if event.seq > self.last + 1 {
            let (missed, _) = manager.events_since(self.last);
            assert!(missed.first().is_none_or(|event| event.seq == self.last + 1), "events were lost");
            missed.into_iter().for_each(|event| self.note(event));
        }
        self.note(event);
    }

    fn note(&mut self, event: Event) {
        if event.seq <= self.last {
            return;
        }
        self.last = event.seq;
        if let (EventKind::Preconnect, Some(id)) = (event.kind, event.server_id) {
            self.of.entry(id).or_default().push(event.at.as_millis());
        }
    }

    /// No server was dialled more often than the ladders allow.
    pub(super) fn check(&self) {
        for (id, dials) in &self.of {
            let mut left = BURST;
            let mut before = dials[0];
            for &dial in dials {
                left = (left + seconds(dial - before)).min(BURST) - 1.0;
                before = dial;
                assert!(left >= -TOLERANCE, "`{id}` was dialled too often: {:?}", since_first(dials));
            }
        }
    }

    /// The most dials of one server in any minute, and of which.
    pub(super) fn most_in_a_minute(&self) -> (usize, String) {
        let most = |dials: &[u64]| {
            let within = |first: u64| dials.iter().filter(|dial| (first..first + 60_000).contains(dial)).count();
            dials.iter().map(|&first| within(first)).max().unwrap_or_default()
        };
        let all = self.of.iter().map(|(id, dials)| (most(dials), id.to_string()));
        all.max().unwrap_or_default()
    }
}

impl Following {
    pub(super) async fn end(self) -> Dials {
        let _ = self.stop.send(());
        self.task.await.unwrap()
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a test")]
fn seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

fn since_first(dials: &[u64]) -> Vec<u64> {
    dials.iter().map(|dial| dial - dials[0]).collect()
}
