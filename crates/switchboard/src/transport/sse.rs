//! Messages out of an event stream.

use super::body::Body;
use super::{Receiver, TransportError};
use crate::wire::Message;
use crate::wire::frame::{SseEvent, SseParser, TooLarge};

/// An event stream that gives messages. Events that are none are passed over.
pub(super) struct EventStream {
    body: Body,
    parser: SseParser,
    /// The id of the last event that had one.
    last_event_id: Option<String>,
    /// The reconnection time that the server asked for last, in milliseconds.
    retry: Option<u64>,
    ended: bool,
}

impl EventStream {
    pub(super) fn new(body: Body, limit: usize) -> Self {
        Self { body, parser: SseParser::new(limit), last_event_id: None, retry: None, ended: false }
    }

    /// The next messages, of which there is at least one; `None` at the end of the stream.
    ///
    /// Cancel safety: no message is lost.
    pub(super) async fn next(&mut self, receiver: &dyn Receiver) -> Result<Option<Vec<Message>>, TransportError> {
        while let Some(event) = self.event().await? {
            let event = event.map_err(|error| TransportError::TooLarge { limit: error.limit })?;
            if let Some(messages) = read(&event, receiver) {
                return Ok(Some(messages));
            }
        }
        Ok(None)
    }

    /// The next event, or what is left of one that was too large, behind which the stream goes on; `None` at its end.
    ///
    /// Cancel safety: no event is lost.
    pub(super) async fn event(&mut self) -> Result<Option<Result<SseEvent, TooLarge>>, TransportError> {
        loop {
            match self.parser.next_event() {
                Ok(Some(event)) => {
                    self.last_event_id = event.id.clone().or_else(|| self.last_event_id.take());
                    self.retry = event.retry.or(self.retry);
                    return Ok(Some(Ok(event)));
                }
                Ok(None) => {}
                Err(error) => return Ok(Some(Err(error))),
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

    /// The id of the last event that had one, for resuming behind it.
    pub(super) fn last_event_id(&self) -> Option<&str> {
        self.last_event_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The reconnection time that the server asked for, in milliseconds.
    pub(super) fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Reads on to the end if it is there already, so that the connection can be used again.
    pub(super) fn finish(mut self) {
        use futures_util::FutureExt as _;
        while let Some(Ok(Some(_))) = self.body.next().now_or_never() {}
    }
}

/// The messages of one event; `None` when it holds none.
fn read(event: &SseEvent, receiver: &dyn Receiver) -> Option<Vec<Message>> {
    if event.data.is_empty() {
        return None;
    }
    if !matches!(event.kind.as_str(), "" | "message") {
        receiver.odd(&format!("an event of type `{}`", event.kind.escape_debug()));
        return None;
    }
    match Message::parse_all(&event.data) {
        Ok(messages) => Some(messages),
        Err(error) => {
            receiver.odd(&format!("an event that is {error}"));
            None
        }
    }
}
