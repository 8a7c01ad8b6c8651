//! `prompts`: the prompts of all servers.

use serde_json::Value;
use switchboard::catalogue::ToolFormat;

use super::selection::listed;
use crate::args::Listing;
use crate::backend::List;
use crate::problem::{Exit, Result};
use crate::session::Session;
use crate::table::Table;
use crate::views::{about, items, text};

pub(super) async fn run(listing: &Listing, session: &Session) -> Result<Exit> {
    let document = listed(listing, List::Prompts, ToolFormat::Mcp, session).await?;
    if session.output.is_json() {
        session.output.json(document.as_str())?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(["SERVER", "PROMPT", "ARGUMENTS", "WHAT IT DOES"]);
    for prompt in items(&document, List::Prompts.member()) {
        table.row([
            text(&prompt, "serverId").into(),
            text(&prompt, "name").into(),
            arguments(&prompt).into(),
            about(&prompt),
        ]);
    }
    if table.len() == 0 {
        session.output.note("no prompts");
    } else {
        session.output.table(&table)?;
    }
    Ok(Exit::Done)
}

/// The names of a prompt's arguments, those that may be left out in brackets.
fn arguments(prompt: &Value) -> String {
    let arguments = prompt.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let shown = arguments.map(|argument| match argument.get("required").and_then(Value::as_bool) {
        Some(true) => text(argument, "name").to_owned(),
        _ => format!("[{}]", text(argument, "name")),
    });
    shown.collect::<Vec<_>>().join(" ")
}
