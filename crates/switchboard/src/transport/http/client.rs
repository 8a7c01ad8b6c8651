//! The process's one HTTP client, and how one request goes through it: redirects within the origin, errors by their cause.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use url::Url;

use crate::transport::connector::Connector;
use crate::transport::{Cause, TransportError};

/// How many redirects one request follows.
const REDIRECTS: usize = 5;

/// The process's one HTTP client: a pool of connections, shared by all servers.
#[derive(Clone)]
pub(crate) struct HttpClient(Client<Connector, Full<Bytes>>);

impl HttpClient {
    pub(crate) fn new() -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .build(Connector::default());
        Self(client)
    }

    /// Sends one HTTP request, following redirects within the origin, with method and body kept. `headers` makes the
    /// headers, anew for each hop.
    pub(in crate::transport) async fn send(
        &self,
        address: &Address,
        method: &Method,
        headers: impl Fn() -> Result<HeaderMap, TransportError>,
        body: Bytes,
    ) -> Result<Response<Incoming>, TransportError> {
        Ok(self.follow(address, method, headers, body).await?.0)
    }

    /// As [`send`](Self::send); gives the address too that the answer came from, where that is another one.
    pub(in crate::transport) async fn follow(
        &self,
        address: &Address,
        method: &Method,
        headers: impl Fn() -> Result<HeaderMap, TransportError>,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Option<Url>), TransportError> {
        let mut uri = address.uri.clone();
        let mut url = None;
        for _ in 0..=REDIRECTS {
            let request = request(method, uri, headers()?, body.clone());
            let response = self.0.request(request).await.map_err(client_error)?;
            if !matches!(response.status().as_u16(), 301 | 302 | 307 | 308) {
                return Ok((response, url));
            }
            let here = url.as_ref().unwrap_or(&address.url);
            let there = redirect_target(here, response.headers())?;
            uri = there.as_str().parse().map_err(|_| TransportError::NotMcp(format!("a redirect to `{there}`")))?;
            url = Some(there);
        }
        Err(TransportError::NotMcp(format!("more than {REDIRECTS} redirects")))
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

/// Where requests go.
#[derive(Debug, Clone)]
pub(in crate::transport) struct Address {
    pub(in crate::transport) url: Url,
    /// The same, as requests need it.
    uri: Uri,
}

impl Address {
    pub(in crate::transport) fn new(url: &Url) -> Result<Self, TransportError> {
        let uri = url.as_str().parse();
        let uri = uri.map_err(|error: http::uri::InvalidUri| TransportError::Connect(error.into()))?;
        Ok(Self { url: url.clone(), uri })
    }
}

fn request(method: &Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    request
}

fn client_error(error: hyper_util::client::legacy::Error) -> TransportError {
    let is_connect = error.is_connect();
    // The layer that says only "client error" is left out of the chain.
    let cause: Cause = match std::error::Error::source(&error) {
        Some(source) => flatten(source).into(),
        None => error.into(),
    };
    if is_connect { TransportError::Connect(cause) } else { TransportError::Lost(cause) }
}

/// A chain of causes that cannot be taken over, as one text.
fn flatten(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = cause.source();
    }
    text
}

fn redirect_target(here: &Url, headers: &HeaderMap) -> Result<Url, TransportError> {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| TransportError::NotMcp("a redirect without an address".to_owned()))?;
    let there = here.join(location).map_err(|_| TransportError::NotMcp("a redirect to no address".to_owned()))?;
    if there.origin() != here.origin() {
        let origin = there.origin().ascii_serialization();
        return Err(TransportError::NotMcp(format!("a redirect to another origin, `{origin}`, which is not followed")));
    }
    Ok(there)
}
