//! `completions`: the completions of a shell.

use clap::CommandFactory;

use crate::args::Arguments;
use crate::output::Output;
use crate::problem::{Exit, Result};

pub(crate) fn run(shell: clap_complete::Shell) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "switchboard", &mut text);
    Output::plain(false).raw(&text)?;
    Ok(Exit::Done)
}
