//! The router: every path of the API, behind the checks that every request passes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue, Method, Uri, header};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::access::Access;
use crate::code::Code;
use crate::host::Host;
use crate::metrics::Metrics;
use crate::openapi;
use crate::problem::Problem;
use crate::routes::{self, Routes};

/// What the API allows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ApiOptions {
    /// Who may use it.
    pub access: Access,
    /// The most bytes of a request's body.
    pub max_body_bytes: usize,
    /// How many may follow events at once.
    pub max_followers: usize,
}

impl ApiOptions {
    /// The usual bounds, with these rules of access.
    #[must_use]
    pub fn new(access: Access) -> Self {
        Self { access, max_body_bytes: 16 << 20, max_followers: 256 }
    }
}

/// What every handler can reach.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

struct Parts {
    host: Host,
    options: ApiOptions,
    metrics: Metrics,
    followers: Arc<Semaphore>,
    document: Bytes,
}

impl App {
    fn new(host: Host, options: ApiOptions, document: Bytes) -> Self {
        let followers = Arc::new(Semaphore::new(options.max_followers));
        Self(Arc::new(Parts { host, options, metrics: Metrics::default(), followers, document }))
    }

    pub(crate) fn host(&self) -> &Host {
        &self.0.host
    }

    pub(crate) fn access(&self) -> &Access {
        &self.0.options.access
    }

    pub(crate) fn max_body_bytes(&self) -> usize {
        self.0.options.max_body_bytes
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Places for those who follow events.
    pub(crate) fn followers(&self) -> &Arc<Semaphore> {
        &self.0.followers
    }

    /// The description of the API, as JSON.
    pub(crate) fn document(&self) -> &Bytes {
        &self.0.document
    }
}

/// The API of `host`, ready to be served.
pub fn router(host: Host, options: ApiOptions) -> Router {
    let (router, operations) = routes::all(Routes::default()).into_parts();
    let app = App::new(host, options, openapi::document(operations).into());
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

async fn not_found(uri: Uri) -> Problem {
    Problem::new(Code::NotFound, format!("there is nothing at `{}`", uri.path()))
        .hint("`GET /openapi.json` lists every path")
}

async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(Code::MethodNotAllowed, format!("`{}` does not take {method}", uri.path()))
        .hint("the `Allow` header names the methods that it takes")
}

/// Checks every request, survives a fault in a handler, and adds to every answer what browsers need to be told.
async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let is_probe = matches!(path.as_str(), "/healthz" | "/readyz");
    let mut response = match app.access().check(request.uri(), request.headers(), is_probe) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            // The panic hook has printed what happened; nothing of ours is left half done behind a lock.
            let outcome = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            outcome.unwrap_or_else(|_| {
                Problem::new(Code::Internal, "the daemon failed on this request; its log says where").into_response()
            })
        }
        Err(problem) => problem.into_response(),
    };
    tracing::debug!(%method, path, status = response.status().as_u16(), took = ?begun.elapsed(), "answered");
    secure(&mut response);
    response
}

/// Nothing here is to be sniffed, kept, framed or run by a browser, unless the answer says otherwise itself.
fn secure(response: &mut Response) {
    const HEADERS: [(HeaderName, &str); 4] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
}
