//! The one error type that leaves the library, and the stable codes behind it.
//!
//! Rooms have small enums of their own; at the library's edge they become an [`Error`], which says what happened, to
//! which server, and carries the data that a caller needs to act. The text is one level; causes are in the chain.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::id::ServerId;
use crate::time::Timestamp;
use crate::wire::Json;

/// A result whose error is the library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, as a closed set of stable codes.
///
/// The same code stands in `error.code` of the HTTP API, in the program's `--json` output, and here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No server is registered under that id.
    UnknownServer,
    /// The catalogue has no such tool.
    UnknownTool,
    /// No call is known under that id.
    UnknownCall,
    /// Another server is registered under that id.
    IdInUse,
    /// The server is not ready, and did not become so in the call's time.
    NotReady,
    /// A person must sign in first.
    SignInRequired,
    /// The address may not be dialled.
    BlockedUrl,
    /// The registration's own lists deny this tool.
    ToolNotAllowed,
    /// The tool is not what was approved, or was never approved, and the registration refuses such tools.
    ToolChanged,
    /// An argument of ours was wrong: a bad URL, a bad id, a value out of range.
    InvalidInput,
    /// A tool's arguments do not fit its input schema.
    InvalidArguments,
    /// Too many calls wait for this server already.
    Overloaded,
    /// The server answered with a JSON-RPC error.
    ServerError,
    /// The connection was lost while the request was under way.
    ConnectionLost,
    /// The server could not be reached, or the handshake failed.
    ConnectFailed,
    /// The server was closed or removed by us.
    ServerClosed,
    /// The server sent something that the protocol does not allow.
    ProtocolViolation,
    /// A message was larger than the limit allows.
    TooLarge,
    /// The server cancelled the request.
    ServerCancelled,
    /// The server said 429 or 503.
    RateLimited,
    /// No answer came in time.
    Timeout,
    /// The store could not be read or written.
    Store,
    /// This operation is not available in this build or configuration.
    Unsupported,
}

impl ErrorKind {
    /// The stable code, as it stands in the HTTP API.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::UnknownServer => "unknown_server",
            Self::UnknownTool => "unknown_tool",
            Self::UnknownCall => "unknown_call",
            Self::IdInUse => "id_in_use",
            Self::NotReady => "not_ready",
            Self::SignInRequired => "sign_in_required",
            Self::BlockedUrl => "blocked_url",
            Self::ToolNotAllowed => "tool_not_allowed",
            Self::ToolChanged => "tool_changed",
            Self::InvalidInput => "invalid_input",
            Self::InvalidArguments => "invalid_arguments",
            Self::Overloaded => "overloaded",
            Self::ServerError => "server_error",
            Self::ConnectionLost => "connection_lost",
            Self::ConnectFailed => "connect_failed",
            Self::ServerClosed => "server_closed",
            Self::ProtocolViolation => "protocol_violation",
            Self::TooLarge => "too_large",
            Self::ServerCancelled => "server_cancelled",
            Self::RateLimited => "rate_limited",
            Self::Timeout => "timeout",
            Self::Store => "store_failed",
            Self::Unsupported => "unsupported",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A server's own JSON-RPC error, kept as it came.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RpcError {
    /// The JSON-RPC error code.
    pub code: i64,
    /// The server's text.
    pub message: String,
    /// The server's `data`, byte for byte.
    pub data: Option<Json>,
}

impl RpcError {
    /// An error as a server would send it.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>, data: Option<Json>) -> Self {
        Self { code, message: message.into(), data }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered with error {}: {}", self.code, self.message)
    }
}

impl StdError for RpcError {}

/// One thing wrong with an input: where, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// A JSON pointer or a field name; empty for the whole.
    pub path: String,
    /// What is wrong there.
    pub message: String,
}

impl Problem {
    /// A problem at `path`.
    #[must_use]
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Anything that can fail in this library.
///
/// Ask [`Error::kind`] what happened. `Display` prints one level as a sentence part without a full stop; the chain of
/// causes is in [`std::error::Error::source`] and, as texts, in [`Error::causes`].
///
/// Cheap to clone; clones share the chain.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    server: Option<ServerId>,
    data: ErrorData,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What some kinds of error carry besides their text.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ErrorData {
    /// The server's own error, for [`ErrorKind::ServerError`].
    pub rpc: Option<RpcError>,
    /// Whether the request may have been carried out although no answer came.
    pub maybe_ran: Option<bool>,
    /// How long was waited, for [`ErrorKind::Timeout`].
    pub after: Option<Duration>,
    /// How long the server asked us to wait, for [`ErrorKind::RateLimited`].
    pub retry_after: Option<Duration>,
    /// Where a person signs in, for [`ErrorKind::SignInRequired`].
    pub auth_url: Option<String>,
    /// Known names close to one that is unknown.
    pub nearest: Vec<String>,
    /// Everything that is wrong with an input.
    pub problems: Vec<Problem>,
    /// What changed, for [`ErrorKind::ToolChanged`]: a list of [`Change`](crate::catalogue::Change)s. Absent for a tool
    /// that was never approved.
    pub changes: Option<Json>,
    /// The state of a server that is not ready.
    pub state: Option<&'static str>,
    /// Since when it has that state.
    pub since: Option<Timestamp>,
    /// What the person can do about it.
    pub hint: Option<String>,
}

impl Error {
    /// An error of `kind`; `message` is a sentence part without a full stop, values in backticks.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), server: None, data: ErrorData::default(), source: None }))
    }

    /// Bad input at `path`.
    #[must_use]
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        let problem = Problem::new(path, message);
        let text = if problem.path.is_empty() {
            problem.message.clone()
        } else {
            format!("`{}`: {}", problem.path, problem.message)
        };
        Self::new(ErrorKind::InvalidInput, text).with(|data| data.problems.push(problem))
    }

    /// The same error with a cause below it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Arc::make_mut(&mut self.0).source = Some(Arc::from(source.into()));
        self
    }

    /// The same error, said of `server`.
    #[must_use]
    pub fn of(mut self, server: &ServerId) -> Self {
        Arc::make_mut(&mut self.0).server.get_or_insert_with(|| server.clone());
        self
    }

    /// The same error with `edit` applied to its data.
    #[must_use]
    pub fn with(mut self, edit: impl FnOnce(&mut ErrorData)) -> Self {
        edit(&mut Arc::make_mut(&mut self.0).data);
        self
    }

    /// The same error under another kind.
    #[must_use]
    pub(crate) fn into_kind(mut self, kind: ErrorKind) -> Self {
        Arc::make_mut(&mut self.0).kind = kind;
        self
    }

    /// The same error with advice beside it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.with(|data| data.hint = Some(hint.into()))
    }

    /// What happened.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The server that it happened to.
    #[must_use]
    pub fn server(&self) -> Option<&ServerId> {
        self.0.server.as_ref()
    }

    /// What the kind carries besides its text.
    #[must_use]
    pub fn data(&self) -> &ErrorData {
        &self.0.data
    }

    /// Whether no answer came in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::Timeout
    }

    /// Whether the caller misused us, as opposed to a server or the world failing.
    #[must_use]
    pub fn is_invalid_input(&self) -> bool {
        matches!(self.0.kind, ErrorKind::InvalidInput | ErrorKind::InvalidArguments)
    }

    /// The texts of the causes below this error, nearest first.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let mut next = self.source();
        while let Some(cause) = next {
            texts.push(cause.to_string());
            next = cause.source();
        }
        texts
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.server {
            Some(server) => write!(f, "server `{server}`: {}", self.0.message),
            None => f.write_str(&self.0.message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("server", &self.0.server)
            .field("data", &self.0.data)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_prints_one_level_and_the_causes_are_beside_it() {
        let error = Error::new(ErrorKind::ConnectFailed, "could not connect")
            .of(&ServerId::parse("github").unwrap())
            .because(std::io::Error::other("connection refused"));
        assert_eq!(error.to_string(), "server `github`: could not connect");
        assert_eq!(error.causes(), ["connection refused"]);
    }
}
