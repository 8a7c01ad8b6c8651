//! `doctor`: finds out, step by step, why a server does not work.
//!
//! The steps below the protocol (names, sockets, TLS, HTTP, processes) are made here and not by the library, so that they
//! show what the network does and not what the library makes of it. Nothing goes through a daemon: what is checked is the
//! way from here to the server.

mod command;
mod endpoint;
mod folder;
mod probe;
mod protocol;
mod steps;
mod tls;

use serde_json::{Value, json};
use switchboard::spec::Target;
use switchboard::{Manager, ServerId, ServerSpec};

use crate::args::Doctor;
use crate::backend::{Backend, local::Local};
use crate::problem::{Exit, Result};
use crate::session::Session;
use steps::Checkup;

pub(super) async fn run(doctor: &Doctor, session: &Session) -> Result<Exit> {
    let mut data = Checkup::begin(&session.output, &format!("data folder {}", session.settings.data.display()))?;
    let manager = folder::check(session, &mut data).await?;
    let mut is_well = !data.has_failed();
    let mut servers = Vec::new();
    if let Some(manager) = &manager {
        for (id, spec) in chosen(doctor, manager).await? {
            let title = format!("server {id}: {}", spec.target.display());
            let mut checkup = Checkup::begin(&session.output, &title)?;
            check(session, manager, (&id, &spec), &mut checkup).await?;
            is_well &= !checkup.has_failed();
            servers.push(
                json!({"id": id, "name": spec.name, "target": spec.target.display(), "steps": checkup.into_document()}),
            );
        }
    }
    if session.output.is_json() {
        let folder = json!({"path": session.settings.data, "steps": data.into_document()});
        session.output.document(&json!({"dataFolder": folder, "servers": Value::from(servers)}))?;
    }
    Ok(if is_well { Exit::Done } else { Exit::Failed })
}

/// The registrations that are meant: one, or all.
async fn chosen(doctor: &Doctor, manager: &Manager) -> Result<Vec<(ServerId, ServerSpec)>> {
    let mut registrations = manager.registrations();
    if let Some(wanted) = &doctor.server {
        let id = Backend::Local(Local::new(manager.clone())).servers_view().await?.resolve(wanted)?;
        registrations.retain(|(other, _)| other.as_str() == id);
    }
    Ok(registrations)
}

/// Checks one server from the ground up. What stands on a step that failed is skipped.
async fn check(
    session: &Session,
    manager: &Manager,
    server: (&ServerId, &ServerSpec),
    checkup: &mut Checkup<'_>,
) -> Result<()> {
    let (id, spec) = server;
    match &spec.target {
        Target::Http(target) => endpoint::check(target, &spec.timeouts, checkup).await?,
        Target::Stdio(target) => command::check(target, &spec.timeouts, &session.settings, checkup).await?,
        _ => {}
    }
    if checkup.has_failed() {
        checkup.skip("handshake", "an earlier step failed")?;
        return Ok(());
    }
    protocol::check(manager, id, checkup).await
}
