//! A home folder and a data folder of their own, and the program run in them.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// Nothing here takes longer; what does hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_switchboard");

/// A person's machine: an empty home.
pub(crate) struct World {
    home: tempfile::TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Standard output as one JSON document.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|cause| panic!("not one JSON document: {cause}\n{self:?}"))
    }

    /// Standard error as one problem document.
    #[track_caller]
    pub(crate) fn problem(&self) -> Value {
        serde_json::from_str(&self.stderr).unwrap_or_else(|cause| panic!("not a problem document: {cause}\n{self:?}"))
    }

    /// The same run, which ended with this code.
    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    /// The home folder.
    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The data folder that the program chooses by itself.
    pub(crate) fn data(&self) -> PathBuf {
        self.home().join(".local/share/switchboard")
    }

    /// The program with these arguments, in this world, not yet run.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.other_command(PROGRAM, arguments)
    }

    /// Another program in this world.
    #[expect(clippy::disallowed_methods, reason = "what the program finds in PATH is what the test finds there")]
    pub(crate) fn other_command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("HOME", self.home()).env("PATH", std::env::var("PATH").unwrap());
        command.current_dir(self.home()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Ran {
        finish(self.command(arguments)).await
    }

    /// Runs the program with something on standard input.
    pub(crate) async fn run_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        ran(timeout(PATIENCE, child.wait_with_output()).await.expect("the program hangs").unwrap())
    }

    /// Starts a daemon on a free port, and waits until it says where it listens.
    pub(crate) async fn daemon(&self) -> Daemon {
        Daemon::start(self.command(&["serve", "--listen", "127.0.0.1:0", "--json"])).await
    }

    /// Registers the demo server over stdio.
    pub(crate) async fn add_demo(&self, name: &str, era: &str) -> Ran {
        self.run(&["add", name, "--", PROGRAM, "demo-server", "--stdio", "--era", era]).await
    }
}

/// Runs a command to its end.
pub(crate) async fn finish(mut command: Command) -> Ran {
    let child = command.spawn().unwrap();
    ran(timeout(PATIENCE, child.wait_with_output()).await.expect("the program hangs").unwrap())
}

fn ran(output: std::process::Output) -> Ran {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A running daemon.
pub(crate) struct Daemon {
    child: Child,
    _lines: Lines<BufReader<ChildStdout>>,
    pub(crate) url: String,
}

impl Daemon {
    async fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let Some(line) = timeout(PATIENCE, lines.next_line()).await.expect("the daemon hangs").unwrap() else {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
            panic!("the daemon ended: {said}");
        };
        let url = serde_json::from_str::<Value>(&line).unwrap()["url"].as_str().unwrap().to_owned();
        Self { child, _lines: lines, url }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Kills the daemon without a chance to tidy up.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Asks the daemon to stop, by a signal's name.
    pub(crate) async fn stop(mut self, signal: &str) -> ExitStatus {
        send(signal, self.pid());
        timeout(PATIENCE, self.child.wait()).await.expect("the daemon hangs").unwrap()
    }
}

/// Sends a signal to a process that a test started.
pub(crate) fn send(signal: &str, pid: u32) {
    let sent = std::process::Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// The demo server over HTTP, for as long as this lives.
pub(crate) struct HttpPeer {
    child: Child,
    pub(crate) url: String,
}

impl HttpPeer {
    pub(crate) async fn start(world: &World, era: &str) -> Self {
        Self::listen(world, era, "127.0.0.1:0").await
    }

    pub(crate) async fn listen(world: &World, era: &str, address: &str) -> Self {
        let mut command = world.command(&["demo-server", "--http", "--era", era, "--listen", address]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = timeout(PATIENCE, lines.next_line()).await.expect("the server hangs").unwrap().expect("no address");
        Self { child, url }
    }

    /// Ends the server by closing its standard input.
    pub(crate) async fn stop(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        timeout(PATIENCE, self.child.wait()).await.expect("the server hangs").unwrap()
    }
}
