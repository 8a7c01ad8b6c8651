//! A server behind a command, from the program up: is it there, does it start, does it speak, does it keep to itself.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use switchboard::spec::{Inherit, StdioTarget, Timeouts};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::probe;
use super::steps::{Checkup, Finding, excerpt};
use crate::problem::Result;
use crate::settings::Settings;

/// What a child inherits unless more is asked for.
const INHERITED: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR"];

/// How much of what the child says on standard error is kept, and shown.
const STDERR_BYTES: usize = 64 << 10;
const STDERR_SHOWN: usize = 400;

/// How long a child may take to end by itself.
const END: Duration = Duration::from_secs(2);

/// Checks a command.
pub(super) async fn check(
    target: &StdioTarget,
    timeouts: &Timeouts,
    settings: &Settings,
    checkup: &mut Checkup<'_>,
) -> Result<()> {
    let environment = environment(target, settings);
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone()).unwrap_or_default();
    let found = find(&target.command, &path);
    if !checkup.step("command", async { of_command(&target.command, found.as_deref()) }).await? {
        return checkup.skip("start", "an earlier step failed");
    }
    if let Some(folder) = target.cwd.as_ref().filter(|folder| !folder.is_dir()) {
        let found = format!("the folder `{}` is not there", folder.display());
        return checkup.say("folder", Finding::failed(found, "make it, or register the server with another --cwd"));
    }

    let program = found.unwrap_or_else(|| PathBuf::from(&target.command));
    let limit = timeouts.connect;
    let mut heard = Heard::default();
    let starting = async {
        heard = run(target, &program, &environment, &probe::discover(), limit).await;
        if heard.answer.is_none() && heard.exit.is_some() {
            // Some older servers end when the first message is not the one that they know.
            heard = run(target, &program, &environment, &probe::initialize(), limit).await;
            heard.is_second = true;
        }
        heard.finding(limit)
    };
    checkup.step("start", starting).await?;
    checkup.say("standard output", heard.noise())?;
    match &heard.answer {
        Some(_) if heard.is_second => {
            checkup.say("era", Finding::ok("legacy: it ends when it is asked `server/discover`"))
        }
        Some(answer) => checkup.say("era", probe::era(answer)),
        None => checkup.skip("era", "it gave no answer"),
    }
}

/// The environment of the child: the safe part of ours, what was asked for, what was given.
fn environment(target: &StdioTarget, settings: &Settings) -> Vec<(OsString, OsString)> {
    let is_inherited = |name: &OsStr| {
        let Some(name) = name.to_str() else { return matches!(target.inherit, Inherit::All) };
        match &target.inherit {
            Inherit::All => true,
            Inherit::Also(names) if names.iter().any(|one| one == name) => true,
            _ => INHERITED.contains(&name) || name.starts_with("LC_"),
        }
    };
    let given = target.env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value.expose())));
    let ours = settings
        .variables
        .iter()
        .filter(|(name, _)| is_inherited(name) && !target.env.contains_key(&*name.to_string_lossy()));
    given.chain(ours.cloned()).collect()
}

/// The program that a command means.
fn find(command: &str, path: &OsStr) -> Option<PathBuf> {
    if command.contains(std::path::MAIN_SEPARATOR) {
        return Some(PathBuf::from(command)).filter(|path| path.is_file());
    }
    std::env::split_paths(path).map(|folder| folder.join(command)).find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    }
    #[cfg(not(unix))]
    {
        path.is_file()
    }
}

fn of_command(command: &str, found: Option<&Path>) -> Finding {
    match found {
        Some(path) if is_program(path) => Finding::ok(path.display().to_string()),
        Some(path) => {
            Finding::failed(format!("`{}` may not be executed", path.display()), format!("chmod +x {}", path.display()))
        }
        None if command.contains(std::path::MAIN_SEPARATOR) => {
            Finding::failed(format!("`{command}` is not there"), "check the path; it must be absolute")
        }
        None => Finding::failed(
            format!("`{command}` is in no folder of PATH"),
            "install it, or register the server with the whole path of the command",
        ),
    }
}

/// What was heard from a child.
#[derive(Debug, Default)]
struct Heard {
    /// Its first message.
    answer: Option<Value>,
    /// Lines on standard output that are no messages.
    noise: Vec<String>,
    /// How it ended, when it did so by itself.
    exit: Option<ExitStatus>,
    /// The end of what it said on standard error.
    stderr: String,
    /// Why it could not be started.
    failure: Option<String>,
    /// Whether it was started a second time, with the other question.
    is_second: bool,
}

impl Heard {
    fn finding(&self, limit: Duration) -> Finding {
        let said = match excerpt(&self.stderr, STDERR_SHOWN) {
            said if said.is_empty() => String::new(),
            said => format!("; it said: {said}"),
        };
        match (&self.failure, &self.answer, &self.exit) {
            (Some(failure), ..) => Finding::failed(failure.clone(), "the system could not start it"),
            (_, Some(_), _) => Finding::ok("it starts and answers"),
            (_, None, Some(exit)) => {
                Finding::failed(format!("it ends before it answers: {exit}{said}"), "what it said tells why")
            }
            (_, None, None) => Finding::failed(
                format!("it starts, but does not answer within {} ms{said}", limit.as_millis()),
                "is it an MCP server, and does it speak on its standard streams? slow ones need --connect-timeout-ms",
            ),
        }
    }

    fn noise(&self) -> Finding {
        match self.noise.first() {
            None if self.answer.is_none() => Finding::skipped("it gave no answer"),
            None => Finding::ok("nothing but messages"),
            Some(first) => Finding::warning(
                format!("{} lines that are no messages, the first: {}", self.noise.len(), excerpt(first, 80)),
                "a server must log to standard error; it works as long as the lines are whole",
            ),
        }
    }
}

/// Starts the child, asks it `question`, listens for its answer, and ends it with all its children.
async fn run(
    target: &StdioTarget,
    program: &Path,
    environment: &[(OsString, OsString)],
    question: &Value,
    limit: Duration,
) -> Heard {
    let mut heard = Heard::default();
    let mut command = Command::new(program);
    command.args(&target.args).env_clear().envs(environment.iter().cloned()).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = &target.cwd {
        command.current_dir(folder);
    }
    #[cfg(unix)]
    command.process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(cause) => {
            heard.failure = Some(cause.to_string());
            return heard;
        }
    };
    let said = Mutex::default();
    // Silence is told by the absence of an answer.
    let _ = timeout(limit, listen(&mut child, question, &mut heard, &said)).await;
    heard.stderr = String::from_utf8_lossy(&said.into_inner().unwrap_or_else(PoisonError::into_inner)).into_owned();
    if heard.answer.is_none() {
        heard.exit = timeout(Duration::from_millis(200), child.wait()).await.ok().and_then(Result::ok);
    }
    end(child).await;
    heard
}

/// Listens until a message comes, or standard output ends. Standard error is drained meanwhile, and a moment longer.
async fn listen(child: &mut Child, question: &Value, heard: &mut Heard, said: &Mutex<Vec<u8>>) {
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return;
    };
    let asking = async {
        // A child that is gone already is told by the end of its output.
        let _ = stdin.write_all(format!("{question}\n").as_bytes()).await;
        let mut lines = BufReader::new(stdout).split(b'\n');
        while let Ok(Some(line)) = lines.next_segment().await {
            let text = String::from_utf8_lossy(&line);
            match serde_json::from_str::<Value>(&text) {
                Ok(message) if message.get("jsonrpc").is_some() => {
                    // Whatever else it wants to say first, this is its answer when it carries our id.
                    if message.get("id").and_then(Value::as_str) == Some("doctor-1") {
                        heard.answer = Some(message);
                        return;
                    }
                }
                _ if text.trim().is_empty() => {}
                _ => heard.noise.push(text.into_owned()),
            }
        }
    };
    let mut draining = std::pin::pin!(drain(stderr, said));
    let mut asking = std::pin::pin!(asking);
    let mut is_drained = false;
    loop {
        tokio::select! {
            () = &mut draining, if !is_drained => is_drained = true,
            () = &mut asking => break,
        }
    }
    if !is_drained {
        // A child that ends says why at the very end.
        let _ = timeout(Duration::from_millis(100), draining).await;
    }
}

/// Keeps the end of what a child says on standard error.
async fn drain(mut stderr: impl AsyncRead + Unpin, said: &Mutex<Vec<u8>>) {
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(&piece[..count]);
        let excess = said.len().saturating_sub(STDERR_BYTES);
        said.drain(..excess);
    }
}

/// Ends a child whose standard input is closed already: by itself, else by force, with whatever it started.
async fn end(mut child: Child) {
    let group = child.id();
    // Force comes below.
    let _ = timeout(END, child.wait()).await;
    #[cfg(unix)]
    if let Some(group) = group.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        // Nobody left in the group is what is hoped for.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    // Dead already, or about to be.
    let _ = child.kill().await;
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::super::steps::Status;
    use super::*;

    async fn heard(script: &str) -> Heard {
        let target = StdioTarget::new("/bin/sh", vec!["-c".into(), script.into()]).unwrap();
        let environment = [("PATH".into(), "/usr/bin:/bin".into())];
        run(&target, Path::new("/bin/sh"), &environment, &probe::discover(), Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn a_server_that_answers_is_heard_through_its_noise() {
        let heard = heard(r#"echo banner; read q; echo '{"jsonrpc":"2.0","id":"doctor-1","result":{}}'; cat"#).await;
        assert_eq!(heard.finding(END).status, Status::Ok);
        assert_eq!(heard.noise, ["banner"]);
        assert_eq!(heard.noise().status, Status::Warning);
    }

    #[tokio::test]
    async fn a_server_that_ends_at_once_is_told_with_its_last_words() {
        let heard = heard("echo 'API_KEY is missing' >&2; exit 3").await;
        let finding = heard.finding(END);
        assert_eq!(finding.status, Status::Failed);
        assert!(
            finding.found.contains("exit status: 3") && finding.found.contains("API_KEY is missing"),
            "{}",
            finding.found
        );
    }

    #[test]
    fn a_command_that_is_not_there_is_told() {
        assert!(
            of_command("no-such-command", find("no-such-command", OsStr::new("/bin")).as_deref())
                .found
                .contains("PATH")
        );
        assert!(of_command("/no/such", find("/no/such", OsStr::new("")).as_deref()).found.contains("not there"));
        assert_eq!(of_command("sh", find("sh", OsStr::new("/none:/bin")).as_deref()).status, Status::Ok);
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert!(of_command(path, find(path, OsStr::new("")).as_deref()).found.contains("may not be executed"));
    }
}
