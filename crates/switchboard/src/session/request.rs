//! One request: its id, its deadline, and what giving up on it does.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::time::Instant;

use super::incoming::{Deadline, Inbox};
use super::{Link, Session, cancelled, next_id};
use crate::error::{Error, ErrorKind, RpcError};
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
    /// The time for an answer; progress restarts it.
    pub(crate) timeout: Duration,
    /// The time in all.
    pub(crate) max: Duration,
}

impl<'a> Request<'a> {
    pub(crate) fn new(method: &'a str, params: Params, timeout: Duration) -> Self {
        Self { method, params, name: None, param_headers: Vec::new(), timeout, max: timeout }
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
        channel.exchange(request).await
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
            dialect: self.dialect,
            body: &body,
        };
        let deadline = Arc::new(Deadline::new(request.timeout, request.max));
        self.inbox.watch(id, deadline.clone());
        let mut guard = CancelGuard { channel: self, id, is_wanted: !is_handshake };
        let began = Instant::now();
        let outcome = before(&deadline, self.transport.request(outgoing)).await;
        match outcome {
            Some(answer) => {
                // A broken exchange needs no cancel: the connection that would carry it is gone.
                guard.is_wanted = false;
                answer?.map_err(RequestError::Rpc)
            }
            None => {
                let unmatched = self.transport.unmatched();
                Err(RequestError::Timeout { method: request.method.to_owned(), after: began.elapsed(), unmatched })
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
    let mut future = std::pin::pin!(future);
    let mut timer = std::pin::pin!(tokio::time::sleep_until(deadline.due()));
    loop {
        tokio::select! {
            biased;
            output = &mut future => return Some(output),
            () = &mut timer => {
                let due = deadline.due();
                if due <= Instant::now() {
                    return None;
                }
                timer.as_mut().reset(due);
            }
        }
    }
}

impl RequestError {
    /// Whether the same request may succeed a little later, without anybody acting.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Rpc(_) | Self::Refused(_) => false,
            Self::Timeout { .. } | Self::NoTurn { .. } => true,
            Self::Transport(error) => match error {
                TransportError::Connect(_)
                | TransportError::Lost(_)
                | TransportError::Exited(_)
                | TransportError::SessionGone(_) => true,
                TransportError::Status(error) => matches!(error.status, 408 | 425 | 429 | 500..=599),
                TransportError::NoAnswer(_) => true,
                TransportError::NotMcp(_)
                | TransportError::TooLarge { .. }
                | TransportError::Spawn(_)
                | TransportError::Closed => false,
            },
        }
    }

    /// How long the server asked us to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Transport(error) => error.retry_after(),
            _ => None,
        }
    }

    /// Whether a person must sign in first.
    pub(crate) fn needs_sign_in(&self) -> bool {
        matches!(self, Self::Transport(TransportError::Status(error)) if error.status == 401)
    }

    /// The error as the world sees it; `doing` says what was being done.
    pub(crate) fn outward(self, doing: &str) -> Error {
        match self {
            Self::Rpc(rpc) => {
                let text = format!("{doing}: {rpc}");
                Error::new(ErrorKind::ServerError, text).with(|data| data.rpc = Some(rpc))
            }
            Self::Timeout { after, unmatched, .. } => {
                let text = format!("{doing}: no answer came in {}", seconds(after));
                Error::new(ErrorKind::Timeout, text + &unmatched_note(unmatched)).with(|data| {
                    data.after = Some(after);
                    data.maybe_ran = Some(true);
                })
            }
            Self::NoTurn { after, .. } => {
                let text = format!("{doing}: it was not sent, as {} passed before its turn came", seconds(after));
                Error::new(ErrorKind::Timeout, text).with(|data| {
                    data.after = Some(after);
                    data.maybe_ran = Some(false);
                })
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
    let (kind, maybe_ran) = match &error {
        TransportError::Connect(_) | TransportError::Spawn(_) => (ErrorKind::ConnectFailed, Some(false)),
        TransportError::Lost(_) | TransportError::NoAnswer(_) => (ErrorKind::ConnectionLost, Some(true)),
        TransportError::Exited(_) => (ErrorKind::ConnectionLost, Some(true)),
        TransportError::SessionGone(_) => (ErrorKind::ConnectionLost, Some(false)),
        TransportError::NotMcp(_) => (ErrorKind::ProtocolViolation, None),
        TransportError::TooLarge { .. } => (ErrorKind::TooLarge, Some(true)),
        TransportError::Closed => (ErrorKind::ServerClosed, Some(true)),
        TransportError::Status(error) => (status_kind(error), Some(error.status >= 500)),
    };
    let (retry_after, rpc) = match &error {
        TransportError::Status(error) => (error.retry_after, error.rpc.clone()),
        _ => (None, None),
    };
    Error::new(kind, doing.to_owned()).because(error).with(|data| {
        data.maybe_ran = maybe_ran;
        data.retry_after = retry_after;
        data.rpc = rpc;
    })
}

fn status_kind(error: &StatusError) -> ErrorKind {
    match error.status {
        401 => ErrorKind::SignInRequired,
        429 | 503 => ErrorKind::RateLimited,
        404 | 410 => ErrorKind::ConnectionLost,
        _ => ErrorKind::ProtocolViolation,
    }
}
