//! `complete`: asks a server to complete an argument of a prompt or of a resource template.

use serde_json::{Value, json};
use switchboard::wire::Json;

use super::{call, prompt};
use crate::args::Complete;
use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;

pub(super) async fn run(complete: &Complete, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let id = backend.servers_view().await?.resolve(&complete.server)?;
    let progress = session.output.progress(format!("asking {id}"));
    call::ready(&backend, &id).await?;
    let result = backend.complete(&id, parameters(complete), complete.time).await?;
    drop(progress);
    if session.output.is_json() {
        session.output.json(result.as_str())?;
        return Ok(Exit::Done);
    }
    let result = result.to_value();
    let values = result.pointer("/completion/values").and_then(Value::as_array).into_iter().flatten();
    values.filter_map(Value::as_str).try_for_each(|value| session.output.line(value))?;
    Ok(Exit::Done)
}

/// The parameters of `completion/complete`.
fn parameters(complete: &Complete) -> Json {
    let reference = match (&complete.prompt, &complete.template) {
        (Some(name), _) => json!({"type": "ref/prompt", "name": name}),
        (None, uri) => json!({"type": "ref/resource", "uri": uri}),
    };
    let (name, value) = &complete.argument;
    let mut parameters = json!({"ref": reference, "argument": {"name": name, "value": value}});
    if !complete.known.is_empty() {
        parameters["context"] = json!({"arguments": prompt::texts(&complete.known).to_value()});
    }
    Json::from(parameters)
}
