//! What a peer has seen, and waiting for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use serde_json::Value;

use crate::patience::Signal;

/// Everything that reached the peer, in order.
#[derive(Debug, Default)]
pub(crate) struct Record {
    seen: Mutex<Seen>,
    changed: Signal,
    forgets: AtomicBool,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whole messages.
    pub(crate) messages: Vec<Value>,
    /// Requests whose answer the client did not wait for.
    pub(crate) abandoned: Vec<Value>,
    /// What the client did against the rules.
    pub(crate) complaints: Vec<String>,
}

impl Seen {
    fn methods(&self) -> Vec<String> {
        self.messages.iter().filter_map(|message| message["method"].as_str()).map(str::to_owned).collect()
    }
}

impl Record {
    pub(crate) fn see(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("no test thread panics while it holds the record")
    }

    pub(crate) fn forget(&self) {
        self.forgets.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_kept(&self) -> bool {
        !self.forgets.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, message: Value) {
        if !self.is_kept() {
            return;
        }
        self.see().messages.push(message);
        self.changed.raise();
    }

    pub(crate) fn abandon(&self, request: Value) {
        if !self.is_kept() {
            return;
        }
        self.see().abandoned.push(request);
        self.changed.raise();
    }

    pub(crate) fn complain(&self, complaint: String) {
        self.see().complaints.push(complaint);
    }

    /// Raised when something other than the record changed that tests wait for.
    pub(crate) fn touch(&self) {
        self.changed.raise();
    }

    pub(crate) fn methods(&self) -> Vec<String> {
        self.see().methods()
    }

    /// Waits, without a bound, for the client's answer to a request of the peer.
    pub(crate) async fn response_to(&self, id: &Value) -> Value {
        self.changed.found(|| response_among(&self.see().messages, id)).await
    }

    /// Waits until `check` finds what it looks for in what was seen.
    pub(crate) async fn until<T>(&self, what: &str, mut check: impl FnMut(&Seen) -> Option<T>) -> T {
        let lament = || format!("the peer did not see {what}; it saw {:?}", self.methods());
        self.changed.until(lament, || check(&self.see())).await
    }
}

/// The client's response to the request with this id.
pub(crate) fn response_among(messages: &[Value], id: &Value) -> Option<Value> {
    messages.iter().find(|message| message.get("method").is_none() && message.get("id") == Some(id)).cloned()
}
