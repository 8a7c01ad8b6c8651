//! What servers are to tell unasked: updates of resources, and log entries.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use switchboard::event::LogLevel;
use switchboard::{ErrorKind, ServerId};
use utoipa::ToSchema;

use super::Routes;
use crate::address::{At, Server};
use crate::body::Input;
use crate::code::Code;
use crate::openapi::Operation;
use crate::problem::Problem;

/// A resource whose updates are wanted, or not any more.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SubscriptionRequest {
    /// The server.
    server_id: String,
    /// The resource's URI.
    uri: String,
}

/// Which log entries are wanted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogLevelRequest {
    /// The least severe: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
    level: String,
}

pub(super) fn routes(routes: Routes) -> Routes {
    use ErrorKind::{ConnectionLost, NotReady, ServerError, SignInRequired, Timeout, UnknownServer, Unsupported};
    let fails = [UnknownServer, NotReady, SignInRequired, Unsupported, ServerError, ConnectionLost, Timeout];
    let asks =
        |id, summary, body| Operation::new("events", id, summary).takes(body).empty().fails(&fails.map(Code::Kind));
    routes
        .post(
            "~/resources/subscribe",
            subscribe,
            asks(
                "subscribeResource",
                "Has each update of a resource told as an event `mcp:client:resource_updated`",
                "SubscriptionRequest",
            ),
        )
        .post(
            "~/resources/unsubscribe",
            unsubscribe,
            asks(
                "unsubscribeResource",
                "Ends a subscription; where there is none, nothing happens",
                "SubscriptionRequest",
            ),
        )
        .post(
            "~/servers/{id}/log-level",
            log_level,
            asks("setLogLevel", "Asks a server for log entries of that level and above", "LogLevelRequest"),
        )
}

async fn subscribe(at: At, Input(request): Input<SubscriptionRequest>) -> Result<Response, Problem> {
    let (server, uri) = request.parts()?;
    at.manager.subscribe(&server, &uri).await.map_err(|error| at.problem(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn unsubscribe(at: At, Input(request): Input<SubscriptionRequest>) -> Result<Response, Problem> {
    let (server, uri) = request.parts()?;
    at.manager.unsubscribe(&server, &uri).await.map_err(|error| at.problem(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn log_level(at: At, Server(id): Server, Input(request): Input<LogLevelRequest>) -> Result<Response, Problem> {
    let level: LogLevel = request.level.parse().map_err(|error| Problem::of(&error))?;
    at.manager.set_log_level(&id, level).await.map_err(|error| at.problem(&error))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl SubscriptionRequest {
    fn parts(self) -> Result<(ServerId, String), Problem> {
        let server =
            ServerId::parse(&self.server_id).map_err(|_| Problem::invalid_at("serverId", "may not be empty"))?;
        Ok((server, self.uri))
    }
}
