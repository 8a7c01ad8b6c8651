//! Real MCP servers that nobody here wrote, installed from the public registries by `peers/install.sh`.
//!
//! | server | over stdio | over Streamable HTTP | over HTTP+SSE |
//! |---|---|---|---|
//! | npm `@modelcontextprotocol/server-everything` | legacy | legacy, with sessions | legacy |
//! | PyPI `fastmcp` | both eras | both eras, with sessions for legacy clients | legacy |

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::CommandLine;
use crate::patience::Alarm;

/// How long a real server may take to listen; a cold interpreter on a busy machine is slow.
const START: std::time::Duration = std::time::Duration::from_secs(60);

/// The command of npm's reference server over stdio.
///
/// # Panics
/// When it is not installed. So do all functions here.
pub fn everything() -> CommandLine {
    CommandLine::new("node", [text(&everything_script()), "stdio".to_owned()])
}

/// The command of a small `fastmcp` server over stdio: the tools `echo`, `add`, `weather`, `slow` and `fail`, the
/// resource `note://welcome`, the template `note://numbers/{number}` and the prompt `greet`.
///
/// # Panics
/// When it is not installed.
pub fn fastmcp() -> CommandLine {
    CommandLine::new(python(), [text(&sources().join("fastmcp_server.py"))])
}

/// Starts npm's reference server over Streamable HTTP.
///
/// # Panics
/// When it is not installed or does not start.
pub async fn everything_over_http() -> RealServer {
    let preload = text(&sources().join("loopback.cjs"));
    let arguments = ["--require".to_owned(), preload, text(&everything_script()), "streamableHttp".to_owned()];
    RealServer::start(&CommandLine::new("node", arguments)).await
}

/// Starts npm's reference server over HTTP+SSE, at [`RealServer::url_at`] `/sse`.
///
/// # Panics
/// When it is not installed or does not start.
pub async fn everything_over_sse() -> RealServer {
    let preload = text(&sources().join("loopback.cjs"));
    let arguments = ["--require".to_owned(), preload, text(&everything_script()), "sse".to_owned()];
    RealServer::start(&CommandLine::new("node", arguments)).await
}

/// Starts the `fastmcp` server of [`fastmcp`] over Streamable HTTP.
///
/// # Panics
/// When it is not installed or does not start.
pub async fn fastmcp_over_http() -> RealServer {
    let mut command = fastmcp();
    command.arguments.push("--http".to_owned());
    RealServer::start(&command).await
}

/// Starts the `fastmcp` server of [`fastmcp`] over HTTP+SSE, at [`RealServer::url_at`] `/sse`.
///
/// # Panics
/// When it is not installed or does not start.
pub async fn fastmcp_over_sse() -> RealServer {
    let mut command = fastmcp();
    command.arguments.push("--sse".to_owned());
    RealServer::start(&command).await
}

/// A real server over HTTP on a free port of the loopback. Its whole process group is killed when this is dropped; it
/// also ends by itself when the test's process does.
#[derive(Debug)]
pub struct RealServer {
    child: Child,
    port: u16,
}

impl RealServer {
    async fn start(command: &CommandLine) -> Self {
        let mut process = Command::new(&command.program);
        process.args(&command.arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut process, 0);
        let mut child = process.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stderr = child.stderr.take().expect("stderr is a pipe");
        // From here on the process ends when something goes wrong.
        let mut server = Self { child, port: 0 };
        server.port = port_named_on(stderr, command).await;
        server
    }

    /// The address of the MCP endpoint.
    pub fn url(&self) -> String {
        self.url_at("/mcp")
    }

    /// Another address of this server.
    pub fn url_at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of the process and of its group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads stderr for as long as the process lives, and gives the port that it names.
async fn port_named_on(stderr: ChildStderr, command: &CommandLine) -> u16 {
    let (found, port) = oneshot::channel();
    let log = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&log);
    std::thread::spawn(move || {
        let mut found = Some(found);
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let port = line.strip_prefix("listening on port ").and_then(|port| port.trim().parse().ok());
            if let Some((found, port)) = found.take_if(|_| port.is_some()).zip(port) {
                let _: Result<(), u16> = found.send(port);
            }
            if found.is_some() {
                written.lock().expect("nobody panics while holding the log").push_str(&format!("{line}\n"));
            }
        }
    });
    let mut alarm = Alarm::after(START);
    let port = tokio::select! {
        port = port => port.ok(),
        () = alarm.rings() => None,
    };
    port.unwrap_or_else(|| {
        panic!("{command:?} did not start:\n{}", log.lock().expect("nobody panics while holding the log"))
    })
}

fn everything_script() -> PathBuf {
    installed("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

fn python() -> PathBuf {
    installed(if cfg!(windows) { "python/Scripts/python.exe" } else { "python/bin/python" })
}

/// A file that `peers/install.sh` put there.
fn installed(path: &str) -> PathBuf {
    let folder = repository().join("target/peers");
    let file = folder.join(path);
    assert!(
        folder.join("installed").exists() && file.exists(),
        "this test talks to a real server that is not installed: run ./test.sh, which installs it (or peers/install.sh)"
    );
    file
}

fn sources() -> PathBuf {
    repository().join("peers")
}

fn repository() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    folder.expect("the crate is two folders below the root of the repository").to_owned()
}

fn text(path: &Path) -> String {
    path.to_str().expect("the repository has a Unicode path").to_owned()
}
