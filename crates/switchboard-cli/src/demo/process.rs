//! The demo server over HTTP as a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::problem::{Problem, Result};

/// How long the process may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running demo server. It ends when its standard input does, so it cannot outlive this program.
pub(super) struct HttpServer {
    /// Its MCP endpoint.
    pub(super) url: String,
    child: Child,
}

impl HttpServer {
    /// Starts a server of one era on a free port.
    pub(super) async fn start(program: &Path, era: &str) -> Result<Self> {
        let failed = |what: &str| Problem::new("demo_failed", format!("the demo server {what}"));
        let mut child = Command::new(program)
            .args(["demo-server", "--http", "--era", era])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|cause| failed("does not start").because(cause))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("has no output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let first = first.map_err(|_| failed("does not say where it listens"))?;
        match first.map_err(|cause| failed("cannot be read").because(cause))? {
            Some(url) => Ok(Self { url, child }),
            None => Err(failed("ended at once").into()),
        }
    }

    /// Ends the server.
    pub(super) async fn stop(mut self) {
        drop(self.child.stdin.take());
        if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_err() {
            // It is killed when it is dropped, if this fails.
            let _ = self.child.kill().await;
        }
    }
}
