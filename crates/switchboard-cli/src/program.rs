//! From the arguments to the exit code.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Arguments, Command};
use crate::commands;
use crate::env::Environment;
use crate::output::Output;
use crate::problem::{Exit, Failure, Problem, Result};
use crate::session::Session;
use crate::settings::Settings;

/// How long a command that is over waits for its child processes and connections to end.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let exit = match &arguments.command {
        // These need neither settings nor a runtime.
        Command::Completions { shell } => commands::completions::run(*shell),
        Command::Reference => commands::reference::run(),
        command => {
            let log = if matches!(command, Command::Serve(_)) { "info" } else { "off" };
            let settings = Settings::resolve(&arguments.global, Environment::read(), log);
            settings.map_err(Failure::from).and_then(|settings| {
                start_log(&settings.log)?;
                run(command, settings)
            })
        }
    };
    code(exit, &Output::plain(arguments.global.json))
}

/// The exit code, and words about a failure.
fn code(result: Result<Exit>, output: &Output) -> ExitCode {
    let exit = match result {
        Ok(exit) => exit,
        Err(Failure::ClosedPipe) => Exit::Done,
        Err(Failure::Problem(problem)) => {
            output.problem(&problem);
            problem.exit()
        }
    };
    ExitCode::from(exit as u8)
}

/// Help, the version, or a mistake in the arguments.
fn usage(error: &clap::Error) -> ExitCode {
    let is_mistake = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if is_mistake && wants_json {
        let text = error.to_string();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let detail = lines.next().unwrap_or("wrong usage").trim_start_matches("error: ").to_owned();
        let problem = Problem::new("usage", detail).hint("`switchboard COMMAND --help` shows the usage");
        return code(Err(problem.into()), &Output::plain(true));
    }
    // Nobody to tell when the terminal is gone.
    let _ = error.print();
    ExitCode::from(if is_mistake { Exit::Usage as u8 } else { Exit::Done as u8 })
}

/// Log lines go to standard error, and only those that were asked for.
fn start_log(filter: &str) -> Result<()> {
    if filter == "off" {
        return Ok(());
    }
    let filter = tracing_subscriber::EnvFilter::try_new(filter)
        .map_err(|cause| Problem::input(format!("SWITCHBOARD_LOG: `{filter}` is not a filter")).because(cause))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(())
}

/// Runs a command that needs a runtime, and ends what it started, whichever way it ended.
fn run(command: &Command, settings: Settings) -> Result<Exit> {
    let stops_itself = matches!(command, Command::Serve(_));
    let mut builder = match command {
        Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|cause| Problem::new("unsupported", "the program could not start").because(cause))?;
    let result = runtime.block_on(async {
        let session = Session::new(settings);
        let result = tokio::select! {
            result = commands::run(command, &session) => result,
            exit = asked_to_stop(), if !stops_itself => Ok(exit),
        };
        tokio::select! {
            () = session.finish(GRACE) => {}
            // Asked again: the person will not wait.
            _ = asked_to_stop() => {}
        }
        result
    });
    // A thread that still reads standard input must not keep the program.
    runtime.shutdown_background();
    result
}

/// Waits for Ctrl-C or a request to terminate.
pub(crate) async fn asked_to_stop() -> Exit {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Terminated,
        }
    }
    #[cfg(not(unix))]
    {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Exit::Interrupted,
            Err(_) => std::future::pending().await,
        }
    }
}
