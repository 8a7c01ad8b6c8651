//! `read`: reads a resource.

use super::{call, contents};
use crate::args::Read;
use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;

pub(super) async fn run(read: &Read, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let id = backend.servers_view().await?.resolve(&read.server)?;
    let progress = session.output.progress(format!("reading {}", read.uri));
    call::ready(&backend, &id).await?;
    let result = backend.read(&id, &read.uri, read.time).await?;
    drop(progress);
    if session.output.is_json() {
        session.output.json(result.as_str())?;
    } else {
        contents::print(&session.output, &contents::of_resource(&result))?;
    }
    Ok(Exit::Done)
}
