//! What the program says when something fails: a problem document, a text for people, and the exit code.
//!
//! One table leads from a stable code to all three. The codes are those of the HTTP API, so that a failure looks the same
//! whether a daemon answered or this process.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use switchboard::error::ErrorKind;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All done.
    Done = 0,
    /// The tool answered with an error.
    ToolError = 1,
    /// Wrong usage or bad input.
    Usage = 2,
    /// A server is not ready, or somebody must sign in.
    NotReady = 3,
    /// A server or a transport failed, or the world did.
    Failed = 4,
    /// A policy refused it.
    Refused = 5,
    /// Ctrl-C.
    Interrupted = 130,
    /// Asked to stop by a signal.
    Terminated = 143,
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something failed, and the person is told what.
    Problem(Problem),
    /// Nobody reads our output any more; the program ends without a word.
    ClosedPipe,
}

/// A result of a command's step.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Something that failed: what, why, and what to do.
#[derive(Debug, Clone)]
pub(crate) struct Problem(Box<Parts>);

#[derive(Debug, Clone)]
struct Parts {
    code: String,
    detail: String,
    causes: Vec<String>,
    hint: Option<String>,
    /// The members that belong to the code, such as `nearest` and `authUrl`.
    more: Map<String, Value>,
}

/// One row: the code, its HTTP status, how the program ends, and the title of the document.
type Row = (&'static str, u16, Exit, &'static str);

/// The table from code to everything else. A code that is not in it is a failure of the server.
const TABLE: [Row; 38] = [
    ("unknown_server", 404, Exit::Usage, "No such server"),
    ("unknown_tool", 404, Exit::Usage, "No such tool"),
    ("unknown_call", 404, Exit::Usage, "No such call"),
    ("unknown_question", 404, Exit::Usage, "No such question"),
    ("id_in_use", 409, Exit::Usage, "The id is in use"),
    ("not_ready", 409, Exit::NotReady, "The server is not ready"),
    ("sign_in_required", 409, Exit::NotReady, "A sign-in is needed"),
    ("client_id_needed", 409, Exit::NotReady, "A client id is needed"),
    ("token_required", 401, Exit::Refused, "A valid bearer token is required"),
    ("host_not_allowed", 403, Exit::Refused, "The daemon does not answer for this host"),
    ("origin_not_allowed", 403, Exit::Refused, "Pages of this origin may not use the daemon"),
    ("body_too_large", 413, Exit::Usage, "The body is too large"),
    ("stopping", 503, Exit::NotReady, "The daemon is stopping"),
    ("blocked_url", 403, Exit::Refused, "The address may not be dialled"),
    ("tool_not_allowed", 403, Exit::Refused, "The tool is not allowed"),
    ("tool_changed", 403, Exit::Refused, "The tool has changed"),
    ("commands_not_allowed", 403, Exit::Refused, "Commands are not allowed"),
    ("invalid_input", 422, Exit::Usage, "Bad input"),
    ("invalid_arguments", 422, Exit::Usage, "The arguments do not fit"),
    ("invalid_answer", 422, Exit::Usage, "The answer does not fit"),
    ("usage", 422, Exit::Usage, "Wrong usage"),
    ("overloaded", 429, Exit::Failed, "Too many calls"),
    ("server_error", 502, Exit::Failed, "The server answered with an error"),
    ("connection_lost", 502, Exit::Failed, "The connection was lost"),
    ("connect_failed", 502, Exit::Failed, "Could not connect"),
    ("server_closed", 502, Exit::Failed, "The server was closed"),
    ("protocol_violation", 502, Exit::Failed, "The server broke the protocol"),
    ("too_large", 502, Exit::Failed, "A message was too large"),
    ("server_cancelled", 502, Exit::Failed, "The server cancelled"),
    ("rate_limited", 503, Exit::Failed, "The server asks to wait"),
    ("timeout", 504, Exit::Failed, "No answer in time"),
    ("store_failed", 500, Exit::Failed, "The data folder failed"),
    ("unsupported", 501, Exit::Failed, "Not available"),
    ("daemon_running", 409, Exit::Failed, "A daemon is running"),
    ("daemon_unreachable", 502, Exit::Failed, "The daemon does not answer"),
    ("address_in_use", 409, Exit::Failed, "The address is in use"),
    ("output_failed", 500, Exit::Failed, "The output could not be written"),
    ("demo_failed", 500, Exit::Failed, "The demo failed"),
];

/// The row of a code.
fn row(code: &str) -> Row {
    const OTHER: Row = ("", 502, Exit::Failed, "It failed");
    TABLE.into_iter().find(|row| row.0 == code).unwrap_or(OTHER)
}

impl Problem {
    /// A problem with a code of the table; `detail` is a sentence part without a full stop.
    pub(crate) fn new(code: &str, detail: impl Into<String>) -> Self {
        let (code, detail) = (code.to_owned(), detail.into());
        Self(Box::new(Parts { code, detail, causes: Vec::new(), hint: None, more: Map::new() }))
    }

    /// Wrong usage or bad input.
    pub(crate) fn input(detail: impl Into<String>) -> Self {
        Self::new("invalid_input", detail)
    }

    /// The same problem with a cause below it.
    pub(crate) fn because(mut self, cause: impl std::fmt::Display) -> Self {
        self.0.causes.push(cause.to_string());
        self
    }

    /// The same problem with advice beside it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same problem with one more member.
    pub(crate) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.0.more.insert(member.to_owned(), value.into());
        self
    }

    /// Reads a problem document that a daemon sent; `None` when it is none.
    pub(crate) fn of_document(document: &Value) -> Option<Self> {
        let mut more = document.as_object()?.clone();
        let code = more.remove("code")?.as_str()?.to_owned();
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        let detail = text(more.remove("detail")).or_else(|| text(more.remove("message")));
        let detail = detail.unwrap_or_else(|| row(&code).3.to_owned());
        let causes = more.remove("causes").unwrap_or_default();
        let causes = causes.as_array().into_iter().flatten().filter_map(|cause| cause.as_str().map(str::to_owned));
        let causes = causes.collect();
        let hint = text(more.remove("hint"));
        Some(Self(Box::new(Parts { code, detail, causes, hint, more })))
    }

    /// The stable code.
    #[cfg(test)]
    pub(crate) fn code(&self) -> &str {
        &self.0.code
    }

    /// How the program ends because of it.
    pub(crate) fn exit(&self) -> Exit {
        row(&self.0.code).2
    }

    /// The problem document of RFC 9457, as the HTTP API would answer it.
    pub(crate) fn document(&self) -> Value {
        let (_, status, _, title) = row(&self.0.code);
        let mut document = Map::new();
        document.insert("type".into(), "about:blank".into());
        document.insert("title".into(), title.into());
        document.insert("status".into(), status.into());
        document.insert("detail".into(), self.0.detail.as_str().into());
        document.insert("code".into(), self.0.code.as_str().into());
        if !self.0.causes.is_empty() {
            document.insert("causes".into(), json!(self.0.causes));
        }
        if let Some(hint) = &self.0.hint {
            document.insert("hint".into(), hint.as_str().into());
        }
        document.extend(self.0.more.clone());
        Value::Object(document)
    }

    /// What happened and why, in one line.
    pub(crate) fn line(&self) -> String {
        std::iter::once(&self.0.detail).chain(&self.0.causes).map(String::as_str).collect::<Vec<_>>().join(": ")
    }

    /// The text for people: what happened, why, and what to do.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("error: {}", self.0.detail);
        for cause in &self.0.causes {
            let _ = write!(text, "\n  because: {cause}");
        }
        for problem in self.0.more.get("errors").and_then(Value::as_array).into_iter().flatten().skip(1) {
            let part = |name| problem.get(name).and_then(Value::as_str).unwrap_or_default();
            let mistake = format!("`{}`: {}", part("path"), part("message"));
            // The detail of a bad registration names every mistake already.
            if !self.0.detail.contains(&mistake) {
                let _ = write!(text, "\n  also: {mistake}");
            }
        }
        if let Some(nearest) = self.0.more.get("nearest").and_then(Value::as_array).filter(|names| !names.is_empty()) {
            let names: Vec<_> = nearest.iter().filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
            let _ = write!(text, "\n  did you mean: {}", names.join(", "));
        }
        if let Some(url) = self.0.more.get("authUrl").and_then(Value::as_str) {
            let _ = write!(text, "\n  sign in at: {url}");
        }
        if self.0.more.get("maybeRan").and_then(Value::as_bool) == Some(true) {
            text.push_str("\n  note: the call may have been carried out all the same");
        }
        if let Some(hint) = self.0.hint.clone().or_else(|| self.general_hint()) {
            let _ = write!(text, "\n  hint: {hint}");
        }
        text
    }

    /// Advice that goes with a code when the failure brings none of its own.
    fn general_hint(&self) -> Option<String> {
        let server = self.0.more.get("serverId").and_then(Value::as_str).unwrap_or("ID");
        if matches!(self.0.code.as_str(), "connect_failed" | "connection_lost" | "protocol_violation") {
            return Some(format!("`switchboard doctor {server}` finds out which step fails"));
        }
        hint_of(&self.0.code).map(str::to_owned)
    }
}

/// Advice that is the same for every failure of a code.
fn hint_of(code: &str) -> Option<&'static str> {
    match code {
        "unknown_server" => Some("`switchboard list` shows the servers that are registered"),
        "tool_changed" => {
            Some("`switchboard drift ID` shows what changed, `switchboard approve ID TOOL` approves the tool as it is")
        }
        "unknown_tool" => Some("`switchboard tools` shows the tools, as keys and as SERVER/TOOL"),
        "too_large" => Some("`switchboard add` takes the largest message as --max-message"),
        "id_in_use" => Some("choose another name, or give one with --id"),
        "timeout" => Some("--timeout-ms and --deadline-ms give the server more time"),
        _ => None,
    }
}

impl From<switchboard::Error> for Problem {
    fn from(error: switchboard::Error) -> Self {
        let data = error.data();
        let mut problem = Self::new(error.kind().code(), error.to_string());
        problem.0.causes = error.causes();
        problem.0.hint.clone_from(&data.hint);
        if let Some(server) = error.server() {
            problem = problem.with("serverId", server.as_str());
        }
        if let Some(rpc) = &data.rpc {
            problem = problem.with("rpcCode", rpc.code).with("rpcMessage", rpc.message.as_str());
            if let Some(rpc_data) = &rpc.data {
                problem = problem.with("rpcData", rpc_data.to_value());
            }
        }
        if let Some(maybe_ran) = data.maybe_ran {
            problem = problem.with("maybeRan", maybe_ran);
        }
        if let Some(after) = data.after {
            problem = problem.with("afterMs", millis(after));
        }
        if let Some(after) = data.retry_after {
            problem = problem.with("retryAfterMs", millis(after));
        }
        if let Some(url) = &data.auth_url {
            problem = problem.with("authUrl", url.as_str());
        }
        if let Some(state) = data.state {
            problem = problem.with("state", state);
        }
        if let Some(changes) = &data.changes {
            problem = problem.with("changes", changes.to_value());
        }
        if !data.nearest.is_empty() {
            problem = problem.with("nearest", data.nearest.clone());
        }
        if !data.problems.is_empty() {
            let errors = data.problems.iter().map(|one| json!({"path": one.path, "message": one.message}));
            problem = problem.with("errors", errors.collect::<Vec<_>>());
        }
        if error.kind() == ErrorKind::Store && problem.0.hint.is_none() {
            problem = problem.hint("`switchboard doctor` checks the data folder; --data DIR names another one");
        }
        problem
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<switchboard::Error> for Failure {
    fn from(error: switchboard::Error) -> Self {
        Problem::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use switchboard::ServerId;

    use super::*;

    #[test]
    fn every_kind_of_error_has_a_row() {
        let kinds = [
            (ErrorKind::UnknownServer, Exit::Usage),
            (ErrorKind::IdInUse, Exit::Usage),
            (ErrorKind::NotReady, Exit::NotReady),
            (ErrorKind::SignInRequired, Exit::NotReady),
            (ErrorKind::BlockedUrl, Exit::Refused),
            (ErrorKind::ToolNotAllowed, Exit::Refused),
            (ErrorKind::ToolChanged, Exit::Refused),
            (ErrorKind::InvalidInput, Exit::Usage),
            (ErrorKind::InvalidArguments, Exit::Usage),
            (ErrorKind::Overloaded, Exit::Failed),
            (ErrorKind::ServerError, Exit::Failed),
            (ErrorKind::ConnectFailed, Exit::Failed),
            (ErrorKind::Timeout, Exit::Failed),
            (ErrorKind::Store, Exit::Failed),
            (ErrorKind::Unsupported, Exit::Failed),
        ];
        for (kind, exit) in kinds {
            assert_eq!(row(kind.code()).0, kind.code(), "{kind} is not in the table");
            assert_eq!(Problem::new(kind.code(), "x").exit(), exit, "{kind}");
        }
    }

    #[test]
    fn a_failure_of_the_library_becomes_document_and_text() {
        let error = switchboard::Error::new(ErrorKind::ConnectFailed, "could not connect")
            .of(&ServerId::parse("github").unwrap())
            .because(std::io::Error::other("connection refused"))
            .with(|data| data.maybe_ran = Some(true));
        let problem = Problem::from(error);
        let document = problem.document();
        assert_eq!(document["code"], "connect_failed");
        assert_eq!(document["status"], 502);
        assert_eq!(document["causes"][0], "connection refused");
        assert_eq!(document["maybeRan"], true);
        let text = problem.text();
        assert!(text.starts_with("error: server `github`: could not connect\n  because: connection refused"), "{text}");
        assert!(text.contains("`switchboard doctor github`"), "{text}");
    }

    #[test]
    fn a_mistake_that_the_detail_names_is_not_told_twice() {
        let errors = json!([{"path": "a", "message": "is bad"}, {"path": "b", "message": "is worse"}]);
        let all = Problem::input("`a`: is bad; `b`: is worse").with("errors", errors.clone());
        assert_eq!(all.text(), "error: `a`: is bad; `b`: is worse");
        let first = Problem::input("`a`: is bad").with("errors", errors);
        assert_eq!(first.text(), "error: `a`: is bad\n  also: `b`: is worse");
    }

    #[test]
    fn a_document_of_the_daemon_reads_back_with_all_its_members() {
        let document = json!({"type": "urn:x", "title": "T", "status": 404, "detail": "no `a`", "code": "unknown_tool",
            "nearest": ["b"]});
        let problem = Problem::of_document(&document).unwrap();
        assert_eq!(problem.exit(), Exit::Usage);
        assert_eq!(problem.document(), document);
        assert!(problem.text().contains("did you mean: `b`"));
        assert!(Problem::of_document(&json!({"detail": "x"})).is_none());
    }
}
