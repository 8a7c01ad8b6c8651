//! What the listing commands share: which servers are meant, waking them, waiting for them.

use std::time::Duration;

use futures_util::future::try_join_all;
use switchboard::catalogue::ToolFormat;
use switchboard::wire::Json;

use crate::args::Listing;
use crate::backend::{Backend, List, Query, Wake};
use crate::problem::Result;
use crate::session::Session;
use crate::views::{NO_SERVER, note_missing};

/// Opens the backend, waits for the servers that are meant, and answers one list of their catalogue.
pub(super) async fn listed(listing: &Listing, list: List, format: ToolFormat, session: &Session) -> Result<Json> {
    let wake = if listing.servers.is_empty() { Wake::Everything } else { Wake::Nothing };
    let backend = session.backend(wake).await?;
    let servers = backend.servers_view().await?;
    let ids: Vec<String> = listing.servers.iter().map(|name| servers.resolve(name)).collect::<Result<_, _>>()?;
    if servers.iter().next().is_none() && !session.output.is_json() {
        session.output.note(NO_SERVER);
    }
    let limit = Duration::from_millis(listing.wait.wait_ms);
    if !ids.is_empty() {
        wake_up(&backend, &ids, session, limit).await?;
    }
    let missing = backend.settle(session, &ids, limit).await?;
    note_missing(&session.output, &missing);
    note_failed(&backend, &ids, session).await?;
    backend.list(list, &Query { servers: ids, states: listing.states.clone(), format }).await
}

/// Connects to servers that are not ready, together, for as long as `limit` allows.
async fn wake_up(backend: &Backend, ids: &[String], session: &Session, limit: Duration) -> Result<()> {
    let servers = backend.servers_view().await?;
    let asleep =
        ids.iter().filter(|id| servers.by_id(id).is_some_and(|server| server.state != switchboard::State::Ready));
    let _progress = session.output.progress(format!("connecting to {}", ids.join(", ")));
    let connects = try_join_all(asleep.map(|id| backend.connect(id)));
    // Past the limit what is known is shown, and who is missing is said.
    if let Ok(connected) = tokio::time::timeout(limit, connects).await {
        connected?;
    }
    Ok(())
}

/// Says whose items are missing, or old, because the server failed.
async fn note_failed(backend: &Backend, ids: &[String], session: &Session) -> Result<()> {
    let servers = backend.servers_view().await?;
    for (id, server) in servers.iter() {
        let is_meant = ids.is_empty() || ids.iter().any(|wanted| wanted == id);
        let why = match (server.state, &server.auth_url, &server.error) {
            (switchboard::State::Authenticating, Some(url), _) => format!("needs a sign-in at {url}"),
            (switchboard::State::Failed, _, Some(error)) => error.clone(),
            _ => continue,
        };
        if is_meant {
            session.output.note(&format!("note: `{id}` is {}: {why}", server.state));
        }
    }
    Ok(())
}
