//! `approve`: approves tools of a server as they are known now.
//!
//! Without a daemon nothing is connected: what is approved is what `drift` and the lists showed last, not what the server
//! may have become since.

use serde_json::json;

use crate::args::Approve;
use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;

pub(super) async fn run(approve: &Approve, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let id = backend.servers_view().await?.resolve(&approve.one.server)?;
    backend.approve(&id, &approve.tools).await?;
    if session.output.is_json() {
        let tools = (!approve.tools.is_empty()).then_some(&approve.tools);
        session.output.document(&json!({"id": id, "approved": tools}))?;
    } else {
        let what = if approve.tools.is_empty() { "all tools".to_owned() } else { approve.tools.join(", ") };
        session.output.line(&format!("{id}: approved {what}"))?;
    }
    Ok(Exit::Done)
}
