//! How an `add` or a `connect` ended, said to people and to scripts.

use serde::Deserialize;
use switchboard::wire::Json;

use crate::backend::Backend;
use crate::problem::{Exit, Problem, Result};
use crate::session::Session;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// `add`, after which the registration is kept however it ended.
    Add,
    /// `connect`.
    Connect,
}

/// The answer of `POST /servers` and of `connect`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    id: String,
    state: String,
    auth_url: Option<String>,
    error: Option<Failed>,
}

#[derive(Debug, Deserialize)]
struct Failed {
    code: String,
    message: String,
    #[serde(default)]
    causes: Vec<String>,
}

/// Prints the outcome; the exit code that belongs to it.
pub(super) async fn report(session: &Session, backend: &Backend, answer: &Json, asked: Asked) -> Result<Exit> {
    let outcome: Outcome =
        answer.read().map_err(|cause| Problem::new("protocol_violation", "a strange answer").because(cause))?;
    let exit = match outcome.state.as_str() {
        "ready" => Exit::Done,
        "authenticating" | "closed" => Exit::NotReady,
        "failed" => Exit::Failed,
        // Somebody else is at it; it is not ready, and did not fail.
        _ => Exit::NotReady,
    };
    let output = &session.output;
    if output.is_json() {
        output.json(answer.as_str())?;
        return Ok(exit);
    }
    match (&outcome.error, &outcome.auth_url) {
        (Some(error), _) => failed(session, &outcome.id, error, asked),
        (None, Some(url)) => {
            output.note(&format!("`{}` needs a sign-in; open this address:", outcome.id));
            output.line(url)?;
        }
        (None, None) if exit == Exit::Done => {
            let line = format!("{} is ready{}", outcome.id, offers(backend, &outcome.id).await?);
            output.line(&line)?;
        }
        (None, None) => output.note(&format!("`{}` is {}", outcome.id, outcome.state)),
    }
    Ok(exit)
}

fn failed(session: &Session, id: &str, error: &Failed, asked: Asked) {
    let mut problem = Problem::new(&error.code, error.message.as_str());
    for cause in &error.causes {
        problem = problem.because(cause);
    }
    session.output.problem(&problem.hint(format!("`switchboard doctor {id}` finds out which step fails")));
    if asked == Asked::Add {
        session.output.note(&format!(
            "the registration is kept: `switchboard connect {id}` tries again, `switchboard remove {id}` forgets it"
        ));
    }
}

/// What a server offers, such as `: 3 tools, 1 prompt`.
async fn offers(backend: &Backend, id: &str) -> Result<String> {
    let counts = backend.servers_view().await?.by_id(id).map(|server| server.counts).unwrap_or_default();
    let mut parts = Vec::new();
    for (count, one) in [
        (counts.tools, "tool"),
        (counts.prompts, "prompt"),
        (counts.resources, "resource"),
        (counts.resource_templates, "resource template"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {one}{}", if count == 1 { "" } else { "s" }));
        }
    }
    Ok(if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) })
}
