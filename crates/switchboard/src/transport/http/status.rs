//! HTTP answers that are no success, and what they mean.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::HttpTransport;
use crate::error::RpcError;
use crate::transport::body::{Body, excerpt};
use crate::transport::{Dialect, LONGEST_WAIT, StatusError, TransportError};
use crate::wire::{Message, message};

/// How much of an error's body is read.
pub(super) const ERROR_BODY: usize = 64 << 10;

impl HttpTransport {
    /// What an answer to a request that is no success means; it may be that the session is gone.
    pub(super) async fn refusal(&self, dialect: Dialect, response: Response<Incoming>) -> TransportError {
        match status_error(response).await {
            TransportError::Status(error)
                if matches!(dialect, Dialect::Legacy(_)) && self.session.get().is_some() && ends_session(&error) =>
            {
                // Whoever was first to see it has set it already.
                let _ = self.gone.set(error.status);
                TransportError::SessionGone(error)
            }
            error => error,
        }
    }

    /// Lets nothing pass that belongs to a session which the server has ended: it would be refused, or taken for another's.
    pub(super) fn in_session(&self, dialect: Dialect) -> Result<(), TransportError> {
        match (self.gone.get(), dialect) {
            (Some(&status), Dialect::Legacy(_)) => {
                Err(TransportError::SessionGone(Box::new(StatusError { status, ..StatusError::default() })))
            }
            _ => Ok(()),
        }
    }
}

/// Statuses that are decided by themselves, whatever the body says.
pub(super) fn is_decided(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 429) || status.is_server_error()
}

/// Whether the answer to a handshake refuses the exchange as such: an error that answers no request, under a status of
/// its own. A modern server's errors and those that name revisions are answers all the same.
pub(super) fn refuses_exchange(dialect: Dialect, error: &StatusError) -> bool {
    let is_answer = |rpc: &RpcError| {
        rpc.data.is_some() || (message::UNSUPPORTED_VERSION..=message::HEADER_MISMATCH).contains(&rpc.code)
    };
    dialect == Dialect::Handshake && !error.has_id && !error.rpc.as_ref().is_some_and(is_answer)
}

/// Whether the answer to a request in a session says that there is no such session. That is 404 (specification 2025-11-25,
/// "Session Management"), unless it names our request or says what is wrong with it; many servers say it with 400 and
/// an error of their own that answers no request.
fn ends_session(error: &StatusError) -> bool {
    let is_about_the_request =
        error.rpc.as_ref().is_some_and(|rpc| matches!(rpc.code, message::METHOD_NOT_FOUND | message::INVALID_PARAMS));
    let is_of_the_exchange =
        |rpc: &RpcError| rpc.code == message::INVALID_REQUEST || (-32_099..=-32_000).contains(&rpc.code);
    let is_of_the_server = error.rpc.as_ref().is_some_and(is_of_the_exchange);
    match error.status {
        404 => !is_about_the_request,
        400 => is_of_the_server && !error.has_id,
        _ => false,
    }
}

pub(super) fn take_rpc(error: StatusError) -> RpcError {
    // Asked for only when it is there.
    error.rpc.unwrap_or_else(|| RpcError::new(i64::from(error.status), error.excerpt, None))
}

pub(in crate::transport) async fn status_error(response: Response<Incoming>) -> TransportError {
    let (parts, body) = response.into_parts();
    let retry_after = parts.headers.get(RETRY_AFTER).and_then(retry_after);
    let text = match Body::new(&parts.headers, body) {
        Ok(body) => body.head(ERROR_BODY).await,
        Err(_) => Bytes::new(),
    };
    let (rpc, has_id) = match Message::parse(&text) {
        Ok(Message::Response { id, outcome: Err(rpc) }) if has_rpc_shape(&text) => (Some(rpc), id.is_some()),
        _ => (None, false),
    };
    let status = parts.status.as_u16();
    TransportError::Status(Box::new(StatusError { status, rpc, has_id, retry_after, excerpt: excerpt(&text) }))
}

/// Whether a server that was asked for a stream says with this that it has none, or not this one.
pub(crate) fn refuses_stream(error: &TransportError) -> bool {
    match error {
        TransportError::Status(error) => match error.status {
            408 | 409 | 425 | 429 => false,
            501 | 505 => true,
            status => status < 500,
        },
        TransportError::NotMcp(_) | TransportError::SessionGone(_) => true,
        _ => false,
    }
}

/// Many servers answer `{"error": "text"}` without meaning JSON-RPC.
fn has_rpc_shape(text: &Bytes) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok_and(|body| body["error"]["code"].is_i64())
}

/// The wait that a `Retry-After` header asks for: seconds, or an HTTP date. One that is past means now.
fn retry_after(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds).min(LONGEST_WAIT));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default().min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(text: &str) -> Option<Duration> {
        retry_after(&HeaderValue::from_str(text).unwrap())
    }

    #[test]
    fn a_wait_is_named_in_seconds_or_as_a_date() {
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait(" 0 "), Some(Duration::ZERO));
        let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(100));
        assert!((98..=100).contains(&wait(&date).unwrap().as_secs()), "{date}");
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO), "a date that is past means now");
    }

    #[test]
    fn absurd_waits_are_cut_and_others_are_none() {
        let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(1_000_000));
        for text in ["3601", "999999999", "18446744073709551615", &later] {
            assert_eq!(wait(text), Some(LONGEST_WAIT), "{text}");
        }
        for text in ["", "soon", "-1", "1.5", "99999999999999999999999", "7 s"] {
            assert_eq!(wait(text), None, "{text}");
        }
    }
}
