//! Requests to servers: a tool called, a resource read, a prompt got, an argument completed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use switchboard::manager::CallLimits;
use switchboard::spec::Headers;
use switchboard::wire::Json;
use switchboard::{ErrorKind, ServerId, ToolCall};
use utoipa::ToSchema;

use super::Routes;
use crate::address::At;
use crate::app::App;
use crate::body::Input;
use crate::call_table::{Key, Subject};
use crate::carry::{self, Job};
use crate::code::Code;
use crate::openapi::Operation;
use crate::problem::Problem;

/// The longest time that a request may ask for.
const MAX_TIME_MS: u64 = 86_400_000;
/// The longest idempotency key, in bytes.
const MAX_KEY: usize = 255;

/// A tool to call: by server and name, or by the key under which models see it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ToolRequest {
    /// The server; goes with `name`.
    server_id: Option<String>,
    /// The server's own name of the tool; goes with `serverId`.
    name: Option<String>,
    /// The tool's key, instead of `serverId` and `name`.
    tool: Option<String>,
    /// The arguments, sent as given; absent means `{}`.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Json>,
    /// The time for one answer; starts anew with each progress report.
    timeout_ms: Option<u64>,
    /// The time in all.
    deadline_ms: Option<u64>,
    /// Whether the arguments are checked against the input schema first.
    #[serde(default)]
    validate: bool,
    /// A name for this very call: repeated with the same key it is not carried out again while the first is remembered.
    idempotency_key: Option<String>,
    /// Calls once more when the connection was lost and the tool says that it is read-only or idempotent.
    #[serde(default)]
    retry_if_safe: bool,
    /// HTTP headers of this call alone, values by name; for servers over HTTP.
    #[serde(default)]
    #[schema(value_type = Option<HashMap<String, String>>)]
    headers: Headers,
}

/// A resource to read.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResourceRequest {
    /// The server.
    server_id: String,
    /// The resource's URI.
    uri: String,
    /// The time for one answer; starts anew with each progress report.
    timeout_ms: Option<u64>,
    /// The time in all.
    deadline_ms: Option<u64>,
}

/// A prompt to get.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PromptRequest {
    /// The server.
    server_id: String,
    /// The prompt's name.
    name: String,
    /// The arguments, strings by name.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Json>,
    /// The time for one answer; starts anew with each progress report.
    timeout_ms: Option<u64>,
    /// The time in all.
    deadline_ms: Option<u64>,
}

/// An argument to complete; `ref`, `argument` and `context` as `completion/complete` takes them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CompleteRequest {
    /// The server.
    server_id: String,
    /// The prompt or resource template.
    #[schema(value_type = Object)]
    r#ref: Json,
    /// The argument and what is typed so far.
    #[schema(value_type = Object)]
    argument: Json,
    /// Arguments that are settled already.
    #[schema(value_type = Option<Object>)]
    context: Option<Json>,
    /// The time for one answer; starts anew with each progress report.
    timeout_ms: Option<u64>,
    /// The time in all.
    deadline_ms: Option<u64>,
}

/// The parameters of `completion/complete`.
#[derive(Serialize)]
struct CompleteParameters<'a> {
    r#ref: &'a Json,
    argument: &'a Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a Json>,
}

pub(super) fn routes(routes: Routes) -> Routes {
    let request = |id, summary, body| {
        Operation::new("calls", id, summary)
            .takes(body)
            .prefers_async()
            .answers(200, "the server's result as it came", "AnyObject")
            .answers(202, "begun; `Location` is where to ask for it", "Begun")
            .fails(&carry::CODES)
    };
    routes
        .post(
            "~/tools/call",
            call_tool,
            request("callTool", "Calls a tool", "ToolRequest").fails(&[
                Code::Kind(ErrorKind::UnknownTool),
                Code::Kind(ErrorKind::ToolNotAllowed),
                Code::Kind(ErrorKind::ToolChanged),
                Code::Kind(ErrorKind::InvalidArguments),
                Code::KeyReused,
            ]),
        )
        .post("~/resources/read", read_resource, request("readResource", "Reads a resource", "ResourceRequest"))
        .post("~/prompts/get", get_prompt, request("getPrompt", "Gets a prompt", "PromptRequest"))
        .post("~/complete", complete, request("complete", "Completes an argument", "CompleteRequest"))
}

async fn call_tool(
    State(app): State<App>,
    headers: HeaderMap,
    at: At,
    Input(request): Input<ToolRequest>,
) -> Result<Response, Problem> {
    let call = request.call()?;
    let subject = Subject {
        method: "tools/call",
        server: call.server.as_ref().map(ToString::to_string),
        name: call.tool.to_string(),
    };
    let job = Job { key: request.key(&call)?, ..Job::new(subject, &headers) };
    let manager = at.manager.clone();
    carry::out(&app, &at, job, async move { manager.call(call).await.into() }).await
}

async fn read_resource(
    State(app): State<App>,
    headers: HeaderMap,
    at: At,
    Input(request): Input<ResourceRequest>,
) -> Result<Response, Problem> {
    let server = server(&request.server_id)?;
    let limits = limits(request.timeout_ms, request.deadline_ms)?;
    let subject = Subject { method: "resources/read", server: Some(server.to_string()), name: request.uri.clone() };
    let manager = at.manager.clone();
    let work = async move { manager.read_resource(&server, &request.uri, limits).await.into() };
    carry::out(&app, &at, Job::new(subject, &headers), work).await
}

async fn get_prompt(
    State(app): State<App>,
    headers: HeaderMap,
    at: At,
    Input(request): Input<PromptRequest>,
) -> Result<Response, Problem> {
    let server = server(&request.server_id)?;
    let limits = limits(request.timeout_ms, request.deadline_ms)?;
    check_object("arguments", request.arguments.as_ref())?;
    let subject = Subject { method: "prompts/get", server: Some(server.to_string()), name: request.name.clone() };
    let manager = at.manager.clone();
    let work = async move { manager.get_prompt(&server, &request.name, request.arguments, limits).await.into() };
    carry::out(&app, &at, Job::new(subject, &headers), work).await
}

async fn complete(
    State(app): State<App>,
    headers: HeaderMap,
    at: At,
    Input(request): Input<CompleteRequest>,
) -> Result<Response, Problem> {
    let server = server(&request.server_id)?;
    let limits = limits(request.timeout_ms, request.deadline_ms)?;
    let parameters = request.parameters()?;
    let subject = Subject { method: "completion/complete", server: Some(server.to_string()), name: String::new() };
    let manager = at.manager.clone();
    let work = async move { manager.complete(&server, parameters, limits).await.into() };
    carry::out(&app, &at, Job::new(subject, &headers), work).await
}

impl ToolRequest {
    /// The call that is asked for.
    fn call(&self) -> Result<ToolCall, Problem> {
        let mut call = match (&self.server_id, &self.name, &self.tool) {
            (Some(id), Some(name), None) => ToolCall::new(server(id)?, name.as_str()),
            (None, None, Some(key)) => ToolCall::by_key(key.as_str()),
            (None, None, None) => return Err(Problem::invalid_at("tool", "give `tool`, or `serverId` and `name`")),
            (Some(_), None, None) => return Err(Problem::invalid_at("name", "must stand beside `serverId`")),
            (None, Some(_), None) => return Err(Problem::invalid_at("serverId", "must stand beside `name`")),
            (_, _, Some(_)) => {
                return Err(Problem::invalid_at("tool", "give either `tool`, or `serverId` and `name`, not both"));
            }
        };
        check_object("arguments", self.arguments.as_ref())?;
        call.limits = limits(self.timeout_ms, self.deadline_ms)?;
        call.arguments.clone_from(&self.arguments);
        (call.validate, call.retry_if_safe) = (self.validate, self.retry_if_safe);
        call.headers(self.headers.clone()).map_err(|error| Problem::of(&error))
    }

    /// The idempotency key, with a print of the call that it stands for.
    fn key(&self, call: &ToolCall) -> Result<Option<Key>, Problem> {
        let Some(key) = &self.idempotency_key else { return Ok(None) };
        if key.is_empty() || key.len() > MAX_KEY {
            return Err(Problem::invalid_at("idempotencyKey", format!("must have 1 to {MAX_KEY} bytes")));
        }
        let mut print = DefaultHasher::new();
        (&call.server, &call.tool, &call.arguments).hash(&mut print);
        Ok(Some(Key { key: key.clone(), print: print.finish() }))
    }
}

impl CompleteRequest {
    fn parameters(&self) -> Result<Json, Problem> {
        check_object("ref", Some(&self.r#ref))?;
        check_object("argument", Some(&self.argument))?;
        check_object("context", self.context.as_ref())?;
        let parameters =
            CompleteParameters { r#ref: &self.r#ref, argument: &self.argument, context: self.context.as_ref() };
        Json::of(&parameters).map_err(|error| Problem::invalid_at("", error.to_string()))
    }
}

fn server(id: &str) -> Result<ServerId, Problem> {
    ServerId::parse(id).map_err(|_| Problem::invalid_at("serverId", "may not be empty"))
}

fn check_object(path: &str, value: Option<&Json>) -> Result<(), Problem> {
    if value.is_none_or(Json::is_object) { Ok(()) } else { Err(Problem::invalid_at(path, "must be an object")) }
}

fn limits(timeout: Option<u64>, deadline: Option<u64>) -> Result<CallLimits, Problem> {
    let check = |name: &str, given: Option<u64>| match given {
        Some(0) => Err(Problem::invalid_at(name, "must be 1 at least")),
        Some(millis) if millis > MAX_TIME_MS => Err(Problem::invalid_at(name, "must be a day at most")),
        given => Ok(given.map(Duration::from_millis)),
    };
    Ok(CallLimits::new(check("timeoutMs", timeout)?, check("deadlineMs", deadline)?))
}

#[cfg(test)]
mod tests;
