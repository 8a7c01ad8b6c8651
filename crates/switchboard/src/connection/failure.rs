//! The one place that decides what a failure means for the connection: whether it is doubted, whether and when to try again,
//! and what the world is told. What it means for a request stands in `manager/call/attempts.rs`.

use super::View;
use super::state::Failure;
use crate::error::{Error, ErrorKind, chain};
use crate::id::ServerId;
use crate::session::detect::Tried;
use crate::session::lifecycle::OpenError;
use crate::session::request::RequestError;
use crate::transport::{StatusError, TransportError};

/// What a failed connect means for the next attempt.
pub(super) fn of_open(error: &OpenError) -> Failure {
    match error {
        OpenError::Step { source, .. } => of_request(source),
        OpenError::Dial(error) => of_transport(error),
        OpenError::NoCommonVersion { .. } | OpenError::Unusable { .. } => Failure::Permanent,
        OpenError::NoEndpoint { .. } => Failure::Transient { retry_after: None },
        OpenError::Neither { first: (_, error), .. } => of_open(error),
    }
}

/// What a request without an answer means for the connection.
pub(super) fn of_request(error: &RequestError) -> Failure {
    match error {
        RequestError::Transport(error) => of_transport(error),
        RequestError::Timeout { .. } | RequestError::NoTurn { .. } => Failure::Transient { retry_after: None },
        RequestError::Rpc(_) | RequestError::Refused(_) | RequestError::Cancelled { .. } => Failure::Permanent,
    }
}

/// What a transport that broke, or gave no answer, means for the next attempt.
pub(super) fn of_transport(error: &TransportError) -> Failure {
    match error {
        TransportError::SessionGone(_) => Failure::SessionGone,
        TransportError::Unsent(cause) => of_transport(cause),
        TransportError::Status(error) => of_status(error),
        TransportError::Spawn(error) if !error.may_pass() => Failure::Permanent,
        TransportError::Closed | TransportError::NotMcp(_) | TransportError::TooLarge { .. } => Failure::Permanent,
        TransportError::Connect(_)
        | TransportError::Lost(_)
        | TransportError::NoAnswer(_)
        | TransportError::Spawn(_)
        | TransportError::Exited(_) => Failure::Transient { retry_after: None },
    }
}

fn of_status(error: &StatusError) -> Failure {
    match error.status {
        401 => Failure::SignIn,
        408 | 425 | 429 | 500..=599 => Failure::Transient { retry_after: error.retry_after },
        _ => Failure::Permanent,
    }
}

/// What a probe without an answer means: the server is gone, whatever it was that said so.
pub(super) fn of_probe(error: &RequestError) -> Failure {
    match of_request(error) {
        Failure::Permanent => Failure::Transient { retry_after: None },
        failure => failure,
    }
}

/// Whether a probe that failed in this way leaves no doubt, so that asking again is no use.
pub(super) fn is_plain(error: &RequestError) -> bool {
    let RequestError::Transport(error) = error else { return false };
    match error {
        TransportError::Connect(_)
        | TransportError::SessionGone(_)
        | TransportError::Unsent(_)
        | TransportError::Exited(_)
        | TransportError::Closed => true,
        TransportError::Status(error) => error.status == 401,
        _ => false,
    }
}

/// Whether the server has too much to do to answer, and says so: it is there.
pub(super) fn is_busy(error: &RequestError) -> bool {
    matches!(error, RequestError::Transport(TransportError::Status(error)) if matches!(error.status, 408 | 425 | 429))
}

/// What of a call that failed over HTTP makes it doubtful whether the server is there.
pub(super) fn doubt(error: &RequestError) -> Option<TransportError> {
    match error {
        RequestError::Transport(TransportError::Connect(_) | TransportError::Lost(_))
        | RequestError::Timeout { .. } => Some(TransportError::Lost(chain(error).into())),
        // A gateway speaks for the server, or the server does not know us any more.
        RequestError::Transport(TransportError::Status(error)) if error.status >= 500 || is_to_a_stranger(error) => {
            Some(TransportError::Status(error.clone()))
        }
        _ => None,
    }
}

/// Whether a server says with this, to somebody whom it knew before, that it does not know him any more.
pub(super) fn is_to_a_stranger(error: &StatusError) -> bool {
    matches!(error.status, 400 | 401 | 404 | 410)
}

/// A failed connect as the world sees it.
pub(super) fn open_error(error: OpenError) -> Error {
    const DOING: &str = "could not connect";
    match error {
        OpenError::Step { step, source } => {
            let outward = source.outward(&format!("{DOING}: `{step}` failed"));
            as_connect_failure(outward)
        }
        OpenError::Dial(error) => {
            let advice = if let TransportError::Spawn(error) = &error { Some(error.hint()) } else { None };
            let outward = as_connect_failure(RequestError::Transport(error).outward(DOING));
            advice.into_iter().fold(outward, Error::hint)
        }
        error @ (OpenError::NoCommonVersion { .. } | OpenError::Unusable { .. }) => {
            Error::new(ErrorKind::ProtocolViolation, DOING).because(error)
        }
        OpenError::NoEndpoint { .. } => as_connect_failure(Error::new(ErrorKind::ConnectFailed, DOING).because(error)),
        OpenError::Neither { first, second } => {
            let causes = Tried::both(&first, &second);
            let of_first = open_error(*first.1);
            let text = format!("{DOING}: neither over Streamable HTTP nor over HTTP+SSE");
            Error::new(of_first.kind(), text).with(|data| *data = of_first.data().clone()).because(causes)
        }
    }
}

/// Before the handshake is done, a lost connection is a failed connect, and nothing has run.
fn as_connect_failure(error: Error) -> Error {
    let kind = match error.kind() {
        ErrorKind::ConnectionLost | ErrorKind::ServerClosed => ErrorKind::ConnectFailed,
        kind => kind,
    };
    let hint = match kind {
        ErrorKind::SignInRequired => Some("give an `Authorization` header with --header, or sign in"),
        ErrorKind::ConnectFailed => Some("run `switchboard doctor` to see which step fails"),
        _ => None,
    };
    error.into_kind(kind).with(|data| {
        data.maybe_ran = None;
        data.hint = hint.map(str::to_owned);
    })
}

/// A lost connection as the world sees it.
pub(super) fn lost_error(error: TransportError) -> Error {
    RequestError::Transport(error).outward("the connection was lost")
}

/// The answer to whoever needs a server that is not there.
pub(super) fn not_ready(id: &ServerId, view: &View) -> Error {
    if let Some((error, _)) = &view.failure
        && error.kind() == ErrorKind::SignInRequired
    {
        return error.clone().of(id);
    }
    let text = format!("is not ready: it is {} since {}", view.state, view.since);
    let error = Error::new(ErrorKind::NotReady, text).of(id).with(|data| {
        data.state = Some(view.state.as_str());
        data.since = Some(view.since);
        data.maybe_ran = Some(false);
    });
    match &view.failure {
        Some((cause, _)) => error.because(cause.clone()),
        None => error,
    }
}
