//! Messages out of an event stream, and where it stands, for going on behind its last event.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;

use super::body::Body;
use super::{LONGEST_WAIT, Receiver, TransportError};
use crate::wire::Message;
use crate::wire::frame::{SseEvent, SseParser, TooLarge};

/// How many of the last events are known again when a server sends them twice.
const KNOWN_EVENTS: usize = 256;
/// The shortest wait before a stream is resumed, whatever the server asks for.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// Where a stream stands. It outlives the exchange that carries the stream.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The id of the last event that had one; an empty one takes it back.
    last_event_id: Option<String>,
    /// The reconnection time that the server asked for last.
    retry: Option<Duration>,
    /// How many events came that have an id or data.
    events: u64,
    /// How many of them have data.
    messages: u64,
    /// The last events with an id, so that those which a server sends again are passed over.
    known: VecDeque<u64>,
    is_resumed: bool,
}

impl Cursor {
    /// The id of the event behind which the stream can be resumed.
    pub(crate) fn last_event_id(&self) -> Option<&str> {
        // One that no header can carry is none.
        self.last_event_id.as_deref().filter(|id| !id.is_empty() && HeaderValue::from_bytes(id.as_bytes()).is_ok())
    }

    /// Goes on without an event to resume behind.
    pub(crate) fn forget_event_id(&mut self) {
        self.last_event_id = None;
    }

    /// How long to wait before attempt `attempt` in a row, counted from 1: before the first as the server asks, before later
    /// ones no less than `own`, the wait of our own ladder.
    pub(crate) fn wait(&self, attempt: u32, own: Duration) -> Duration {
        match (self.retry, attempt) {
            (Some(retry), 1) => retry,
            (retry, _) => own.max(retry.unwrap_or_default()),
        }
    }

    /// How long the server wants us to wait before we come back.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// How many events came so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// How many events with data came so far.
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Takes note of an event; whether it is a new one.
    fn note(&mut self, event: &SseEvent) -> bool {
        if let Some(millis) = event.retry {
            self.retry = Some(Duration::from_millis(millis).clamp(SHORTEST_WAIT, LONGEST_WAIT));
        }
        self.events += u64::from(event.id.is_some() || !event.data.is_empty());
        self.messages += u64::from(!event.data.is_empty());
        let Some(id) = &event.id else { return true };
        self.last_event_id = Some(id.clone());
        // Some servers give all events the same id, so the id alone does not make it the same event.
        let mut hasher = DefaultHasher::new();
        (id, &event.data).hash(&mut hasher);
        let hash = hasher.finish();
        if self.is_resumed && self.known.contains(&hash) {
            return false;
        }
        if self.known.len() == KNOWN_EVENTS {
            self.known.pop_front();
        }
        self.known.push_back(hash);
        true
    }
}

/// An event stream that gives messages. Events that are none are passed over.
pub(super) struct EventStream {
    body: Body,
    parser: SseParser,
    cursor: Cursor,
    ended: bool,
}

impl EventStream {
    pub(super) fn new(body: Body, limit: usize) -> Self {
        Self { body, parser: SseParser::new(limit), cursor: Cursor::default(), ended: false }
    }

    /// A stream that goes on where another one ended or broke.
    pub(super) fn resumed(body: Body, limit: usize, cursor: Cursor) -> Self {
        Self { cursor: Cursor { is_resumed: true, ..cursor }, ..Self::new(body, limit) }
    }

    /// Where it stands, when it is not read on.
    pub(super) fn into_cursor(self) -> Cursor {
        self.cursor
    }

    /// The next messages, of which there is at least one; `None` at the end of the stream.
    ///
    /// Cancel safety: no message is lost.
    pub(super) async fn next(&mut self, receiver: &dyn Receiver) -> Result<Option<Vec<Message>>, TransportError> {
        while let Some(event) = self.event().await? {
            let event = event.map_err(|error| TransportError::TooLarge { limit: error.limit })?;
            // What is no message at the end may be half of one: then the stream is resumed before it.
            let may_be_half = self.ended;
            if (may_be_half || self.cursor.note(&event))
                && let Some(messages) = read(&event.kind, &event.data, receiver)
                && (!may_be_half || self.cursor.note(&event))
            {
                return Ok(Some(messages));
            }
        }
        Ok(None)
    }

    /// The next event, or what is left of one that was too large, behind which the stream goes on; `None` at its end. The
    /// cursor stays where it is.
    ///
    /// Cancel safety: no event is lost.
    pub(super) async fn event(&mut self) -> Result<Option<Result<SseEvent, TooLarge>>, TransportError> {
        loop {
            if let Some(event) = self.parser.next_event().transpose() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            match self.body.next().await? {
                Some(piece) => self.parser.push(piece),
                None => {
                    self.ended = true;
                    if let Some(event) = self.parser.finish() {
                        return Ok(Some(Ok(event)));
                    }
                }
            }
        }
    }

    /// Reads on to the end if it is there already, so that the connection can be used again.
    pub(super) fn finish(mut self) {
        use futures_util::FutureExt as _;
        while let Some(Ok(Some(_))) = self.body.next().now_or_never() {}
    }
}

/// The messages of one event; `None` when it holds none.
fn read(kind: &str, data: &Bytes, receiver: &dyn Receiver) -> Option<Vec<Message>> {
    if data.is_empty() {
        return None;
    }
    if !matches!(kind, "" | "message") {
        receiver.odd(&format!("an event of type `{}`", kind.escape_debug()));
        return None;
    }
    match Message::parse_all(data) {
        Ok(messages) => Some(messages),
        Err(error) => {
            receiver.odd(&format!("an event that is {error}"));
            None
        }
    }
}
