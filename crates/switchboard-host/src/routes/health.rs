//! Whether the daemon lives and is ready, what it counts, and what its API is.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use switchboard::State as ServerState;

use super::Routes;
use crate::app::App;
use crate::body::json;
use crate::instance::Instance;
use crate::openapi::Operation;
use crate::problem::Problem;

/// What `GET /` says until there is a page to look at.
const WELCOME: &str = "\
Switchboard: many MCP servers as one.

GET /openapi.json                           every path and shape of this API
GET /agents/switchboard/default/servers     the servers of the default instance
GET /agents/switchboard/default/tools       their tools
GET /healthz  /readyz  /metrics             for those who watch over it
";

pub(super) fn routes(routes: Routes) -> Routes {
    let about = |id, summary| Operation::new("daemon", id, summary);
    routes
        .get("/", welcome, about("welcome", "Names the API").text())
        .get("/healthz", healthz, about("healthz", "Whether the daemon lives").answers(200, "it does", "Health"))
        .get(
            "/readyz",
            readyz,
            about("readyz", "Whether the daemon has restored what it knew").answers(200, "it has", "Health").answers(
                503,
                "it has not yet, or is stopping",
                "Health",
            ),
        )
        .get("/metrics", metrics, about("metrics", "Counts, in the text format of Prometheus").text())
        .get("/openapi.json", document, about("openapi", "This description").answers(200, "OpenAPI 3.1", "AnyObject"))
}

async fn welcome() -> &'static str {
    WELCOME
}

async fn healthz() -> Result<Response, Problem> {
    json(StatusCode::OK, &json!({"status": "ok"}))
}

async fn readyz(State(app): State<App>) -> Result<Response, Problem> {
    if app.host().is_ready() {
        return json(StatusCode::OK, &json!({"status": "ready"}));
    }
    json(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": "not ready"}))
}

async fn metrics(State(app): State<App>) -> Response {
    let instances = app.host().opened();
    let text = app.metrics().text(instances.iter().flat_map(|instance| states(instance)), instances.len());
    ([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))], text)
        .into_response()
}

/// The states of an instance's servers.
fn states(instance: &Instance) -> Vec<ServerState> {
    let ids = instance.manager.registrations().into_iter().map(|(id, _)| id);
    ids.filter_map(|id| instance.manager.status(&id).ok()).map(|status| status.state).collect()
}

async fn document(State(app): State<App>) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], app.document().clone()).into_response()
}
