//! `remove`: closes a server's connection and forgets the server.

use serde_json::json;

use crate::args::OneServer;
use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;

pub(super) async fn run(one: &OneServer, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let id = backend.servers_view().await?.resolve(&one.server)?;
    backend.remove(&id).await?;
    if session.output.is_json() {
        session.output.document(&json!({"id": id, "removed": true}))?;
    } else {
        session.output.line(&format!("{id} is removed"))?;
    }
    Ok(Exit::Done)
}
