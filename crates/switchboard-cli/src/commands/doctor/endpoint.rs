//! A remote server from the URL up: name, socket, TLS, HTTP, era.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use switchboard::spec::{HttpTarget, Timeouts, TransportKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::probe;
use super::steps::{Checkup, Finding, Status, excerpt};
use super::tls;
use crate::problem::Result;
use crate::tasks;

/// How many addresses of a name are tried.
const ADDRESSES: usize = 8;

/// How much of a body is read.
const BODY_BYTES: usize = 64 << 10;

/// How much of a body is shown.
const BODY_SHOWN: usize = 160;

/// Checks the way to an MCP endpoint.
pub(super) async fn check(target: &HttpTarget, timeouts: &Timeouts, checkup: &mut Checkup<'_>) -> Result<()> {
    let limit = timeouts.connect;
    let host = target.url.host_str().unwrap_or_default().to_owned();
    let port = target.url.port_or_known_default().unwrap_or_default();
    checkup.say("url", of_url(target, &host, port))?;

    let mut addresses = Vec::new();
    let is_address = matches!(target.url.host(), Some(url::Host::Ipv4(_) | url::Host::Ipv6(_)));
    let looking = async {
        match resolve(&host, port, limit).await {
            Ok(found) => {
                addresses = found;
                let texts: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
                if is_address { Finding::skipped("the URL holds an address") } else { Finding::ok(texts.join(", ")) }
            }
            Err(finding) => finding,
        }
    };
    if !checkup.step("dns", looking).await? {
        return skip(checkup, &["tcp", "tls", "http", "era"]);
    }

    let mut stream = None;
    let dialling = async {
        match dial(&addresses, limit).await {
            Ok((connected, address)) => {
                stream = Some(connected);
                Finding::ok(format!("connected to {address}"))
            }
            Err(finding) => finding,
        }
    };
    checkup.step("tcp", dialling).await?;
    let Some(stream) = stream else { return skip(checkup, &["tls", "http", "era"]) };

    if target.url.scheme() != "https" {
        checkup.skip("tls", "the URL begins with http://")?;
        return converse(target, timeouts, (Box::new(stream), &addresses), checkup).await;
    }
    let mut secured = None;
    let shaking = async {
        match secure(&host, stream, limit).await {
            Ok(stream) => {
                let found = tls::describe(&stream);
                secured = Some(stream);
                Finding::ok(found)
            }
            Err(finding) => finding,
        }
    };
    checkup.step("tls", shaking).await?;
    match secured {
        Some(stream) => converse(target, timeouts, (Box::new(stream), &addresses), checkup).await,
        None => skip(checkup, &["http", "era"]),
    }
}

fn skip(checkup: &mut Checkup<'_>, names: &[&str]) -> Result<()> {
    names.iter().try_for_each(|name| checkup.skip(name, "an earlier step failed"))
}

fn of_url(target: &HttpTarget, host: &str, port: u16) -> Finding {
    let found = format!("{} to {host}, port {port}, path {}", target.url.scheme(), target.url.path());
    let is_near =
        host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    if target.url.scheme() == "http" && !is_near {
        return Finding::warning(found, "everything travels in the clear; use https:// where the server offers it");
    }
    Finding::ok(found)
}

async fn resolve(host: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, Finding> {
    let name = host.trim_matches(['[', ']']).to_owned();
    let advice = "check the spelling of the host and this machine's network";
    match timeout(limit, tokio::net::lookup_host((name, port))).await {
        Ok(Ok(found)) => {
            let found: Vec<_> = found.take(ADDRESSES).collect();
            if found.is_empty() { Err(Finding::failed("the name has no address", advice)) } else { Ok(found) }
        }
        Ok(Err(cause)) => Err(Finding::failed(cause.to_string(), advice)),
        Err(_) => Err(Finding::failed("the name server does not answer in time", advice)),
    }
}

/// Connects to the first address that takes a connection.
async fn dial(addresses: &[SocketAddr], limit: Duration) -> Result<(TcpStream, SocketAddr), Finding> {
    let mut last = Finding::failed("there is no address", "check the URL");
    for address in addresses {
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok((stream, *address)),
            Ok(Err(cause)) => {
                let advice = match cause.kind() {
                    std::io::ErrorKind::ConnectionRefused => "nothing listens at that port; is the server running?",
                    std::io::ErrorKind::NetworkUnreachable | std::io::ErrorKind::HostUnreachable => {
                        "there is no way there; check this machine's network"
                    }
                    _ => "check the address and the port",
                };
                last = Finding::failed(format!("{address}: {cause}"), advice);
            }
            Err(_) => {
                last = Finding::failed(
                    format!("{address}: no answer in {} ms", limit.as_millis()),
                    "a firewall may drop the packets, or the machine is down",
                );
            }
        }
    }
    Err(last)
}

/// Asks `server/discover` over HTTP; what comes back tells about HTTP and about the era. A server without an answer may be
/// one of HTTP+SSE, and is asked for its event stream; one that is registered as that is asked for nothing else.
async fn converse(
    target: &HttpTarget,
    timeouts: &Timeouts,
    (stream, addresses): (Box<dyn Wire>, &[SocketAddr]),
    checkup: &mut Checkup<'_>,
) -> Result<()> {
    let limit = timeouts.connect.max(timeouts.probe);
    if target.transport == TransportKind::Sse {
        return match checkup.step("event stream", event_stream(target, limit, stream, false)).await? {
            true => checkup.say("era", Finding::ok(OLD)),
            false => skip(checkup, &["era"]),
        };
    }
    let mut answer = None;
    let asking = async {
        match timeout(limit, ask(discover(target), stream, |body| probe::message(body).is_some())).await {
            Ok(Ok(reply)) => {
                let finding = reply.finding(target);
                answer = probe::message(&reply.body);
                finding
            }
            Ok(Err(cause)) => Finding::failed(cause.to_string(), "the other side does not speak HTTP as it should"),
            Err(_) => {
                Finding::warning("no answer in time", "older servers may not answer this question; see the handshake")
            }
        }
    };
    if !checkup.step("http", asking).await? {
        return skip(checkup, &["era"]);
    }
    if let Some(answer) = answer {
        return checkup.say("era", probe::era(&answer));
    }
    let mut is_old = false;
    if target.transport == TransportKind::Auto {
        let looking = async {
            let finding = match redial(target, addresses, timeouts.connect).await {
                Ok(stream) => event_stream(target, timeouts.probe, stream, true).await,
                Err(finding) => finding,
            };
            is_old = finding.status == Status::Ok;
            finding
        };
        checkup.step("event stream", looking).await?;
    }
    let unknown = "legacy: no JSON-RPC answer to `server/discover`";
    checkup.say("era", Finding::ok(if is_old { OLD } else { unknown }))
}

/// What an event stream with an endpoint says of the era.
const OLD: &str = "legacy: HTTP+SSE, the transport of 2024-11-05";

/// Asks for the event stream of HTTP+SSE. `is_guess`: a server without one may be of another kind.
async fn event_stream(target: &HttpTarget, limit: Duration, stream: Box<dyn Wire>, is_guess: bool) -> Finding {
    let asked = timeout(limit, ask(stream_request(target), stream, |body| probe::endpoint(body).is_some())).await;
    let found = match asked {
        Ok(Ok(reply)) => match probe::endpoint(&reply.body) {
            Some(endpoint) => {
                let text = format!("HTTP+SSE: messages go to {}", excerpt(endpoint, BODY_SHOWN));
                let is_same = target.url.join(endpoint).is_ok_and(|to| to.origin() == target.url.origin());
                let advice = "it leads to another origin, where nothing is sent; the server must name its own";
                return if is_same { Finding::ok(text) } else { Finding::failed(text, advice) };
            }
            None => format!("the GET is answered with {}, without an `endpoint` event", reply.status),
        },
        Ok(Err(cause)) => cause.to_string(),
        Err(_) => format!("no `endpoint` event in {} ms", limit.as_millis()),
    };
    if is_guess {
        return Finding::skipped(format!("not of HTTP+SSE either: {found}"));
    }
    Finding::failed(
        found,
        "it does not speak HTTP+SSE at this URL, whose path often ends in /sse; try --transport auto",
    )
}

/// A connection, with or without TLS.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Wire for S {}

/// Another connection to a server that took one already.
async fn redial(target: &HttpTarget, addresses: &[SocketAddr], limit: Duration) -> Result<Box<dyn Wire>, Finding> {
    let (stream, _) = dial(addresses, limit).await?;
    if target.url.scheme() != "https" {
        return Ok(Box::new(stream));
    }
    Ok(Box::new(secure(target.url.host_str().unwrap_or_default(), stream, limit).await?))
}

async fn secure(host: &str, stream: TcpStream, limit: Duration) -> Result<TlsStream<TcpStream>, Finding> {
    let late = |_| Finding::failed("no answer in time", "does the server speak TLS at that port?");
    timeout(limit, tls::connect(host, stream)).await.map_err(late)?
}

/// What came back.
struct Reply {
    status: StatusCode,
    content_type: String,
    location: Option<String>,
    body: String,
}

/// Sends one request; reads its answer until that is `enough`.
async fn ask(
    request: Request<Full<Bytes>>,
    stream: Box<dyn Wire>,
    enough: fn(&str) -> bool,
) -> Result<Reply, hyper::Error> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tasks::spawn(connection);
    let reply = async {
        let response = sender.send_request(request).await?;
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let content_type = text(header::CONTENT_TYPE).unwrap_or_default();
        let (status, location) = (response.status(), text(header::LOCATION));
        let body = read(response.into_body(), enough).await?;
        Ok(Reply { status, content_type, location, body })
    }
    .await;
    connection.abort();
    reply
}

/// The beginning of a body; of a stream of events, as much as is enough.
async fn read(mut body: Incoming, enough: fn(&str) -> bool) -> Result<String, hyper::Error> {
    let mut bytes = Vec::new();
    while bytes.len() < BODY_BYTES {
        let Some(frame) = body.frame().await else { break };
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        let text = String::from_utf8_lossy(&bytes);
        if text.contains("data:") && enough(&text) {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// `server/discover` over Streamable HTTP.
fn discover(target: &HttpTarget) -> Request<Full<Bytes>> {
    let fixed = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", probe::MODERN),
        ("mcp-method", "server/discover"),
    ];
    request(target, http::Method::POST, &fixed, probe::discover().to_string())
}

/// The request for the event stream of HTTP+SSE.
fn stream_request(target: &HttpTarget) -> Request<Full<Bytes>> {
    request(target, http::Method::GET, &[("accept", "text/event-stream")], String::new())
}

fn request(
    target: &HttpTarget,
    method: http::Method,
    headers: &[(&'static str, &str)],
    body: String,
) -> Request<Full<Bytes>> {
    let url = &target.url;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut request = Request::new(Full::from(body));
    *request.method_mut() = method;
    // A URL's path and host always can stand in a request; the fallbacks are never taken.
    *request.uri_mut() = path.parse().unwrap_or_default();
    let ours = [("host", host), ("user-agent", concat!("switchboard-doctor/", env!("CARGO_PKG_VERSION")))];
    for (name, value) in ours.iter().chain(headers) {
        if let Ok(value) = http::HeaderValue::from_str(value) {
            request.headers_mut().insert(*name, value);
        }
    }
    for (name, value) in target.headers.iter() {
        request.headers_mut().append(name, value.clone());
    }
    request
}

impl Reply {
    /// What the answer means below the protocol.
    fn finding(&self, target: &HttpTarget) -> Finding {
        let kind = if self.content_type.is_empty() { "no content type" } else { &self.content_type };
        let found = format!("{}, {kind}: {}", self.status, excerpt(&self.body, BODY_SHOWN));
        let is_message = probe::message(&self.body).is_some_and(|message: Value| message.get("jsonrpc").is_some());
        match self.status.as_u16() {
            _ if is_message => Finding::ok(found),
            401 => Finding::failed(found, "it needs a sign-in, or a token: --header 'Authorization: Bearer …'"),
            403 => Finding::failed(found, "it does not let this client in; is a header with a key missing?"),
            404 | 405 if target.transport == TransportKind::Auto => {
                Finding::warning(found, "is this the MCP endpoint, or an event stream? see the next step")
            }
            404 | 405 => Finding::warning(found, "is this the MCP endpoint? its path often ends in /mcp"),
            429 | 503 => Finding::failed(found, "it asks to wait; try again later"),
            500.. => Finding::failed(found, "the server, or what stands before it, is broken; see its log"),
            300..=399 => {
                let to = self.location.as_deref().unwrap_or("nowhere");
                let is_same = target.url.join(to).is_ok_and(|to| to.origin() == target.url.origin());
                if is_same {
                    Finding::ok(format!("{found} (leads to {to})"))
                } else {
                    Finding::failed(format!("{found} (leads to {to})"), "it leads to another place; register that URL")
                }
            }
            200..=299 if self.content_type.starts_with("text/html") => {
                Finding::failed(found, "this is a web page; the MCP endpoint has another URL")
            }
            _ => Finding::ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16, content_type: &str, body: &str) -> Finding {
        let reply = Reply {
            status: StatusCode::from_u16(status).unwrap(),
            content_type: content_type.into(),
            location: (status == 307).then(|| "https://other.example/mcp".into()),
            body: body.into(),
        };
        reply.finding(&HttpTarget::new("https://h.example/mcp?key=1").unwrap())
    }

    #[test]
    fn answers_are_judged_below_the_protocol() {
        let message = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for (status, kind, body, expected) in [
            (200, "application/json", message, Status::Ok),
            (400, "application/json", message, Status::Ok),
            (400, "text/plain", "no session", Status::Ok),
            (200, "text/html", "<html>", Status::Failed),
            (401, "", "", Status::Failed),
            (404, "text/plain", "not found", Status::Warning),
            (502, "text/html", "<html>bad gateway", Status::Failed),
            (307, "", "", Status::Failed),
        ] {
            assert_eq!(reply(status, kind, body).status, expected, "{status} {kind}");
        }
    }

    #[test]
    fn the_request_goes_where_the_url_says() {
        let request = discover(&HttpTarget::new("http://h.example:81/a/mcp?key=1").unwrap());
        assert_eq!(request.uri(), "/a/mcp?key=1");
        assert_eq!(request.headers()["host"], "h.example:81");
    }

    #[tokio::test]
    async fn a_port_where_nothing_listens_is_told() {
        let address = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let finding = dial(&[address], Duration::from_secs(5)).await.unwrap_err();
        assert!(finding.advice.unwrap().contains("is the server running"), "{}", finding.found);
    }

    #[test]
    fn plain_http_is_fine_nearby_and_worth_a_word_elsewhere() {
        let judge = |url: &str| {
            let target = HttpTarget::new(url).unwrap();
            let host = target.url.host_str().unwrap().to_owned();
            of_url(&target, &host, 80).status
        };
        assert_eq!(judge("http://127.0.0.1:1/mcp"), Status::Ok);
        assert_eq!(judge("http://[::1]:1/mcp"), Status::Ok);
        assert_eq!(judge("https://h.example/"), Status::Ok);
        assert_eq!(judge("http://h.example/"), Status::Warning);
    }
}
