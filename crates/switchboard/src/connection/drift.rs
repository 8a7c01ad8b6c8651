//! Shows catalogues with what is approved of them, and keeps calls from tools that are not.

use std::sync::Arc;

use serde_json::json;

use super::{Connection, Shared};
use crate::catalogue::ServerCatalogue;
use crate::catalogue::drift::{Approval, MOST_NAMED, kinds, severity};
use crate::event::EventKind;
use crate::spec::DriftPolicy;
use crate::status::State;
use crate::time::Timestamp;

impl Shared {
    /// Shows a catalogue that was just read, compared with what is approved. Of a new server the first one is approved,
    /// where the registration says so.
    pub(super) fn show(&self, found: &ServerCatalogue) {
        let (policy, now) = (self.spec.drift, Timestamp::now());
        let before = self.catalogue.rcu(|known| {
            // Looked up here: something may be approved while the lists are read.
            let approval = known.comparison().approval().cloned();
            let approval = approval.or_else(|| found.first_approval(now).filter(|_| policy.trusts_the_first()));
            found.clone().compared(approval)
        });
        let shown = self.catalogue.load_full();
        if policy != DriftPolicy::Off && shown.has_new_drift(&before) {
            let payload = told(&shown, policy);
            self.surroundings.events.emit(EventKind::Drift, Some(&self.id), payload);
        }
    }
}

impl Connection {
    /// From now on this is what is approved.
    pub(crate) fn approve(&self, approval: &Approval) {
        self.shared.catalogue.rcu(|known| ServerCatalogue::clone(known).compared(Some(approval.clone())));
        self.shared.observer.changed(&self.shared.id);
    }

    /// Waits until the lists of this connection are read: the last known ones do not say what the tools are now.
    ///
    /// Cancel safety: dropping the future stops waiting; a discovery goes on.
    pub(crate) async fn compared(&self) -> Arc<ServerCatalogue> {
        let opened = self.wait_for(|state| state != State::Connecting).await;
        match opened.state {
            State::Connected => self.discover().await,
            _ => self.wait_for(State::is_settled).await,
        };
        self.catalogue()
    }
}

/// Names and kinds. What the tools say of themselves is never part of an event.
fn told(catalogue: &ServerCatalogue, policy: DriftPolicy) -> serde_json::Value {
    let comparison = catalogue.comparison();
    let named = |names: Vec<&str>| -> Vec<String> { names.into_iter().take(MOST_NAMED).map(str::to_owned).collect() };
    let changed = comparison.changed().into_iter().take(MOST_NAMED);
    let changed =
        changed.map(|(name, changes)| json!({ "name": name, "severity": severity(changes), "kinds": kinds(changes) }));
    json!({
        "policy": policy,
        "added": named(comparison.added()),
        "removed": named(comparison.removed().iter().map(|name| &**name).collect()),
        "changed": changed.collect::<Vec<_>>(),
    })
}
