//! Problem documents (RFC 9457): how every failure of the API is told.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use switchboard::error::Problem as Mistake;
use switchboard::time::Timestamp;
use switchboard::wire::Json;
use switchboard::{Error, ErrorKind, Manager};

use crate::code::Code;

/// The content type of a problem document.
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// How long a caller is asked to wait when nobody said how long.
const USUAL_WAIT: Duration = Duration::from_secs(1);

/// One failure: a code, a sentence, and the members that the code needs. Becomes an `application/problem+json` answer.
#[derive(Debug)]
pub(crate) struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    detail: String,
    members: Members,
    header: Option<(HeaderName, HeaderValue)>,
}

/// The members beside `code` and `detail`; each is absent unless known.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) server_id: Option<String>,
    pub(crate) hint: Option<String>,
    pub(crate) nearest: Vec<String>,
    /// What changed about a tool.
    pub(crate) changes: Option<Json>,
    pub(crate) state: Option<&'static str>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) why: Option<String>,
    pub(crate) auth_url: Option<String>,
    pub(crate) errors: Vec<Mistake>,
    pub(crate) rpc_code: Option<i64>,
    pub(crate) rpc_message: Option<String>,
    /// The server's own bytes.
    pub(crate) rpc_data: Option<Json>,
    pub(crate) maybe_ran: Option<bool>,
    pub(crate) causes: Vec<String>,
    pub(crate) after: Option<Duration>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) limit_bytes: Option<usize>,
}

impl Problem {
    /// A problem of that code; `detail` says what happened in this case.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner { code, detail: detail.into(), members: Members::default(), header: None }))
    }

    /// Bad input, with everything that is wrong with it.
    pub(crate) fn invalid(mistakes: Vec<Mistake>) -> Self {
        let say = |mistake: &Mistake| match mistake.path.as_str() {
            "" => mistake.message.clone(),
            path => format!("`{path}`: {}", mistake.message),
        };
        let detail = mistakes.iter().map(say).collect::<Vec<_>>().join("; ");
        Self::new(Code::Kind(ErrorKind::InvalidInput), detail).with(|members| members.errors = mistakes)
    }

    /// Bad input at one place.
    pub(crate) fn invalid_at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![Mistake::new(path, message)])
    }

    /// What the library reports.
    pub(crate) fn of(error: &Error) -> Self {
        Self::new(Code::Kind(error.kind()), error.to_string()).with(|members| *members = Members::of(error))
    }

    /// What the library reports; a server that is not ready is asked since when, and why.
    pub(crate) fn of_server(error: &Error, manager: &Manager) -> Self {
        let problem = Self::of(error);
        if error.kind() != ErrorKind::NotReady {
            return problem;
        }
        let Some(status) = error.server().and_then(|id| manager.status(id).ok()) else { return problem };
        problem.with(|members| {
            members.state.get_or_insert(status.state.as_str());
            members.since = Some(status.since);
            members.why = status.error;
        })
    }

    /// The same problem with `edit` applied to its members.
    pub(crate) fn with(mut self, edit: impl FnOnce(&mut Members)) -> Self {
        edit(&mut self.0.members);
        self
    }

    /// The same problem with advice beside it.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|members| members.hint = Some(hint.into()))
    }

    /// The same problem, answered with one more header.
    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    /// What went wrong.
    #[cfg(test)]
    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    /// Seconds for the `Retry-After` header, rounded up.
    fn retry_after(&self) -> Option<u64> {
        let wait = self.0.members.retry_after.or_else(|| {
            let asks_for_patience = matches!(
                self.0.code,
                Code::Kind(ErrorKind::Overloaded | ErrorKind::RateLimited) | Code::TooManyInstances | Code::Stopping
            );
            asks_for_patience.then_some(USUAL_WAIT)
        })?;
        Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
    }
}

impl Members {
    fn of(error: &Error) -> Self {
        let data = error.data();
        Self {
            server_id: error.server().map(ToString::to_string),
            hint: data.hint.clone(),
            nearest: data.nearest.clone(),
            changes: data.changes.clone(),
            state: data.state,
            auth_url: data.auth_url.clone(),
            errors: data.problems.clone(),
            rpc_code: data.rpc.as_ref().map(|rpc| rpc.code),
            rpc_message: data.rpc.as_ref().map(|rpc| rpc.message.clone()),
            rpc_data: data.rpc.as_ref().and_then(|rpc| rpc.data.clone()),
            maybe_ran: data.maybe_ran,
            causes: error.causes(),
            after: data.after,
            retry_after: data.retry_after,
            ..Self::default()
        }
    }

    /// Writes the members that are known into an object. One by one, because a flattened object would lose raw bytes.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let errors: Vec<_> = self.errors.iter().map(Place::of).collect();
        write_some(map, "serverId", self.server_id.as_ref())?;
        write_some(map, "hint", self.hint.as_ref())?;
        write_some(map, "nearest", Some(&self.nearest).filter(|names| !names.is_empty()))?;
        write_some(map, "changes", self.changes.as_ref())?;
        write_some(map, "state", self.state.as_ref())?;
        write_some(map, "since", self.since.as_ref())?;
        write_some(map, "why", self.why.as_ref())?;
        write_some(map, "authUrl", self.auth_url.as_ref())?;
        write_some(map, "errors", Some(&errors).filter(|errors| !errors.is_empty()))?;
        write_some(map, "rpcCode", self.rpc_code.as_ref())?;
        write_some(map, "rpcMessage", self.rpc_message.as_ref())?;
        write_some(map, "rpcData", self.rpc_data.as_ref())?;
        write_some(map, "maybeRan", self.maybe_ran.as_ref())?;
        write_some(map, "causes", Some(&self.causes).filter(|causes| !causes.is_empty()))?;
        write_some(map, "afterMs", self.after.map(millis).as_ref())?;
        write_some(map, "retryAfterMs", self.retry_after.map(millis).as_ref())?;
        write_some(map, "limitBytes", self.limit_bytes.as_ref())
    }
}

/// One mistake in an input, as it stands in `errors`.
#[derive(Serialize)]
struct Place<'a> {
    path: &'a str,
    message: &'a str,
}

impl<'a> Place<'a> {
    fn of(mistake: &'a Mistake) -> Self {
        Self { path: &mistake.path, message: &mistake.message }
    }
}

fn write_some<M: SerializeMap, T: Serialize>(map: &mut M, name: &str, value: Option<&T>) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(name, value))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &format!("urn:switchboard:problem:{}", self.0.code.text()))?;
        map.serialize_entry("title", self.0.code.title())?;
        map.serialize_entry("status", &self.0.code.status().as_u16())?;
        map.serialize_entry("detail", &self.0.detail)?;
        map.serialize_entry("code", self.0.code.text())?;
        self.0.members.write(&mut map)?;
        map.end()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // Strings, numbers and JSON that was checked when it came in: this cannot fail, and an empty body says enough if it does.
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.0.code.status(), [(header::CONTENT_TYPE, PROBLEM_JSON)], body).into_response();
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some((name, value)) = self.0.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// A failure as an object inside another answer: `{code, message, causes, …}`.
#[derive(Debug)]
pub(crate) struct ErrorObject(Problem);

impl ErrorObject {
    /// The object that describes what the library reports.
    pub(crate) fn of(error: &Error) -> Self {
        Self(Problem::of(error))
    }
}

impl From<Problem> for ErrorObject {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl Serialize for ErrorObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Inner { code, detail, members, .. } = &*self.0.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", code.text())?;
        map.serialize_entry("message", detail)?;
        if members.causes.is_empty() {
            map.serialize_entry("causes", &members.causes)?;
        }
        members.write(&mut map)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use switchboard::ServerId;
    use switchboard::error::RpcError;

    use super::*;

    fn document(problem: &Problem) -> Value {
        serde_json::to_value(problem).unwrap()
    }

    #[test]
    fn a_servers_own_error_keeps_its_bytes() {
        let data: Json = r#"{ "big": 12345678901234567890123, "é":1.0 }"#.parse().unwrap();
        let error = Error::new(ErrorKind::ServerError, "the call was refused")
            .of(&ServerId::parse("github").unwrap())
            .with(|members| members.rpc = Some(RpcError::new(-32602, "no such repository", Some(data))));
        let text = serde_json::to_string(&Problem::of(&error)).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"type":"urn:switchboard:problem:server_error","title":"The server answered with an error","status":502,"#,
                r#""detail":"server `github`: the call was refused","code":"server_error","serverId":"github","#,
                r#""rpcCode":-32602,"rpcMessage":"no such repository","#,
                r#""rpcData":{ "big": 12345678901234567890123, "é":1.0 }}"#
            )
        );
    }

    #[test]
    fn a_timeout_says_how_long_was_waited_and_whether_the_call_may_have_run() {
        let error = Error::new(ErrorKind::Timeout, "no answer").with(|data| {
            data.after = Some(Duration::from_millis(1500));
            data.maybe_ran = Some(true);
        });
        let document = document(&Problem::of(&error));
        assert_eq!(document["afterMs"], 1500);
        assert_eq!(document["maybeRan"], true);
        assert_eq!(document["status"], 504);
    }

    #[test]
    fn patience_is_asked_for_in_whole_seconds_rounded_up() {
        let limited = Error::new(ErrorKind::RateLimited, "later")
            .with(|data| data.retry_after = Some(Duration::from_millis(2001)));
        let response = Problem::of(&limited).into_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[header::RETRY_AFTER], "3");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");

        let full = Problem::of(&Error::new(ErrorKind::Overloaded, "full")).into_response();
        assert_eq!(full.headers()[header::RETRY_AFTER], "1");
    }

    #[test]
    fn every_mistake_in_an_input_is_told() {
        let problem = Problem::invalid(vec![Mistake::new("name", "is missing"), Mistake::new("", "is not JSON")]);
        let document = document(&problem);
        assert_eq!(document["detail"], "`name`: is missing; is not JSON");
        assert_eq!(
            document["errors"],
            json!([{"path": "name", "message": "is missing"}, {"path": "", "message": "is not JSON"}])
        );
    }

    #[test]
    fn an_error_object_always_has_code_message_and_causes() {
        let error = Error::new(ErrorKind::ConnectFailed, "could not connect");
        let object = serde_json::to_value(ErrorObject::of(&error)).unwrap();
        assert_eq!(object, json!({"code": "connect_failed", "message": "could not connect", "causes": []}));

        let object = serde_json::to_value(ErrorObject::of(&error.because(std::io::Error::other("refused")))).unwrap();
        assert_eq!(object["causes"], json!(["refused"]));
    }
}
