//! A tool call: checked against the catalogue, sent, and its result checked.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::attempts::Attempts;
use super::{CallResult, ToolCall, in_turn};
use crate::catalogue::ServerCatalogue;
use crate::catalogue::drift::{Withheld, kinds};
use crate::connection::{Connection, Live};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{CallEnd, EventLog};
use crate::manager::registry::nearest;
use crate::session::progress::Deadline;
use crate::session::request::{Request, RequestError};
use crate::spec::{OutputSchemaPolicy, Target};
use crate::status::{ListState, State};
use crate::wire::message::{HEADER_MISMATCH, Params};
use crate::wire::model::{member, result_flags};
use crate::wire::{Era, Json, Tool, meta};

/// Calls a tool and tells the event log how that ended, also when the caller does not wait for the end.
pub(crate) async fn tool(
    connection: &Connection,
    name: &str,
    call: &ToolCall,
    events: &EventLog,
) -> Result<CallResult> {
    let mut ending = Ending { connection, name, events, began: Instant::now(), bytes: 0, outcome: "cancelled" };
    let outcome = call_tool(connection, name, call).await.map_err(|error| error.of(connection.id()));
    (ending.outcome, ending.bytes) = match &outcome {
        Ok(result) if result.is_error => ("tool_error", result.result.as_bytes().len()),
        Ok(result) => ("ok", result.result.as_bytes().len()),
        Err(error) => (error.kind().code(), 0),
    };
    outcome
}

/// Tells the event log how a call ended, when it is dropped.
struct Ending<'a> {
    connection: &'a Connection,
    name: &'a str,
    events: &'a EventLog,
    began: Instant,
    bytes: usize,
    outcome: &'static str,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let duration_ms = self.began.elapsed().as_secs_f64() * 1000.0;
        let end = CallEnd { name: self.name.into(), duration_ms, bytes: self.bytes, outcome: self.outcome };
        self.events.emit_call(self.connection.id(), end);
    }
}

async fn call_tool(connection: &Connection, name: &str, call: &ToolCall) -> Result<CallResult> {
    if !connection.spec().tools.allows(name) {
        let text = format!("the tool `{name}` is not allowed by this server's registration");
        return Err(Error::new(ErrorKind::ToolNotAllowed, text));
    }
    if !call.headers.is_empty() && !matches!(connection.spec().target, Target::Http(_)) {
        return Err(Error::invalid("headers", "only servers over HTTP take headers"));
    }
    let arguments = arguments(call.arguments.as_ref())?;
    let deadline = Arc::new(call.limits.deadline(connection).reporting(call.progress.clone()));
    let mut attempts = Attempts::new(connection, &deadline, name);
    let mut live = connection.session(deadline.left()).await?;
    let mut has_mismatched = false;
    loop {
        let error = match attempt(connection, &live, (name, call), (&arguments, &deadline)).await {
            Ok((result, catalogue)) => {
                return checked_result(connection, catalogue.tool(name), result, live.session.era);
            }
            Err(error) => error,
        };
        if is_mismatch(&error) && !std::mem::replace(&mut has_mismatched, true) {
            // The server mirrors other parameters than we know of: its list has changed.
            let _ = timeout_at(deadline.due(), connection.discover()).await;
            continue;
        }
        let is_repeatable = call.retry_if_safe && connection.catalogue().tool(name).is_some_and(does_no_harm_twice);
        live = attempts.next(live, error, is_repeatable).await?;
    }
}

/// Sends the call once; the catalogue that it was checked against comes with the result.
async fn attempt(
    connection: &Connection,
    live: &Live,
    (name, call): (&str, &ToolCall),
    (arguments, deadline): (&Json, &Arc<Deadline>),
) -> Result<(Json, Arc<ServerCatalogue>), RequestError> {
    let catalogue = known_tool(connection, name, deadline).await.map_err(RequestError::Refused)?;
    let catalogue = approved_tool(connection, name, (catalogue, deadline)).await.map_err(RequestError::Refused)?;
    let tool = catalogue.tool(name);
    let arguments = match tool.filter(|_| call.validate) {
        Some(tool) => fitting_arguments(connection, tool, arguments).map_err(RequestError::Refused)?,
        None => arguments.clone(),
    };
    let params = Params::new().text("name", name).json("arguments", &arguments);
    let mut request = Request {
        name: Some(name),
        headers: (!call.headers.is_empty()).then_some(&call.headers),
        ..Request::within("tools/call", params, deadline.clone())
    };
    if let Some(tool) = tool.filter(|tool| !tool.param_headers().is_empty()) {
        let arguments = arguments.to_value();
        let value = |header: &meta::ParamHeader| Some((header.header.clone(), meta::param_value(header, &arguments)?));
        request.param_headers = tool.param_headers().iter().filter_map(value).collect();
    }
    let result = in_turn(connection, live, request).await?;
    Ok((result, catalogue))
}

fn is_mismatch(error: &RequestError) -> bool {
    matches!(error, RequestError::Rpc(rpc) if rpc.code == HEADER_MISMATCH)
}

/// Whether the tool says of itself that calling it twice is as good as once.
fn does_no_harm_twice(tool: &Tool) -> bool {
    let says =
        |hint: &str| tool.annotations().and_then(|hints| member(hints, hint)).is_some_and(|it| it.as_str() == "true");
    says("readOnlyHint") || says("idempotentHint")
}

/// The arguments as they go out: an object, empty when none are given.
pub(super) fn arguments(given: Option<&Json>) -> Result<Json> {
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
async fn known_tool(connection: &Connection, name: &str, deadline: &Deadline) -> Result<Arc<ServerCatalogue>> {
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
        let _ = timeout_at(deadline.due(), settled).await;
        catalogue = connection.catalogue();
    }
    if !has_it(&catalogue) {
        // It may be among what was announced and not read yet.
        catalogue = connection.caught_up(deadline.left()).await;
    }
    if has_it(&catalogue) {
        return Ok(catalogue);
    }
    if catalogue.is_stale() || catalogue.states().tools == ListState::Pending {
        // What was known last does not say what it has now.
        return Err(lists_unread(connection));
    }
    let near = nearest(name, catalogue.tools().iter().map(Tool::name));
    let text = format!("has no tool `{}`", name.escape_debug());
    Err(Error::new(ErrorKind::UnknownTool, text).of(connection.id()).with(|data| data.nearest = near))
}

/// The catalogue, by which the tool is what was approved, where the registration asks for that.
async fn approved_tool(
    connection: &Connection,
    name: &str,
    (catalogue, deadline): (Arc<ServerCatalogue>, &Deadline),
) -> Result<Arc<ServerCatalogue>> {
    let policy = connection.spec().drift;
    if !policy.refuses() {
        return Ok(catalogue);
    }
    let catalogue = if catalogue.is_stale() {
        timeout_at(deadline.due(), connection.compared()).await.unwrap_or(catalogue)
    } else {
        catalogue
    };
    if catalogue.is_stale() {
        return Err(lists_unread(connection));
    }
    match catalogue.withheld(name, policy) {
        None => Ok(catalogue),
        Some(withheld) => Err(refused(name, withheld)),
    }
}

/// The error of a call that depends on what the tools are now.
fn lists_unread(connection: &Connection) -> Error {
    let state = connection.state().as_str();
    Error::new(ErrorKind::NotReady, "its tools could not be read in time").of(connection.id()).with(|data| {
        data.state = Some(state);
        data.maybe_ran = Some(false);
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::model::tools_page;

    #[test]
    fn only_a_tool_that_says_so_is_called_twice() {
        let says = |annotations: &str| {
            let list = format!(r#"{{"tools":[{{"name":"t","inputSchema":{{}},"annotations":{annotations}}}]}}"#);
            does_no_harm_twice(&tools_page(&list.parse().unwrap()).unwrap().items[0])
        };
        assert!(says(r#"{"readOnlyHint":true}"#) && says(r#"{"idempotentHint": true ,"title":"x"}"#));
        let others = [
            "{}",
            "null",
            r#"{"readOnlyHint":false}"#,
            r#"{"readOnlyHint":"yes"}"#,
            r#"{"openWorldHint":true}"#,
            r#"{"destructiveHint":false}"#,
        ];
        for annotations in others {
            assert!(!says(annotations), "{annotations}");
        }
    }
}
