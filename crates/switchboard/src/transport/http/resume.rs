//! Reads an event stream to the answer that it is to bring. In the legacy era a stream that ends or breaks before that is
//! resumed by GET behind its last event, if it gave one an id; servers that are to be polled end streams on purpose.
//!
//! Sources: specification 2025-11-25, "Resumability and Redelivery". Revision 2026-07-28 has no resumption.

use std::sync::Arc;
use std::time::Duration;

use super::HttpTransport;
use super::answer::{is_answer, wrong_id};
use super::status::refuses_stream;
use crate::backoff::Ladder;
use crate::transport::sse::{Cursor, EventStream};
use crate::transport::{Answer, Dialect, Outgoing, TransportError};
use crate::wire::Message;

/// How long a handshake is looked for, as there are others to try.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(3);

/// The reading of one answer, over all streams that it takes.
struct Reading<'a> {
    outgoing: Outgoing<'a>,
    /// The id of a response to nobody.
    stray: Option<Option<u64>>,
    cursor: Cursor,
}

impl HttpTransport {
    /// The answer out of `stream`, or of those that go on where it ended.
    pub(super) async fn read_stream(
        self: &Arc<Self>,
        outgoing: Outgoing<'_>,
        stream: EventStream,
    ) -> Result<Answer, TransportError> {
        let mut reading = Reading { outgoing, stray: None, cursor: Cursor::default() };
        let end = match self.read_part(&mut reading, stream).await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => None,
            Err(error @ TransportError::Lost(_)) => Some(error),
            Err(error) => return Err(error),
        };
        let answer = match outgoing.dialect {
            Dialect::Modern(_) => None,
            Dialect::Legacy(_) => self.go_on(&mut reading).await,
            Dialect::Handshake => tokio::time::timeout(HANDSHAKE_LIMIT, self.go_on(&mut reading)).await.ok().flatten(),
        };
        match (answer, end, reading.stray) {
            (Some(answer), ..) => answer,
            (None, Some(error), _) => Err(error),
            (None, None, Some(id)) => Err(wrong_id(outgoing.id, id)),
            (None, None, None) => Err(TransportError::NoAnswer("the event stream")),
        }
    }

    /// Goes on with the reading until the answer is there, or there is no hope for it. How long it may take at most is for
    /// the deadline of the request to say.
    async fn go_on(self: &Arc<Self>, reading: &mut Reading<'_>) -> Option<Result<Answer, TransportError>> {
        let dialect = reading.outgoing.dialect;
        let (ladder, mut random) = (Ladder::resume(), fastrand::Rng::new());
        // Attempts in a row that brought nothing.
        let mut failures = 0;
        while failures < ladder.attempts && reading.cursor.last_event_id().is_some() {
            let attempt = failures + 1;
            let own = ladder.delay(attempt, &mut random);
            tokio::time::sleep(reading.cursor.wait(attempt, own)).await;
            let events = reading.cursor.events();
            let is_end = match self.open_stream(dialect, &reading.cursor).await {
                Ok(body) => {
                    let stream = EventStream::resumed(body, self.limit, std::mem::take(&mut reading.cursor));
                    match self.read_part(reading, stream).await {
                        Ok(Some(answer)) => return Some(Ok(answer)),
                        Ok(None) => true,
                        Err(TransportError::Lost(_)) => false,
                        Err(error) => return Some(Err(error)),
                    }
                }
                // It may have run, so what the server says of the stream is not what it says of the request.
                Err(error) if refuses_stream(&error) => {
                    tracing::debug!(%error, "an event stream could not be resumed");
                    return None;
                }
                Err(error) => {
                    tokio::time::sleep(error.retry_after().unwrap_or_default()).await;
                    false
                }
            };
            // A server that names a time and ends the stream in good order wants to be asked again.
            let is_polled = is_end && reading.cursor.retry().is_some();
            failures = if is_polled || reading.cursor.events() > events { 0 } else { failures + 1 };
        }
        None
    }

    /// Reads one stream; `None` when it ends before the answer.
    async fn read_part(
        self: &Arc<Self>,
        reading: &mut Reading<'_>,
        mut stream: EventStream,
    ) -> Result<Option<Answer>, TransportError> {
        let ours = reading.outgoing;
        let outcome = loop {
            let messages = match stream.next(&*self.receiver).await {
                Ok(Some(messages)) => messages,
                Ok(None) => break Ok(None),
                Err(error) => break Err(error),
            };
            let mut answer = None;
            for message in messages {
                match message {
                    Message::Response { id, outcome } if is_answer(id, ours.id, &outcome) => answer = Some(outcome),
                    Message::Response { id, .. } => {
                        self.receiver.odd("an answer to nobody");
                        reading.stray = Some(id);
                    }
                    other => self.pass_on(ours.dialect, other),
                }
            }
            if answer.is_some() {
                stream.finish();
                return Ok(answer);
            }
        };
        reading.cursor = stream.into_cursor();
        outcome
    }
}
