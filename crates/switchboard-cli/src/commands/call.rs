//! `call`: calls a tool.

use std::path::Path;

use serde_json::Value;
use switchboard::State;
use switchboard::spec::Headers;
use switchboard::wire::Json;
use tokio::io::AsyncReadExt;

use super::contents;
use crate::args::Call;
use crate::backend::{Backend, CallRequest, List, Query, Wake};
use crate::names::nearest;
use crate::problem::{Exit, Problem, Result};
use crate::session::Session;
use crate::typing::{TypedArguments, parse_json};
use crate::views::{Servers, items, text};

/// The largest arguments that are read from a file or from standard input.
const ARGUMENT_BYTES: u64 = 64 << 20;

pub(super) async fn run(call: &Call, session: &Session) -> Result<Exit> {
    let mut arguments = match &call.args {
        Some(given) => TypedArguments::of_object(&whole(given, session).await?)?,
        None => TypedArguments::default(),
    };
    let backend = session.backend(Wake::Nothing).await?;
    let target = find(&call.tool, &backend, session).await?;
    let headers = headers(&call.headers)?;
    let progress = session.output.progress(format!("calling {}", call.tool));
    ready(&backend, &target.server).await?;
    if !call.pairs.is_empty() {
        let schema = input_schema(&backend, &target).await?;
        arguments.add_pairs(&call.pairs, schema.as_ref())?;
    }
    let request = CallRequest {
        server: Some(target.server),
        tool: target.name,
        arguments: arguments.into_json()?,
        validate: call.validate,
        retry_if_safe: call.retry_if_safe,
        headers,
        time: call.time,
    };
    let answer = backend.call(request, &progress).await?;
    drop(progress);
    for warning in &answer.warnings {
        session.output.note(&format!("warning: {warning}"));
    }
    if session.output.is_json() {
        session.output.json(answer.result.as_str())?;
    } else {
        contents::print(&session.output, &contents::of_result(&answer.result))?;
    }
    Ok(if answer.is_error { Exit::ToolError } else { Exit::Done })
}

fn headers(given: &[(String, String)]) -> Result<Headers> {
    let mut headers = Headers::default();
    for (name, value) in given {
        headers.add(name, value).map_err(Problem::input)?;
    }
    Ok(headers)
}

/// A tool that was found: the server's id, and the server's own name of the tool.
struct Target {
    server: String,
    name: String,
}

/// The tool that `SERVER/TOOL` or a tool key means.
async fn find(wanted: &str, backend: &Backend, session: &Session) -> Result<Target> {
    let servers = backend.servers_view().await?;
    if let Some(target) = by_server(wanted, &servers)? {
        return Ok(target);
    }
    if let Some(target) = by_key(wanted, backend).await? {
        return Ok(target);
    }
    // The key may be of a server whose tools are not known yet.
    let ids: Vec<String> = servers.iter().map(|(id, _)| id.to_owned()).collect();
    if !backend.is_daemon() {
        let progress = session.output.progress(format!("looking for {wanted}"));
        futures_util::future::join_all(ids.iter().map(|id| backend.connect(id))).await;
        drop(progress);
        if let Some(target) = by_key(wanted, backend).await? {
            return Ok(target);
        }
    }
    Err(unknown(wanted, backend).await?.into())
}

/// `SERVER/TOOL`, cut at the first `/` that has a server before it. Both may hold more of them.
fn by_server(wanted: &str, servers: &Servers) -> Result<Option<Target>> {
    let mut first = None;
    for (cut, _) in wanted.match_indices('/') {
        let (server, name) = (&wanted[..cut], &wanted[cut + 1..]);
        match servers.resolve(server) {
            Ok(server) => return Ok(Some(Target { server, name: name.to_owned() })),
            Err(problem) if first.is_none() => first = Some(problem),
            Err(_) => {}
        }
    }
    first.map_or(Ok(None), |problem| Err(problem.into()))
}

async fn by_key(key: &str, backend: &Backend) -> Result<Option<Target>> {
    let tools = items(&backend.list(List::Tools, &Query::default()).await?, List::Tools.member());
    let found = tools.iter().find(|tool| text(tool, "key") == key);
    Ok(found.map(|tool| Target { server: text(tool, "serverId").to_owned(), name: text(tool, "name").to_owned() }))
}

async fn unknown(wanted: &str, backend: &Backend) -> Result<Problem> {
    let tools = items(&backend.list(List::Tools, &Query::default()).await?, List::Tools.member());
    let same_name: Vec<String> = tools.iter().filter(|tool| text(tool, "name") == wanted).map(address).collect();
    let near = if same_name.is_empty() {
        nearest(wanted, tools.iter().flat_map(|tool| [text(tool, "key"), text(tool, "name")]))
    } else {
        same_name
    };
    Ok(Problem::new("unknown_tool", format!("no tool `{wanted}` is known")).with("nearest", near))
}

fn address(tool: &Value) -> String {
    format!("{}/{}", text(tool, "serverId"), text(tool, "name"))
}

/// Makes sure that a server is ready, or says why it is not. What failed before is tried again.
pub(super) async fn ready(backend: &Backend, id: &str) -> Result<()> {
    let state = backend.servers_view().await?.by_id(id).map(|server| server.state);
    if state == Some(State::Ready) {
        return Ok(());
    }
    let outcome = backend.connect(id).await?.to_value();
    match text(&outcome, "state") {
        "ready" => Ok(()),
        "authenticating" => Err(Problem::new("sign_in_required", format!("server `{id}` needs a sign-in"))
            .with("serverId", id)
            .with("authUrl", text(&outcome, "authUrl"))
            .into()),
        "failed" => {
            let error = outcome.get("error").and_then(Problem::of_document);
            Err(error.unwrap_or_else(|| Problem::new("connect_failed", format!("server `{id}` failed"))).into())
        }
        state => Err(Problem::new("not_ready", format!("server `{id}` is {state}")).with("state", state).into()),
    }
}

/// The tool's input schema; `None` when the tool is not known, which the call itself will say.
async fn input_schema(backend: &Backend, target: &Target) -> Result<Option<Value>> {
    let query = Query { servers: vec![target.server.clone()], ..Query::default() };
    let tools = items(&backend.list(List::Tools, &query).await?, List::Tools.member());
    let tool = tools.into_iter().find(|tool| text(tool, "name") == target.name);
    Ok(tool.and_then(|mut tool| tool.get_mut("inputSchema").map(Value::take)))
}

/// `--args`: the JSON itself, or where it is.
async fn whole(given: &str, session: &Session) -> Result<Json> {
    let failed = |place: &str, cause| Problem::input(format!("{place} cannot be read")).because(cause);
    let (text, place) = match given.strip_prefix('@') {
        _ if given == "-" => (
            read(tokio::io::stdin()).await.map_err(|cause| failed("standard input", cause))?,
            "standard input".to_owned(),
        ),
        Some(name) => {
            let path = session.settings.absolute(Path::new(name));
            let place = format!("`{}`", path.display());
            let file = tokio::fs::File::open(&path).await.map_err(|cause| failed(&place, cause))?;
            (read(file).await.map_err(|cause| failed(&place, cause))?, place)
        }
        None => (given.to_owned(), "`--args`".to_owned()),
    };
    Ok(parse_json(&text, &place)?)
}

async fn read(from: impl tokio::io::AsyncRead + Unpin) -> std::io::Result<String> {
    let mut text = String::new();
    let mut from = from.take(ARGUMENT_BYTES + 1);
    from.read_to_string(&mut text).await?;
    if from.limit() == 0 {
        return Err(std::io::Error::other("the arguments are larger than 64 MiB"));
    }
    Ok(text)
}
