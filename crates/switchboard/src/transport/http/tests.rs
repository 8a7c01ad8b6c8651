//! When a session is gone, and that its id is not sent again then.

use serde_json::{Value, json};
use switchboard_testing::{HttpPeer, HttpReply, HttpRequest, Peer};

use super::*;

struct Nobody;

impl Receiver for Nobody {
    fn receive(&self, message: Message) -> Option<Bytes> {
        matches!(message, Message::Request { .. })
            .then(|| Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"))
    }

    fn odd(&self, _: &str) {}
}

const DIALECT: Dialect = Dialect::Legacy("2025-11-25");

/// A transport in the session `S1`, whose requests are answered by `reply`.
async fn in_session(reply: HttpReply) -> (HttpPeer, Arc<HttpTransport>) {
    let server = HttpPeer::start(Peer::legacy()).await.on_http(move |_| Some(reply.clone()));
    let target = HttpTarget::new(&server.url()).unwrap();
    let transport = HttpTransport::new(HttpClient::new(), &target, 1 << 20, Arc::new(Nobody)).unwrap();
    transport.resume(b"S1");
    (server, Arc::new(transport))
}

async fn ask(transport: &Arc<HttpTransport>) -> Result<Answer, TransportError> {
    let body = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}");
    let outgoing = Outgoing {
        id: 7,
        method: "ping",
        name: None,
        param_headers: &[],
        headers: None,
        dialect: DIALECT,
        body: &body,
    };
    transport.request(outgoing).await
}

fn error(status: u16, id: Value, code: i64) -> HttpReply {
    HttpReply::json(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "no" } }))
        .with_status(status)
}

fn names_session(request: &HttpRequest) -> bool {
    request.header("mcp-session-id").is_some()
}

#[tokio::test]
async fn a_session_that_the_server_does_not_know_is_not_named_again() {
    let gone = [
        HttpReply::status(404),
        HttpReply::status(404).content_type("text/plain").body("Session not found"),
        HttpReply::html(404, "<p>no</p>"),
        error(404, Value::Null, -32001),
        error(404, json!(7), -32001),
        error(404, json!("server-error"), -32600),
        error(400, Value::Null, -32000),
    ];
    for reply in gone {
        let shown = format!("{reply:?}");
        let (server, transport) = in_session(reply).await;
        let error = ask(&transport).await.unwrap_err();
        assert!(matches!(error, TransportError::SessionGone(_)), "{shown}: {error:?}");
        assert_eq!((server.requests().len(), transport.session_id()), (1, None));
        assert!(names_session(&server.requests()[0]));

        // Nothing of that session leaves any more: requests, notices, answers, the stream, the end.
        assert!(matches!(ask(&transport).await, Err(TransportError::SessionGone(_))));
        assert!(matches!(transport.notify(DIALECT, Bytes::new()).await, Err(TransportError::SessionGone(_))));
        transport.notify_soon(DIALECT, Bytes::new());
        let ping = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
        transport.pass_on(DIALECT, Message::parse(&ping).unwrap());
        assert!(transport.open_stream(DIALECT, &super::super::Cursor::default()).await.is_err());
        transport.close(DIALECT).await;
        assert_eq!(server.requests().len(), 1, "{shown}");
    }
}

#[tokio::test]
async fn other_refusals_leave_the_session_alone() {
    let others = [
        error(404, json!(7), -32601),
        error(404, json!(7), -32602),
        error(400, json!(7), -32000),
        error(400, Value::Null, -32700),
        error(200, json!(7), 404),
        error(200, Value::Null, -32001),
        HttpReply::status(400),
        HttpReply::status(405),
        HttpReply::status(410),
        HttpReply::status(429),
        HttpReply::status(503),
    ];
    for reply in others {
        let shown = format!("{reply:?}");
        let (server, transport) = in_session(reply).await;
        let outcome = ask(&transport).await;
        assert!(!matches!(outcome, Err(TransportError::SessionGone(_))), "{shown}: {outcome:?}");
        assert!(transport.session_id().is_some(), "{shown}");
        transport.close(DIALECT).await;
        let last = server.requests().pop().unwrap();
        assert_eq!((last.method.as_str(), names_session(&last)), ("DELETE", true), "{shown}");
    }
}

#[tokio::test]
async fn an_answer_to_a_notice_says_nothing_of_the_session() {
    let (_server, transport) = in_session(HttpReply::status(404)).await;
    let outcome = transport.notify(DIALECT, Bytes::from_static(b"{}")).await;
    assert!(matches!(outcome, Err(TransportError::Status(_))), "{outcome:?}");
    assert!(transport.session_id().is_some());
}

#[tokio::test]
async fn a_404_without_a_session_is_a_404() {
    let server = HttpPeer::start(Peer::legacy()).await.on_http(|_| Some(HttpReply::status(404)));
    let target = HttpTarget::new(&server.url()).unwrap();
    let transport = Arc::new(HttpTransport::new(HttpClient::new(), &target, 1 << 20, Arc::new(Nobody)).unwrap());
    for _ in 0..2 {
        let outcome = ask(&transport).await;
        assert!(matches!(&outcome, Err(TransportError::Status(error)) if error.status == 404), "{outcome:?}");
    }
    transport.close(DIALECT).await;
    assert_eq!(server.requests().len(), 2, "there is nothing to end");
}
