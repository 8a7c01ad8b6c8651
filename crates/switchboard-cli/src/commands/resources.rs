//! `resources`: the resources of all servers, and their templates.

use switchboard::catalogue::ToolFormat;

use super::selection::listed;
use crate::args::Resources;
use crate::backend::List;
use crate::problem::{Exit, Result};
use crate::session::Session;
use crate::table::{Cell, Table};
use crate::views::{about, items, text};

pub(super) async fn run(resources: &Resources, session: &Session) -> Result<Exit> {
    let (list, address) =
        if resources.templates { (List::ResourceTemplates, "uriTemplate") } else { (List::Resources, "uri") };
    let document = listed(&resources.listing, list, ToolFormat::Mcp, session).await?;
    if session.output.is_json() {
        session.output.json(document.as_str())?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["SERVER", "URI", "NAME", "TYPE", "WHAT IT IS"]);
    for item in items(&document, list.member()) {
        table.row([
            text(&item, "serverId").into(),
            text(&item, address).into(),
            Cell::short(text(&item, "name"), 40),
            text(&item, "mimeType").into(),
            about(&item),
        ]);
    }
    if table.len() == 0 {
        session.output.note(if resources.templates { "no resource templates" } else { "no resources" });
    } else {
        session.output.table(&table)?;
    }
    Ok(Exit::Done)
}
