//! One request: its id, its deadline, and what giving up on it does.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::incoming::Inbox;
use super::progress::Deadline;
use super::{Link, Session, cancelled, next_id};
use crate::error::{Error, ErrorKind, RpcError};
use crate::spec::Headers;
use crate::transport::{Dialect, Outgoing, StatusError, Transport, TransportError};
use crate::wire::message::{self, Params};
use crate::wire::{Json, meta};

/// A request to a server.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// Its method.
    pub(crate) method: &'a str,
    /// Its parameters, without `_meta`.
    pub(crate) params: Params,
    /// The value of the parameter that `Mcp-Name` mirrors.
    pub(crate) name: Option<&'a str>,
    /// The headers that mirror arguments.
    pub(crate) param_headers: Vec<(Box<str>, String)>,
    /// Headers of this request alone; nothing reads them but HTTP.
    pub(crate) headers: Option<&'a Headers>,
    /// When it is given up.
    pub(crate) deadline: Arc<Deadline>,
}

impl<'a> Request<'a> {
    /// A request that is given up after `timeout`, whatever its progress.
    pub(crate) fn new(method: &'a str, params: Params, timeout: Duration) -> Self {
        Self::within(method, params, Arc::new(Deadline::new(timeout, timeout)))
    }

    /// A request that is given up at `deadline`.
    pub(crate) fn within(method: &'a str, params: Params, deadline: Arc<Deadline>) -> Self {
        Self { method, params, name: None, param_headers: Vec::new(), headers: None, deadline }
    }
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The server answered with an error.
    #[error(transparent)]
    Rpc(RpcError),
    /// No answer came over the transport.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// No answer came in time.
    #[error("no answer to `{method}` came in {after:?}{}", unmatched_note(*unmatched))]
    Timeout {
        /// The method asked.
        method: String,
        /// How long was waited.
        after: Duration,
        /// Replies seen that matched no request.
        unmatched: u64,
    },
    /// The server gave it up.
    #[error("the server cancelled the request: {reason}")]
    Cancelled {
        /// Why, by its own word.
        reason: String,
    },
    /// It was not sent, because its turn did not come in time.
    #[error("`{method}` was not sent: its turn did not come in {after:?}")]
    NoTurn {
        /// The method.
        method: String,
        /// How long was waited.
        after: Duration,
    },
    /// It was not sent, for a reason of ours.
    #[error(transparent)]
    Refused(Error),
}

fn unmatched_note(unmatched: u64) -> String {
    if unmatched == 0 { String::new() } else { format!(", but {unmatched} unmatched replies did") }
}

/// Everything that one exchange needs besides the request itself.
struct Channel<'a> {
    transport: &'a Transport,
    inbox: &'a Inbox,
    ids: &'a AtomicU64,
    dialect: Dialect,
    meta: &'a str,
}

impl Session {
    /// Sends a request and waits for its result.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    pub(crate) async fn request(&self, request: Request<'_>) -> Result<Json, RequestError> {
        let channel = Channel {
            transport: &self.transport,
            inbox: &self.inbox,
            ids: &self.ids,
            dialect: self.dialect(),
            meta: &self.meta(),
        };
        tokio::select! {
            biased;
            outcome = channel.exchange(request) => outcome,
            () = self.closed.cancelled() => Err(TransportError::Closed.into()),
        }
    }
}

impl Link {
    /// Sends a request of the handshake and waits for its result.
    ///
    /// Cancel safety: dropping the future forgets the answer; a handshake is not cancelled by a message.
    pub(super) async fn request(
        &self,
        dialect: Dialect,
        meta: &str,
        request: Request<'_>,
    ) -> Result<Json, RequestError> {
        let channel = Channel { transport: &self.transport, inbox: &self.inbox, ids: &self.ids, dialect, meta };
        channel.exchange(request).await
    }
}

impl Channel<'_> {
    async fn exchange(&self, request: Request<'_>) -> Result<Json, RequestError> {
        let id = next_id(self.ids);
        let is_handshake = self.dialect == Dialect::Handshake;
        let meta = message::Meta { members: self.meta, wants_progress: !is_handshake };
        let body = message::request(id, request.method, request.params, meta);
        let outgoing = Outgoing {
            id,
            method: request.method,
            name: request.name.filter(|_| meta::name_member(request.method).is_some()),
            param_headers: &request.param_headers,
            headers: request.headers,
            dialect: self.dialect,
            body: &body,
        };
        self.inbox.watch(id, request.deadline.clone());
        let mut guard = CancelGuard { channel: self, id, is_wanted: !is_handshake };
        let outcome = before(&request.deadline, self.transport.request(outgoing)).await;
        match outcome {
            Some(answer) => {
                // A broken exchange needs no cancel: the connection that would carry it is gone.
                guard.is_wanted = false;
                answer?.map_err(RequestError::Rpc)
            }
            None => {
                if let Some(reason) = request.deadline.cancelled() {
                    guard.is_wanted = false;
                    return Err(RequestError::Cancelled { reason: reason.to_owned() });
                }
                let (after, unmatched) = (request.deadline.waited(), self.transport.unmatched());
                Err(RequestError::Timeout { method: request.method.to_owned(), after, unmatched })
            }
        }
    }
}

/// Tells the server that an answer is not wanted any more, unless it has come.
struct CancelGuard<'a> {
    channel: &'a Channel<'a>,
    id: u64,
    is_wanted: bool,
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        self.channel.inbox.unwatch(self.id);
        if self.is_wanted {
            self.channel.transport.cancel(self.channel.dialect, cancelled(self.id, "the caller gave up"));
        }
    }
}

/// Waits for `future` until the deadline, which may move while we wait.
async fn before<T>(deadline: &Deadline, future: impl Future<Output = T>) -> Option<T> {
    // A server that never stops talking uses up what tokio lets one task do at a time; the clock is read nevertheless.
    let passed = std::pin::pin!(tokio::task::unconstrained(deadline.passed()));
    tokio::select! {
        biased;
        output = future => Some(output),
        () = passed => None,
    }
}

impl RequestError {
    /// Whether the request may have been carried out although there is no result; `None` when the server answered it, or
    /// something else says so.
    pub(crate) fn maybe_ran(&self) -> Option<bool> {
        match self {
            Self::Rpc(_) | Self::Refused(_) => None,
            Self::Timeout { .. } | Self::Cancelled { .. } => Some(true),
            Self::NoTurn { .. } => Some(false),
            Self::Transport(error) => Some(maybe_ran(error)),
        }
    }

    /// The error as the world sees it; `doing` says what was being done.
    pub(crate) fn outward(self, doing: &str) -> Error {
        let maybe_ran = self.maybe_ran();
        match self {
            Self::Rpc(rpc) => {
                let text = format!("{doing}: {rpc}");
                Error::new(ErrorKind::ServerError, text).with(|data| data.rpc = Some(rpc))
            }
            Self::Timeout { after, unmatched, .. } => {
                let text = format!("{doing}: no answer came in {}", seconds(after));
                Error::new(ErrorKind::Timeout, text + &unmatched_note(unmatched)).with(|data| {
                    data.after = Some(after);
                    data.maybe_ran = maybe_ran;
                })
            }
            Self::NoTurn { after, .. } => {
                let text = format!("{doing}: it was not sent, as {} passed before its turn came", seconds(after));
                Error::new(ErrorKind::Timeout, text).with(|data| {
                    data.after = Some(after);
                    data.maybe_ran = maybe_ran;
                })
            }
            Self::Cancelled { .. } => {
                let text = format!("{doing}: {self}");
                Error::new(ErrorKind::ServerCancelled, text).with(|data| data.maybe_ran = maybe_ran)
            }
            Self::Refused(error) => error,
            Self::Transport(error) => outward(error, doing),
        }
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0)
}

fn outward(error: TransportError, doing: &str) -> Error {
    let maybe_ran = maybe_ran(&error);
    let (retry_after, rpc) = match &error {
        TransportError::Status(error) => (error.retry_after, error.rpc.clone()),
        _ => (None, None),
    };
    Error::new(kind(&error), doing.to_owned()).because(error).with(|data| {
        data.maybe_ran = Some(maybe_ran);
        data.retry_after = retry_after;
        data.rpc = rpc;
    })
}

/// Whether a request that failed in this way may have been carried out. When in doubt, it may.
fn maybe_ran(error: &TransportError) -> bool {
    match error {
        TransportError::Connect(_)
        | TransportError::Spawn(_)
        | TransportError::Unsent(_)
        | TransportError::SessionGone(_) => false,
        TransportError::Lost(_)
        | TransportError::NoAnswer(_)
        | TransportError::Exited(_)
        | TransportError::NotMcp(_)
        | TransportError::TooLarge { .. }
        | TransportError::Closed => true,
        TransportError::Status(error) => error.maybe_ran(),
    }
}

fn kind(error: &TransportError) -> ErrorKind {
    match error {
        TransportError::Connect(_) | TransportError::Spawn(_) => ErrorKind::ConnectFailed,
        TransportError::Lost(_)
        | TransportError::NoAnswer(_)
        | TransportError::Exited(_)
        | TransportError::SessionGone(_) => ErrorKind::ConnectionLost,
        TransportError::Unsent(cause) => kind(cause),
        TransportError::NotMcp(_) => ErrorKind::ProtocolViolation,
        TransportError::TooLarge { .. } => ErrorKind::TooLarge,
        TransportError::Closed => ErrorKind::ServerClosed,
        TransportError::Status(error) => status_kind(error),
    }
}

fn status_kind(error: &StatusError) -> ErrorKind {
    match error.status {
        401 => ErrorKind::SignInRequired,
        429 | 503 => ErrorKind::RateLimited,
        404 | 410 => ErrorKind::ConnectionLost,
        _ => ErrorKind::ProtocolViolation,
    }
}
