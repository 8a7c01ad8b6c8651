//! The tour's stop at npm's reference server, where `npx` is there.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use switchboard::ServerSpec;
use tokio::process::Command;

use super::tour::{Stop, Tour, in_path};
use crate::args::Demo;
use crate::problem::Result;
use crate::session::Session;

const PACKAGE: &str = "@modelcontextprotocol/server-everything";

/// How long npm may take to fetch the package.
const INSTALL: Duration = Duration::from_secs(180);

/// How long the server may take to start, once it is there.
const START: Duration = Duration::from_secs(60);

/// The stop, or nothing, said with the reason.
pub(super) async fn stop(demo: &Demo, session: &Session, tour: &Tour<'_>) -> Result<Option<Stop>> {
    if demo.no_npx {
        return Ok(None);
    }
    let Some(npx) = in_path("npx", &session.settings.path) else {
        tour.step("npm's reference server is left out: there is no npx in PATH")?;
        return Ok(None);
    };
    let progress = session.output.progress(format!("fetching {PACKAGE}"));
    let installed = install(&npx, &session.settings.path).await;
    drop(progress);
    if let Err(why) = installed {
        tour.step(&format!("npm's reference server is left out: npx could not fetch it: {why}"))?;
        return Ok(None);
    }
    let spec = ServerSpec::stdio("everything", npx.to_string_lossy(), ["-y", PACKAGE])?;
    let mut stop = Stop::new("everything", spec)?.patient(START);
    stop.calls.push(("echo", json!({"message": "hello"}), "hello"));
    Ok(Some(stop))
}

/// Fetches the package without starting the server, so that a missing network is told from a server that fails.
async fn install(npx: &Path, path: &OsStr) -> Result<(), String> {
    let child = Command::new(npx)
        .args(["-y", "--package", PACKAGE, "-c", "exit 0"])
        .env("PATH", path)
        .env("npm_config_fetch_retries", "1")
        .env("npm_config_update_notifier", "false")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let child = child.map_err(|cause| cause.to_string())?;
    match tokio::time::timeout(INSTALL, child.wait_with_output()).await {
        Err(_) => Err(format!("it took longer than {} s", INSTALL.as_secs())),
        Ok(Err(cause)) => Err(cause.to_string()),
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => Err(first_line(&output.stderr).unwrap_or_else(|| output.status.to_string())),
    }
}

/// The first line that says something.
fn first_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let says = |line: &&str| !line.trim().is_empty() && !line.contains("npm warn");
    text.lines().find(says).map(|line| line.trim().chars().take(200).collect())
}
