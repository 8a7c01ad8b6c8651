//! The streams on which a peer speaks without being asked: GET streams, subscriptions, and whole line connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::patience::Gate;
use crate::reply::{Output, Outputs, Style};

pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Every open channel, and what was pushed before one was there.
#[derive(Debug, Default, Clone)]
pub(crate) struct Channels(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    open: Vec<Arc<Channel>>,
    waiting: VecDeque<Value>,
}

#[derive(Debug)]
struct Channel {
    outputs: Outputs,
    kind: Kind,
    end: Gate,
}

/// What a channel is for, which decides what may be pushed into it.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A legacy GET stream, or a legacy line connection after its handshake.
    Legacy,
    /// An answer to `subscriptions/listen`: its id and its filter.
    Subscription { id: Value, filter: Value },
}

impl Channel {
    /// The message as this channel may carry it.
    fn admit(&self, message: &Value) -> Option<Value> {
        let Kind::Subscription { id, filter } = &self.kind else { return Some(message.clone()) };
        let wanted = match message["method"].as_str()? {
            "notifications/tools/list_changed" => filter["toolsListChanged"] == true,
            "notifications/prompts/list_changed" => filter["promptsListChanged"] == true,
            "notifications/resources/list_changed" => filter["resourcesListChanged"] == true,
            "notifications/resources/updated" => filter["resourceSubscriptions"]
                .as_array()
                .is_some_and(|addresses| addresses.contains(&message["params"]["uri"])),
            _ => true,
        };
        let mut message = message.clone();
        if !message["params"].is_object() {
            message["params"] = json!({});
        }
        if !message["params"]["_meta"].is_object() {
            message["params"]["_meta"] = json!({});
        }
        message["params"]["_meta"][SUBSCRIPTION_ID] = id.clone();
        wanted.then_some(message)
    }

    fn push(&self, message: &Value) -> bool {
        self.admit(message).is_some_and(|message| self.outputs.push(Output::message(&message, Style::default())))
    }
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no test thread panics while it holds the channels")
    }

    /// Sends to every channel that may carry the message, or keeps it for the first that comes.
    pub(crate) fn push(&self, message: &Value) -> usize {
        let mut inner = self.lock();
        let count = inner.open.iter().filter(|channel| channel.push(message)).count();
        if count == 0 {
            inner.waiting.push_back(message.clone());
        }
        count
    }

    /// Opens a channel, which closes when the returned hold is dropped.
    pub(crate) fn open(&self, outputs: Outputs, kind: Kind) -> Hold {
        let channel = Arc::new(Channel { outputs, kind, end: Gate::new() });
        let mut inner = self.lock();
        inner.waiting.retain(|message| !channel.push(message));
        inner.open.push(Arc::clone(&channel));
        Hold { channel, channels: self.clone() }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().open.len()
    }

    /// Ends every channel politely.
    pub(crate) fn end_all(&self) {
        for channel in self.lock().open.drain(..) {
            channel.end.open();
        }
    }

    /// Cuts the connection of every channel.
    pub(crate) fn cut_all(&self) {
        for channel in self.lock().open.drain(..) {
            channel.outputs.push(Output::Cut);
        }
    }
}

/// One open channel, held by the task that serves it.
#[derive(Debug)]
pub(crate) struct Hold {
    channel: Arc<Channel>,
    channels: Channels,
}

impl Hold {
    /// Waits until the test ends the channel politely.
    pub(crate) async fn ended(&self) {
        self.channel.end.wait().await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.channels.lock().open.retain(|channel| !Arc::ptr_eq(channel, &self.channel));
    }
}
