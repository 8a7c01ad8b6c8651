//! Asks a server whether it is there, before a connection is given up that may be sound.

use std::time::Duration;

use tokio::time::Instant;

use super::failure;
use crate::session::Session;
use crate::session::request::{Request, RequestError};
use crate::wire::Era;
use crate::wire::message::Params;
use crate::wire::model::ListKind;

/// Whether the server answers. Any answer will do, an error too.
///
/// Some servers never answer a method that they do not know, `ping` included, so a second kind of question is asked before
/// silence counts. Each has `limit`.
///
/// # Errors
/// Why the server is not there; the first failure, as it says more than the second.
pub(super) async fn probe(session: &Session, limit: Duration) -> Result<(), RequestError> {
    let first = match session.era {
        Era::Legacy => "ping",
        Era::Modern => "server/discover",
    };
    let heard = session.inbox.heard();
    let Err(error) = ask(session, first, limit).await else { return Ok(()) };
    if failure::is_plain(&error) {
        return Err(error);
    }
    match ListKind::ALL.into_iter().find(|kind| session.facts.offers(kind.capability())) {
        Some(kind) if ask(session, kind.method(), limit).await.is_ok() => Ok(()),
        // It does one thing at a time, and speaks of that.
        _ if matches!(error, RequestError::Timeout { .. }) && session.inbox.heard() > heard => Ok(()),
        _ => Err(error),
    }
}

async fn ask(session: &Session, method: &str, limit: Duration) -> Result<(), RequestError> {
    let began = Instant::now();
    match session.request(Request::new(method, Params::new(), limit)).await {
        Ok(_) | Err(RequestError::Rpc(_)) => {
            session.took(began.elapsed());
            Ok(())
        }
        Err(error) if failure::is_busy(&error) => Ok(()),
        Err(error) => Err(error),
    }
}
