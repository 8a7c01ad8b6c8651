//! Streams that answer a request and end before the answer: resumed in the legacy era, lost in the modern one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::event::EventKind;
use switchboard::{Client, Error, ErrorKind, Manager, ServerId, State, ToolCall};
use switchboard_testing::{HttpPeer, HttpReply, HttpRequest, Peer};

use crate::fixture::{client, manager, over_http, ready, says, text, whole};

/// A legacy server that answers each call with a stream of `first`, and what comes to resume it with `later`, which is
/// given the id of the call and how often it was asked before.
async fn broken_off(
    first: HttpReply,
    later: impl Fn(&Value, usize) -> HttpReply + Send + Sync + 'static,
) -> (HttpPeer, Client) {
    let calls = Arc::new(Mutex::new((Value::Null, 0)));
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await.on_http(move |request| {
        let mut calls = calls.lock().unwrap();
        if request.calls("tools/call") {
            *calls = (request.id(), 0);
            return Some(first.clone());
        }
        is_resumption(request).then(|| {
            calls.1 += 1;
            later(&calls.0, calls.1 - 1)
        })
    });
    let client = client(over_http(&server)).await;
    (server, client)
}

fn is_resumption(request: &HttpRequest) -> bool {
    request.method == "GET" && request.header("last-event-id").is_some()
}

/// With which event ids streams were resumed.
fn resumptions(server: &HttpPeer) -> Vec<String> {
    let ids = server.requests().into_iter().filter(is_resumption);
    ids.map(|request| request.header("last-event-id").unwrap().to_owned()).collect()
}

fn primed() -> HttpReply {
    HttpReply::event_stream(["id: 1\nretry: 10\ndata:\n\n"])
}

fn answer(event_id: &str, id: &Value) -> String {
    format!("id: {event_id}\ndata: {}\n\n", says(id, "hi"))
}

fn log(logger: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "logger": logger } })
}

fn unknown_outcome(error: &Error) {
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{}", whole(error));
}

#[tokio::test]
async fn a_stream_that_ends_or_breaks_before_the_answer_is_resumed_behind_its_last_event() {
    let ends = [|reply: HttpReply| reply, |reply: HttpReply| reply.then_cut(), |reply: HttpReply| reply.then_reset()];
    for end in ends {
        let (server, client) = broken_off(end(primed()), |id, _| HttpReply::event_stream([answer("2", id)])).await;
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
        assert_eq!((resumptions(&server), server.count("tools/call")), (vec!["1".to_owned()], 1));
        let get = server.requests().into_iter().find(is_resumption).unwrap();
        assert_eq!(get.header("accept"), Some("text/event-stream"));
        assert_eq!(get.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!(get.header("mcp-session-id"), server.requests_of("tools/call")[0].header("mcp-session-id"));
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test]
async fn what_a_server_sends_twice_is_processed_once() {
    let event = |number: u32| format!("id: {number}\nretry: 10\ndata: {}\n\n", log(&number.to_string()));
    let first = HttpReply::event_stream([event(1), event(2)]).then_cut();
    let (_server, client) =
        broken_off(first, move |id, _| HttpReply::event_stream([event(1), event(2), event(3), answer("4", id)])).await;
    let mut events = client.events();
    client.call("echo", None).await.unwrap();
    let mut loggers = Vec::new();
    loop {
        let event = events.next().await.unwrap();
        match event.kind {
            EventKind::Log => loggers.push(serde_json::to_value(&event).unwrap()["payload"]["logger"].clone()),
            EventKind::Call => break,
            _ => {}
        }
    }
    assert_eq!(loggers, ["1", "2", "3"]);
}

#[tokio::test]
async fn events_that_share_an_id_are_not_taken_for_one() {
    let first = HttpReply::event_stream([format!("id: 0\nretry: 10\ndata: {}\n\n", log("a"))]);
    let (_server, client) = broken_off(first, |id, _| HttpReply::event_stream([answer("0", id)])).await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
}

#[tokio::test]
async fn half_an_event_at_the_end_is_asked_for_again() {
    let first = HttpReply::event_stream(["id: 1\nretry: 10\ndata:\n\nid: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\""]);
    let (server, client) = broken_off(first, |id, _| HttpReply::event_stream([answer("2", id)])).await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    assert_eq!(resumptions(&server), ["1"]);
}

#[tokio::test]
async fn a_server_that_is_to_be_polled_is_polled_until_it_answers() {
    let (server, client) = broken_off(primed(), |id, asked| match asked {
        8 => HttpReply::event_stream([answer("9", id)]),
        // Some give each stream an event of its own, some only end it.
        odd if odd % 2 == 1 => HttpReply::event_stream([format!("id: {odd}\ndata:\n\n")]),
        _ => HttpReply::event_stream([": nothing yet\n\n"]),
    })
    .await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    assert_eq!(resumptions(&server), ["1", "1", "1", "1", "3", "3", "5", "5", "7"]);
}

#[tokio::test]
async fn a_server_that_is_polled_is_not_asked_again_after_the_deadline() {
    let server = HttpPeer::start(Peer::legacy().tool("echo"))
        .await
        .on_http(|request| (request.calls("tools/call") || is_resumption(request)).then(primed));
    let mut spec = over_http(&server);
    spec.timeouts.request = Duration::from_millis(600);
    let client = client(spec).await;
    let error = client.call("echo", None).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::Timeout, Some(true)), "{}", whole(&error));
    server.wait_for("notifications/cancelled").await;
    let asked = resumptions(&server).len();
    assert!((2..=6).contains(&asked), "{asked}");
    client.close().await;
    assert_eq!(resumptions(&server).len(), asked);
}

#[tokio::test]
async fn a_resumption_that_is_refused_leaves_the_outcome_unknown() {
    let refusals = [
        HttpReply::status(404),
        HttpReply::status(405),
        HttpReply::status(400),
        HttpReply::html(200, "<p>hello</p>"),
        HttpReply::json(&json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32001, "message": "no" } }))
            .with_status(404),
    ];
    for refusal in refusals {
        let (server, client) = broken_off(primed(), move |_, _| refusal.clone()).await;
        unknown_outcome(&client.call("echo", None).await.unwrap_err());
        assert_eq!((resumptions(&server).len(), server.count("tools/call"), server.count("initialize")), (1, 1, 1));
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test]
async fn attempts_that_bring_nothing_are_bounded() {
    let (server, client) = broken_off(primed(), |_, _| HttpReply::reset()).await;
    unknown_outcome(&client.call("echo", None).await.unwrap_err());
    // A request on a pooled connection that is reset at once may be sent again by the pool.
    let asked = resumptions(&server).len();
    assert!((5..=10).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again_after_the_time_it_names() {
    let (server, client) = broken_off(primed(), |id, asked| match asked {
        0 => HttpReply::status(503).header("retry-after", "1"),
        1 => HttpReply::status(409),
        _ => HttpReply::event_stream([answer("2", id)]),
    })
    .await;
    let began = tokio::time::Instant::now();
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(resumptions(&server), ["1", "1", "1"]);
}

#[tokio::test]
async fn a_stream_without_event_ids_is_not_resumed() {
    let first = HttpReply::event_stream([format!("retry: 10\ndata: {}\n\n", log("a"))]);
    let (server, client) = broken_off(first, |_, _| HttpReply::status(500)).await;
    unknown_outcome(&client.call("echo", None).await.unwrap_err());
    // An empty id takes the one before it back.
    assert_eq!(resumptions(&server), Vec::<String>::new());
    let first = HttpReply::event_stream([format!("id: 1\ndata: {}\n\nid\ndata:\n\n", log("a"))]);
    let (server, client) = broken_off(first, |_, _| HttpReply::status(500)).await;
    unknown_outcome(&client.call("echo", None).await.unwrap_err());
    assert_eq!(resumptions(&server), Vec::<String>::new());
}

#[tokio::test]
async fn streams_of_modern_servers_are_not_resumed() {
    let server =
        HttpPeer::start(Peer::modern().tool("echo")).await.on_http(|request| request.calls("tools/call").then(primed));
    let client = client(over_http(&server)).await;
    unknown_outcome(&client.call("echo", None).await.unwrap_err());
    assert!(server.requests().iter().all(|request| request.method == "POST"));
}

#[tokio::test]
async fn a_session_that_ends_meanwhile_does_not_make_the_call_run_twice() {
    let peer = Peer::legacy().tool("echo");
    let server = HttpPeer::start(&peer).await.on_http(|request| request.calls("tools/call").then(primed));
    let manager: Manager = manager().await;
    let id: ServerId = ready(&manager, over_http(&server)).await;
    server.forget_sessions();
    // The call itself is answered by the script, whatever its session.
    unknown_outcome(&manager.call(ToolCall::new(id, "echo")).await.unwrap_err());
    assert_eq!(peer.count("tools/call"), 1);
}

#[tokio::test]
async fn b009_a_handshake_whose_stream_ends_is_resumed_first_where_an_id_was_given() {
    let asked = Arc::new(Mutex::new(Value::Null));
    let peer = Peer::legacy().tool("echo");
    let server = HttpPeer::start(&peer).await.on_http(move |request| {
        if request.calls("initialize") {
            *asked.lock().unwrap() = request.id();
            return Some(primed().header("mcp-session-id", "session-1"));
        }
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" },
        });
        let result = json!({ "jsonrpc": "2.0", "id": *asked.lock().unwrap(), "result": result });
        if is_resumption(request) {
            return Some(HttpReply::event_stream([format!("id: 2\ndata: {result}\n\n")]));
        }
        (request.method == "GET").then(|| HttpReply::status(405))
    });
    let server = server.without_sessions();
    let client = client(over_http(&server)).await;
    assert_eq!((client.tools().len(), peer.count("initialize")), (1, 1));
    assert_eq!(client.protocol_version().as_deref(), Some("2025-11-25"));
    let get = server.requests().into_iter().find(is_resumption).unwrap();
    assert_eq!(get.header("mcp-session-id"), Some("session-1"));
}
