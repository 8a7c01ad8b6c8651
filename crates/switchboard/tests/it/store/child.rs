//! Runs one ignored test of this binary as a process of its own.

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

const FOLDER: &str = "SWITCHBOARD_TEST_FOLDER";

/// The folder that this process was given, when it is a child of a test.
#[expect(clippy::disallowed_methods, reason = "a test hands its child a folder through the environment")]
pub(super) fn folder_of_this_child() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// A child that is not yet started.
pub(super) struct Program(Command);

impl Program {
    /// The ignored test `entry`, working in `folder`.
    pub(super) fn of(entry: &str, folder: &Path) -> Self {
        Self::with(Command::new(this_binary()), entry, folder)
    }

    /// The same, started by a shell that first runs `script`.
    pub(super) fn after(script: &str, entry: &str, folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{script}; exec \"$0\" \"$@\"")).arg(std::env::current_exe().unwrap());
        Self::with(command, entry, folder)
    }

    fn with(mut command: Command, entry: &str, folder: &Path) -> Self {
        command.args([entry, "--exact", "--ignored", "--nocapture"]).env(FOLDER, folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Self(command)
    }

    /// To set more.
    pub(super) fn command(&mut self) -> &mut Command {
        &mut self.0
    }

    pub(super) fn start(mut self) -> Child {
        let mut process = self.0.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Child { process, lines }
    }
}

/// This binary, under a name that a process without permissions can run as well.
fn this_binary() -> PathBuf {
    if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe().unwrap() }
}

/// A running child; killed when dropped.
pub(super) struct Child {
    process: std::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// The next line that the child prints; nothing when it has ended.
    pub(super) fn line(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }

    /// Waits for the child, which must succeed; answers what is left of its lines.
    pub(super) fn finish(mut self) -> Vec<String> {
        let lines = self.lines.by_ref().map(Result::unwrap).collect();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}: {lines:?}");
        lines
    }

    /// Kills the child, which cannot notice; answers what is left of its lines.
    pub(super) fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.lines.by_ref().map(Result::unwrap).collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
