//! Carries a request to a server: waited for, or begun and looked up later.

use std::future::Future;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use switchboard::wire::Json;
use switchboard::{CallResult, Error, ErrorKind};
use tokio::time::Instant;

use crate::address::At;
use crate::app::App;
use crate::body::{json, raw_json};
use crate::call_table::{self, Begun, CallState, Key, Outcome, Subject};
use crate::code::Code;
use crate::problem::Problem;

/// How a request to a server can fail, whatever it asks.
pub(crate) const CODES: [Code; 16] = [
    Code::Kind(ErrorKind::UnknownServer),
    Code::Kind(ErrorKind::InvalidInput),
    Code::Kind(ErrorKind::NotReady),
    Code::Kind(ErrorKind::SignInRequired),
    Code::Kind(ErrorKind::Overloaded),
    Code::Kind(ErrorKind::ServerError),
    Code::Kind(ErrorKind::ConnectionLost),
    Code::Kind(ErrorKind::ConnectFailed),
    Code::Kind(ErrorKind::ServerClosed),
    Code::Kind(ErrorKind::ProtocolViolation),
    Code::Kind(ErrorKind::TooLarge),
    Code::Kind(ErrorKind::ServerCancelled),
    Code::Kind(ErrorKind::RateLimited),
    Code::Kind(ErrorKind::Timeout),
    Code::Cancelled,
    Code::Stopping,
];

/// Says that a result does not fit its tool's output schema.
const WARNING: HeaderName = HeaderName::from_static("switchboard-warning");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// A request and how its caller wants it.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) subject: Subject,
    pub(crate) key: Option<Key>,
    pub(crate) is_async: bool,
}

impl Job {
    /// A request without a key, asynchronous when the headers prefer that (RFC 7240).
    pub(crate) fn new(subject: Subject, headers: &HeaderMap) -> Self {
        let preferences = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
        let is_async = preferences
            .flat_map(|value| value.split(','))
            .any(|word| word.trim().eq_ignore_ascii_case("respond-async"));
        Self { subject, key: None, is_async }
    }
}

#[derive(Debug, Serialize)]
struct Accepted<'a> {
    id: &'a str,
    state: CallState,
}

/// Carries `work` out.
///
/// A plain request lives as long as its caller waits: one who hangs up drops it, which cancels it at the server. One that
/// is asynchronous or has a key goes on by itself, so that it can be asked for again.
pub(crate) async fn out(
    app: &App,
    at: &At,
    job: Job,
    work: impl Future<Output = Outcome> + Send + 'static,
) -> Result<Response, Problem> {
    let begun = Instant::now();
    if !job.is_async && job.key.is_none() {
        let outcome = at.calls.enter(job.subject)?.run(work).await;
        app.metrics().count(&outcome, begun.elapsed());
        return answer(at, outcome);
    }
    let follower = match at.calls.begin(job.subject, job.key)? {
        Begun::Known(follower) => follower,
        Begun::New(ticket) => {
            let (follower, app) = (ticket.follower(), app.clone());
            app.clone().host().calls().spawn(async move {
                let outcome = ticket.run(work).await;
                app.metrics().count(&outcome, begun.elapsed());
            });
            follower
        }
    };
    if job.is_async { accepted(at, follower.id()) } else { answer(at, follower.outcome().await) }
}

fn accepted(at: &At, id: &str) -> Result<Response, Problem> {
    let mut response = json(StatusCode::ACCEPTED, &Accepted { id, state: CallState::Running })?;
    if let Ok(location) = HeaderValue::try_from(at.name.path_to(&format!("calls/{id}"))) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static("respond-async"));
    Ok(response)
}

fn answer(at: &At, outcome: Outcome) -> Result<Response, Problem> {
    match outcome {
        Outcome::Done { result, is_odd, .. } => {
            let mut response = raw_json(&result).into_response();
            if is_odd {
                response.headers_mut().insert(WARNING, HeaderValue::from_static("output-schema"));
            }
            Ok(response)
        }
        Outcome::Failed(error) => Err(at.problem(&error)),
        Outcome::Cancelled => Err(call_table::cancelled()),
        Outcome::Cut => Err(call_table::cut()),
    }
}

impl From<Result<Json, Error>> for Outcome {
    fn from(outcome: Result<Json, Error>) -> Self {
        match outcome {
            Ok(result) => Self::Done { result, is_error: false, is_odd: false },
            Err(error) => Self::Failed(Arc::new(error)),
        }
    }
}

impl From<Result<CallResult, Error>> for Outcome {
    fn from(outcome: Result<CallResult, Error>) -> Self {
        match outcome {
            Ok(CallResult { result, is_error, warnings, .. }) => {
                Self::Done { result, is_error, is_odd: !warnings.is_empty() }
            }
            Err(error) => Self::Failed(Arc::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefers(values: &[&'static str]) -> bool {
        let headers = values.iter().map(|value| (PREFER, HeaderValue::from_static(value))).collect();
        Job::new(Subject { method: "tools/call", server: None, name: String::new() }, &headers).is_async
    }

    #[test]
    fn an_asynchronous_answer_is_a_preference() {
        assert!(
            prefers(&["respond-async"]) && prefers(&["wait=10, Respond-Async"]) && prefers(&["a", "respond-async"])
        );
        assert!(!prefers(&[]) && !prefers(&["wait=10"]) && !prefers(&["return=minimal"]));
    }
}
