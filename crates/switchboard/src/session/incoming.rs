//! What a server says unasked: pings are answered, progress restarts deadlines, change notices wake the connection's task,
//! logs become events, and odd things are counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::listen::Subscriptions;
use super::progress::Deadline;
use crate::error::RpcError;
use crate::event::{EventKind, EventLog, LogBook, LogEntry, LogLevel};
use crate::id::ServerId;
use crate::status::{Warning, clean};
use crate::transport::Receiver;
use crate::wire::model::{ListKind, member};
use crate::wire::{Json, Message, message};

/// How many different odd things are told apart.
const ODD_KINDS: usize = 20;
/// How many updated resources may wait to be told.
const UPDATED: usize = 10_000;
/// The longest URI of a resource that is subscribed to or told as updated, in bytes.
pub(crate) const URI_BYTES: usize = 8 << 10;

/// The receiving side of one session.
#[derive(Debug)]
pub(crate) struct Inbox {
    server: ServerId,
    events: Arc<EventLog>,
    /// Deadlines of requests under way, by progress token, which is the request's id.
    progress: Mutex<HashMap<u64, Arc<Deadline>>>,
    odd: Mutex<BTreeMap<String, u64>>,
    /// How many messages came.
    heard: AtomicU64,
    changed: AtomicU8,
    change: Notify,
    /// Resources that were updated since somebody asked.
    updated: Mutex<BTreeSet<Box<str>>>,
    pub(super) subscriptions: Subscriptions,
    logs: Arc<LogBook>,
}

/// What a server announced as changed: lists, and that some resource was updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Changed(u8);

impl Changed {
    /// Not a list: a resource that was subscribed to.
    const UPDATES: u8 = 8;

    fn bit(kind: ListKind) -> u8 {
        match kind {
            ListKind::Tools => 1,
            ListKind::Prompts => 2,
            // Templates have no notice of their own: they change with the resources.
            ListKind::Resources | ListKind::ResourceTemplates => 4,
        }
    }

    /// That list, and what is announced together with it.
    pub(crate) fn only(kind: ListKind) -> Self {
        Self(Self::bit(kind))
    }

    /// Whether that list was announced.
    pub(crate) fn has(self, kind: ListKind) -> bool {
        self.0 & Self::bit(kind) != 0
    }

    /// The lists of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The lists alone.
    pub(crate) fn lists(self) -> Self {
        Self(self.0 & Self::ALL.0)
    }

    /// Whether nothing is announced.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a resource was updated.
    pub(crate) fn has_updates(self) -> bool {
        self.0 & Self::UPDATES != 0
    }

    /// Every list.
    pub(crate) const ALL: Self = Self(7);
}

impl Inbox {
    pub(crate) fn new(server: ServerId, events: Arc<EventLog>) -> Self {
        Self {
            server,
            events,
            progress: Mutex::default(),
            odd: Mutex::default(),
            heard: AtomicU64::new(0),
            changed: AtomicU8::new(0),
            change: Notify::new(),
            updated: Mutex::default(),
            subscriptions: Subscriptions::default(),
            logs: Arc::default(),
        }
    }

    /// The same inbox, with the book in which the server's log entries are kept over all its lives.
    pub(crate) fn logging_to(self, logs: Arc<LogBook>) -> Self {
        Self { logs, ..self }
    }

    /// Lets progress reports with the token `id` put off `deadline`.
    pub(super) fn watch(&self, id: u64, deadline: Arc<Deadline>) {
        self.progress().insert(id, deadline);
    }

    pub(super) fn unwatch(&self, id: u64) {
        self.progress().remove(&id);
    }

    /// Waits for a change notice; gives all lists announced since the last time.
    ///
    /// Cancel safety: no notice is lost.
    pub(crate) async fn changed(&self) -> Changed {
        loop {
            let changed = self.take();
            if !changed.is_empty() {
                return changed;
            }
            self.change.notified().await;
        }
    }

    /// Takes away what was announced since the last time.
    pub(crate) fn take(&self) -> Changed {
        Changed(self.changed.swap(0, Ordering::AcqRel))
    }

    /// Whether a notice has come that nobody has taken yet.
    pub(crate) fn has_news(&self) -> bool {
        self.changed.load(Ordering::Acquire) & Changed::ALL.0 != 0
    }

    /// Takes these lists for changed, as if the server had said so.
    pub(crate) fn announce(&self, changed: Changed) {
        self.changed.fetch_or(changed.0, Ordering::AcqRel);
        self.change.notify_one();
    }

    /// Takes a resource for updated.
    pub(crate) fn update(&self, uri: &str) {
        if self.keep_updated(uri) {
            self.announce(Changed(Changed::UPDATES));
        } else {
            self.odd("more resource updates than can be kept, or of a longer URI");
        }
    }

    /// Whether there is room for it.
    fn keep_updated(&self, uri: &str) -> bool {
        let mut updated = self.updated();
        let has_room = uri.len() <= URI_BYTES && (updated.len() < UPDATED || updated.contains(uri));
        if has_room {
            updated.insert(uri.into());
        }
        has_room
    }

    /// Takes away the resources that were updated since the last time.
    pub(crate) fn take_updated(&self) -> BTreeSet<Box<str>> {
        std::mem::take(&mut *self.updated())
    }

    fn updated(&self) -> MutexGuard<'_, BTreeSet<Box<str>>> {
        self.updated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages came so far that are no answer to us.
    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// The odd things seen so far.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let odd = self.odd.lock().unwrap_or_else(PoisonError::into_inner);
        let warning = |(what, count): (&String, &u64)| {
            let mut warning = Warning::new("odd_message", format!("the server sent {what}"), None);
            warning.count = *count;
            warning
        };
        odd.iter().map(warning).collect()
    }

    fn progress(&self) -> MutexGuard<'_, HashMap<u64, Arc<Deadline>>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(method: &str) -> Result<Json, RpcError> {
        match method {
            "ping" => Ok(Json::empty_object()),
            _ => Err(RpcError::new(message::METHOD_NOT_FOUND, format!("this client does not offer `{method}`"), None)),
        }
    }

    /// The request under way whose id that member is.
    fn named(&self, params: Option<&Json>, name: &str) -> Option<Arc<Deadline>> {
        let id = member(params?, name)?.as_str().trim_matches('"').parse().ok();
        id.and_then(|id: u64| self.progress().get(&id).cloned())
    }

    fn notification(&self, method: &str, params: Option<&Json>) {
        match method {
            "notifications/progress" => {
                if let (Some(deadline), Some(params)) = (self.named(params, "progressToken"), params) {
                    deadline.report(params);
                }
            }
            "notifications/cancelled" => {
                if let Some(deadline) = self.named(params, "requestId") {
                    deadline
                        .cancel(params.and_then(|params| member(params, "reason")?.read::<String>().ok()).as_deref());
                }
            }
            "notifications/tools/list_changed" => self.announce(Changed::only(ListKind::Tools)),
            "notifications/prompts/list_changed" => self.announce(Changed::only(ListKind::Prompts)),
            "notifications/resources/list_changed" => self.announce(Changed::only(ListKind::Resources)),
            "notifications/resources/updated" => {
                match params.and_then(|params| member(params, "uri")?.read::<String>().ok()) {
                    Some(uri) => self.update(&uri),
                    None => self.odd("an update of a resource without its URI"),
                }
            }
            "notifications/subscriptions/acknowledged" => {
                if let Some(params) = params {
                    self.subscriptions.acknowledge(params);
                }
            }
            "notifications/message" => self.log(params),
            _ => tracing::debug!(server = %self.server, method, "a notification was passed over"),
        }
    }

    /// Keeps a log entry and tells of it; what it says is not part of the event.
    fn log(&self, params: Option<&Json>) {
        let part = |name: &str| member(params?, name);
        let text = |name: &str| part(name)?.read::<String>().ok();
        let (level, data) = (text("level").and_then(|level| level.parse::<LogLevel>().ok()), part("data"));
        let entry = LogEntry::new(level, text("logger").as_deref(), data.as_ref());
        let bytes = data.map_or(0, |data| data.as_bytes().len());
        let payload = serde_json::json!({ "level": entry.level, "logger": entry.logger, "bytes": bytes });
        if self.logs.note(entry) {
            self.events.emit(EventKind::Log, Some(&self.server), payload);
        }
    }
}

impl Receiver for Inbox {
    fn receive(&self, message: Message) -> Option<Bytes> {
        self.heard.fetch_add(1, Ordering::Relaxed);
        match message {
            Message::Request { id, method, .. } => {
                let outcome = Self::request(&method);
                Some(message::response(&id, outcome.as_ref()))
            }
            Message::Notification { method, params } => {
                self.notification(&method, params.as_ref());
                None
            }
            Message::Response { .. } => {
                self.odd("an unmatched reply");
                None
            }
        }
    }

    fn odd(&self, what: &str) {
        tracing::debug!(server = %self.server, what, "something odd on the channel");
        let mut odd = self.odd.lock().unwrap_or_else(PoisonError::into_inner);
        let what = if odd.len() < ODD_KINDS { clean(what) } else { "other odd messages".to_owned() };
        *odd.entry(what).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    fn inbox() -> Inbox {
        Inbox::new(ServerId::parse("a").unwrap(), Arc::new(EventLog::new()))
    }

    fn receive(inbox: &Inbox, text: &'static str) -> Option<Bytes> {
        inbox.receive(Message::parse(&Bytes::from_static(text.as_bytes())).unwrap())
    }

    #[test]
    fn b049_pings_are_answered_under_the_id_they_came_with() {
        for id in ["7", "\"x\""] {
            let ping = Box::leak(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).into_boxed_str());
            let answer = receive(&inbox(), ping).unwrap();
            assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }
        let answer = receive(&inbox(), r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#).unwrap();
        assert!(std::str::from_utf8(&answer).unwrap().contains("-32601"));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_puts_a_deadline_off_up_to_its_limit() {
        let inbox = inbox();
        let start = Instant::now();
        let deadline = Arc::new(Deadline::new(Duration::from_secs(10), Duration::from_secs(25)));
        inbox.watch(3, deadline.clone());
        for seconds in [10, 19, 25, 25] {
            assert_eq!(deadline.due() - start, Duration::from_secs(seconds));
            tokio::time::advance(Duration::from_secs(9)).await;
            receive(&inbox, r#"{"method":"notifications/progress","params":{"progressToken":"3","progress":1}}"#);
        }
        inbox.unwatch(3);
    }

    #[tokio::test]
    async fn change_notices_are_gathered() {
        let inbox = inbox();
        receive(&inbox, r#"{"method":"notifications/tools/list_changed"}"#);
        receive(&inbox, r#"{"method":"notifications/resources/list_changed"}"#);
        let changed = inbox.changed().await;
        assert!(changed.has(ListKind::Tools) && changed.has(ListKind::ResourceTemplates));
        assert!(!changed.has(ListKind::Prompts));
    }

    #[test]
    fn updates_are_kept_within_a_bound_and_those_beyond_it_are_counted() {
        let inbox = inbox();
        let long = "u".repeat(URI_BYTES + 1);
        inbox.update(&long);
        assert_eq!((inbox.take_updated().len(), inbox.take().has_updates()), (0, false));
        for number in 0..=UPDATED {
            inbox.update(&number.to_string());
        }
        inbox.update("0");
        assert_eq!((inbox.take_updated().len(), inbox.take().has_updates()), (UPDATED, true));
        assert_eq!(inbox.warnings().iter().map(|warning| warning.count).sum::<u64>(), 2);
    }

    #[test]
    fn odd_things_are_counted_within_a_bound() {
        let inbox = inbox();
        for index in 0..100 {
            inbox.odd(&format!("a line {index}"));
        }
        let warnings = inbox.warnings();
        assert_eq!(warnings.len(), ODD_KINDS + 1);
        assert_eq!(warnings.iter().map(|warning| warning.count).sum::<u64>(), 100);
    }
}
