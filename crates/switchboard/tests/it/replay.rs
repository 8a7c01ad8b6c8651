//! Requests that are sent again: on a new session, after a wait, or because that does no harm; and those that are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use serde_json::json;
use switchboard::event::EventKind;
use switchboard::{Client, ErrorKind, ServerId, State, ToolCall};
use switchboard_testing::{HttpPeer, HttpReply, HttpRequest, Peer, Reply, Resource, Tool};

use crate::fixture::{client, in_process, json, over_http, text, whole};

const SESSION: &str = "mcp-session-id";

fn call(tool: &str) -> ToolCall {
    ToolCall::new(ServerId::parse("peer").unwrap(), tool)
}

/// A server that ends its first session after the first call, with plain text.
async fn forgetful() -> HttpPeer {
    let calls = AtomicUsize::new(0);
    HttpPeer::start(Peer::legacy().tool(Tool::new("echo").says("hi"))).await.on_http(move |request| {
        let is_of_the_first = request.header(SESSION) == Some("session-1");
        let is_late = request.calls("tools/call") && calls.fetch_add(1, Ordering::Relaxed) > 0;
        let is_over = is_late || calls.load(Ordering::Relaxed) > 1;
        let gone = || HttpReply::status(404).content_type("text/plain").body("Session terminated");
        (is_of_the_first && is_over).then(gone)
    })
}

/// The sessions under which requests of that method came.
fn sessions(server: &HttpPeer, method: &str) -> Vec<String> {
    let of = |request: HttpRequest| request.header(SESSION).unwrap_or("none").to_owned();
    server.requests_of(method).into_iter().map(of).collect()
}

#[tokio::test]
async fn b001_a_call_that_finds_its_session_gone_is_sent_once_more_on_a_new_one() {
    let server = forgetful().await;
    let client = client(over_http(&server)).await;
    for _ in 0..3 {
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    }
    assert_eq!(sessions(&server, "initialize"), ["none", "none"]);
    assert_eq!(sessions(&server, "notifications/initialized"), ["session-1", "session-2"]);
    assert_eq!(sessions(&server, "tools/call"), ["session-1", "session-1", "session-2", "session-2"]);
    let requests = server.requests();
    let second = requests.iter().rposition(|request| request.calls("initialize")).unwrap();
    let stale = requests[second..].iter().find(|request| request.header(SESSION) == Some("session-1"));
    assert!(stale.is_none(), "{stale:?}");
}

#[tokio::test]
async fn b001_twenty_calls_share_one_new_session() {
    let server = forgetful().await;
    let mut spec = over_http(&server);
    // Some wait for their turn while the session ends.
    spec.limits.in_flight = 8;
    let client = client(spec).await;
    client.call("echo", None).await.unwrap();
    for result in join_all((0..20).map(|_| client.call("echo", None))).await {
        assert_eq!(text(&result.unwrap()), "hi");
    }
    assert_eq!(server.count("initialize"), 2);
    let under_new = sessions(&server, "tools/call").into_iter().filter(|session| session == "session-2").count();
    assert_eq!(under_new, 20);
}

#[tokio::test]
async fn b001_every_kind_of_request_is_sent_once_more() {
    let peer = Peer::legacy().resource(Resource::text("file:///a", "b")).prompt("p").completions(&["x"]);
    let server = HttpPeer::start(peer).await;
    let client = client(over_http(&server)).await;
    server.forget_sessions();
    assert!(client.read_resource("file:///a").await.unwrap().as_str().contains("\"b\""));
    server.forget_sessions();
    client.get_prompt("p", None).await.unwrap();
    server.forget_sessions();
    let params = json(r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"x"}}"#);
    client.complete(params).await.unwrap();
    server.forget_sessions();
    client.request("resources/list", json("{}")).await.unwrap();
    assert_eq!(server.count("initialize"), 5);
}

#[tokio::test]
async fn a_server_that_ends_every_session_is_an_error_that_says_the_call_did_not_run() {
    let server = HttpPeer::start(Peer::legacy().tool("echo"))
        .await
        .on_http(|request| request.calls("tools/call").then(|| HttpReply::status(404)));
    let client = client(over_http(&server)).await;
    let error = client.call("echo", None).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(false)), "{}", whole(&error));
    assert_eq!(sessions(&server, "tools/call"), ["session-1", "session-2"]);
}

#[tokio::test]
async fn b003_an_error_whose_code_happens_to_be_404_is_an_ordinary_error() {
    let tool = Tool::new("find").answers(|_, _| Reply::error(404, "no such file"));
    let server = HttpPeer::start(Peer::legacy().tool(tool)).await;
    let client = client(over_http(&server)).await;
    let error = client.call("find", None).await.unwrap_err();
    assert_eq!((error.kind(), error.data().rpc.as_ref().unwrap().code), (ErrorKind::ServerError, 404));
    assert_eq!((server.count("initialize"), server.count("tools/call")), (1, 1));
}

/// A server that does what it is asked, and then cuts the connection of the first call instead of answering.
async fn committing(annotations: serde_json::Value) -> (HttpPeer, Client) {
    let tool = Tool::new("pay").annotations(annotations).says("paid");
    let calls = Arc::new(AtomicUsize::new(0));
    let server = HttpPeer::start(Peer::both().tool(tool)).await.on_http(move |request| {
        let is_first = request.calls("tools/call") && calls.fetch_add(1, Ordering::Relaxed) == 0;
        is_first.then(HttpReply::reset)
    });
    let client = client(over_http(&server)).await;
    (server, client)
}

#[tokio::test]
async fn b095_a_call_that_may_have_run_is_not_sent_again() {
    for (annotations, is_allowed) in [
        (json!({}), false),
        (json!({}), true),
        (json!({ "destructiveHint": false }), true),
        (json!({ "readOnlyHint": true }), false),
    ] {
        let (server, client) = committing(annotations.clone()).await;
        let mut call = call("pay");
        call.retry_if_safe = is_allowed;
        let error = client.call_with(call).await.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{annotations}");
        assert_eq!(server.count("tools/call"), 1, "{annotations}");
    }
}

#[tokio::test]
async fn b095_a_tool_that_does_no_harm_twice_is_called_twice_where_the_caller_allows_it() {
    for hint in ["readOnlyHint", "idempotentHint"] {
        let (server, client) = committing(json!({ hint: true })).await;
        let result = client.call_with(call("pay").retry_if_safe()).await.unwrap();
        assert_eq!((text(&result).as_str(), server.count("tools/call")), ("paid", 2));
    }
}

#[tokio::test]
async fn b095_a_child_that_dies_in_a_call_is_started_again_for_the_next() {
    let calls = Arc::new(AtomicUsize::new(0));
    let cut_first = move || match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::cut(),
        _ => Reply::text("done"),
    };
    let tool = Tool::new("work").annotations(json!({ "idempotentHint": true })).answers(move |_, _| cut_first());
    let peer = Peer::legacy().tool(tool);
    let client = client(in_process(&peer)).await;
    let result = client.call_with(call("work").retry_if_safe()).await.unwrap();
    assert_eq!((text(&result).as_str(), peer.count("tools/call"), peer.count("initialize")), ("done", 2, 2));
}

#[tokio::test]
async fn what_only_reads_is_repeated_without_being_asked_for() {
    let reads = AtomicUsize::new(0);
    let peer = Peer::both().resource(Resource::text("file:///a", "b"));
    let server = HttpPeer::start(peer).await.on_http(move |request| {
        (request.calls("resources/read") && reads.fetch_add(1, Ordering::Relaxed) == 0).then(HttpReply::cut)
    });
    let client = client(over_http(&server)).await;
    client.read_resource("file:///a").await.unwrap();
    assert_eq!(server.count("resources/read"), 2);
}

#[tokio::test]
async fn a_repetition_that_fails_too_still_says_that_the_call_may_have_run() {
    let calls = AtomicUsize::new(0);
    let tool = Tool::new("look").annotations(json!({ "readOnlyHint": true }));
    let server = HttpPeer::start(Peer::modern().tool(tool)).await.on_http(move |request| {
        let answer = || match calls.fetch_add(1, Ordering::Relaxed) {
            0 => HttpReply::reset(),
            _ => HttpReply::status(403),
        };
        request.calls("tools/call").then(answer)
    });
    let client = client(over_http(&server)).await;
    let error = client.call_with(call("look").retry_if_safe()).await.unwrap_err();
    assert_eq!((error.data().maybe_ran, server.count("tools/call")), (Some(true), 2), "{}", whole(&error));
}

#[tokio::test]
async fn a_call_that_meets_a_closed_port_is_sent_when_the_server_is_back() {
    let server = HttpPeer::start(Peer::both().tool(Tool::new("echo").says("hi"))).await;
    let client = client(over_http(&server)).await;
    let mut events = client.events();
    server.stop().await;
    let comes_back = async {
        // The probe has found the server gone.
        while events.next().await.unwrap().kind != EventKind::State {}
        server.start_again().await;
    };
    let (result, ()) = tokio::join!(client.call("echo", None), comes_back);
    assert_eq!(text(&result.unwrap()), "hi");
    assert_eq!(server.count("tools/call"), 1);
}

/// A server that refuses the first calls in that way.
async fn refusing(times: usize, reply: impl Fn() -> HttpReply + Send + Sync + 'static) -> (HttpPeer, Client) {
    let calls = AtomicUsize::new(0);
    let tool = Tool::new("echo").says("hi").annotations(json!({ "readOnlyHint": true }));
    let server = HttpPeer::start(Peer::both().tool(tool)).await.on_http(move |request| {
        (request.calls("tools/call") && calls.fetch_add(1, Ordering::Relaxed) < times).then(&reply)
    });
    let client = client(over_http(&server)).await;
    (server, client)
}

#[tokio::test]
async fn b039_a_call_that_is_refused_for_a_while_is_waited_out() {
    for status in [429, 503] {
        let (server, client) = refusing(1, move || HttpReply::status(status).header("retry-after", "1")).await;
        let began = Instant::now();
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(server.count("tools/call"), 2);
    }
}

#[tokio::test]
async fn b039_the_moment_may_be_given_as_a_date() {
    let later = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(2));
    let (server, client) = refusing(1, move || HttpReply::status(429).header("retry-after", &later)).await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    assert_eq!(server.count("tools/call"), 2);
}

#[tokio::test]
async fn b039_a_server_that_does_not_say_how_long_is_waited_for_a_little() {
    let (server, client) = refusing(1, || HttpReply::status(429)).await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    assert_eq!(server.count("tools/call"), 2);
}

#[tokio::test]
async fn a_wait_that_the_calls_time_does_not_allow_is_told_at_once() {
    let (server, client) = refusing(usize::MAX, || HttpReply::status(429).header("retry-after", "120")).await;
    let began = Instant::now();
    let error = client.call("echo", None).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::RateLimited, Some(false)));
    assert_eq!((error.data().retry_after, server.count("tools/call")), (Some(Duration::from_secs(120)), 1));
}

#[tokio::test]
async fn a_503_that_does_not_say_when_to_come_back_may_have_run() {
    let (server, client) = refusing(1, || HttpReply::status(503)).await;
    let error = client.call("echo", None).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::RateLimited, Some(true)));
    assert_eq!(server.count("tools/call"), 1);

    let (server, client) = refusing(1, || HttpReply::status(503)).await;
    assert_eq!(text(&client.call_with(call("echo").retry_if_safe()).await.unwrap()), "hi");
    assert_eq!(server.count("tools/call"), 2);
}

#[tokio::test]
async fn a_call_over_http_that_is_not_answered_has_the_server_probed() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let mut spec = over_http(&server);
    spec.timeouts.request = Duration::from_millis(200);
    spec.timeouts.probe = Duration::from_millis(200);
    let client = client(spec).await;

    // Only the tool is slow: the connection is kept.
    let server = server.on_http(|request| request.calls("tools/call").then(HttpReply::hang));
    assert!(client.call("echo", None).await.unwrap_err().is_timeout());
    server.wait_for("ping").await;
    assert_eq!((client.state(), server.count("initialize")), (State::Ready, 1));

    // Nothing is answered: the server is gone.
    let mut events = client.events();
    let _server = server.on_http(|_| Some(HttpReply::hang()));
    assert!(client.call("echo", None).await.unwrap_err().is_timeout());
    while client.state() == State::Ready {
        events.next().await.unwrap();
    }
}
