//! `demo`: shows that it works.

use crate::args::Demo;
use crate::demo::tour;
use crate::problem::{Exit, Result};
use crate::session::Session;

pub(super) async fn run(demo: &Demo, session: &Session) -> Result<Exit> {
    tour::run(demo, session).await
}
