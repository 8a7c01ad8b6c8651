//! Whether the lists shown are the present ones, and how somebody who looks has them read anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Command, Connection, Order};
use crate::catalogue::ServerCatalogue;
use crate::session::Session;
use crate::session::incoming::Changed;
use crate::status::State;
use crate::time::Timestamp;
use crate::wire::Era;
use crate::wire::model::ListKind;

impl Connection {
    /// Somebody looks at the lists: those that have expired are read anew behind the look, once however many look.
    pub(crate) fn looked_at(&self) {
        let catalogue = self.shared.catalogue.load();
        if !catalogue.may_have_expired(Timestamp::now()) || self.state() != State::Ready {
            return;
        }
        let lists = expired(&catalogue);
        if !self.shared.is_renewing.swap(true, Ordering::AcqRel) {
            let command = Command { order: Order::Refresh(lists), begun: None };
            if self.commands.try_send(command).is_err() {
                self.shared.is_renewing.store(false, Ordering::Release);
            }
        }
    }

    /// The catalogue with all changes in it that were announced so far, and without lists that have expired; the present
    /// one when that takes longer than `patience`.
    ///
    /// Cancel safety: dropping the future stops waiting; the refresh goes on.
    pub(crate) async fn caught_up(&self, patience: Duration) -> Arc<ServerCatalogue> {
        let catalogue = self.catalogue();
        let progress = *self.shared.progress.borrow();
        let has_news = self.live().is_some_and(|live| live.session.inbox.has_news());
        let lists = expired(&catalogue);
        if !has_news && progress.read == progress.announced && lists.is_empty() {
            return catalogue;
        }
        let read = async {
            self.order(Order::Refresh(lists)).await;
            let mut progress = self.shared.progress.subscribe();
            let target = progress.borrow().announced;
            // The sender lives in `shared`, so the wait cannot fail.
            let _ = progress.wait_for(|progress| progress.read >= target).await;
        };
        let _ = tokio::time::timeout(patience, read).await;
        self.catalogue()
    }
}

/// Whether the lists that are known of a modern server need not be read: none has expired, and nothing was missed.
pub(super) fn is_fresh(known: &ServerCatalogue, session: &Session) -> bool {
    let offers = |kind: ListKind| session.facts.offers(kind.capability());
    session.era == Era::Modern && !known.is_stale() && known.holds(Timestamp::now(), offers)
}

/// The lists that the server said would hold, and whose time is over.
fn expired(catalogue: &ServerCatalogue) -> Changed {
    let now = Timestamp::now();
    let kinds = ListKind::ALL.into_iter().filter(|kind| catalogue.expiry(*kind).is_some_and(|expiry| expiry <= now));
    kinds.fold(Changed::default(), |lists, kind| lists.and(Changed::only(kind)))
}
