//! The `switchboard` program: MCP servers at the terminal, and the daemon.
//!
//! The only crate that reads arguments and the environment and that writes to a terminal. `args.rs` is what was typed,
//! `env.rs` what was found, `settings.rs` what follows from both; each command is a file with one `run`.

mod args;
mod backend;
mod commands;
mod daemon_file;
mod demo;
mod env;
mod names;
mod output;
mod problem;
mod program;
mod session;
mod settings;
mod table;
mod tasks;
mod typing;
mod views;

fn main() -> std::process::ExitCode {
    program::main()
}
