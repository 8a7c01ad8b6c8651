//! `calls`: the calls that the daemon knows.

use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;
use crate::table::Table;
use crate::views::{items, text};

pub(super) async fn run(session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let document = backend.calls().await?;
    if session.output.is_json() {
        session.output.json(document.as_str())?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["ID", "STATE", "TOOL", "ERROR"]);
    for call in items(&document, "calls") {
        let error = call.get("error").map(|error| text(error, "code")).unwrap_or_default();
        let tool = format!("{}/{}", text(&call, "serverId"), text(&call, "name"));
        table.row([text(&call, "id").into(), text(&call, "state").into(), tool.into(), error.into()]);
    }
    if table.len() > 0 {
        session.output.table(&table)?;
    } else if backend.is_daemon() {
        session.output.note("no calls");
    } else {
        session.output.note("no daemon runs on this data folder, so nobody remembers calls");
    }
    Ok(Exit::Done)
}
