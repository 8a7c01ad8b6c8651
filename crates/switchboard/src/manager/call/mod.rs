//! Requests to one server: a tool call, a resource, a prompt, a completion. From a name to the transport and back.

mod attempts;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::time::timeout_at;

use self::attempts::Attempts;
pub(crate) use self::tool::tool;
use crate::connection::{Connection, Live};
use crate::error::{Error, Result};
use crate::id::ServerId;
use crate::session::progress::Deadline;
pub use crate::session::progress::{Progress, ProgressStream};
use crate::session::request::{Request, RequestError};
use crate::spec::Headers;
use crate::transport::TransportError;
use crate::wire::Json;
use crate::wire::message::Params;

/// Beginnings of names of headers that say what a message is, and are not for a call to set.
const OF_THE_PROTOCOL: [&str; 2] = ["content-", "mcp-"];
/// Headers that say something of the connection, which calls share.
const OF_THE_CONNECTION: [&str; 6] = ["expect", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"];

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
    /// Whether the call may be sent once more when it may have run already, if its tool says that this does no harm.
    pub retry_if_safe: bool,
    headers: Headers,
    progress: Option<broadcast::Sender<Progress>>,
}

impl ToolCall {
    /// A call of a server's tool by its own name.
    pub fn new(server: ServerId, tool: impl Into<Arc<str>>) -> Self {
        Self { server: Some(server), ..Self::by_key(tool) }
    }

    /// A call by the key under which models see the tool.
    pub fn by_key(key: impl Into<Arc<str>>) -> Self {
        Self {
            server: None,
            tool: key.into(),
            arguments: None,
            limits: CallLimits::default(),
            validate: false,
            retry_if_safe: false,
            headers: Headers::default(),
            progress: None,
        }
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

    /// The same call, sent once more within its time when the connection is lost before an answer comes, provided that the
    /// tool's annotations say `readOnlyHint` or `idempotentHint`. Without this, such a call ends with
    /// [`ErrorKind::ConnectionLost`](crate::ErrorKind::ConnectionLost) and `maybe_ran`. What surely did not run is always sent again.
    #[must_use]
    pub fn retry_if_safe(mut self) -> Self {
        self.retry_if_safe = true;
        self
    }

    /// The same call with one more HTTP header, which takes the place of the registration's own of that name. Its value is
    /// never printed.
    ///
    /// # Errors
    /// When the name or the value may not stand in an HTTP header, or the header is one that the protocol or the
    /// connection sets.
    pub fn header(self, name: &str, value: &str) -> Result<Self> {
        let mut headers = self.headers.clone();
        headers.add(name, value).map_err(|message| Error::invalid("headers", message))?;
        self.headers(headers)
    }

    /// The same call with these HTTP headers instead of those given so far. Calls with headers are for servers over HTTP:
    /// others refuse them.
    ///
    /// # Errors
    /// As [`ToolCall::header`].
    pub fn headers(mut self, headers: Headers) -> Result<Self> {
        let is_reserved = |name: &str| {
            OF_THE_PROTOCOL.iter().any(|beginning| name.starts_with(beginning)) || OF_THE_CONNECTION.contains(&name)
        };
        if let Some((name, _)) = headers.iter().find(|(name, _)| is_reserved(name.as_str())) {
            return Err(Error::invalid("headers", format!("the header `{name}` may not be set by a call")));
        }
        self.headers = headers;
        Ok(self)
    }

    /// What the server reports of the call's progress, from its begin to its end. Follow it beside the call:
    ///
    /// ```no_run
    /// # async fn example(manager: switchboard::Manager, id: switchboard::ServerId) -> switchboard::Result<()> {
    /// let mut call = switchboard::ToolCall::new(id, "build");
    /// let mut progress = call.progress();
    /// let follower = tokio::spawn(async move {
    ///     while let Some(report) = progress.next().await {
    ///         println!("{} of {:?}", report.progress, report.total);
    ///     }
    /// });
    /// let result = manager.call(call).await;
    /// # let _ = (result, follower);
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(&mut self) -> ProgressStream {
        if let Some(sender) = &self.progress {
            return ProgressStream::of(sender);
        }
        let (sender, stream) = ProgressStream::new();
        self.progress = Some(sender);
        stream
    }
}

/// Time limits of one request; what is not given is as registered.
///
/// They cover the request from its begin to its end: the wait for a server that is coming back, for its turn, for a server
/// that asks for patience, and being sent again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallLimits {
    /// The time for an answer; restarted by progress, and by nothing else.
    pub timeout: Option<Duration>,
    /// The time in all, whatever the progress.
    pub deadline: Option<Duration>,
}

impl CallLimits {
    /// The time for an answer, and the time in all.
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

impl CallLimits {
    /// The deadline of a request to that server that begins now.
    fn deadline(self, connection: &Connection) -> Deadline {
        let timeouts = &connection.spec().timeouts;
        let max = self.deadline.unwrap_or(timeouts.max_request);
        Deadline::new(self.timeout.unwrap_or(timeouts.request), max)
    }
}

/// Sends a request when its turn has come, unless the connection has been replaced until then.
async fn in_turn(connection: &Connection, live: &Live, request: Request<'_>) -> Result<Json, RequestError> {
    let permit = match timeout_at(request.deadline.due(), connection.permit()).await {
        Ok(permit) => permit.map_err(RequestError::Refused)?,
        Err(_) => {
            let (method, after) = (request.method.to_owned(), request.deadline.waited());
            return Err(RequestError::NoTurn { method, after });
        }
    };
    if !connection.is_present(live) {
        return Err(TransportError::Unsent(Box::new(TransportError::Closed)).into());
    }
    let outcome = live.session.request(request).await;
    drop(permit);
    outcome
}

/// Reads a resource.
pub(crate) async fn read_resource(connection: &Connection, uri: &str, limits: CallLimits) -> Result<Json> {
    simple(connection, ("resources/read", Some(uri)), || Params::new().text("uri", uri), limits).await
}

/// Gets a prompt.
pub(crate) async fn get_prompt(
    connection: &Connection,
    name: &str,
    arguments: Option<Json>,
    limits: CallLimits,
) -> Result<Json> {
    let arguments = arguments.as_ref().map(|given| tool::arguments(Some(given))).transpose()?;
    let params = || {
        let params = Params::new().text("name", name);
        arguments.iter().fold(params, |params, arguments| params.json("arguments", arguments))
    };
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
    simple(connection, (method, None), || Params::from_object(&params), limits).await
}

/// A request whose result is passed on as it came. `params` makes its parameters, anew for each attempt.
pub(super) async fn simple(
    connection: &Connection,
    (method, name): (&str, Option<&str>),
    params: impl Fn() -> Params,
    limits: CallLimits,
) -> Result<Json> {
    let deadline = Arc::new(limits.deadline(connection));
    let mut attempts = Attempts::new(connection, &deadline, method);
    let mut live = connection.session(deadline.left()).await?;
    loop {
        let request = Request { name, ..Request::within(method, params(), deadline.clone()) };
        match in_turn(connection, &live, request).await {
            Ok(result) => return Ok(result),
            Err(error) => live = attempts.next(live, error, only_reads(method)).await?,
        }
    }
}

/// Whether a request of that method changes nothing at the server, so that it may always be repeated.
fn only_reads(method: &str) -> bool {
    matches!(method, "ping" | "resources/read" | "prompts/get" | "completion/complete" | "server/discover")
        || method.ends_with("/list")
}
