//! `tools`: the tools of all servers.

use switchboard::catalogue::ToolFormat;

use super::selection::listed;
use crate::args::Tools;
use crate::backend::List;
use crate::problem::{Exit, Result};
use crate::session::Session;
use crate::table::{Cell, Paint, Table};
use crate::views::{about, items, text};

pub(super) async fn run(tools: &Tools, session: &Session) -> Result<Exit> {
    let document = listed(&tools.listing, List::Tools, tools.format, session).await?;
    // A provider's shape is for a program, with or without --json.
    if session.output.is_json() || tools.format != ToolFormat::Mcp {
        session.output.json(document.as_str())?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["TOOL", "KEY", "WITHHELD", "WHAT IT DOES"]);
    for tool in items(&document, List::Tools.member()) {
        let name = format!("{}/{}", text(&tool, "serverId"), text(&tool, "name"));
        table.row([
            name.into(),
            Cell::painted(text(&tool, "key"), Paint::Faint),
            Cell::painted(text(&tool, "withheld"), Paint::Waiting),
            about(&tool),
        ]);
    }
    if table.len() == 0 {
        session.output.note("no tools");
    } else {
        session.output.table(&table)?;
    }
    Ok(Exit::Done)
}
