//! The tour: adds the demo server in every way, calls it, stops, starts again, and finds everything as it was.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::manager::{Added, CallLimits};
use switchboard::spec::{Retry, Timeouts};
use switchboard::wire::Json;
use switchboard::{Filter, Manager, ServerId, ServerSpec, State, ToolCall};

use super::{npx, process::HttpServer};
use crate::args::Demo;
use crate::backend::{BETWEEN_LOOKS, Wake, local::Local};
use crate::output::Output;
use crate::problem::{Exit, Problem, Result};
use crate::session::Session;

/// How long the servers may take to be ready again after the restart.
const SETTLE: Duration = Duration::from_secs(60);

/// How long everything may take to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Walks through it all.
pub(crate) async fn run(demo: &Demo, session: &Session) -> Result<Exit> {
    let tour = Tour { output: &session.output };
    let folder = session.temporary_folder()?;
    tour.title(&format!("A new data folder: {}", folder.display()))?;
    let program = std::env::current_exe().map_err(|cause| failed("this program cannot find itself").because(cause))?;
    let modern = HttpServer::start(&program, "modern").await?;
    let legacy = HttpServer::start(&program, "legacy").await?;
    tour.step(&format!("the demo server listens at {} (2026-07-28) and {} (2025-11-25)", modern.url, legacy.url))?;
    let mut stops = our_stops(&program, &modern.url, &legacy.url)?;
    stops.extend(npx::stop(demo, session, &tour).await?);

    let manager = session.manager(&folder, Wake::Everything).await?;
    for stop in &stops {
        tour.add(&manager, stop).await?;
        tour.use_it(&manager, stop).await?;
    }
    tour.title("Stop, and start again on the same data folder")?;
    manager.shutdown(GRACE).await;
    let manager = session.manager(&folder, Wake::Everything).await?;
    tour.find_again(&manager, &stops).await?;
    manager.shutdown(GRACE).await;
    modern.stop().await;
    legacy.stop().await;
    tour.title(&format!("All went well: {} servers added, called, remembered", stops.len()))?;
    Ok(Exit::Done)
}

fn failed(what: impl Into<String>) -> Problem {
    Problem::new("demo_failed", what)
}

/// One server of the tour.
pub(super) struct Stop {
    pub(super) id: ServerId,
    pub(super) spec: ServerSpec,
    /// Tools to call, with their arguments and the text that must come back.
    pub(super) calls: Vec<(&'static str, Value, &'static str)>,
    /// A prompt with its arguments, and a resource.
    pub(super) prompt: Option<(&'static str, Value)>,
    pub(super) resource: Option<&'static str>,
}

impl Stop {
    pub(super) fn new(id: &str, spec: ServerSpec) -> Result<Self> {
        Ok(Self {
            id: ServerId::parse(id)?,
            spec: spec.id(id)?.retry(Retry::attempts(1)),
            calls: Vec::new(),
            prompt: None,
            resource: None,
        })
    }

    /// The demo server, which is known to the letter.
    fn ours(id: &str, spec: ServerSpec) -> Result<Self> {
        Ok(Self {
            calls: vec![
                ("echo", json!({"message": "hello"}), "hello"),
                ("add", json!({"a": 19, "b": 23}), "42"),
                ("roll", json!({"dice": 3, "sides": 6}), "1 + 6 + 5 = 12"),
            ],
            prompt: Some(("greet", json!({"name": "Ada"}))),
            resource: Some("demo://welcome"),
            ..Self::new(id, spec)?
        })
    }

    /// The same server with more time to start.
    pub(super) fn patient(mut self, connect: Duration) -> Self {
        let mut timeouts = Timeouts::default();
        timeouts.connect = connect;
        self.spec = self.spec.timeouts(timeouts);
        self
    }
}

/// The demo server over both transports, in both eras.
fn our_stops(program: &std::path::Path, modern: &str, legacy: &str) -> Result<Vec<Stop>> {
    let program = program.to_str().ok_or_else(|| failed("this program's path is not UTF-8"))?;
    let child = |name: &str, era: &str| {
        let spec = ServerSpec::stdio(name, program, ["demo-server", "--stdio", "--era", era])?;
        Stop::ours(name, spec)
    };
    Ok(vec![
        child("stdio-modern", "modern")?,
        child("stdio-legacy", "legacy")?,
        Stop::ours("http-modern", ServerSpec::http("http-modern", modern)?)?,
        Stop::ours("http-legacy", ServerSpec::http("http-legacy", legacy)?)?,
    ])
}

/// What is said on the way.
pub(super) struct Tour<'a> {
    output: &'a Output,
}

impl Tour<'_> {
    /// A new part.
    pub(super) fn title(&self, text: &str) -> Result<()> {
        if self.output.is_json() { self.output.document(&json!({"part": text})) } else { self.output.line(text) }
    }

    /// One step of a part.
    pub(super) fn step(&self, text: &str) -> Result<()> {
        if self.output.is_json() {
            self.output.document(&json!({"step": text}))
        } else {
            self.output.line(&format!("  {text}"))
        }
    }

    async fn add(&self, manager: &Manager, stop: &Stop) -> Result<()> {
        self.title(&format!("Add `{}`: {}", stop.id, stop.spec.target.display()))?;
        let progress = self.output.progress(format!("connecting to {}", stop.id));
        let added = manager.add(stop.spec.clone()).await?;
        drop(progress);
        match added {
            Added::Ready { .. } => {}
            Added::Failed { error, .. } => return Err(Problem::from(error).into()),
            _ => return Err(failed(format!("`{}` is not ready", stop.id)).into()),
        }
        self.step(&how_it_is(manager, &stop.id)?)
    }

    async fn use_it(&self, manager: &Manager, stop: &Stop) -> Result<()> {
        let tools = manager.tools(&Filter::all().server(&stop.id));
        let names: Vec<&str> = tools.iter().map(|entry| entry.tool.name()).collect();
        self.step(&format!("tools: {}", names.join(", ")))?;
        for call in &stop.calls {
            self.call(manager, stop, call).await?;
        }
        if let Some((name, arguments)) = &stop.prompt {
            let arguments = Some(Json::from(arguments.clone()));
            let result = manager.get_prompt(&stop.id, name, arguments, CallLimits::default()).await?.to_value();
            let text = result.pointer("/messages/0/content/text").and_then(Value::as_str);
            let text = text.ok_or_else(|| failed(format!("the prompt `{name}` of `{}` has no text", stop.id)))?;
            self.step(&format!("prompt {name} → {text}"))?;
        }
        if let Some(uri) = stop.resource {
            let result = manager.read_resource(&stop.id, uri, CallLimits::default()).await?.to_value();
            let text = result.pointer("/contents/0/text").and_then(Value::as_str);
            let text = text.ok_or_else(|| failed(format!("the resource `{uri}` of `{}` has no text", stop.id)))?;
            self.step(&format!("resource {uri} → {text}"))?;
        }
        Ok(())
    }

    async fn call(&self, manager: &Manager, stop: &Stop, call: &(&'static str, Value, &'static str)) -> Result<()> {
        let (tool, arguments, expected) = call;
        let request = ToolCall::new(stop.id.clone(), *tool).arguments(Json::from(arguments.clone()));
        let answer = manager.call(request).await?;
        let result = answer.result.to_value();
        let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
        if answer.is_error || !text.contains(expected) {
            return Err(failed(format!("`{}/{tool}` answered `{text}` instead of `{expected}`", stop.id)).into());
        }
        self.step(&format!("call {tool} {arguments} → {text}"))
    }

    /// After the restart: every server is known, becomes ready by itself, and answers.
    async fn find_again(&self, manager: &Manager, stops: &[Stop]) -> Result<()> {
        let known = manager.registrations();
        if known.len() != stops.len() {
            return Err(failed(format!("{} of {} servers are remembered", known.len(), stops.len())).into());
        }
        self.step(&format!("{} servers are remembered", known.len()))?;
        let progress = self.output.progress("connecting");
        let local = Local::new(manager.clone());
        let settled = async {
            while !local.unsettled(&[]).is_empty() {
                tokio::time::sleep(BETWEEN_LOOKS).await;
            }
        };
        // Who is missing then is told below.
        let _ = tokio::time::timeout(SETTLE, settled).await;
        let missing = local.unsettled(&[]);
        drop(progress);
        if let Some(id) = missing.first() {
            return Err(failed(format!("`{id}` is still connecting")).into());
        }
        for stop in stops {
            self.step(&how_it_is(manager, &stop.id)?)?;
            for call in stop.calls.iter().take(1) {
                self.call(manager, stop, call).await?;
            }
        }
        Ok(())
    }
}

/// A server in one line; a problem when it is not ready.
fn how_it_is(manager: &Manager, id: &ServerId) -> Result<String> {
    let status = manager.status(id)?;
    if status.state != State::Ready {
        let why = status.error.unwrap_or_else(|| status.state.to_string());
        return Err(failed(format!("`{id}` is {}", status.state)).because(why).into());
    }
    let version = status.protocol_version.unwrap_or_default();
    Ok(format!("`{id}` is ready: protocol {version} over {}", status.transport))
}

/// Where a program is found in `PATH`.
pub(super) fn in_path(program: &str, path: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|candidate| candidate.is_file())
}
