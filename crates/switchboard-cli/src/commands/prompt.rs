//! `prompt`: gets a prompt.

use serde_json::{Map, Value};
use switchboard::wire::Json;

use super::{call, contents};
use crate::args::Prompt;
use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;

pub(super) async fn run(prompt: &Prompt, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let id = backend.servers_view().await?.resolve(&prompt.server)?;
    let progress = session.output.progress(format!("getting {}", prompt.name));
    call::ready(&backend, &id).await?;
    let result = backend.prompt(&id, &prompt.name, texts(&prompt.pairs), prompt.time).await?;
    drop(progress);
    if session.output.is_json() {
        session.output.json(result.as_str())?;
    } else {
        contents::print(&session.output, &contents::of_prompt(&result))?;
    }
    Ok(Exit::Done)
}

/// The arguments of a prompt, which are all texts.
pub(super) fn texts(pairs: &[(String, String)]) -> Json {
    let members: Map<String, Value> = pairs.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
    Json::from(Value::Object(members))
}
