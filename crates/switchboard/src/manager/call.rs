//! Requests to one server: a tool call, a resource, a prompt, a completion. From a name to the transport and back.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::registry::nearest;
use crate::catalogue::ServerCatalogue;
use crate::catalogue::drift::{Withheld, kinds};
use crate::connection::{Connection, Live};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CallEnd, EventLog};
use crate::id::ServerId;
use crate::session::request::{Request, RequestError};
use crate::spec::OutputSchemaPolicy;
use crate::status::{ListState, State};
use crate::transport::TransportError;
use crate::wire::message::{HEADER_MISMATCH, Params};
use crate::wire::model::result_flags;
use crate::wire::{Era, Json, Tool, meta};

/// A tool call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCall {
    /// Which server; `None`: `tool` is a tool key.
    pub server: Option<ServerId>,
    /// The server's own name of the tool, or its key.
    pub tool: Arc<str>,
    /// The arguments, an object; absent means `{}`.
    pub arguments: Option<Json>,
    /// The limits of time.
    pub limits: CallLimits,
    /// Whether the arguments are checked against the input schema first.
    pub validate: bool,
}

impl ToolCall {
    /// A call of a server's tool by its own name.
    pub fn new(server: ServerId, tool: impl Into<Arc<str>>) -> Self {
        Self { server: Some(server), ..Self::by_key(tool) }
    }

    /// A call by the key under which models see the tool.
    pub fn by_key(key: impl Into<Arc<str>>) -> Self {
        Self { server: None, tool: key.into(), arguments: None, limits: CallLimits::default(), validate: false }
    }

    /// The same call with these arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: impl Into<Json>) -> Self {
        self.arguments = Some(arguments.into());
        self
    }

    /// The same call with these limits of time.
    #[must_use]
    pub fn limits(mut self, limits: CallLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same call, its arguments checked against the input schema first.
    #[must_use]
    pub fn validated(mut self) -> Self {
        self.validate = true;
        self
    }
}

/// Time limits of one request; what is not given is as registered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallLimits {
    /// The time for one answer; restarted by progress.
    pub timeout: Option<Duration>,
    /// The time in all, whatever the progress.
    pub deadline: Option<Duration>,
}

impl CallLimits {
    /// The time for one answer, and the time in all.
    #[must_use]
    pub fn new(timeout: Option<Duration>, deadline: Option<Duration>) -> Self {
        Self { timeout, deadline }
    }
}

/// A tool's answer: the server's result, byte for byte.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallResult {
    /// The server that answered.
    pub server: ServerId,
    /// The result as it came.
    pub result: Json,
    /// Whether the tool marked the result as an error (`isError`).
    pub is_error: bool,
    /// What is wrong with the result by the tool's output schema.
    pub warnings: Vec<String>,
}

/// The time that one request has.
#[derive(Debug, Clone, Copy)]
struct Time {
    timeout: Duration,
    max: Duration,
    end: Instant,
}

impl Time {
    fn of(connection: &Connection, limits: CallLimits) -> Self {
        let timeouts = &connection.spec().timeouts;
        let max = limits.deadline.unwrap_or(timeouts.max_request);
        let timeout = limits.timeout.unwrap_or(timeouts.request).min(max);
        Self { timeout, max, end: Instant::now() + max }
    }

    fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now()).min(self.max)
    }
}

/// Calls a tool and tells the event log how that ended.
pub(crate) async fn tool(
    connection: &Connection,
    name: &str,
    call: &ToolCall,
    events: &EventLog,
) -> Result<CallResult> {
    let began = Instant::now();
    let outcome = call_tool(connection, name, call).await.map_err(|error| error.of(connection.id()));
    let (end, bytes) = match &outcome {
        Ok(result) if result.is_error => ("tool_error", result.result.as_bytes().len()),
        Ok(result) => ("ok", result.result.as_bytes().len()),
        Err(error) => (error.kind().code(), 0),
    };
    events.emit_call(
        connection.id(),
        CallEnd { name: name.into(), duration_ms: began.elapsed().as_secs_f64() * 1000.0, bytes, outcome: end },
    );
    outcome
}

async fn call_tool(connection: &Connection, name: &str, call: &ToolCall) -> Result<CallResult> {
    if !connection.spec().tools.allows(name) {
        let text = format!("the tool `{name}` is not allowed by this server's registration");
        return Err(Error::new(ErrorKind::ToolNotAllowed, text));
    }
    let time = Time::of(connection, call.limits);
    let mut arguments = arguments(call.arguments.as_ref())?;
    let live = connection.session(time.timeout).await?;
    let catalogue = known_tool(connection, name, time).await?;
    let catalogue = approved_tool(connection, name, (catalogue, time)).await?;
    let tool = catalogue.tool(name);
    if let (Some(tool), true) = (tool, call.validate) {
        arguments = fitting_arguments(connection, tool, &arguments)?;
    }
    let result = match request_tool(connection, &live, (name, tool), (&arguments, time)).await {
        // The server mirrors other parameters than we know of: its list has changed.
        Err(RequestError::Rpc(rpc)) if rpc.code == HEADER_MISMATCH => {
            connection.discover().await;
            let catalogue = approved_tool(connection, name, (connection.catalogue(), time)).await?;
            request_tool(connection, &live, (name, catalogue.tool(name)), (&arguments, time)).await
        }
        outcome => outcome,
    };
    let result = result.map_err(|error| told(connection, &live, error, name))?;
    checked_result(connection, tool, result, live.session.era)
}

/// The arguments as they go out: an object, empty when none are given.
fn arguments(given: Option<&Json>) -> Result<Json> {
    match given {
        None => Ok(Json::empty_object()),
        Some(json) if json.is_null() => Ok(Json::empty_object()),
        Some(json) if json.is_object() => Ok(json.clone()),
        // Models give an empty string where they mean nothing.
        Some(json) if json.as_str() == "\"\"" => Ok(Json::empty_object()),
        Some(_) => Err(Error::new(ErrorKind::InvalidArguments, "the arguments must be a JSON object").with(|data| {
            data.problems.push(crate::error::Problem::new("arguments", "must be an object"));
        })),
    }
}

/// The catalogue, which has the tool of that name, or could not be read.
async fn known_tool(connection: &Connection, name: &str, time: Time) -> Result<Arc<ServerCatalogue>> {
    let has_it = |catalogue: &ServerCatalogue| {
        let states = catalogue.states();
        catalogue.tool(name).is_some() || matches!(states.tools, ListState::Failed | ListState::Partial)
    };
    let mut catalogue = connection.catalogue();
    if has_it(&catalogue) {
        return Ok(catalogue);
    }
    if catalogue.is_stale() || connection.state() != State::Ready {
        // The list that is being read may have it.
        let settled = connection.wait_for(|state| state.is_settled());
        let _ = timeout_at(time.end.min(Instant::now() + time.timeout), settled).await;
        catalogue = connection.catalogue();
    }
    if !has_it(&catalogue) {
        // It may be among what was announced and not read yet.
        catalogue = connection.caught_up(time.timeout.min(time.left())).await;
    }
    if has_it(&catalogue) {
        return Ok(catalogue);
    }
    let near = nearest(name, catalogue.tools().iter().map(Tool::name));
    let text = format!("has no tool `{}`", name.escape_debug());
    Err(Error::new(ErrorKind::UnknownTool, text).of(connection.id()).with(|data| data.nearest = near))
}

/// The catalogue, by which the tool is what was approved, where the registration asks for that.
async fn approved_tool(
    connection: &Connection,
    name: &str,
    (catalogue, time): (Arc<ServerCatalogue>, Time),
) -> Result<Arc<ServerCatalogue>> {
    let policy = connection.spec().drift;
    if !policy.refuses() {
        return Ok(catalogue);
    }
    let catalogue = if catalogue.is_stale() {
        let end = time.end.min(Instant::now() + time.timeout);
        timeout_at(end, connection.compared()).await.unwrap_or(catalogue)
    } else {
        catalogue
    };
    if catalogue.is_stale() {
        let text = "its tools could not be compared with the approved ones in time";
        let state = connection.state().as_str();
        return Err(Error::new(ErrorKind::NotReady, text).with(|data| data.state = Some(state)));
    }
    match catalogue.withheld(name, policy) {
        None => Ok(catalogue),
        Some(withheld) => Err(refused(name, withheld)),
    }
}

/// The error of a call of a tool that is withheld.
fn refused(name: &str, withheld: Withheld<'_>) -> Error {
    let name = name.escape_debug();
    match withheld {
        Withheld::Unapproved => Error::new(ErrorKind::ToolChanged, format!("the tool `{name}` was never approved")),
        Withheld::Changed(changes) => {
            let text = format!("the tool `{name}` changed since it was approved: {}", kinds(changes).join(", "));
            let changes = Json::of(changes).ok();
            Error::new(ErrorKind::ToolChanged, text).with(|data| data.changes = changes)
        }
    }
}

async fn request_tool(
    connection: &Connection,
    live: &Live,
    (name, tool): (&str, Option<&Tool>),
    (arguments, time): (&Json, Time),
) -> Result<Json, RequestError> {
    let mut request =
        Request::new("tools/call", Params::new().text("name", name).json("arguments", arguments), time.timeout);
    request.name = Some(name);
    request.max = time.left();
    if let Some(tool) = tool.filter(|tool| !tool.param_headers().is_empty()) {
        let arguments = arguments.to_value();
        let value = |header: &meta::ParamHeader| Some((header.header.clone(), meta::param_value(header, &arguments)?));
        request.param_headers = tool.param_headers().iter().filter_map(value).collect();
    }
    permitted(connection, live, request, time).await
}

/// Sends a request when its turn has come.
async fn permitted(
    connection: &Connection,
    live: &Live,
    mut request: Request<'_>,
    time: Time,
) -> Result<Json, RequestError> {
    let permit = match timeout_at(time.end, connection.permit()).await {
        Ok(permit) => permit.map_err(RequestError::Refused)?,
        Err(_) => {
            let method = request.method.to_owned();
            return Err(RequestError::NoTurn { method, after: time.max });
        }
    };
    request.max = request.max.min(time.left());
    request.timeout = request.timeout.min(request.max);
    let outcome = live.session.request(request).await;
    drop(permit);
    outcome
}

/// The error as the caller sees it; a server that was found gone is told to its task.
fn told(connection: &Connection, live: &Live, error: RequestError, name: &str) -> Error {
    if let RequestError::Transport(TransportError::Connect(_) | TransportError::Lost(_)) = &error {
        let what = TransportError::Lost(crate::error::chain(&error).into());
        connection.doubt(live.generation, what);
    }
    error.outward(&format!("`{name}` failed"))
}

/// The arguments of a call that is checked first.
fn fitting_arguments(connection: &Connection, tool: &Tool, arguments: &Json) -> Result<Json> {
    let (arguments, problems) = connection.checks().arguments(tool, arguments);
    if problems.is_empty() {
        return Ok(arguments);
    }
    let text = format!("the arguments do not fit the input schema of `{}`", tool.name());
    Err(Error::new(ErrorKind::InvalidArguments, text).with(|data| data.problems = problems))
}

fn checked_result(connection: &Connection, tool: Option<&Tool>, result: Json, era: Era) -> Result<CallResult> {
    let flags = result_flags(&result);
    if era == Era::Modern && flags.needs_input {
        let text = "the server asks for input before it answers, which this client does not offer";
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    if (era == Era::Modern && flags.is_unknown_type) || !result.is_object() {
        return Err(Error::new(ErrorKind::ProtocolViolation, "the server answered with a result of an unknown type"));
    }
    let policy = connection.spec().output_schema;
    let problems = match tool.filter(|_| !flags.is_error && policy != OutputSchemaPolicy::Off) {
        Some(tool) => connection.checks().output(tool, &result),
        None => Vec::new(),
    };
    if policy == OutputSchemaPolicy::Refuse && !problems.is_empty() {
        let text = "the result does not fit the tool's output schema";
        return Err(Error::new(ErrorKind::ProtocolViolation, text).with(|data| data.problems = problems));
    }
    let warnings = problems.into_iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect();
    Ok(CallResult { server: connection.id().clone(), result, is_error: flags.is_error, warnings })
}

/// Reads a resource.
pub(crate) async fn read_resource(connection: &Connection, uri: &str, limits: CallLimits) -> Result<Json> {
    simple(connection, ("resources/read", Some(uri)), Params::new().text("uri", uri), limits).await
}

/// Gets a prompt.
pub(crate) async fn get_prompt(
    connection: &Connection,
    name: &str,
    arguments: Option<Json>,
    limits: CallLimits,
) -> Result<Json> {
    let mut params = Params::new().text("name", name);
    if let Some(given) = &arguments {
        params = params.json("arguments", &self::arguments(Some(given))?);
    }
    simple(connection, ("prompts/get", Some(name)), params, limits).await
}

/// Completes an argument.
pub(crate) async fn complete(connection: &Connection, params: Json, limits: CallLimits) -> Result<Json> {
    request(connection, "completion/complete", params, limits).await
}

/// Sends a request of any method.
pub(crate) async fn request(connection: &Connection, method: &str, params: Json, limits: CallLimits) -> Result<Json> {
    if !params.is_object() {
        return Err(Error::invalid("params", "must be an object"));
    }
    simple(connection, (method, None), Params::from_object(&params), limits).await
}

async fn simple(
    connection: &Connection,
    (method, name): (&str, Option<&str>),
    params: Params,
    limits: CallLimits,
) -> Result<Json> {
    let time = Time::of(connection, limits);
    let live = connection.session(time.timeout).await?;
    let mut request = Request::new(method, params, time.timeout);
    request.name = name;
    request.max = time.left();
    let outcome = permitted(connection, &live, request, time).await;
    outcome.map_err(|error| told(connection, &live, error, method).of(connection.id()))
}
