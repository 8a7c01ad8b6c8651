//! The stream of notices of revision 2026-07-28: one `subscriptions/listen` request that stays open.
//!
//! Source: specification 2026-07-28, "Subscriptions".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::incoming::Changed;
use super::{ServerFacts, Session, cancelled, next_id};
use crate::transport::{Answer, Outgoing, TransportError};
use crate::wire::message::{self, Params};
use crate::wire::model::{ListKind, member};
use crate::wire::{Json, meta};

const METHOD: &str = "subscriptions/listen";

/// The lists that have a notice of their own, with the member of the filter that asks for it.
const NOTICES: [(ListKind, &str); 3] = [
    (ListKind::Tools, "toolsListChanged"),
    (ListKind::Prompts, "promptsListChanged"),
    (ListKind::Resources, "resourcesListChanged"),
];
const RESOURCES: &str = "resourceSubscriptions";

/// What is wanted of a stream of notices, or what a server agreed to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    lists: Changed,
    resources: BTreeSet<Box<str>>,
}

impl Filter {
    /// What the server advertises, and those resources where it lets them be subscribed to.
    pub(crate) fn of(facts: &ServerFacts, resources: &BTreeSet<Box<str>>) -> Self {
        let advertised = NOTICES.into_iter().filter(|(kind, _)| facts.promises(kind.capability(), "listChanged"));
        let lists = advertised.fold(Changed::default(), |lists, (kind, _)| lists.and(Changed::only(kind)));
        let resources = if facts.promises("resources", "subscribe") { resources.clone() } else { BTreeSet::default() };
        Self { lists, resources }
    }

    /// The filter that an acknowledgement names.
    fn read(notifications: &Json) -> Self {
        let is_true = |name: &str| member(notifications, name).is_some_and(|value| value.as_str() == "true");
        let honoured = NOTICES.into_iter().filter(|(_, name)| is_true(name));
        let lists = honoured.fold(Changed::default(), |lists, (kind, _)| lists.and(Changed::only(kind)));
        let resources = member(notifications, RESOURCES).and_then(|uris| uris.read().ok()).unwrap_or_default();
        Self { lists, resources }
    }

    /// Whether it asks for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.lists == Changed::default() && self.resources.is_empty()
    }

    /// The lists in it.
    pub(crate) fn lists(&self) -> Changed {
        self.lists
    }

    /// The resources in it.
    pub(crate) fn resources(&self) -> &BTreeSet<Box<str>> {
        &self.resources
    }

    /// The resources in it alone.
    pub(crate) fn of_resources(self) -> Self {
        Self { lists: Changed::default(), ..self }
    }

    /// What is in either.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let resources = self.resources.union(&other.resources).cloned().collect();
        Self { lists: self.lists.and(other.lists), resources }
    }

    /// What of it is not in `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let resources = self.resources.difference(&other.resources).cloned().collect();
        Self { lists: self.lists.without(other.lists), resources }
    }

    fn params(&self) -> Params {
        let mut members = serde_json::Map::new();
        for (kind, name) in NOTICES {
            if self.lists.has(kind) {
                members.insert(name.to_owned(), true.into());
            }
        }
        if !self.resources.is_empty() {
            members.insert(RESOURCES.to_owned(), self.resources.iter().map(|uri| &**uri).collect());
        }
        // A map of strings and flags can always be written.
        let filter = Json::of(&members).unwrap_or_else(|_| Json::empty_object());
        Params::new().json("notifications", &filter)
    }
}

/// The listen requests under way, by their ids, each with whoever waits for its acknowledgement.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<BTreeMap<u64, Option<oneshot::Sender<Filter>>>>);

impl Subscriptions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Option<oneshot::Sender<Filter>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an acknowledgement. One that does not say to what it belongs goes to the only request that waits.
    pub(super) fn acknowledge(&self, params: &Json) {
        let id = member(params, "_meta").and_then(|all| member(&all, meta::SUBSCRIPTION_ID));
        let id: Option<u64> = id.and_then(|id| id.as_str().trim_matches('"').parse().ok());
        let mut open = self.lock();
        let mut waiting = open.iter_mut().filter(|(_, waiter)| waiter.is_some());
        let waiter = match id {
            Some(id) => waiting.find(|(open, _)| **open == id).and_then(|(_, waiter)| waiter.take()),
            None => match (waiting.next(), waiting.next()) {
                (Some((_, waiter)), None) => waiter.take(),
                _ => None,
            },
        };
        if let Some(waiter) = waiter {
            let filter = member(params, "notifications").map(|all| Filter::read(&all)).unwrap_or_default();
            // Whoever waited may have lost patience.
            let _ = waiter.send(filter);
        }
    }
}

impl Session {
    /// Asks for a stream of notices and keeps it open to its end: the server's last word, or that it broke. What it
    /// brings goes to the inbox. `acknowledged` is told what the server agreed to, when it says so.
    ///
    /// Cancel safety: dropping the future ends the stream and tells the server so.
    pub(crate) async fn listen(
        &self,
        filter: &Filter,
        acknowledged: oneshot::Sender<Filter>,
    ) -> Result<Answer, TransportError> {
        let id = next_id(&self.ids);
        self.inbox.subscriptions.lock().insert(id, Some(acknowledged));
        let mut guard = Guard { session: self, id, is_open: true };
        let meta = message::Meta { members: &self.meta(), wants_progress: false };
        let body = message::request(id, METHOD, filter.params(), meta);
        let outgoing = Outgoing {
            id,
            method: METHOD,
            name: None,
            param_headers: &[],
            headers: None,
            dialect: self.dialect(),
            body: &body,
        };
        let end = self.transport.request(outgoing).await;
        guard.is_open = false;
        end
    }

    /// Tells the server that none of its streams of notices is wanted any more. Over HTTP dropping them says so.
    pub(crate) fn stop_listening(&self) {
        let open = std::mem::take(&mut *self.inbox.subscriptions.lock());
        for id in open.into_keys() {
            self.transport.cancel(self.dialect(), cancelled(id, "the connection is closed"));
        }
    }
}

/// Ends a stream that is still open.
struct Guard<'a> {
    session: &'a Session,
    id: u64,
    is_open: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let was_known = self.session.inbox.subscriptions.lock().remove(&self.id).is_some();
        if self.is_open && was_known {
            let notice = cancelled(self.id, "other notices are wanted");
            self.session.transport.cancel(self.session.dialect(), notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(capabilities: &str) -> ServerFacts {
        ServerFacts { capabilities: Some(capabilities.parse().unwrap()), ..ServerFacts::default() }
    }

    fn uris(uris: &[&str]) -> BTreeSet<Box<str>> {
        uris.iter().map(|uri| (*uri).into()).collect()
    }

    fn asked(facts: &ServerFacts, resources: &[&str]) -> serde_json::Value {
        let text = message::notification("x", &Filter::of(facts, &uris(resources)).params());
        let message: serde_json::Value = serde_json::from_slice(&text).unwrap();
        message["params"]["notifications"].clone()
    }

    #[test]
    fn a_filter_asks_only_for_what_the_server_advertises() {
        let all = facts(
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},
                "resources":{"listChanged":true,"subscribe":true}}"#,
        );
        let everything = serde_json::json!({
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": ["a:/", "b:/"],
        });
        assert_eq!(asked(&all, &["b:/", "a:/"]), everything);
        let few = facts(r#"{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}"#);
        assert_eq!(asked(&few, &["a:/"]), serde_json::json!({ "toolsListChanged": true }));
        assert!(Filter::of(&facts("{}"), &uris(&["a:/"])).is_empty());
    }

    #[test]
    fn an_acknowledgement_finds_its_request_by_the_subscription_id() {
        let open = Subscriptions::default();
        let wait = |id| {
            let (sender, receiver) = oneshot::channel();
            open.lock().insert(id, Some(sender));
            receiver
        };
        let (mut first, mut second) = (wait(1), wait(2));
        open.acknowledge(&r#"{"notifications":{"toolsListChanged":true}}"#.parse().unwrap());
        assert!(first.try_recv().is_err() && second.try_recv().is_err(), "it could be either's");
        let text = r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"2"},
            "notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:/"]}}"#;
        open.acknowledge(&text.parse().unwrap());
        let agreed = second.try_recv().unwrap();
        assert!(agreed.lists().has(ListKind::Tools) && !agreed.lists().has(ListKind::Prompts));
        assert_eq!(agreed.resources(), &uris(&["a:/"]));
        open.acknowledge(&"{}".parse().unwrap());
        assert!(first.try_recv().unwrap().is_empty(), "the only one that still waits");
    }
}
