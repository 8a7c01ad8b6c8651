//! The life of a scripted peer as a process: the whole of the program `scripted-peer`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;

use crate::lines::{self, End, Habits, Hook};
use crate::stdio::script::{Child, Script};

/// No process of a test lives longer than this, whatever the test forgets.
const LONGEST_LIFE: Duration = Duration::from_secs(120);

/// Runs the script that the first argument holds or names, and gives the exit code.
///
/// # Panics
/// When there is no such script.
pub fn run() -> i32 {
    let argument = std::env::args().nth(1).expect("usage: scripted-peer SCRIPT, as JSON or as the name of a file");
    let json = if argument.starts_with('{') {
        argument
    } else {
        std::fs::read_to_string(argument).expect("the script can be read")
    };
    let script: Script = serde_json::from_str(&json).expect("the script is valid");
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST_LIFE);
        std::process::exit(99)
    });
    live(&script)
}

fn live(script: &Script) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be had");
    // Before anything else, so that nobody who knows the process can still terminate it.
    let deaf = script.ignores_terminate && !script.launcher;
    let _deaf = runtime.block_on(async { deaf.then(ignore_terminate) });
    note_pid(script, role(script));
    if script.launcher {
        return launch(script);
    }
    if let Some(text) = &script.stderr {
        write_stderr(text.as_bytes());
    }
    if let Some(code) = script.exits_at_once {
        return code;
    }
    let _child = script.child.map(|child| start_child(script, child));
    let code = runtime.block_on(serve(script));
    // The thread that reads stdin cannot be ended, so nobody waits for it.
    runtime.shutdown_background();
    code
}

fn role(script: &Script) -> &'static str {
    match (script.launcher, script.sleeper) {
        (true, _) => "launcher",
        (_, true) => "child",
        _ => "server",
    }
}

#[cfg(unix)]
fn ignore_terminate() -> tokio::signal::unix::Signal {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::terminate()).expect("a handler can be set")
}

#[cfg(not(unix))]
fn ignore_terminate() {}

/// Appends to the file in one write, so that several processes do not mix their lines.
fn note_pid(script: &Script, role: &str) {
    if let Some(path) = &script.pid_file {
        append(&open(path), &format!("{role} {}\n", std::process::id()));
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).expect("the file can be written")
}

fn append(mut file: &File, line: &str) {
    file.write_all(line.as_bytes()).expect("the file can be written");
}

/// Starts the real server as a child that shares the streams, and waits for it.
fn launch(script: &Script) -> i32 {
    let server = Script { launcher: false, ..script.clone() };
    let status = command(&server).status().expect("the server can be started");
    status.code().unwrap_or(98)
}

/// Starts a process that does nothing but live.
fn start_child(script: &Script, child: Child) -> std::process::Child {
    let sleeper = Script {
        sleeper: true,
        ignores_terminate: child.ignores_terminate,
        pid_file: script.pid_file.clone(),
        ..Script::default()
    };
    let mut command = command(&sleeper);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    if !child.keeps_pipe {
        command.stdout(Stdio::null());
    }
    command.spawn().expect("the child can be started")
}

fn command(script: &Script) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the program knows its own file"));
    command.arg(serde_json::to_string(script).expect("scripts are plain data"));
    command
}

async fn serve(script: &Script) -> i32 {
    if script.sleeper {
        return std::future::pending().await;
    }
    let line = |line: &String| Bytes::copy_from_slice(line.as_bytes());
    let habits = Habits {
        banner: script.banner.iter().map(line).collect(),
        noise: script.noise.iter().map(line).collect(),
        on_message: Some(before_each(script)),
    };
    let end = lines::serve(&script.peer(), tokio::io::stdin(), tokio::io::stdout(), &habits).await;
    match end {
        End::ByClient if script.ignores_eof => std::future::pending().await,
        End::ByClient => 0,
        End::Cut => {
            close_stdout();
            if script.lingers {
                return std::future::pending().await;
            }
            script.exits_after.as_ref().map_or(0, |(_, code)| *code)
        }
    }
}

/// Puts nothing in the place of stdout, which closes the pipe.
#[cfg(unix)]
fn close_stdout() {
    let nothing = File::options().write(true).open("/dev/null").expect("there is a null device");
    rustix::stdio::dup2_stdout(&nothing).expect("stdout can be replaced");
}

#[cfg(not(unix))]
fn close_stdout() {}

/// What happens for each message before it is answered, while everything else waits.
fn before_each(script: &Script) -> Hook {
    let record = script.record_file.as_deref().map(open);
    let noise = vec![b'e'; script.stderr_bytes];
    let burn = Duration::from_millis(script.burn_milliseconds);
    let burnt = AtomicBool::new(false);
    Arc::new(move |message: &Value| {
        if let Some(file) = &record {
            append(file, &format!("{message}\n"));
        }
        if message.get("id").is_some() {
            write_stderr(&noise);
            if !burnt.swap(true, Ordering::Relaxed) {
                keep_busy(burn);
            }
        }
    })
}

fn write_stderr(bytes: &[u8]) {
    // Nobody may be there to read it any more.
    let _ = std::io::stderr().write_all(bytes);
}

fn keep_busy(duration: Duration) {
    let start = Instant::now();
    while start.elapsed() < duration {
        std::hint::spin_loop();
    }
}
