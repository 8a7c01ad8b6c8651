//! Tools that are not what was approved: shown, and approved.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use switchboard::ErrorKind;
use utoipa::ToSchema;

use super::Routes;
use crate::address::{At, Server};
use crate::body::{MaybeInput, json};
use crate::code::Code;
use crate::openapi::Operation;
use crate::problem::Problem;

/// What is approved. Without a body all is.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApproveRequest {
    /// The server's own names of tools; all tools without it.
    #[serde(default)]
    tools: Option<Vec<String>>,
}

pub(super) fn routes(routes: Routes) -> Routes {
    let summary = "How the tools of a server differ from those that were approved";
    routes
        .get(
            "~/servers/{id}/drift",
            drift,
            Operation::new("catalogue", "getDrift", summary)
                .answers(200, "what is new, gone and changed", "Drift")
                .fails(&[Code::Kind(ErrorKind::UnknownServer)]),
        )
        .post(
            "~/servers/{id}/approve",
            approve,
            Operation::new("catalogue", "approveTools", "Approves tools of a server as they are known now")
                .may_take("ApproveRequest")
                .empty()
                .fails(&[
                    Code::Kind(ErrorKind::UnknownServer),
                    Code::Kind(ErrorKind::UnknownTool),
                    Code::Kind(ErrorKind::NotReady),
                ]),
        )
}

async fn drift(at: At, Server(id): Server) -> Result<Response, Problem> {
    json(StatusCode::OK, &at.manager.drift(&id).map_err(|error| at.problem(&error))?)
}

async fn approve(
    at: At,
    Server(id): Server,
    MaybeInput(request): MaybeInput<ApproveRequest>,
) -> Result<Response, Problem> {
    at.manager.approve(&id, request.tools).await.map_err(|error| at.problem(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
