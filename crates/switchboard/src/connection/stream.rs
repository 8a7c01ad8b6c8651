//! Keeps the optional stream open on which a legacy server speaks unasked. A server that refuses it, in whatever way, is a
//! server without one: nothing else depends on it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::backoff::Ladder;
use crate::session::Session;
use crate::transport::{Transport, TransportError};
use crate::wire::Era;

/// How long a stream must live, or else give an event, for its end to count as the first again.
const PROVEN: Duration = Duration::from_secs(5);

/// Opens the stream, and again whenever it ends, until it is refused or ends too often in a row.
///
/// # Errors
/// When its end makes it doubtful whether the server is there.
pub(super) async fn keep_open(session: Arc<Session>) -> Result<(), TransportError> {
    let (Transport::Http(http), Era::Legacy) = (&session.transport, session.era) else { return Ok(()) };
    let ladder = Ladder::reconnect();
    let mut random = fastrand::Rng::new();
    let mut last_event_id: Option<String> = None;
    let mut failures = 0;
    while failures < ladder.attempts {
        let began = Instant::now();
        let mut wait = None;
        match http.listen(session.dialect(), last_event_id.as_deref()).await {
            Ok(end) => {
                if end.gave_events || began.elapsed() >= PROVEN {
                    failures = 0;
                }
                last_event_id = end.last_event_id.or(last_event_id);
                wait = end.retry;
            }
            Err(error) if is_refusal(&error) => {
                tracing::debug!(%error, "the server offers no stream of its own");
                return Ok(());
            }
            Err(error) => tracing::debug!(%error, "the server's stream broke"),
        }
        failures += 1;
        tokio::time::sleep(wait.unwrap_or_else(|| ladder.delay(failures, &mut random))).await;
    }
    tracing::debug!("the server's stream ends too often; it is left closed");
    Ok(())
}

/// Whether the server says that it has no such stream.
fn is_refusal(error: &TransportError) -> bool {
    match error {
        TransportError::Status(error) => match error.status {
            408 | 409 | 425 | 429 => false,
            400..=499 | 501 => true,
            _ => false,
        },
        TransportError::NotMcp(_) => true,
        _ => false,
    }
}
