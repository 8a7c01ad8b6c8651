//! `serve`: the daemon.

use crate::args::Serve;
use crate::problem::{Exit, Problem, Result};
use crate::session::Session;

pub(super) async fn run(_serve: &Serve, _session: &Session) -> Result<Exit> {
    Err(Problem::new("unsupported", "waiting for the host").into())
}
