//! Which changed lists wait to be read anew, and when: one refresh runs, and one waits.

use std::time::Duration;

use tokio::time::Instant;

use crate::session::incoming::Changed;

/// How long after a refresh that failed it is tried once more.
const AGAIN: Duration = Duration::from_secs(5);
/// The first rest after refreshes in a row that found nothing new; it doubles. Some servers announce a change at each look.
const FIRST_REST: Duration = Duration::from_millis(500);
/// The longest of such rests.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// How many refreshes in a row may find nothing new before there is a rest.
const VAIN: u32 = 3;

/// Announced changes of a connection in one life.
///
/// The first notice sets the moment; those that come until then, or while a refresh runs, share the next one. So none is
/// lost, the last least of all: what is announced while the lists are read is read again.
#[derive(Debug, Default)]
pub(super) struct Refresh {
    waiting: Changed,
    /// When the waiting ones are read; not before the end of what runs when that moment has passed meanwhile.
    due: Option<Instant>,
    running: Option<Changed>,
    /// Lists whose reading failed once already.
    failed: Changed,
    /// How many refreshes in a row found nothing new.
    vain: u32,
    /// Before that moment no notice has anything read.
    rest: Option<Instant>,
    /// When updated resources are told.
    updates_due: Option<Instant>,
    progress: Progress,
    /// Which announcements what runs takes in.
    covered: u64,
}

/// How many announcements there were, and how many of them the lists shown take in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) announced: u64,
    pub(super) read: u64,
}

impl Refresh {
    /// Has those lists read at `due`, or sooner when others are due sooner; whether that is news.
    pub(super) fn announce(&mut self, lists: Changed, due: Instant) -> bool {
        self.progress.announced += 1;
        let is_news = !lists.without(self.waiting).is_empty();
        self.waiting = self.waiting.and(lists);
        self.failed = self.failed.without(lists);
        let due = self.rest.map_or(due, |rest| rest.max(due));
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
        is_news
    }

    /// Somebody looks, so there is no rest.
    pub(super) fn wanted(&mut self) {
        self.rest = None;
    }

    /// Has updated resources told at `due`, or sooner when others are told sooner.
    pub(super) fn update(&mut self, due: Instant) {
        self.updates_due.get_or_insert(due);
    }

    /// Whether updated resources are to be told now.
    pub(super) fn takes_updates(&mut self, now: Instant) -> bool {
        self.updates_due.take_if(|due| *due <= now).is_some()
    }

    /// The lists that are to be read now, if any. What cannot be begun is looked at again when that which stands in its
    /// way has ended.
    pub(super) fn begin(&mut self, is_ready: bool, now: Instant) -> Option<Changed> {
        self.due.take_if(|due| *due <= now)?;
        if self.running.is_some() || !is_ready {
            return None;
        }
        self.covered = self.progress.announced;
        let wanted = std::mem::take(&mut self.waiting);
        (!wanted.is_empty()).then(|| *self.running.insert(wanted))
    }

    /// What ran has ended, and these lists could not be read; whether anything ran. A failed one is tried once more. One that
    /// was in vain found nothing new.
    pub(super) fn ended(&mut self, failed: Changed, is_vain: bool, now: Instant) -> bool {
        let Some(wanted) = self.running.take() else { return false };
        self.progress.read = self.covered;
        self.vain = if is_vain { self.vain.saturating_add(1) } else { 0 };
        let rest = |past: u32| now + FIRST_REST.saturating_mul(1 << past.min(16)).min(LONGEST_REST);
        self.rest = self.vain.checked_sub(VAIN).map(rest);
        if let (Some(rest), Some(due)) = (self.rest, self.due.as_mut()) {
            *due = rest.max(*due);
        }
        let again = failed.without(self.failed);
        self.failed = self.failed.without(wanted).and(again);
        self.go_on(now);
        self.waiting = self.waiting.and(again);
        if !self.waiting.is_empty() {
            self.due.get_or_insert(now + AGAIN);
        }
        true
    }

    /// A discovery begins, which reads every list.
    pub(super) fn discovering(&mut self) {
        self.covered = self.progress.announced;
        (self.waiting, self.failed) = (Changed::default(), Changed::default());
        (self.due, self.running) = (None, None);
    }

    /// The discovery has ended.
    pub(super) fn discovered(&mut self, now: Instant) {
        self.progress.read = self.covered;
        self.go_on(now);
    }

    /// The connection is gone; the next one reads everything.
    pub(super) fn lost(&mut self) {
        let announced = self.progress.announced;
        *self = Self { progress: Progress { announced, read: announced }, ..Self::default() };
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress
    }

    /// The next moment at which something is due.
    pub(super) fn next_moment(&self) -> Option<Instant> {
        [self.due, self.updates_due].into_iter().flatten().min()
    }

    /// What had to wait has waited long enough.
    fn go_on(&mut self, now: Instant) {
        if !self.waiting.is_empty() {
            self.due.get_or_insert(self.rest.map_or(now, |rest| rest.max(now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::model::ListKind;

    const QUIET: Duration = Duration::from_millis(300);

    fn tools() -> Changed {
        Changed::only(ListKind::Tools)
    }

    #[tokio::test(start_paused = true)]
    async fn notices_share_a_refresh_and_those_during_one_share_the_next() {
        let mut refresh = Refresh::default();
        let start = Instant::now();
        assert!(refresh.announce(tools(), start + QUIET));
        assert!(!refresh.announce(tools(), start + QUIET * 2), "no news");
        assert_eq!(refresh.begin(true, start), None, "not yet");
        assert_eq!(refresh.begin(true, start + QUIET), Some(tools()));
        for _ in 0..200 {
            refresh.announce(tools(), start + QUIET * 2);
        }
        assert_eq!(refresh.begin(true, start + QUIET * 2), None, "one runs");
        assert_eq!(refresh.next_moment(), None, "nothing is asked before it ends");
        let end = start + QUIET * 9;
        assert!(refresh.ended(Changed::default(), false, end));
        assert_eq!(refresh.progress(), Progress { announced: 202, read: 2 });
        assert_eq!(refresh.begin(true, end), Some(tools()), "the one that waited begins at once");
        assert!(refresh.ended(Changed::default(), false, end + QUIET));
        assert_eq!(refresh.progress(), Progress { announced: 202, read: 202 });
        assert_eq!(refresh.next_moment(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_refresh_is_tried_once_more_and_no_more() {
        let mut refresh = Refresh::default();
        let start = Instant::now();
        refresh.announce(tools(), start);
        assert_eq!(refresh.begin(true, start), Some(tools()));
        refresh.ended(tools(), false, start);
        assert_eq!(refresh.begin(true, start), None);
        assert_eq!(refresh.begin(true, start + AGAIN), Some(tools()));
        refresh.ended(tools(), false, start + AGAIN);
        assert_eq!(refresh.next_moment(), None);
        refresh.announce(tools(), start + AGAIN);
        refresh.begin(true, start + AGAIN);
        refresh.ended(tools(), false, start + AGAIN);
        assert_eq!(refresh.next_moment(), Some(start + AGAIN * 2), "a new notice has a second try of its own");
    }

    #[tokio::test(start_paused = true)]
    async fn notices_during_a_discovery_are_read_after_it() {
        let mut refresh = Refresh::default();
        let start = Instant::now();
        refresh.announce(tools(), start);
        refresh.discovering();
        assert_eq!(refresh.begin(false, start), None, "the discovery reads it");
        refresh.announce(tools(), start);
        assert_eq!(refresh.begin(false, start), None);
        refresh.discovered(start);
        assert_eq!(refresh.progress(), Progress { announced: 2, read: 1 });
        assert_eq!(refresh.begin(true, start), Some(tools()));
        assert!(refresh.ended(Changed::default(), false, start));
        assert!(!refresh.ended(Changed::default(), false, start), "a late end of a refresh that was abandoned");
    }
}
