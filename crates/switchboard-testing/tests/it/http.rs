//! The peer over HTTP: both eras, and every rude thing that needs a socket.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use switchboard_testing::{AnswerWith, Coding, Gate, GetStream, HttpPeer, HttpReply, Peer, Reply, Tool};

use crate::client::{HttpClient, legacy, modern, notification, read};

async fn begin(client: &mut HttpClient) -> String {
    let answer = client.post(&legacy(0, "initialize", json!({ "protocolVersion": "2025-11-25" }))).await;
    assert_eq!(answer.status, 200);
    answer.header("mcp-session-id").unwrap().to_owned()
}

fn call(id: i64, tool: &str) -> Value {
    modern(id, "tools/call", json!({ "name": tool, "arguments": {} }))
}

#[tokio::test]
async fn a_modern_peer_answers_with_json_or_with_events() {
    let peer = Peer::modern().tool("echo");
    for answer_with in [AnswerWith::Json, AnswerWith::Sse] {
        let server = HttpPeer::start(&peer).await.answer_with(answer_with);
        let mut client = HttpClient::connect(&server).await;
        let got = client.post(&modern(1, "server/discover", json!({}))).await;
        let answer = match answer_with {
            AnswerWith::Json => got.json(),
            AnswerWith::Sse => got.events().remove(0),
        };
        assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(got.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn modern_errors_have_the_status_that_the_revision_asks_for() {
    let server = HttpPeer::start(Peer::modern().supported_versions(&["2099-01-01"])).await.answer_with(AnswerWith::Sse);
    let mut client = HttpClient::connect(&server).await;
    let refused = client.post(&modern(1, "server/discover", json!({}))).await;
    assert_eq!((refused.status.as_u16(), refused.json()["error"]["code"].as_i64()), (400, Some(-32022)));
    let server = HttpPeer::start(Peer::modern()).await;
    let mut client = HttpClient::connect(&server).await;
    let unknown = client.post(&modern(2, "ping", json!({}))).await;
    assert_eq!((unknown.status.as_u16(), unknown.json()["error"]["code"].as_i64()), (404, Some(-32601)));
}

#[tokio::test]
async fn a_modern_peer_holds_the_headers_against_the_body() {
    let schema = json!({ "type": "object", "properties": { "r": { "type": "string", "x-mcp-header": "Region" } } });
    let server = HttpPeer::start(Peer::modern().tool(Tool::new("t").schema(schema))).await;
    let mut client = HttpClient::connect(&server).await;
    let request = modern(1, "tools/call", json!({ "name": "t", "arguments": { "r": "größer" } }));
    let refused = client.post(&request).await;
    assert_eq!((refused.status.as_u16(), refused.json()["error"]["code"].as_i64()), (400, Some(-32020)));
    assert_eq!(server.complaints(), ["the header `mcp-param-Region` is missing"]);
    let accepted = client.post_with(&request, &[("mcp-param-region", "=?base64?Z3LDtsOfZXI=?=")]).await;
    assert_eq!(accepted.status, 200);
    assert_eq!(client.send("GET", &[("accept", "text/event-stream")]).await.status(), 405);
    assert_eq!(client.send("DELETE", &[]).await.status(), 405);
}

#[tokio::test]
async fn a_legacy_peer_gives_sessions_and_forgets_them() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let mut client = HttpClient::connect(&server).await;
    assert_eq!(client.post(&modern(9, "server/discover", json!({}))).await.status, 400);
    let session = begin(&mut client).await;
    assert_eq!(session, "session-1");
    let accepted = client.post_with(&notification("notifications/initialized"), &[("mcp-session-id", &session)]).await;
    assert_eq!((accepted.status.as_u16(), accepted.body().len()), (202, 0));
    let list = legacy(1, "tools/list", json!({}));
    assert_eq!(client.post(&list).await.status, 400);
    assert_eq!(client.post_with(&list, &[("mcp-session-id", &session)]).await.json()["id"], 1);
    server.forget_sessions();
    assert_eq!(client.post_with(&list, &[("mcp-session-id", &session)]).await.status, 404);
    let session = begin(&mut client).await;
    assert_eq!(client.send("DELETE", &[("mcp-session-id", &session)]).await.status(), 200);
    assert_eq!(server.sessions(), Vec::<String>::new());
}

#[tokio::test]
async fn a_legacy_peer_refuses_a_revision_that_it_does_not_know() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await.without_sessions();
    let mut client = HttpClient::connect(&server).await;
    let discover = modern(1, "server/discover", json!({}));
    assert_eq!(client.post(&discover).await.status, 400);
    let list = legacy(1, "tools/list", json!({}));
    assert_eq!(client.post_with(&list, &[("mcp-protocol-version", "2025-06-18")]).await.status, 200);
    assert_eq!(server.complaints(), Vec::<String>::new());
    assert_eq!(client.post(&list).await.status, 200);
    assert_eq!(server.complaints().len(), 1);
}

#[tokio::test]
async fn what_is_pushed_comes_on_the_get_stream() {
    let peer = Peer::legacy();
    let server = HttpPeer::start(&peer).await.without_sessions();
    let mut client = HttpClient::connect(&server).await;
    let mut stream = client.send("GET", &[("accept", "text/event-stream")]).await.into_body();
    peer.wait_for_stream().await;
    assert_eq!(peer.notify("notifications/tools/list_changed"), 1);
    let event = stream.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(event.starts_with(b"event: message\ndata: {"), "{event:?}");
    peer.end_streams();
    assert!(stream.frame().await.is_none());
    let mut stream = client.send("GET", &[("accept", "text/event-stream")]).await.into_body();
    peer.wait_for_stream().await;
    peer.cut_streams();
    assert!(stream.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn the_get_stream_can_be_refused_in_every_way() {
    let server = HttpPeer::start(Peer::legacy()).await;
    let mut client = HttpClient::connect(&server).await;
    let mut server = server;
    for status in [404, 405, 406, 501] {
        server = server.get_stream(GetStream::Refused(status));
        assert_eq!(client.send("GET", &[]).await.status(), status);
    }
    let _server = server.get_stream(GetStream::Html(200));
    let page = read(client.send("GET", &[]).await).await;
    assert!(page.text().contains("<title>"));
}

#[tokio::test]
async fn more_than_the_answer_makes_an_event_stream() {
    let peer = Peer::modern().tool(Tool::new("t").answers(|_, _| Reply::text("x").before(notification("n"))));
    let server = HttpPeer::start(&peer).await;
    let got = HttpClient::connect(&server).await.post(&call(1, "t")).await;
    assert_eq!(got.header("content-type"), Some("text/event-stream"));
    assert_eq!(got.events()[0]["method"], "n");
    assert_eq!(got.events()[1]["id"], 1);
}

#[tokio::test]
async fn an_event_stream_begins_before_its_answer_is_there() {
    let gate = Gate::new();
    let held = gate.clone();
    let peer = Peer::modern().tool(Tool::new("t").answers(move |_, _| Reply::text("x").when(&held)));
    let server = HttpPeer::start(&peer).await.answer_with(AnswerWith::Sse);
    let response = HttpClient::connect(&server).await.open(&call(1, "t")).await;
    gate.open();
    assert_eq!(read(response).await.events()[0]["id"], 1);
}

#[tokio::test]
async fn a_client_that_closes_the_stream_has_abandoned_the_request() {
    for answer_with in [AnswerWith::Json, AnswerWith::Sse] {
        let peer = Peer::modern().tool(Tool::new("t").answers(|_, _| Reply::stall()));
        let server = HttpPeer::start(&peer).await.answer_with(answer_with);
        let mut client = HttpClient::connect(&server).await;
        let message = call(7, "t");
        tokio::select! {
            _ = client.post(&message) => panic!("it should stall"),
            _ = peer.wait_for("tools/call") => {}
        }
        drop(client);
        assert_eq!(peer.wait_abandoned("tools/call").await["id"], 7);
        server.wait_for_open_sockets(0).await;
    }
}

#[tokio::test]
async fn an_answered_request_is_not_abandoned() {
    let peer = Peer::modern().tool("echo");
    let server = HttpPeer::start(&peer).await.answer_with(AnswerWith::Sse);
    let mut client = HttpClient::connect(&server).await;
    client.post(&call(1, "echo")).await;
    drop(client);
    server.wait_for_open_sockets(0).await;
    assert_eq!(peer.abandoned(), Vec::<Value>::new());
}

#[tokio::test]
async fn answers_are_cut_before_and_within_their_bytes() {
    let peer = Peer::modern()
        .tool(Tool::new("before").answers(|_, _| Reply::cut()))
        .tool(Tool::new("bytes").answers(|_, _| Reply::text("").cut_after(10)));
    for answer_with in [AnswerWith::Json, AnswerWith::Sse] {
        let server = HttpPeer::start(&peer).await.answer_with(answer_with);
        assert!(HttpClient::connect(&server).await.try_post(&call(1, "before"), &[]).await.is_err());
        let got = HttpClient::connect(&server).await.post(&call(1, "bytes")).await;
        assert_eq!((got.body().len(), got.broken), (10, true));
    }
}

#[tokio::test]
async fn an_answer_in_pieces_arrives_in_as_many_frames() {
    let peer = Peer::modern().tool(Tool::new("t").answers(|_, _| Reply::text("é").in_pieces(1)));
    for answer_with in [AnswerWith::Json, AnswerWith::Sse] {
        let server = HttpPeer::start(&peer).await.answer_with(answer_with);
        let got = HttpClient::connect(&server).await.post(&call(1, "t")).await;
        assert_eq!(got.frames.len(), got.body().len());
        assert!(got.text().contains('é'));
    }
}

#[tokio::test]
async fn a_large_answer_in_small_pieces_arrives_whole() {
    let text = "x".repeat(3 << 20);
    let peer = Peer::modern().tool(Tool::new("t").answers(move |_, _| Reply::text(text.as_str()).in_pieces(1024)));
    let server = HttpPeer::start(&peer).await.answer_with(AnswerWith::Sse);
    let got = HttpClient::connect(&server).await.post(&call(1, "t")).await;
    assert!(got.frames.len() > 3000);
    assert_eq!(got.events()[0]["result"]["content"][0]["text"].as_str().unwrap().len(), 3 << 20);
}

#[tokio::test]
async fn scripted_chunks_arrive_one_by_one() {
    let chunks = ["data: {}\r", "\n\r", "\n"];
    let server = HttpPeer::start(Peer::modern()).await.on_http(move |_| Some(HttpReply::event_stream(chunks)));
    let got = HttpClient::connect(&server).await.post(&call(1, "t")).await;
    assert_eq!(got.frames, chunks);
    assert_eq!(got.header("content-type"), Some("text/event-stream"));
}

#[tokio::test]
async fn an_empty_answer_has_a_length_and_no_content_type() {
    let server = HttpPeer::start(Peer::legacy()).await.on_http(|_| Some(HttpReply::status(200)));
    let got = HttpClient::connect(&server).await.post(&notification("notifications/initialized")).await;
    assert_eq!((got.header("content-length"), got.header("content-type")), (Some("0"), None));
    server.wait_for("notifications/initialized").await;
}

#[tokio::test]
async fn a_202_may_have_a_body() {
    let accepted = || HttpReply::status(202).content_type("text/plain; charset=UTF-8").body("Accepted");
    let server = HttpPeer::start(Peer::legacy()).await.on_http(move |_| Some(accepted()));
    let got = HttpClient::connect(&server).await.post(&notification("n")).await;
    assert_eq!((got.status.as_u16(), got.text().as_str()), (202, "Accepted"));
}

#[tokio::test]
async fn the_usual_answer_can_be_compressed_and_relabelled() {
    for (coding, name) in [(Coding::Br, "br"), (Coding::Gzip, "gzip"), (Coding::Deflate, "deflate")] {
        let server = HttpPeer::start(Peer::modern().many_tools(100)).await.on_http(move |request| {
            let usual = HttpReply::usual().encoded(coding).content_type("Application/JSON; Charset=utf-8");
            request.calls("tools/list").then_some(usual)
        });
        let got = HttpClient::connect(&server).await.post(&modern(1, "tools/list", json!({}))).await;
        assert_eq!(got.header("content-encoding"), Some(name));
        assert_eq!(got.header("content-type"), Some("Application/JSON; Charset=utf-8"));
        assert!(got.body().len() < 2000, "{} bytes are not compressed", got.body().len());
        assert!(serde_json::from_slice::<Value>(&got.body()).is_err());
    }
}

#[tokio::test]
async fn bodies_can_be_truncated_hang_or_be_reset() {
    let server = HttpPeer::start(Peer::modern()).await.on_http(|request| {
        let reply = HttpReply::json(&json!({ "jsonrpc": "2.0" }));
        Some(match request.id().as_i64() {
            Some(1) => reply.truncated(4),
            Some(2) => reply.then_reset(),
            Some(3) => HttpReply::cut(),
            Some(4) => HttpReply::reset(),
            _ => HttpReply::event_stream(["data: x\n"]).then_hang(),
        })
    });
    let got = HttpClient::connect(&server).await.post(&call(1, "t")).await;
    assert_eq!((got.header("content-length"), got.body().len(), got.broken), (Some("17"), 4, true));
    assert_eq!(HttpClient::connect(&server).await.post(&call(2, "t")).await.body().len(), 17);
    assert!(HttpClient::connect(&server).await.try_post(&call(3, "t"), &[]).await.is_err());
    assert!(HttpClient::connect(&server).await.try_post(&call(4, "t"), &[]).await.is_err());
    let mut client = HttpClient::connect(&server).await;
    let mut hanging = client.open(&call(5, "t")).await.into_body();
    assert_eq!(hanging.frame().await.unwrap().unwrap().into_data().unwrap(), "data: x\n");
    assert!(futures_util::poll!(std::pin::pin!(hanging.frame())).is_pending());
}

#[tokio::test]
async fn a_reset_is_a_reset_and_not_an_end() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = HttpPeer::start(Peer::legacy()).await.on_http(|_| Some(HttpReply::reset()));
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    stream.write_all(b"GET /mcp HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_redirect_names_its_target() {
    let server = HttpPeer::start(Peer::modern()).await.on_http(|_| Some(HttpReply::redirect(307, "/mcp/")));
    let got = HttpClient::connect(&server).await.post(&call(1, "t")).await;
    assert_eq!((got.status.as_u16(), got.header("location")), (307, Some("/mcp/")));
}

#[tokio::test]
async fn the_head_can_be_held_back() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = HttpPeer::start(Peer::modern()).await.on_http(move |_| Some(HttpReply::usual().when(&held)));
    let mut client = HttpClient::connect(&server).await;
    let message = modern(1, "server/discover", json!({}));
    let mut answering = Box::pin(client.post(&message));
    tokio::select! {
        _ = &mut answering => panic!("the gate is closed"),
        _ = server.wait_for_request(1, |request| request.calls("server/discover")) => {}
    }
    gate.open();
    assert_eq!(answering.await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn the_head_can_be_late_on_the_tokio_clock() {
    let late = |_: &_| Some(HttpReply::usual().delay(Duration::from_secs(60)));
    let server = HttpPeer::start(Peer::modern()).await.on_http(late);
    let before = tokio::time::Instant::now();
    HttpClient::connect(&server).await.post(&modern(1, "server/discover", json!({}))).await;
    assert!(before.elapsed() >= Duration::from_secs(60));
}

#[tokio::test]
async fn requests_are_recorded_with_method_path_headers_and_body() {
    let server = HttpPeer::start(Peer::modern().tool("echo")).await;
    HttpClient::connect(&server).await.post(&call(1, "echo")).await;
    let request = &server.requests_of("tools/call")[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/mcp"));
    assert_eq!(request.header("mcp-name"), Some("echo"));
    assert_eq!(request.json(), Some(call(1, "echo")));
    assert_eq!(server.url(), format!("http://127.0.0.1:{}/mcp", server.port()));
}

#[tokio::test]
async fn a_server_can_be_cut_stopped_and_started_again() {
    let server = HttpPeer::start(Peer::modern().tool("echo")).await;
    let mut client = HttpClient::connect(&server).await;
    client.post(&call(1, "echo")).await;
    assert_eq!((server.accepted(), server.open_sockets()), (1, 1));
    server.cut_connections();
    server.wait_for_open_sockets(0).await;
    assert!(client.try_post(&call(2, "echo"), &[]).await.is_err());
    HttpClient::connect(&server).await.post(&call(3, "echo")).await;
    server.stop().await;
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.is_err());
    server.start_again().await;
    HttpClient::connect(&server).await.post(&call(4, "echo")).await;
    assert_eq!(server.accepted(), 3);
}
