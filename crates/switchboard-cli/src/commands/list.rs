//! `list`: all servers and how they are.

use std::time::Duration;

use switchboard::time::Timestamp;

use crate::args::Wait;
use crate::backend::Wake;
use crate::problem::{Exit, Result};
use crate::session::Session;
use crate::views::{NO_SERVER, Servers, note_missing};

pub(super) async fn run(wait: &Wait, session: &Session) -> Result<Exit> {
    let backend = session.backend(Wake::Everything).await?;
    let missing = backend.settle(session, &[], Duration::from_millis(wait.wait_ms)).await?;
    let document = backend.servers().await?;
    let output = &session.output;
    if output.is_json() {
        output.json(document.as_str())?;
    } else {
        let table = Servers::read(&document)?.table(Timestamp::now());
        if table.len() == 0 {
            output.note(NO_SERVER);
        } else {
            output.table(&table)?;
        }
    }
    note_missing(output, &missing);
    Ok(Exit::Done)
}
