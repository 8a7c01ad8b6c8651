//! What happened, as a stream that anyone may follow.

mod log;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

pub(crate) use self::log::LogBook;
pub use self::log::{KEPT_LOGS, LogEntry, LogLevel};
use crate::id::ServerId;
use crate::time::Timestamp;

/// How many events are kept for those who come late.
pub const KEPT_EVENTS: usize = 1_000;

/// One thing that happened to one server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    /// Counts up by one from 1 in the life of a manager.
    pub seq: u64,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// To which server.
    pub server_id: Option<ServerId>,
    /// When.
    pub at: Timestamp,
    /// What belongs to it. Contents of messages are never in it.
    pub payload: Payload,
}

/// What belongs to an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Payload {
    /// As the kind has it.
    Value(Value),
    /// How a call ended.
    Call(CallEnd),
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallEnd {
    /// The tool, by the server's own name.
    pub name: Box<str>,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
    /// The size of the result.
    pub bytes: usize,
    /// `ok`, `tool_error`, the code of the error, or `cancelled` when the caller did not wait for the end.
    pub outcome: &'static str,
}

/// The kinds of events, by the names that users know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum EventKind {
    /// A connect begins.
    #[serde(rename = "mcp:client:preconnect")]
    Preconnect,
    /// A connect ended, well or not.
    #[serde(rename = "mcp:client:connect")]
    Connect,
    /// The lists were read, or could not be.
    #[serde(rename = "mcp:client:discover")]
    Discover,
    /// The state changed.
    #[serde(rename = "mcp:client:state")]
    State,
    /// A person must sign in.
    #[serde(rename = "mcp:client:authorize")]
    Authorize,
    /// A connection was lost.
    #[serde(rename = "mcp:client:lost")]
    Lost,
    /// A connection is there again after a loss.
    #[serde(rename = "mcp:client:reconnect")]
    Reconnect,
    /// A session was taken up again after a restart, or opened anew because the server had ended it.
    #[serde(rename = "mcp:client:session")]
    Session,
    /// The stream on which a server speaks unasked was opened, opened again, refused or given up.
    #[serde(rename = "mcp:client:stream")]
    Stream,
    /// A connection was closed by us.
    #[serde(rename = "mcp:client:close")]
    Close,
    /// A registration is new or was changed.
    #[serde(rename = "mcp:client:register")]
    Register,
    /// A registration was removed.
    #[serde(rename = "mcp:client:remove")]
    Remove,
    /// The server announced a changed list, or a list was read anew and differs.
    #[serde(rename = "mcp:client:list_changed")]
    ListChanged,
    /// A resource that was subscribed to has changed.
    #[serde(rename = "mcp:client:resource_updated")]
    ResourceUpdated,
    /// Its tools are not those that were approved, in a way that was not known yet.
    #[serde(rename = "mcp:client:drift")]
    Drift,
    /// A call ended.
    #[serde(rename = "mcp:client:call")]
    Call,
    /// The server sent a log message.
    #[serde(rename = "mcp:client:log")]
    Log,
}

/// The events of one manager: the last ones, and those to come.
#[derive(Debug)]
pub(crate) struct EventLog {
    kept: Mutex<Kept>,
    sender: broadcast::Sender<Event>,
}

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    events: VecDeque<Event>,
}

impl EventLog {
    pub(crate) fn new() -> Self {
        Self { kept: Mutex::default(), sender: broadcast::channel(256).0 }
    }

    /// Records an event and tells whoever follows.
    pub(crate) fn emit(&self, kind: EventKind, server_id: Option<&ServerId>, payload: Value) {
        self.record(kind, server_id, Payload::Value(payload));
    }

    /// Records the end of a call.
    pub(crate) fn emit_call(&self, server_id: &ServerId, end: CallEnd) {
        self.record(EventKind::Call, Some(server_id), Payload::Call(end));
    }

    fn record(&self, kind: EventKind, server_id: Option<&ServerId>, payload: Payload) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.last += 1;
        let event = Event { seq: kept.last, kind, server_id: server_id.cloned(), at: Timestamp::now(), payload };
        if kept.events.len() == KEPT_EVENTS {
            kept.events.pop_front();
        }
        // Sent under the lock, so that followers see events in the order of their numbers.
        if self.sender.receiver_count() > 0 {
            let _ = self.sender.send(event.clone());
        }
        kept.events.push_back(event);
    }

    /// The kept events after number `after`, and a follower that goes on right behind them.
    pub(crate) fn since(&self, after: u64) -> (Vec<Event>, EventStream) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let past = kept.events.iter().filter(|event| event.seq > after).cloned().collect();
        (past, EventStream { receiver: self.sender.subscribe() })
    }
}

/// Follows a manager's events.
#[derive(Debug)]
pub struct EventStream {
    receiver: broadcast::Receiver<Event>,
}

impl EventStream {
    /// The next event; `None` when the manager is gone.
    ///
    /// A follower that is too slow misses the oldest events; the gap shows in [`Event::seq`].
    ///
    /// Cancel safety: dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn followers_go_on_right_behind_what_was_kept() {
        let log = EventLog::new();
        for _ in 0..KEPT_EVENTS + 5 {
            log.emit(EventKind::State, None, Value::Null);
        }
        let (past, mut stream) = log.since(1_000);
        log.emit(EventKind::Close, None, Value::Null);
        assert_eq!(past.iter().map(|event| event.seq).collect::<Vec<_>>(), [1001, 1002, 1003, 1004, 1005]);
        assert_eq!(stream.next().await.unwrap().seq, 1006);
        assert_eq!(log.since(0).0.len(), KEPT_EVENTS);
    }

    #[test]
    fn events_have_the_names_that_users_know() {
        let log = EventLog::new();
        log.emit(EventKind::Connect, Some(&ServerId::parse("a").unwrap()), serde_json::json!({"state": "ready"}));
        let text = serde_json::to_value(&log.since(0).0[0]).unwrap();
        assert_eq!(text["type"], "mcp:client:connect");
        assert_eq!(text["serverId"], "a");
    }
}
