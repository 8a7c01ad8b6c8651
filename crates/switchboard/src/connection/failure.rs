//! The one place that decides what a failure means: whether and when to try again, and what the world is told.

use super::View;
use super::state::Failure;
use crate::error::{Error, ErrorKind};
use crate::id::ServerId;
use crate::session::detect::Tried;
use crate::session::lifecycle::OpenError;
use crate::session::request::RequestError;
use crate::transport::TransportError;

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
    if error.needs_sign_in() {
        Failure::SignIn
    } else if matches!(error, RequestError::Transport(TransportError::SessionGone(_))) {
        Failure::SessionGone
    } else if error.is_transient() {
        Failure::Transient { retry_after: error.retry_after() }
    } else {
        Failure::Permanent
    }
}

/// What a probe without an answer means: the server is gone, whatever it was that said so.
pub(super) fn of_probe(error: &RequestError) -> Failure {
    match of_request(error) {
        Failure::Permanent => Failure::Transient { retry_after: None },
        failure => failure,
    }
}

/// What a broken transport means for the next attempt.
pub(super) fn of_transport(error: &TransportError) -> Failure {
    match error {
        TransportError::SessionGone(_) => Failure::SessionGone,
        TransportError::Status(error) if error.status == 401 => Failure::SignIn,
        TransportError::Status(error) => Failure::Transient { retry_after: error.retry_after },
        TransportError::Spawn(error) if !error.may_pass() => Failure::Permanent,
        TransportError::Closed | TransportError::NotMcp(_) | TransportError::TooLarge { .. } => Failure::Permanent,
        _ => Failure::Transient { retry_after: None },
    }
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
