//! `connect`: connects to a server and reads its lists.

use super::outcome;
use crate::args::OneServer;
use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;

pub(super) async fn run(one: &OneServer, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Nothing).await?;
    let id = backend.servers_view().await?.resolve(&one.server)?;
    let answer = {
        let _progress = session.output.progress(format!("connecting to {id}"));
        backend.connect(&id).await?
    };
    outcome::report(session, &backend, &answer, outcome::Asked::Connect).await
}
