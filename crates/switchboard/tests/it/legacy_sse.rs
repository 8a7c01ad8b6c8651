//! HTTP+SSE, the transport of 2024-11-05, and how it is found out which HTTP transport a server speaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::json;
use switchboard::spec::{Retry, Target, TransportKind};
use switchboard::store::MemoryStore;
use switchboard::wire::Json;
use switchboard::{Client, ErrorKind, Manager, ServerSpec, State, ToolCall};
use switchboard_testing::{Gate, HttpPeer, HttpReply, HttpRequest, Peer, Reply, Tool};

use crate::fixture::{client, names, over_http, ready, refusal, text, whole};

const OLD: &str = "2024-11-05";

/// A peer of the revision that had this transport, with a tool that answers and one that never does.
fn peer() -> Peer {
    Peer::legacy().protocol_version(OLD).tool("echo").tool(Tool::new("slow").answers(|_, _| Reply::stall()))
}

async fn serve(peer: &Peer) -> HttpPeer {
    HttpPeer::start(peer).await.legacy_sse()
}

/// A registration of the peer's event stream, with the transport left open. Silence is waited out briefly.
fn auto(server: &HttpPeer) -> ServerSpec {
    let mut spec = ServerSpec::http("peer", &server.sse_url()).unwrap().id("peer").unwrap().retry(Retry::attempts(1));
    spec.timeouts.probe = Duration::from_millis(300);
    spec
}

fn with(transport: TransportKind, mut spec: ServerSpec) -> ServerSpec {
    let Target::Http(target) = &mut spec.target else { panic!("{spec:?}") };
    target.transport = transport;
    spec
}

/// A client that speaks this transport without having to find out.
async fn connected(server: &HttpPeer) -> Client {
    client(with(TransportKind::Sse, auto(server))).await
}

async fn echo(client: &Client, message: &str) -> String {
    let arguments = Json::from(json!({ "message": message }));
    text(&client.call("echo", Some(arguments)).await.unwrap_or_else(|error| panic!("{error:?}")))
}

/// The requests for an event stream that belongs to no session yet.
fn gets(server: &HttpPeer) -> usize {
    let is_get = |request: &&HttpRequest| request.method == Method::GET && request.header("mcp-session-id").is_none();
    server.requests().iter().filter(is_get).count()
}

/// Whether it is a POST to the address of the stream, as a client of Streamable HTTP makes it.
fn is_post_to_stream(request: &HttpRequest) -> bool {
    request.method == Method::POST && request.path == "/sse"
}

fn posts_to_stream(server: &HttpPeer) -> usize {
    server.requests().iter().filter(|request| is_post_to_stream(request)).count()
}

const PAGE: &str = "<!DOCTYPE html><html><body><pre>Cannot POST /sse</pre></body></html>";

#[tokio::test]
async fn b025_a_post_that_is_refused_or_never_answered_leads_to_the_event_stream() {
    for reply in [HttpReply::hang(), HttpReply::html(404, PAGE), HttpReply::status(405)] {
        let server = serve(&peer()).await.on_http({
            let reply = reply.clone();
            move |request| is_post_to_stream(request).then(|| reply.clone())
        });
        let client = client(auto(&server)).await;
        let status = client.status();
        assert_eq!((status.transport, status.protocol_version.as_deref()), ("sse", Some(OLD)), "{reply:?}");
        assert_eq!(echo(&client, "hi").await, r#"{"message":"hi"}"#, "{reply:?}");
        assert_eq!(gets(&server), 1, "{reply:?}");
    }
}

#[tokio::test]
async fn b025_when_neither_transport_is_spoken_both_reasons_are_told_without_markup() {
    for (post, about_post) in
        [(HttpReply::html(404, PAGE), "HTTP 404 Not Found: Cannot POST /sse"), (HttpReply::hang(), "no answer to")]
    {
        let server = HttpPeer::start(peer()).await.on_http(move |request| {
            let reply =
                if request.method == Method::POST { post.clone() } else { HttpReply::html(406, "<p>no GET</p>") };
            Some(reply)
        });
        let mut spec = auto(&server);
        spec.timeouts.connect = Duration::from_secs(1);
        let error = refusal(spec).await;
        let causes = error.causes();
        assert!(causes[0].starts_with("over Streamable HTTP: ") && causes[0].contains(about_post), "{causes:?}");
        let about_get = "HTTP 406 Not Acceptable: no GET";
        assert!(causes[1].starts_with("over HTTP+SSE: ") && causes[1].contains(about_get), "{causes:?}");
        let whole = whole(&error);
        assert!(!whole.contains('<') && !whole.contains("JSON"), "{whole}");
    }
}

#[tokio::test]
async fn failures_that_are_not_about_the_transport_never_lead_to_the_other() {
    for (reply, kind) in [
        (HttpReply::status(401), ErrorKind::SignInRequired),
        (HttpReply::status(403), ErrorKind::ProtocolViolation),
        (HttpReply::status(429).header("retry-after", "7"), ErrorKind::RateLimited),
        (HttpReply::html(500, "404 Not Found: use GET"), ErrorKind::ProtocolViolation),
        (HttpReply::status(503).header("retry-after", "7"), ErrorKind::RateLimited),
        (HttpReply::html(200, "405 Method Not Allowed"), ErrorKind::ProtocolViolation),
        (HttpReply::cut(), ErrorKind::ConnectFailed),
    ] {
        let server = serve(&peer()).await.on_http({
            let reply = reply.clone();
            move |request| is_post_to_stream(request).then(|| reply.clone())
        });
        let error = refusal(auto(&server)).await;
        assert_eq!(error.kind(), kind, "{error:?}");
        assert_eq!(error.data().retry_after.is_some(), kind == ErrorKind::RateLimited, "{error:?}");
        assert_eq!(gets(&server), 0, "{reply:?}");
    }
}

#[tokio::test]
async fn a_modern_error_is_an_answer_and_an_error_to_nobody_is_a_refusal() {
    let error = |id: &serde_json::Value, code: i64| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "Method not allowed." } });
    for (code, is_named, leads) in [(-32000, false, 1), (-32000, true, 0), (-32020, false, 0)] {
        let server = serve(&peer()).await.on_http(move |request| {
            let id = if is_named { request.id() } else { json!(null) };
            is_post_to_stream(request).then(|| HttpReply::json(&error(&id, code)).with_status(405))
        });
        let outcome = Client::connect(auto(&server)).await;
        assert_eq!((gets(&server), usize::from(outcome.is_ok())), (leads, leads), "{code} {is_named}");
    }
}

#[tokio::test]
async fn the_failure_of_streamable_http_decides_what_comes_next_when_both_fail() {
    let server = HttpPeer::start(peer())
        .await
        .on_http(|request| Some(HttpReply::status(if request.method == Method::POST { 404 } else { 401 })));
    let error = refusal(auto(&server)).await;
    assert_eq!(error.kind(), ErrorKind::ConnectFailed, "it is not a sign-in: {error:?}");
    assert!(error.causes()[1].contains("401"), "{error:?}");
}

#[tokio::test]
async fn a_slow_server_of_streamable_http_is_not_taken_for_another() {
    let gate = Gate::new();
    let held = gate.clone();
    let slow = peer().on("initialize", move |_, context| context.usual().when(&held));
    let server = HttpPeer::start(&slow)
        .await
        .without_sessions()
        .on_http(|request| request.calls("server/discover").then(HttpReply::hang));
    let mut spec = over_http(&server);
    spec.timeouts.probe = Duration::from_millis(200);
    let connecting = client(spec);
    let opened = async {
        // It is asked for a stream as well, and has one, but without an endpoint.
        server.wait_for_request(1, |request| request.method == Method::GET).await;
        gate.open();
    };
    let (client, ()) = tokio::join!(connecting, opened);
    assert_eq!(client.status().transport, "streamable-http");
}

#[tokio::test]
async fn a_transport_that_was_asked_for_is_the_only_one_tried() {
    let server = serve(&peer()).await;
    let error = refusal(with(TransportKind::StreamableHttp, auto(&server))).await;
    assert!(whole(&error).contains("405") && gets(&server) == 0, "{error:?}");
    let server = serve(&peer()).await;
    let client = client(with(TransportKind::Sse, auto(&server))).await;
    assert_eq!((client.status().transport, posts_to_stream(&server)), ("sse", 0));
    assert_eq!(server.count("server/discover"), 0, "the era is known");
    let server = HttpPeer::start(peer()).await;
    let error = refusal(with(TransportKind::Sse, over_http(&server))).await;
    assert!(whole(&error).contains("400") && server.count("initialize") == 0, "{error:?}");
}

#[tokio::test]
async fn b005_when_the_stream_ends_pending_calls_fail_at_once_and_the_next_one_works() {
    for (is_reset, is_pending) in [(false, true), (true, true), (false, false), (true, false)] {
        let server = serve(&peer()).await;
        let client = connected(&server).await;
        assert_eq!(echo(&client, "one").await, r#"{"message":"one"}"#);
        let end = || if is_reset { server.cut_streams() } else { server.end_streams() };
        if is_pending {
            let call = client.call("slow", None);
            let (outcome, ()) = tokio::join!(call, async {
                server.wait_for_nth("tools/call", 2).await;
                end();
            });
            let error = outcome.unwrap_err();
            assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{error:?}");
            assert!(whole(&error).contains("event stream"), "{error:?}");
        } else {
            end();
            server.wait_for_nth("initialize", 2).await;
        }
        assert_eq!(echo(&client, "two").await, r#"{"message":"two"}"#);
        assert_eq!((server.count("initialize"), gets(&server)), (2, 2), "reset: {is_reset}, pending: {is_pending}");
        let last = server.requests().into_iter().rev().find(|request| request.path == "/messages").unwrap();
        assert_eq!(last.query.as_deref(), Some("session=stream-2"), "the new endpoint is used");
    }
}

#[tokio::test]
async fn b005_a_stream_that_is_dead_without_an_end_is_found_out_and_replaced() {
    let is_deaf = Arc::new(AtomicBool::new(false));
    let deaf = is_deaf.clone();
    let server = serve(&peer()).await.on_http(move |request| {
        if request.method == Method::GET {
            deaf.store(false, Ordering::SeqCst);
        }
        // It takes what is posted, and nothing comes of it.
        deaf.load(Ordering::SeqCst).then(|| HttpReply::status(202))
    });
    let mut spec = with(TransportKind::Sse, auto(&server));
    spec.timeouts.request = Duration::from_millis(200);
    let client = client(spec).await;
    is_deaf.store(true, Ordering::SeqCst);
    let error = client.call("echo", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    server.wait_for_nth("initialize", 2).await;
    assert_eq!(echo(&client, "hi").await, r#"{"message":"hi"}"#);
    assert_eq!(gets(&server), 2);
}

#[tokio::test]
async fn b047_the_stream_outlives_the_time_limits_of_requests() {
    let server = serve(&peer().announces_changes()).await;
    let mut spec = with(TransportKind::Sse, auto(&server));
    spec.timeouts.request = Duration::from_millis(150);
    spec.timeouts.max_request = Duration::from_millis(150);
    spec.timeouts.connect = Duration::from_secs(2);
    let client = client(spec).await;
    for _ in 0..4 {
        let error = client.call("slow", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    }
    server.replace_tools(["echo", "new"]);
    server.notify("notifications/tools/list_changed");
    server.wait_for_nth("tools/list", 2).await;
    assert_eq!(echo(&client, "hi").await, r#"{"message":"hi"}"#);
    assert_eq!((gets(&server), server.count("initialize")), (1, 1));
}

#[tokio::test]
async fn what_worked_is_remembered_and_tried_first() {
    let store = Arc::new(MemoryStore::new());
    let has_moved_on = Arc::new(AtomicBool::new(false));
    let moved = has_moved_on.clone();
    let server = serve(&peer()).await.on_http(move |request| {
        let is_at_stream = request.path == "/sse" && moved.load(Ordering::SeqCst);
        is_at_stream.then(|| match request.method {
            Method::GET => HttpReply::status(405),
            _ => HttpReply::redirect(307, "/mcp"),
        })
    });
    let life = async || Manager::builder("test", "1").shared_store(store.clone()).start().await.unwrap();
    let transport = |manager: &Manager| manager.status(&"peer".parse().unwrap()).unwrap().transport;

    let first = life().await;
    ready(&first, auto(&server)).await;
    assert_eq!((transport(&first), gets(&server)), ("sse", 1));
    first.shutdown(Duration::from_secs(1)).await;
    let posts = posts_to_stream(&server);
    assert!(posts > 0, "Streamable HTTP was tried");

    let second = life().await;
    assert_eq!(transport(&second), "sse", "as it was last");
    assert_eq!(second.wait_settled(Duration::from_secs(20)).await, []);
    assert_eq!((transport(&second), gets(&server), posts_to_stream(&server)), ("sse", 2, posts));
    second.shutdown(Duration::from_secs(1)).await;

    has_moved_on.store(true, Ordering::SeqCst);
    let third = life().await;
    assert_eq!(third.wait_settled(Duration::from_secs(20)).await, []);
    assert_eq!((transport(&third), gets(&server)), ("streamable-http", 3));
    third.shutdown(Duration::from_secs(1)).await;

    let fourth = life().await;
    assert_eq!(fourth.wait_settled(Duration::from_secs(20)).await, []);
    assert_eq!(fourth.status(&"peer".parse().unwrap()).unwrap().state, State::Ready);
    assert_eq!((transport(&fourth), gets(&server)), ("streamable-http", 3));
    fourth.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn an_endpoint_at_another_origin_gets_nothing() {
    let other = HttpPeer::start(peer()).await;
    let server = HttpPeer::start(peer()).await.endpoints(&[&other.url()]);
    let error = refusal(with(TransportKind::Sse, auto(&server))).await;
    assert_eq!(error.kind(), ErrorKind::ProtocolViolation, "{error:?}");
    assert!(whole(&error).contains("names another origin"), "{error:?}");
    assert_eq!((server.requests().len(), other.accepted()), (1, 0));
}

#[tokio::test]
async fn endpoints_are_relative_or_absolute_and_the_last_one_counts() {
    for endpoints in [
        &["messages?session={session}&last"][..],
        &["{origin}/messages?session={session}&last"],
        &["/messages?session={session}", "http://127.0.0.1:1/messages", "/messages?session={session}&last"],
    ] {
        let server = HttpPeer::start(peer()).await.endpoints(endpoints);
        let client = connected(&server).await;
        assert_eq!(echo(&client, "hi").await, r#"{"message":"hi"}"#, "{endpoints:?}");
        let call = server.requests_of("tools/call").remove(0);
        assert_eq!(call.query.as_deref(), Some("session=stream-1&last"), "{endpoints:?}");
        let warned = client.status().warnings.iter().any(|warning| warning.message.contains("another origin"));
        assert_eq!(warned, endpoints.len() > 1, "{endpoints:?}");
    }
}

#[tokio::test]
async fn a_stream_that_names_no_endpoint_is_given_up_in_time() {
    for (reply, why) in [
        (HttpReply::event_stream([": hello\n\n"]).then_hang(), "no event stream with an `endpoint` event came"),
        (HttpReply::hang(), "no event stream with an `endpoint` event came"),
        (HttpReply::event_stream([": hello\n\n"]), "ended the event stream"),
        (HttpReply::html(200, "<html><b>Welcome</b></html>"), "media type `text/html`: Welcome"),
        (HttpReply::event_stream(["event: endpoint\ndata:\ndata:\n\n"]).then_hang(), "names no address"),
    ] {
        let server = serve(&peer()).await.on_http(move |_| Some(reply.clone()));
        let mut spec = with(TransportKind::Sse, auto(&server));
        spec.timeouts.connect = Duration::from_millis(500);
        let error = refusal(spec).await;
        assert!(whole(&error).contains(why), "{why}: {error:?}");
    }
}

#[tokio::test]
async fn b049_the_servers_requests_are_answered_by_a_post() {
    let server = serve(&peer()).await;
    let client = connected(&server).await;
    assert_eq!(server.ask("ping", json!({})).await["result"], json!({}));
    assert_eq!(server.ask("roots/list", json!({})).await["error"]["code"], -32601);
    // During a call, too.
    let asks = Peer::legacy().protocol_version(OLD).tool(Tool::new("echo").answers(|_, context| {
        let context = context.clone();
        Reply::later(async move { Reply::text(context.ask("ping", json!({})).await["result"].to_string()) })
    }));
    let other = serve(&asks).await;
    assert_eq!(echo(&connected(&other).await, "x").await, "{}");
    drop(client);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_by_a_post() {
    let server = serve(&peer()).await;
    let client = connected(&server).await;
    let id = tokio::select! {
        outcome = client.call("slow", None) => panic!("{outcome:?}"),
        call = server.wait_for("tools/call") => call["id"].clone(),
    };
    assert_eq!(server.wait_for("notifications/cancelled").await["params"]["requestId"], id);
    server.wait_abandoned("tools/call").await;
    assert_eq!(echo(&client, "still here").await, r#"{"message":"still here"}"#);
}

#[tokio::test]
async fn each_of_many_calls_gets_its_own_answer() {
    let gate = Gate::new();
    let held = gate.clone();
    let backwards = Peer::legacy().tool(Tool::new("echo").answers(move |arguments, _| {
        let reply = Reply::text(arguments.to_string());
        if arguments["message"] == "0" { reply.when(&held) } else { reply }
    }));
    let server = serve(&backwards).await;
    let client = connected(&server).await;
    let calls = (0..60).map(|number| {
        let (client, gate) = (&client, &gate);
        async move {
            let message = number.to_string();
            let answer = echo(client, &message).await;
            if number == 59 {
                gate.open();
            }
            assert_eq!(answer, format!(r#"{{"message":"{message}"}}"#));
        }
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(gets(&server), 1);
    assert_eq!(client.status().warnings, []);
}

#[tokio::test]
async fn headers_of_the_registration_go_on_every_request() {
    let server = serve(&peer()).await;
    let spec = with(TransportKind::Sse, auto(&server)).header("x-key", "secret").unwrap();
    let client = client(spec).await;
    echo(&client, "hi").await;
    let call = ToolCall::new("peer".parse().unwrap(), "echo").header("x-call", "one").unwrap();
    client.call_with(call).await.unwrap();
    server.ask("ping", json!({})).await;
    let with_call: Vec<_> = server.requests().into_iter().filter(|it| it.header("x-call") == Some("one")).collect();
    assert!(with_call.len() == 1 && with_call[0].calls("tools/call"), "{with_call:?}");
    let requests = server.requests();
    assert!(requests.len() > 4 && requests.iter().all(|request| request.header("x-key") == Some("secret")));
    assert_eq!(requests[0].header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn large_events_are_read_and_one_that_is_too_large_costs_its_own_call_alone() {
    let large = |size: usize| Tool::new(&format!("large-{size}")).answers(move |_, _| Reply::text("é".repeat(size)));
    let server = serve(&peer().tool(large(1 << 20)).tool(large(1 << 22))).await;
    let mut spec = with(TransportKind::Sse, auto(&server));
    spec.limits.message_bytes = 4 << 20;
    let client = client(spec).await;
    assert_eq!(text(&client.call("large-1048576", None).await.unwrap()).len(), 2 << 20);
    let error = client.call("large-4194304", None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error:?}");
    assert_eq!(echo(&client, "hi").await, r#"{"message":"hi"}"#);
    assert_eq!(server.count("initialize"), 1);
}

#[tokio::test]
async fn odd_events_are_passed_over_and_told() {
    let server = serve(&peer().tool(Tool::new("odd").answers(|_, _| Reply::garbage("no JSON")))).await;
    let mut spec = with(TransportKind::Sse, auto(&server));
    spec.timeouts.request = Duration::from_millis(200);
    let client = client(spec).await;
    client.call("odd", None).await.unwrap_err();
    assert_eq!(echo(&client, "hi").await, r#"{"message":"hi"}"#);
    let warnings = client.status().warnings;
    assert!(warnings.iter().any(|warning| warning.message.contains("no JSON")), "{warnings:?}");
}

#[tokio::test]
async fn closing_ends_the_stream_and_leaves_no_socket() {
    let server = serve(&peer()).await;
    let client = connected(&server).await;
    echo(&client, "hi").await;
    let before = server.open_sockets();
    client.close().await;
    server.wait_for_open_sockets(before - 1).await;
    assert_eq!(client.state(), State::Closed);
    client.close().await;
    assert_eq!(echo(&client, "again").await, r#"{"message":"again"}"#);
    drop(client);
    server.wait_for_open_sockets(0).await;
}

#[tokio::test]
async fn a_close_does_not_wait_for_a_server_that_takes_nothing() {
    let server = serve(&peer()).await.on_http(|request| request.calls("notifications/cancelled").then(HttpReply::hang));
    let client = connected(&server).await;
    tokio::select! {
        outcome = client.call("slow", None) => panic!("{outcome:?}"),
        _ = server.wait_for("tools/call") => {}
    }
    server.wait_for("notifications/cancelled").await;
    tokio::time::timeout(Duration::from_secs(5), client.close()).await.unwrap();
    drop(client);
    server.wait_for_open_sockets(0).await;
}

#[tokio::test]
async fn a_refused_post_costs_its_call_and_one_that_knows_no_session_ends_it() {
    let status = Arc::new(std::sync::atomic::AtomicU16::new(0));
    let answered = status.clone();
    let server = serve(&peer()).await.on_http(move |request| {
        let status = answered.swap(0, Ordering::SeqCst);
        if !request.calls("tools/call") {
            answered.store(status, Ordering::SeqCst);
            return None;
        }
        (status != 0).then(|| HttpReply::status(status))
    });
    let client = connected(&server).await;
    status.store(400, Ordering::SeqCst);
    let error = client.call("echo", None).await.unwrap_err();
    assert!(whole(&error).contains("HTTP 400"), "{error:?}");
    assert_eq!(names(&client), ["echo", "slow"]);
    let call = ToolCall::new("peer".parse().unwrap(), "echo");
    status.store(404, Ordering::SeqCst);
    match client.call_with(call).await {
        // It has not run, so it may be sent once more in a new session.
        Ok(result) => assert_eq!(text(&result), "{}"),
        Err(error) => {
            assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(false)), "{error:?}");
        }
    }
}
