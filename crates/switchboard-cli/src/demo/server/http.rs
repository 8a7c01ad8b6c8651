//! The demo server over Streamable HTTP: stateless for modern clients, with sessions for legacy ones.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::{Client, Fault, MODERN, answer, era_of, response};
use crate::args::Eras;
use crate::output::Output;
use crate::problem::{Problem, Result};
use crate::tasks;

/// Where the server is found below its address.
const PATH: &str = "/mcp";

/// The largest request that is read.
const REQUEST_BYTES: usize = 1 << 20;

/// How many sessions may be open; the oldest goes first.
const SESSIONS: usize = 1_000;

/// Listens, prints the address, and serves until standard input ends: whoever started this server is gone then.
pub(super) async fn serve(listen: SocketAddr, eras: Eras, output: &Output) -> Result<()> {
    let in_use = |cause| Problem::new("address_in_use", format!("cannot listen on {listen}")).because(cause);
    let listener = TcpListener::bind(listen).await.map_err(in_use)?;
    let address = listener.local_addr().map_err(in_use)?;
    output.line(&format!("http://{address}{PATH}"))?;
    let server = Arc::new(Server { eras, sessions: Mutex::default() });
    tokio::select! {
        () = accept(listener, server) => {}
        () = end_of(tokio::io::stdin()) => {}
    }
    Ok(())
}

async fn end_of(mut input: impl tokio::io::AsyncRead + Unpin) {
    let mut ignored = [0; 256];
    while matches!(input.read(&mut ignored).await, Ok(count) if count > 0) {}
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    loop {
        // A connection that is gone before it is accepted is nobody's loss.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let server = Arc::clone(&server);
        tasks::spawn(async move {
            let service = service_fn(move |request| {
                let server = Arc::clone(&server);
                async move { Ok::<_, Infallible>(server.handle(request).await) }
            });
            // A client that hangs up in the middle has heard enough.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The server's state: its sessions with legacy clients.
struct Server {
    eras: Eras,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    last: u64,
    open: BTreeSet<u64>,
}

type Reply = Response<Full<Bytes>>;

/// Why a request belongs to no session.
type Refusal = (StatusCode, &'static str);

impl Server {
    async fn handle(&self, request: Request<Incoming>) -> Reply {
        let (parts, body) = request.into_parts();
        if parts.uri.path() != PATH {
            return text(StatusCode::NOT_FOUND, "the MCP endpoint is /mcp");
        }
        if !is_local(&parts.headers) {
            return text(StatusCode::FORBIDDEN, "this server is for programs on this machine");
        }
        match parts.method {
            Method::POST => match Limited::new(body, REQUEST_BYTES).collect().await {
                Ok(body) => self.post(&parts.headers, &body.to_bytes()),
                Err(_) => text(StatusCode::PAYLOAD_TOO_LARGE, "the request is larger than 1 MiB"),
            },
            Method::DELETE if self.eras != Eras::Modern => self.delete(&parts.headers),
            _ => text(StatusCode::METHOD_NOT_ALLOWED, "only POST is offered"),
        }
    }

    fn post(&self, headers: &HeaderMap, body: &[u8]) -> Reply {
        let Ok(message) = serde_json::from_slice::<Value>(body) else {
            let fault = Fault::new(-32700, "the body is not JSON");
            return json_reply(StatusCode::BAD_REQUEST, &response(&Value::Null, Err(fault)));
        };
        let id = message.get("id").cloned();
        match era_of(&message) {
            Client::Modern if self.eras != Eras::Legacy => self.modern(headers, &message, id),
            // Before that revision nobody knew what this is; such servers ask for a session first.
            Client::Modern => text(StatusCode::BAD_REQUEST, "Bad Request: no valid session ID provided"),
            Client::Legacy => self.legacy(headers, &message, id),
        }
    }

    fn modern(&self, headers: &HeaderMap, message: &Value, id: Option<Value>) -> Reply {
        let Some(id) = id else { return empty(StatusCode::ACCEPTED) };
        if let Err(fault) = check_headers(headers, message) {
            return json_reply(StatusCode::BAD_REQUEST, &response(&id, Err(fault)));
        }
        let answer = answer(message, self.eras);
        let status = match &answer {
            Ok(_) => StatusCode::OK,
            Err(fault) if fault.code == Fault::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            Err(_) => StatusCode::BAD_REQUEST,
        };
        json_reply(status, &response(&id, answer))
    }

    fn legacy(&self, headers: &HeaderMap, message: &Value, id: Option<Value>) -> Reply {
        let is_first = message.get("method").and_then(Value::as_str) == Some("initialize");
        if self.eras == Eras::Modern {
            let answer = answer(message, self.eras);
            return json_reply(StatusCode::BAD_REQUEST, &response(&id.unwrap_or_default(), answer));
        }
        if !is_first && let Err((status, why)) = self.session(headers) {
            return text(status, why);
        }
        let Some(id) = id else { return empty(StatusCode::ACCEPTED) };
        // Answered as an event stream, so that both kinds of answer are seen.
        let data = format!("event: message\ndata: {}\n\n", response(&id, answer(message, self.eras)));
        let mut reply = Response::new(Full::from(data));
        reply.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("text/event-stream"));
        if is_first && let Ok(value) = http::HeaderValue::from_str(&self.open_session()) {
            reply.headers_mut().insert("mcp-session-id", value);
        }
        reply
    }

    fn open_session(&self) -> String {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.last += 1;
        let number = sessions.last;
        sessions.open.insert(number);
        if sessions.open.len() > SESSIONS {
            sessions.open.pop_first();
        }
        format!("demo-{number}")
    }

    /// The session that a request belongs to, or why it belongs to none.
    fn session(&self, headers: &HeaderMap) -> std::result::Result<u64, Refusal> {
        let Some(given) = headers.get("mcp-session-id") else {
            return Err((StatusCode::BAD_REQUEST, "Bad Request: no valid session ID provided"));
        };
        let number = given.to_str().ok().and_then(|id| id.strip_prefix("demo-")?.parse().ok());
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        number
            .filter(|number| sessions.open.contains(number))
            .ok_or((StatusCode::NOT_FOUND, "there is no such session"))
    }

    fn delete(&self, headers: &HeaderMap) -> Reply {
        match self.session(headers) {
            Ok(number) => {
                self.sessions.lock().unwrap_or_else(PoisonError::into_inner).open.remove(&number);
                empty(StatusCode::NO_CONTENT)
            }
            Err((status, why)) => text(status, why),
        }
    }
}

/// Whether a browser that shows somebody else's page may have sent this.
fn is_local(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let host = origin.to_str().ok().and_then(|origin| url::Url::parse(origin).ok()?.host_str().map(str::to_owned));
    host.is_some_and(|host| matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]"))
}

/// Headers of a modern request must be there and say what the body says.
fn check_headers(headers: &HeaderMap, message: &Value) -> std::result::Result<(), Fault> {
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let subject = match method {
        "tools/call" | "prompts/get" => message.pointer("/params/name"),
        "resources/read" => message.pointer("/params/uri"),
        _ => None,
    };
    let version = message.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion").and_then(Value::as_str);
    let expected = [
        ("mcp-protocol-version", Some(version.unwrap_or(MODERN))),
        ("mcp-method", Some(method)),
        ("mcp-name", subject.and_then(Value::as_str)),
    ];
    for (name, expected) in expected {
        let Some(expected) = expected else { continue };
        let given = headers.get(name).and_then(|value| plain(value.to_str().ok()?));
        if given.as_deref() != Some(expected) {
            let given = given.map_or_else(|| "missing".to_owned(), |given| format!("`{given}`"));
            let text = format!("header `{name}` is {given}, but the body says `{expected}`");
            return Err(Fault::new(Fault::HEADER_MISMATCH, text));
        }
    }
    Ok(())
}

/// A header's value, read from its base64 form where it has that.
fn plain(value: &str) -> Option<String> {
    use base64::Engine;
    match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(encoded) => String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn json_reply(status: StatusCode, message: &Value) -> Reply {
    let mut reply = Response::new(Full::from(message.to_string()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    reply
}

fn text(status: StatusCode, text: &'static str) -> Reply {
    json_reply(status, &json!({"jsonrpc": "2.0", "error": {"code": -32000, "message": text}}))
}

fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::default();
    *reply.status_mut() = status;
    reply
}

#[cfg(test)]
mod tests {
    use super::super::tests::modern_request;
    use super::*;

    fn server(eras: Eras) -> Server {
        Server { eras, sessions: Mutex::default() }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| ((*name).parse::<http::HeaderName>().unwrap(), value.parse().unwrap()))
            .collect()
    }

    async fn body(reply: Reply) -> String {
        String::from_utf8(reply.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    fn post(server: &Server, given: &[(&'static str, &str)], message: &Value) -> Reply {
        server.post(&headers(given), message.to_string().as_bytes())
    }

    #[tokio::test]
    async fn headers_must_say_what_the_body_says() {
        let server = server(Eras::Both);
        let message = modern_request("tools/call", json!({"name": "echo", "arguments": {"message": "hi"}}));
        let version = ("mcp-protocol-version", MODERN);
        let method = ("mcp-method", "tools/call");
        for name in ["echo", "=?base64?ZWNobw==?="] {
            let reply = post(&server, &[version, method, ("mcp-name", name)], &message);
            assert_eq!(reply.status(), StatusCode::OK, "{name}");
        }
        for wrong in [&[version, method][..], &[version, method, ("mcp-name", "add")], &[method, ("mcp-name", "echo")]]
        {
            let reply = post(&server, wrong, &message);
            assert_eq!(reply.status(), StatusCode::BAD_REQUEST);
            assert!(body(reply).await.contains("-32020"));
        }
        let unknown = modern_request("no/such", json!({}));
        assert_eq!(post(&server, &[version, ("mcp-method", "no/such")], &unknown).status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn a_legacy_client_gets_a_session_and_loses_it() {
        let server = server(Eras::Legacy);
        let first =
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
        let reply = post(&server, &[], &first);
        let session = reply.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        assert!(body(reply).await.starts_with("event: message\ndata: {"));
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        let of_session = [("mcp-session-id", session.as_str())];
        assert_eq!(post(&server, &of_session, &list).status(), StatusCode::OK);
        assert_eq!(post(&server, &[], &list).status(), StatusCode::BAD_REQUEST);
        assert_eq!(server.delete(&headers(&of_session)).status(), StatusCode::NO_CONTENT);
        assert_eq!(post(&server, &of_session, &list).status(), StatusCode::NOT_FOUND);
    }

    #[tokio::test]
    async fn each_era_is_refused_by_a_server_of_the_other() {
        let discover = modern_request("server/discover", json!({}));
        let given = [("mcp-protocol-version", MODERN), ("mcp-method", "server/discover")];
        assert_eq!(post(&server(Eras::Modern), &given, &discover).status(), StatusCode::OK);
        let refused = post(&server(Eras::Legacy), &given, &discover);
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        assert!(!body(refused).await.contains("-3202"), "a modern error would not lead to `initialize`");
        let first =
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
        let refused = post(&server(Eras::Modern), &[], &first);
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        assert!(body(refused).await.contains(MODERN));
    }

    #[test]
    fn pages_of_others_may_not_ask() {
        assert!(is_local(&headers(&[])));
        assert!(is_local(&headers(&[("origin", "http://localhost:3000")])));
        assert!(!is_local(&headers(&[("origin", "https://evil.example")])));
        assert!(!is_local(&headers(&[("origin", "null")])));
    }
}
