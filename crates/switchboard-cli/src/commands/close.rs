//! `close`: closes a server's connection; it stays registered.

use serde_json::json;

use crate::args::OneServer;
use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;

pub(super) async fn run(one: &OneServer, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let id = backend.servers_view().await?.resolve(&one.server)?;
    backend.close(&id).await?;
    if session.output.is_json() {
        session.output.document(&json!({"id": id, "state": "closed"}))?;
    } else {
        session.output.line(&format!("{id} is closed"))?;
        if !backend.is_daemon() {
            session.output.note("note: no daemon runs on this data folder, so nothing was connected");
        }
    }
    Ok(Exit::Done)
}
