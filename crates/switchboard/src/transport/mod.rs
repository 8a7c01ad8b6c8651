//! How messages get to a server and back: Streamable HTTP, HTTP+SSE, child processes, and pairs in this process.
//!
//! A transport carries one request and gives back its answer; everything else that the server says on the way goes to the
//! [`Receiver`]. It sends nothing twice: whether to try again is decided above, by what the errors here say. Only an answer that
//! a server has begun to stream is looked for where the stream goes on.

mod body;
mod callers;
pub(crate) mod command;
mod connector;
pub(crate) mod http;
mod legacy_sse;
mod pipe;
pub(crate) mod process;
mod sse;
pub(crate) mod stdio;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub(crate) use self::http::{HttpClient, HttpTransport, refuses_stream};
pub(crate) use self::legacy_sse::SseTransport;
pub(crate) use self::pipe::PipeTransport;
pub(crate) use self::process::Exit;
pub(crate) use self::sse::Cursor;
use crate::error::RpcError;
use crate::spec::{Headers, TransportKind};
use crate::wire::{Json, Message};

/// The longest wait that a server may ask for, in `Retry-After` or in the `retry` of an event stream. Some ask for days, or
/// for the number of milliseconds in seconds; after an hour it is worth a look.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Takes what a server says that is not the answer being waited for.
///
/// Called in the order of arrival, from the task that reads; it must not block.
pub(crate) trait Receiver: Send + Sync + 'static {
    /// Takes in a request or notification. A request's answer is given back, written, to be sent on the right channel.
    fn receive(&self, message: Message) -> Option<Bytes>;

    /// Something on the channel was no message, or an answer to nobody.
    fn odd(&self, what: &str);
}

/// One request on its way out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    /// Our id of it.
    pub(crate) id: u64,
    /// Its method.
    pub(crate) method: &'a str,
    /// What `Mcp-Name` mirrors.
    pub(crate) name: Option<&'a str>,
    /// What `Mcp-Param-*` mirrors.
    pub(crate) param_headers: &'a [(Box<str>, String)],
    /// Headers of this request alone, which take the place of those of the same name that every request has.
    pub(crate) headers: Option<&'a Headers>,
    /// The revision it is written in; `None` before one is agreed on.
    pub(crate) dialect: Dialect,
    /// The message.
    pub(crate) body: &'a Bytes,
}

impl Outgoing<'_> {
    /// Puts the headers of this request alone in the place of those of the same names.
    fn put_headers(&self, headers: &mut ::http::HeaderMap) {
        let Some(given) = self.headers else { return };
        for (name, _) in given.iter() {
            headers.remove(name);
        }
        for (name, value) in given.iter() {
            headers.append(name, value.clone());
        }
    }
}

/// The revision that a message is written in, as far as a transport must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Nothing is agreed on yet: the legacy handshake.
    Handshake,
    /// A legacy revision.
    Legacy(&'static str),
    /// A modern revision.
    Modern(&'static str),
}

/// What a server made of a request.
pub(crate) type Answer = Result<Json, RpcError>;

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransportError {
    /// The connection could not be made; nothing was sent.
    #[error("could not connect")]
    Connect(#[source] Cause),
    /// The connection broke; the request may have been carried out.
    #[error("the connection was lost before an answer came")]
    Lost(#[source] Cause),
    /// The connection was broken already; nothing was sent.
    #[error("the request was not sent")]
    Unsent(#[source] Box<TransportError>),
    /// The server answered with an HTTP status that is no success.
    #[error("{0}")]
    Status(Box<StatusError>),
    /// The server does not know the session any more; the request was refused, so it has not run.
    #[error("the server has ended the session")]
    SessionGone(#[source] Box<StatusError>),
    /// The server took the request and ended without an answer to it.
    #[error("the server ended {0} without an answer")]
    NoAnswer(&'static str),
    /// What came is not MCP.
    #[error("the server did not answer with MCP: {0}")]
    NotMcp(String),
    /// The answer was larger than allowed.
    #[error("the answer is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The command could not be started.
    #[error(transparent)]
    Spawn(SpawnError),
    /// The child process ended.
    #[error("{0}")]
    Exited(Exit),
    /// We closed the connection.
    #[error("the connection was closed")]
    Closed,
}

impl TransportError {
    /// How long the server asked us to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Self::Status(error) = self { error.retry_after } else { None }
    }
}

/// The cause below a [`TransportError`].
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A command that could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    /// There is no such program.
    #[error("the command `{command}` was not found{}", looked.note())]
    NotFound {
        /// The command.
        command: String,
        /// Where it was looked for.
        looked: Looked,
    },
    /// There is something of that name, but no program.
    #[error("the command `{command}` {is}")]
    NoProgram {
        /// The command.
        command: String,
        /// What it is instead.
        is: &'static str,
    },
    /// The folder to start it in is not there.
    #[error("the working folder `{folder}` is not there, or is no folder")]
    NoFolder {
        /// The folder.
        folder: String,
    },
    /// The system refused.
    #[error("the command `{command}` could not be started")]
    Refused {
        /// The command.
        command: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Where a command was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Looked {
    /// In the folders of the `PATH`.
    InPath,
    /// Nowhere: there is no `PATH`.
    Nowhere,
    /// At the place that it names itself.
    There,
}

impl Looked {
    fn note(self) -> &'static str {
        match self {
            Self::InPath => " in PATH",
            Self::Nowhere => ": no PATH was given to the manager (see Builder::environment)",
            Self::There => "",
        }
    }
}

impl SpawnError {
    /// Whether the same command may start a little later, without anybody acting.
    pub(crate) fn may_pass(&self) -> bool {
        use io::ErrorKind::{ExecutableFileBusy, OutOfMemory, ResourceBusy, WouldBlock};
        match self {
            Self::NotFound { .. } | Self::NoProgram { .. } | Self::NoFolder { .. } => false,
            Self::Refused { source, .. } => {
                matches!(source.kind(), WouldBlock | OutOfMemory | ResourceBusy | ExecutableFileBusy)
            }
        }
    }

    /// What a person can do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "install the program, or give its whole path",
            Self::NoProgram { .. } => "give the path of a file that may be executed",
            Self::NoFolder { .. } => "create the folder, or register the server with another one",
            Self::Refused { .. } => "try the same command by hand, as the same user",
        }
    }
}

/// An HTTP answer that is no success.
#[derive(Debug, Default, Clone, thiserror::Error)]
#[error("{}", self.text())]
pub(crate) struct StatusError {
    /// The HTTP status code.
    pub(crate) status: u16,
    /// The JSON-RPC error in the body, when there was one.
    pub(crate) rpc: Option<RpcError>,
    /// Whether that error names a request as the one it answers.
    pub(crate) has_id: bool,
    /// How long the server asked us to wait.
    pub(crate) retry_after: Option<Duration>,
    /// The first text of the body, cleaned and cut.
    pub(crate) excerpt: String,
}

impl StatusError {
    /// Whether the server may have carried the request out, by the status alone. A client error refuses it, as does a 503
    /// that says when to come back; what gateways say of a server behind them leaves it open.
    pub(crate) fn maybe_ran(&self) -> bool {
        match self.status {
            // Given up in the middle: by a server that waited for us, or by a proxy that did not wait for the server.
            408 | 499 => true,
            501 | 505 => false,
            503 => self.retry_after.is_none(),
            status => status >= 500,
        }
    }

    fn text(&self) -> String {
        let reason = ::http::StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        let reason = reason.map(|reason| format!(" {reason}")).unwrap_or_default();
        let said = match (&self.rpc, self.excerpt.is_empty()) {
            (Some(rpc), _) => format!(": error {}: {}", rpc.code, rpc.message),
            (None, false) => format!(": {}", self.excerpt),
            (None, true) => String::new(),
        };
        format!("the server answered with HTTP {}{reason}{said}", self.status)
    }
}

/// A way to one server. Clones are the same way.
#[derive(Debug, Clone)]
pub(crate) enum Transport {
    /// Streamable HTTP.
    Http(Arc<HttpTransport>),
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse(Arc<SseTransport>),
    /// One duplex stream of lines: a child process, or a pair in this process.
    Pipe(Arc<PipeTransport>),
}

impl Transport {
    /// Sends a request and waits for its answer.
    ///
    /// Cancel safety: dropping the future forgets the answer; the server is not told (see [`Transport::cancel`]).
    pub(crate) async fn request(&self, outgoing: Outgoing<'_>) -> Result<Answer, TransportError> {
        match self {
            Self::Http(http) => http.request(outgoing).await,
            Self::Sse(sse) => sse.request(outgoing).await,
            Self::Pipe(pipe) => pipe.request(outgoing).await,
        }
    }

    /// Sends a notification.
    pub(crate) async fn notify(&self, dialect: Dialect, body: Bytes) -> Result<(), TransportError> {
        match self {
            Self::Http(http) => http.notify(dialect, body).await,
            Self::Sse(sse) => sse.notify(dialect, body).await,
            Self::Pipe(pipe) => pipe.send(body).await,
        }
    }

    /// Tells the server that the answer to `id` is not wanted any more, without waiting. On modern HTTP dropping the
    /// request's future has said so already.
    pub(crate) fn cancel(&self, dialect: Dialect, notice: Bytes) {
        match (self, dialect) {
            (Self::Http(_), Dialect::Modern(_)) => {}
            (Self::Http(http), _) => http.notify_soon(dialect, notice),
            (Self::Sse(sse), _) => sse.notify_soon(dialect, notice),
            (Self::Pipe(pipe), _) => pipe.send_soon(notice),
        }
    }

    /// Waits until the way is broken, and says why. Never returns for Streamable HTTP, which has no lasting connection.
    pub(crate) async fn broken(&self) -> TransportError {
        match self {
            Self::Http(_) => std::future::pending().await,
            Self::Sse(sse) => sse.broken().await,
            Self::Pipe(pipe) => pipe.broken().await,
        }
    }

    /// Ends the way in good order: ends the session, closes the child's input and waits for it. Bounded in time. Says
    /// whether the server has nothing left of it that could be taken up again.
    pub(crate) async fn close(&self, dialect: Dialect) -> bool {
        match self {
            Self::Http(http) => http.close(dialect).await,
            Self::Sse(sse) => {
                sse.close().await;
                true
            }
            Self::Pipe(pipe) => {
                pipe.close().await;
                true
            }
        }
    }

    /// The last of what the child process behind it wrote to its standard error.
    pub(crate) fn stderr(&self) -> Option<String> {
        match self {
            Self::Http(_) | Self::Sse(_) => None,
            Self::Pipe(pipe) => pipe.stderr(),
        }
    }

    /// Which of the HTTP transports it is, if it is one.
    pub(crate) fn kind(&self) -> Option<TransportKind> {
        match self {
            Self::Http(_) => Some(TransportKind::StreamableHttp),
            Self::Sse(_) => Some(TransportKind::Sse),
            Self::Pipe(_) => None,
        }
    }

    /// Replies that answered no request, where they are counted.
    pub(crate) fn unmatched(&self) -> u64 {
        match self {
            Self::Http(_) => 0,
            Self::Sse(sse) => sse.unmatched(),
            Self::Pipe(pipe) => pipe.unmatched(),
        }
    }
}
