//! `drift`: the tools of a server that are not what was approved.

use serde_json::Value;

use crate::args::OneServer;
use crate::backend::{Backend, Wake};
use crate::problem::{Exit, Problem, Result};
use crate::session::Session;
use crate::table::{Cell, Paint, Table};
use crate::views::{items, text};

/// The widest old or new text.
const WIDE: usize = 40;

pub(super) async fn run(one: &OneServer, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let id = backend.servers_view().await?.resolve(&one.server)?;
    if !backend.is_daemon() {
        look(&backend, &id, session).await?;
    }
    let drift = backend.drift(&id).await?;
    if session.output.is_json() {
        session.output.json(drift.as_str())?;
        return Ok(Exit::Done);
    }
    let table = table(&drift);
    let drift = drift.to_value();
    if table.len() > 0 {
        session.output.table(&table)?;
        session.output.note(&format!("policy: {}; `switchboard approve {id} TOOL…` approves", text(&drift, "policy")));
    } else {
        match drift.get("approvedAt").and_then(Value::as_str) {
            Some(at) => session.output.note(&format!("every tool is what was approved at {at}")),
            None => session.output.note("nothing is approved yet, and no tools are known"),
        }
    }
    Ok(Exit::Done)
}

/// Connects, so that the tools are those of now. When that fails, those of last time are shown.
async fn look(backend: &Backend, id: &str, session: &Session) -> Result<()> {
    let answer = {
        let _progress = session.output.progress(format!("connecting to {id}"));
        backend.connect(id).await?
    };
    if let Some(problem) = answer.to_value().get("error").and_then(Problem::of_document) {
        session.output.note(&format!("note: what is shown was known last: {}", problem.line()));
    }
    Ok(())
}

/// One row a change.
fn table(drift: &switchboard::wire::Json) -> Table {
    let mut table = Table::new(["TOOL", "DRIFT", "WEIGHT", "WHERE", "BEFORE", "AFTER"]);
    for tool in items(drift, "changed") {
        for change in tool.get("changes").and_then(Value::as_array).into_iter().flatten() {
            let shown = |member| Cell::short(&change.get(member).map(plain).unwrap_or_default(), WIDE);
            table.row([
                text(&tool, "name").into(),
                text(change, "kind").into(),
                weight(text(change, "severity")),
                text(change, "path").into(),
                shown("before"),
                shown("after"),
            ]);
        }
    }
    for (member, word) in [("added", "new"), ("removed", "gone")] {
        for name in items(drift, member) {
            let nothing = || Cell::from("");
            table.row([
                name.as_str().unwrap_or_default().into(),
                word.into(),
                nothing(),
                nothing(),
                nothing(),
                nothing(),
            ]);
        }
    }
    table
}

fn weight(severity: &str) -> Cell {
    let paint = match severity {
        "high" => Paint::Bad,
        "medium" => Paint::Waiting,
        _ => Paint::Faint,
    };
    Cell::painted(severity, paint)
}

/// A text as it is, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_a_row_and_what_is_new_or_gone_comes_last() {
        let drift = r#"{"policy": "warn", "added": ["n"], "removed": ["g"], "changed": [{"name": "t", "changes": [
            {"kind": "hint", "severity": "high", "path": "annotations/destructiveHint", "before": true, "after": false},
            {"kind": "address", "severity": "high", "path": "description", "before": null, "after": "http://e.example"}]}]}"#;
        let text = table(&drift.parse().unwrap()).text(false);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected: [&[&str]; 5] = [
            &["TOOL", "DRIFT", "WEIGHT", "WHERE", "BEFORE", "AFTER"],
            &["t", "hint", "high", "annotations/destructiveHint", "true", "false"],
            &["t", "address", "high", "description", "http://e.example"],
            &["n", "new"],
            &["g", "gone"],
        ];
        assert_eq!(lines, expected);
    }
}
