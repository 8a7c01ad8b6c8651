//! The commands: one file each, with one `run`.

mod add;
mod approve;
mod call;
mod calls;
mod close;
mod complete;
pub(crate) mod completions;
mod connect;
mod contents;
mod demo;
mod doctor;
mod drift;
mod list;
mod outcome;
mod prompt;
mod prompts;
mod read;
pub(crate) mod reference;
mod remove;
mod resources;
mod selection;
mod serve;
mod tools;
mod watch;

use crate::args::Command;
use crate::problem::{Exit, Result};
use crate::session::Session;

/// Runs one command.
pub(crate) async fn run(command: &Command, session: &Session) -> Result<Exit> {
    match command {
        Command::Serve(serve) => serve::run(serve, session).await,
        Command::Demo(demo) => demo::run(demo, session).await,
        Command::Add(add) => add::run(add, session).await,
        Command::List(wait) => list::run(wait, session).await,
        Command::Remove(one) => remove::run(one, session).await,
        Command::Connect(one) => connect::run(one, session).await,
        Command::Close(one) => close::run(one, session).await,
        Command::Doctor(doctor) => doctor::run(doctor, session).await,
        Command::Tools(tools) => tools::run(tools, session).await,
        Command::Call(call) => call::run(call, session).await,
        Command::Drift(one) => drift::run(one, session).await,
        Command::Approve(approve) => approve::run(approve, session).await,
        Command::Resources(resources) => resources::run(resources, session).await,
        Command::Read(read) => read::run(read, session).await,
        Command::Prompts(listing) => prompts::run(listing, session).await,
        Command::Prompt(prompt) => prompt::run(prompt, session).await,
        Command::Complete(complete) => complete::run(complete, session).await,
        Command::Calls => calls::run(session).await,
        Command::Watch(watch) => watch::run(watch, session).await,
        Command::Completions { shell } => completions::run(*shell),
        Command::Reference => reference::run(),
        Command::DemoServer(server) => crate::demo::server::run(server, session).await,
    }
}
