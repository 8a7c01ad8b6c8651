//! A child process and all that it starts: its own group, its standard error drained, its end in good order.
//!
//! A child is ended with its whole group: its input is closed, then it is asked (SIGTERM), then killed. If this process is
//! killed hard, a watchdog does it: a shell that waits for the end of a pipe which only we hold open.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStdout, Command};
use tokio::sync::watch;

use super::SpawnError;
use super::callers::Broken;
use super::command::Program;
use crate::tasks::OwnedTask;

/// How long each step of the stop ladder waits.
const STEP: Duration = Duration::from_secs(2);
/// How much of the standard error is kept.
const KEPT: usize = 64 << 10;
/// How much of it is shown in an error.
const SHOWN: usize = 2000;
/// How long the end of the output and the end of the process may lie apart.
const APART: Duration = Duration::from_millis(500);

/// How a child ended, and the last of what it said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    how: String,
    stderr: String,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server's process ended ({})", self.how)?;
        if self.stderr.is_empty() { Ok(()) } else { write!(f, "; its last words: {}", self.stderr) }
    }
}

impl Exit {
    fn new(status: ExitStatus, stderr: &Tail) -> Self {
        Self { how: status.to_string(), stderr: stderr.last(SHOWN) }
    }
}

/// The last of what was written.
#[derive(Debug, Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (kept.len() + bytes.len()).saturating_sub(KEPT);
        kept.drain(..excess);
        kept.extend(bytes);
    }

    /// The last `limit` bytes as clean text.
    fn last(&self, limit: usize) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = kept.make_contiguous();
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(limit)..]).into_owned();
        text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect::<String>().trim().to_owned()
    }
}

/// A child process, alone in its group.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    group: Group,
    exit: watch::Receiver<Option<ExitStatus>>,
    stderr: Tail,
    stderr_ended: watch::Receiver<bool>,
    _reaper: OwnedTask,
    _drain: OwnedTask,
    watchdog: Mutex<Option<Watchdog>>,
}

impl ChildProcess {
    /// Starts a program; gives its standard streams.
    ///
    /// # Errors
    /// When the system refuses to start it.
    pub(super) fn start(program: &Program, command: Command) -> Result<(Self, ChildStdout, ChildInput), SpawnError> {
        let refused = |source| SpawnError::Refused { command: program.path.display().to_string(), source };
        let missing = || refused(std::io::Error::other("it has no standard streams"));
        let (mut child, group) = Group::start(command).map_err(refused)?;
        let (stdin, stdout, stderr) = child.streams().ok_or_else(missing)?;
        let watchdog = Watchdog::over(&group);
        let tail = Tail::default();
        let (ended_sender, stderr_ended) = watch::channel(false);
        let drain = OwnedTask::spawn(drain(stderr, tail.clone(), ended_sender));
        let (exit_sender, exit) = watch::channel(None);
        let reaper = OwnedTask::spawn(async move {
            match child.wait().await {
                Ok(status) => drop(exit_sender.send_replace(Some(status))),
                Err(error) => tracing::warn!(%error, "a child process could not be waited for"),
            }
        });
        let watchdog = Mutex::new(watchdog);
        let this = Self { group, exit, stderr: tail, stderr_ended, _reaper: reaper, _drain: drain, watchdog };
        Ok((this, stdout, stdin))
    }

    /// The last of what it wrote to its standard error.
    pub(super) fn stderr(&self) -> String {
        self.stderr.last(KEPT)
    }

    /// Waits until the process is gone, and a moment for the rest of its output.
    pub(super) fn gone(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut exit = self.exit.clone();
        async move {
            let _ = exit.wait_for(Option::is_some).await;
            tokio::time::sleep(APART).await;
        }
    }

    /// Why the output ended: the process's end, if it comes within a moment.
    pub(super) fn ending(&self) -> impl Future<Output = Broken> + Send + use<> {
        let (mut exit, tail, mut stderr_ended) = (self.exit.clone(), self.stderr.clone(), self.stderr_ended.clone());
        async move {
            let status = async { exit.wait_for(Option::is_some).await.ok().and_then(|status| *status) };
            let Ok(Some(status)) = tokio::time::timeout(APART, status).await else { return Broken::Ended };
            // Its last words may still be on their way.
            let _ = tokio::time::timeout(APART, stderr_ended.wait_for(|ended| *ended)).await;
            Broken::Exited(Exit::new(status, &tail))
        }
    }

    /// Whether the process and the rest of its group are gone before `limit` has passed.
    async fn gone_within(&self, limit: Duration) -> bool {
        let mut exit = self.exit.clone();
        let gone = async {
            let _ = exit.wait_for(Option::is_some).await;
            self.group.gone().await;
        };
        tokio::time::timeout(limit, gone).await.is_ok()
    }

    /// Waits for the process to end by itself, then asks, then kills; the whole group ends. Its input must be closed.
    pub(super) async fn stop(&self) {
        if !self.gone_within(STEP).await {
            self.group.ask();
            if !self.gone_within(STEP).await {
                self.group.kill();
                self.gone_within(STEP).await;
            }
        }
        // Nothing of the group is left, so its number may be given to others from now on.
        drop(self.watchdog.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for ChildProcess {
    /// Without [`ChildProcess::stop`] the group is killed at once.
    fn drop(&mut self) {
        let watchdog = self.watchdog.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if watchdog.is_some() {
            self.group.kill();
        }
    }
}

/// Reads all that a child writes, so that it never blocks, and keeps the last of it.
async fn drain(mut stderr: impl AsyncRead + Unpin, tail: Tail, ended: watch::Sender<bool>) {
    let mut piece = vec![0; 8 << 10];
    while let Ok(read) = stderr.read(&mut piece).await {
        if read == 0 {
            break;
        }
        tail.push(&piece[..read]);
    }
    ended.send_replace(true);
}

/// The command that starts `program` with its streams piped.
pub(super) fn command(
    program: &Program,
    environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    cwd: Option<&std::path::Path>,
) -> Command {
    let mut command = Command::new(&program.path);
    command.args(&program.args).env_clear().envs(environment);
    #[cfg(windows)]
    if let Some(line) = &program.verbatim {
        command.raw_arg(line);
    }
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[cfg(unix)]
use unix::{ChildInput, Group, Watchdog};
#[cfg(windows)]
use windows::{ChildInput, Group, Watchdog};

#[cfg(unix)]
mod unix {
    use std::process::Stdio;
    use std::time::Duration;

    use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
    use tokio::io::Interest;
    use tokio::net::unix::pipe::Sender;
    use tokio::process::{Child, ChildStderr, ChildStdout, Command};

    use super::super::pipe::Input;

    /// A child's standard input.
    pub(super) type ChildInput = Sender;

    impl Input for Sender {
        async fn closed(&self) {
            // An error here means that nothing is driven any more.
            while self.ready(Interest::ERROR).await.is_ok_and(|ready| !ready.is_error()) {}
        }
    }

    /// How often it is looked whether a group is gone.
    const LOOK: Duration = Duration::from_millis(20);

    /// A process group.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Group(Pid);

    /// The leader of a group, as its parent holds it.
    pub(super) struct Leader(Child);

    impl Leader {
        pub(super) fn streams(&mut self) -> Option<(ChildInput, ChildStdout, ChildStderr)> {
            let stdin = Sender::from_owned_fd(self.0.stdin.take()?.into_owned_fd().ok()?).ok()?;
            Some((stdin, self.0.stdout.take()?, self.0.stderr.take()?))
        }

        pub(super) async fn wait(&mut self) -> std::io::Result<std::process::ExitStatus> {
            self.0.wait().await
        }
    }

    impl Group {
        /// Starts a command as the leader of a new group.
        pub(super) fn start(mut command: Command) -> std::io::Result<(Leader, Self)> {
            let child = command.process_group(0).spawn()?;
            let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            let id = id.ok_or_else(|| std::io::Error::other("the process ended before it could be named"))?;
            Ok((Leader(child), Self(id)))
        }

        pub(super) fn id(self) -> i32 {
            self.0.as_raw_nonzero().get()
        }

        /// Whether any process of the group is left.
        fn is_alive(self) -> bool {
            test_kill_process_group(self.0).is_ok()
        }

        /// Asks the group to end. That it is gone already is fine.
        pub(super) fn ask(self) {
            let _ = kill_process_group(self.0, Signal::TERM);
        }

        /// Kills the group. That it is gone already is fine.
        pub(super) fn kill(self) {
            let _ = kill_process_group(self.0, Signal::KILL);
        }

        /// Waits until the whole group is gone. Its members are not all our children, so there is nothing to wait on but
        /// to look.
        pub(super) async fn gone(self) {
            while self.is_alive() {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Kills a group when this process dies. Dropping it calls it off.
    #[derive(Debug)]
    pub(super) struct Watchdog {
        _shell: Option<Child>,
    }

    impl Watchdog {
        /// A shell that waits for the end of its input, which comes when we are gone, however we ended. Without a shell
        /// there is no watchdog, and the children of a process that is killed hard must notice the end of their input.
        pub(super) fn over(group: &Group) -> Option<Self> {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "read -r _; kill -s KILL -- \"-$1\"", "switchboard-watchdog"]);
            shell.arg(group.id().to_string()).env_clear().process_group(0).kill_on_drop(true);
            shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let shell = shell.spawn().inspect_err(|error| tracing::debug!(%error, "no watchdog")).ok();
            Some(Self { _shell: shell })
        }
    }
}

#[cfg(windows)]
mod windows {
    use process_wrap::tokio::{ChildWrapper, CommandWrap, JobObject, KillOnDrop};
    use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
    use tokio_util::sync::CancellationToken;

    use super::super::pipe::Input;

    /// A child's standard input.
    pub(super) type ChildInput = ChildStdin;

    impl Input for ChildStdin {}

    /// A job, which holds a process and all that it starts. Windows ends it when its last handle is closed, which happens
    /// also when this process is killed.
    #[derive(Debug, Clone)]
    pub(super) struct Group {
        kill: CancellationToken,
    }

    /// The first process of a job.
    pub(super) struct Leader {
        child: Box<dyn ChildWrapper>,
        kill: CancellationToken,
    }

    impl Leader {
        pub(super) fn streams(&mut self) -> Option<(ChildInput, ChildStdout, ChildStderr)> {
            Some((self.child.stdin().take()?, self.child.stdout().take()?, self.child.stderr().take()?))
        }

        pub(super) async fn wait(&mut self) -> std::io::Result<std::process::ExitStatus> {
            let kill = self.kill.clone();
            tokio::select! {
                status = self.child.wait() => return status,
                () = kill.cancelled() => {}
            }
            self.child.start_kill()?;
            self.child.wait().await
        }
    }

    impl Group {
        pub(super) fn start(command: Command) -> std::io::Result<(Leader, Self)> {
            let mut command = CommandWrap::from(command);
            let child = command.wrap(JobObject).wrap(KillOnDrop).spawn()?;
            let kill = CancellationToken::new();
            Ok((Leader { child, kill: kill.clone() }, Self { kill }))
        }

        /// There is no polite signal on Windows.
        pub(super) fn ask(&self) {
            self.kill.cancel();
        }

        pub(super) fn kill(&self) {
            self.kill.cancel();
        }

        /// The job ends with its first process: the reaper lets go of its handle then.
        pub(super) async fn gone(&self) {}
    }

    /// Windows ends the job by itself.
    #[derive(Debug)]
    pub(super) struct Watchdog;

    impl Watchdog {
        pub(super) fn over(_group: &Group) -> Option<Self> {
            Some(Self)
        }
    }
}
