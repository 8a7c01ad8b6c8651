//! Opens a connection to the server that a registration names, in its turn and in its time.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{Shared, notices};
use crate::session::detect::Detection;
use crate::session::lifecycle::{OpenError, Opening};
use crate::session::{Link, Session};
use crate::spec::{HttpTarget, Target};
use crate::transport::{HttpTransport, SseTransport, Transport, TransportError, stdio};

/// Opens a connection: waits for its turn, then has the time that the registration gives it.
pub(super) async fn open(shared: &Shared, is_quiet: bool) -> Result<Session, OpenError> {
    let surroundings = &shared.surroundings;
    if let Target::Stdio(_) = shared.spec.target {
        // The process before may hold something that only one can have.
        shared.ended().await;
    }
    let turn = match (&shared.spec.target, is_quiet) {
        (Target::Stdio(_), _) => Some(&surroundings.process_starts),
        (_, true) => Some(&surroundings.quiet_dials),
        (_, false) => None,
    };
    // The semaphores are never closed.
    let _turn = match turn {
        Some(turn) => turn.acquire().await.ok(),
        None => None,
    };
    let known = shared.memory.read().unwrap_or_else(PoisonError::into_inner).clone();
    let dial = || link(shared);
    let mut identity = surroundings.identity.clone();
    if let Some(capabilities) = &shared.spec.capabilities {
        identity.capabilities = capabilities.clone();
    }
    let (timeouts, choice) = (&shared.spec.timeouts, shared.spec.era);
    let limit = shared.spec.timeouts.connect;
    let opening = Opening {
        dial: &dial,
        identity: &identity,
        timeouts,
        until: Instant::now() + limit,
        choice,
        is_heard: AtomicBool::new(false),
        ended_at_probe: known.ended_at_probe,
    };
    if let (Some(session), Target::Http(_)) = (&known.session, &shared.spec.target)
        && let Some(session) = opening.resume(session, &known.facts)?
    {
        return Ok(session);
    }
    let verdict = known.verdict.as_ref();
    let opened = async {
        match &shared.spec.target {
            Target::Http(target) => {
                let stream = || -> BoxFuture<'_, _> { Box::pin(event_stream(shared, target)) };
                let detection = Detection { opening: &opening, stream: &stream, setting: target.transport };
                detection.open(verdict, known.transport).await
            }
            Target::Stdio(_) | Target::InProcess(_) => opening.open(verdict).await,
        }
    };
    match tokio::time::timeout(limit, opened).await {
        Ok(outcome) => outcome,
        Err(_) => Err(OpenError::late(limit)),
    }
}

/// A new way to the server over HTTP+SSE.
async fn event_stream(shared: &Shared, target: &HttpTarget) -> Result<Link, TransportError> {
    let surroundings = &shared.surroundings;
    let inbox = notices::inbox(shared);
    let limit = shared.spec.limits.message_bytes;
    let sse = SseTransport::open(surroundings.http.clone(), target, limit, inbox.clone()).await?;
    Ok(Link::new(Transport::Sse(Arc::new(sse)), inbox))
}

/// A new way to the server; to one at a URL, over Streamable HTTP.
fn link(shared: &Shared) -> Result<Link, TransportError> {
    let surroundings = &shared.surroundings;
    let inbox = notices::inbox(shared);
    let limit = shared.spec.limits.message_bytes;
    let transport = match &shared.spec.target {
        Target::Http(target) => {
            let http = HttpTransport::new(surroundings.http.clone(), target, limit, inbox.clone())?;
            Transport::Http(Arc::new(http))
        }
        Target::Stdio(target) => {
            let pipe = stdio::start(target, &surroundings.environment, limit, inbox.clone())?;
            Transport::Pipe(Arc::new(pipe))
        }
        Target::InProcess(target) => Transport::Pipe(Arc::new(stdio::open(target, limit, inbox.clone()))),
    };
    Ok(Link::new(transport, inbox))
}
