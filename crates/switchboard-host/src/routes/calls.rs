//! The table of calls: looked up, listed, cancelled.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri};
use serde::Serialize;
use switchboard::ErrorKind;

use super::Routes;
use crate::address::{At, CallId};
use crate::body::json;
use crate::call_table::{CallState, CallView};
use crate::code::Code;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::query::Parameters;

#[derive(Debug, Serialize)]
struct Calls {
    calls: Vec<CallView>,
}

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get(
            "~/calls",
            list,
            Operation::new(
                "calls",
                "listCalls",
                "Calls that run, and those that were begun with `Prefer: respond-async`",
            )
            .query(&["callState"])
            .answers(200, "the calls, without their results", "CallList")
            .fails(&[Code::Kind(ErrorKind::InvalidInput)]),
        )
        .get(
            "~/calls/{id}",
            show,
            Operation::new("calls", "showCall", "One call, with its result when it has one")
                .answers(200, "the call", "Call")
                .fails(&[Code::Kind(ErrorKind::UnknownCall)]),
        )
        .post(
            "~/calls/{id}/cancel",
            cancel,
            Operation::new("calls", "cancelCall", "Cancels a call; one that has ended stays as it is")
                .empty()
                .fails(&[Code::Kind(ErrorKind::UnknownCall)]),
        )
}

async fn list(at: At, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::read(&uri, &["state"])?;
    let states = parameters.all("state").map(state).collect::<Result<Vec<_>, _>>()?;
    json(StatusCode::OK, &Calls { calls: at.calls.list(&states) })
}

async fn show(at: At, CallId(id): CallId) -> Result<Response, Problem> {
    let call = at.calls.view(&id).ok_or_else(|| unknown(&id))?;
    json(StatusCode::OK, &call)
}

async fn cancel(at: At, CallId(id): CallId) -> Result<Response, Problem> {
    if at.calls.cancel(&id) { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(unknown(&id)) }
}

fn state(text: &str) -> Result<CallState, Problem> {
    let found = CallState::ALL.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, state)| state).ok_or_else(|| {
        let names = CallState::ALL.map(|(name, _)| name).join(", ");
        Problem::invalid_at("state", format!("`{text}` is not a state of a call: {names}"))
    })
}

fn unknown(id: &str) -> Problem {
    let detail = format!("no call `{id}` is known; ended calls are forgotten after an hour");
    Problem::new(Code::Kind(ErrorKind::UnknownCall), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_calls_are_known_by_name() {
        for (name, expected) in CallState::ALL {
            assert_eq!(state(name).unwrap(), expected);
            assert_eq!(serde_json::to_value(expected).unwrap(), name);
        }
        assert!(state("ended").is_err());
    }
}
