//! A remote server from the URL up: name, socket, TLS, HTTP, era.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use switchboard::spec::{HttpTarget, Timeouts};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::probe;
use super::steps::{Checkup, Finding, excerpt};
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
        return talk(target, timeouts, TokioIo::new(stream), checkup).await;
    }
    let mut secured = None;
    let shaking = async {
        match timeout(limit, tls::connect(&host, stream)).await {
            Ok(Ok(stream)) => {
                let found = tls::describe(&stream);
                secured = Some(stream);
                Finding::ok(found)
            }
            Ok(Err(finding)) => finding,
            Err(_) => Finding::failed("no answer in time", "does the server speak TLS at that port?"),
        }
    };
    checkup.step("tls", shaking).await?;
    match secured {
        Some(stream) => talk(target, timeouts, TokioIo::new(stream), checkup).await,
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

/// Asks `server/discover` over HTTP; what comes back tells about HTTP and about the era.
async fn talk<S>(target: &HttpTarget, timeouts: &Timeouts, stream: TokioIo<S>, checkup: &mut Checkup<'_>) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut answer = None;
    let asking = async {
        match timeout(timeouts.connect.max(timeouts.probe), ask(target, stream)).await {
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
    let era =
        answer.as_ref().map_or_else(|| Finding::ok("legacy: no JSON-RPC answer to `server/discover`"), probe::era);
    checkup.say("era", era)
}

/// What came back.
struct Reply {
    status: StatusCode,
    content_type: String,
    location: Option<String>,
    body: String,
}

async fn ask<S>(target: &HttpTarget, stream: TokioIo<S>) -> Result<Reply, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
    let connection = tasks::spawn(connection);
    let reply = async {
        let response = sender.send_request(request(target)).await?;
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let content_type = text(header::CONTENT_TYPE).unwrap_or_default();
        let (status, location) = (response.status(), text(header::LOCATION));
        let body = read(response.into_body()).await?;
        Ok(Reply { status, content_type, location, body })
    }
    .await;
    connection.abort();
    reply
}

/// The beginning of a body, up to its first whole event when it is a stream of them.
async fn read(mut body: Incoming) -> Result<String, hyper::Error> {
    let mut bytes = Vec::new();
    while bytes.len() < BODY_BYTES {
        let Some(frame) = body.frame().await else { break };
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        let text = String::from_utf8_lossy(&bytes);
        if text.contains("data:") && probe::message(&text).is_some() {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn request(target: &HttpTarget) -> Request<Full<Bytes>> {
    let url = &target.url;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let mut request = Request::new(Full::from(probe::discover().to_string()));
    *request.method_mut() = http::Method::POST;
    // A URL's path and host always can stand in a request; the fallbacks are never taken.
    *request.uri_mut() = path.parse().unwrap_or_default();
    let fixed = [
        ("host", host),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", probe::MODERN),
        ("mcp-method", "server/discover"),
        ("user-agent", concat!("switchboard-doctor/", env!("CARGO_PKG_VERSION"))),
    ];
    for (name, value) in fixed {
        if let Ok(value) = http::HeaderValue::from_str(value) {
            request.headers_mut().insert(name, value);
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
    use super::super::steps::Status;
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
        let request = request(&HttpTarget::new("http://h.example:81/a/mcp?key=1").unwrap());
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
