//! Starts what stands at the other end of a pipe: a child process, or a server in this process.

use std::sync::Arc;

use super::command::{Environment, Program};
use super::pipe::PipeTransport;
use super::process::{self, ChildProcess};
use super::{Receiver, SpawnError, TransportError, command};
use crate::spec::{InProcessTarget, StdioTarget};

/// Starts the child process of a registration.
///
/// # Errors
/// When the command is not there or cannot be started.
pub(crate) fn start(
    target: &StdioTarget,
    environment: &Environment,
    limit: usize,
    receiver: Arc<dyn Receiver>,
) -> Result<PipeTransport, TransportError> {
    if let Some(folder) = target.cwd.as_deref().filter(|folder| !folder.is_dir()) {
        return Err(TransportError::Spawn(SpawnError::NoFolder { folder: folder.display().to_string() }));
    }
    let environment = environment.for_child(target);
    let program = find(target, &environment).map_err(TransportError::Spawn)?;
    let command = process::command(&program, environment, target.cwd.as_deref());
    let (child, stdout, stdin) = ChildProcess::start(&program, command).map_err(TransportError::Spawn)?;
    Ok(PipeTransport::new("stdio", (stdout, stdin), limit, receiver, Some(child)))
}

type Variables = std::collections::BTreeMap<std::ffi::OsString, std::ffi::OsString>;

#[cfg(not(windows))]
fn find(target: &StdioTarget, environment: &Variables) -> Result<Program, SpawnError> {
    command::find(target, environment, &command::look_at)
}

#[cfg(windows)]
fn find(target: &StdioTarget, environment: &Variables) -> Result<Program, SpawnError> {
    let variable = |wanted: &str| {
        let found = environment.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.to_string_lossy().into_owned())
    };
    let (path, pathext, system_root) = (variable("PATH"), variable("PATHEXT"), variable("SYSTEMROOT"));
    let places = command::windows::Places {
        path: path.as_deref(),
        pathext: pathext.as_deref(),
        system_root: system_root.as_deref(),
        cwd: target.cwd.as_deref().and_then(std::path::Path::to_str),
    };
    command::windows::find(&target.command, &target.args, places, &|path| {
        command::look_at(path.as_ref()) == command::Thing::Program
    })
}

/// Opens a server in this process.
pub(crate) fn open(target: &InProcessTarget, limit: usize, receiver: Arc<dyn Receiver>) -> PipeTransport {
    let streams = tokio::io::split(target.open());
    PipeTransport::new("in-process", streams, limit, receiver, None)
}
