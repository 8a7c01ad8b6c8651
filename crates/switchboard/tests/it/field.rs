//! What servers and networks do in the field beside what the other tests hold: neighbours of faults that were reported.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::event::{EventKind, EventStream};
use switchboard::spec::{EraChoice, InProcessTarget};
use switchboard::{ErrorKind, ServerSpec, State};
use switchboard_testing::{AnswerWith, HttpPeer, HttpReply, HttpRequest, Peer, Reply, Tool};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

use crate::fixture::{client, in_process, lists_read, names, over_http, says, text, whole};

const SESSION: &str = "mcp-session-id";

fn peer() -> Peer {
    Peer::legacy().tool(Tool::new("echo").says("hi"))
}

fn is_get(request: &HttpRequest) -> bool {
    request.method == "GET"
}

async fn next_of(events: &mut EventStream, kind: EventKind) {
    while events.next().await.unwrap().kind != kind {}
}

/// An error that answers no request of ours, as servers write it that cannot find the session.
fn of_nobody(code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "server-error", "error": { "code": code, "message": message } })
}

#[tokio::test]
async fn a_session_that_is_gone_is_renewed_however_the_server_says_so() {
    let ways = [
        HttpReply::json(&of_nobody(-32600, "Bad Request: No valid session ID provided")).with_status(400),
        HttpReply::status(400).content_type("text/plain").body("Bad Request: No valid session ID provided"),
        HttpReply::html(404, "<p>no such page</p>"),
        HttpReply::json(&of_nobody(-32600, "Session not found")).with_status(404),
        HttpReply::json(&json!({ "error": "unknown session" })).with_status(410),
    ];
    for gone in ways {
        let shown = format!("{gone:?}");
        let server = HttpPeer::start(peer()).await;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let server = server.on_http(move |request| {
            let is_old = request.header(SESSION) == Some("session-1");
            (is_old && over.load(Ordering::SeqCst)).then(|| gone.clone())
        });
        let client = client(over_http(&server)).await;
        is_over.store(true, Ordering::SeqCst);
        let result = client.call("echo", None).await;
        assert!(result.is_ok(), "{shown}: {}", whole(&result.unwrap_err()));
        assert_eq!(server.count("initialize"), 2, "{shown}");
    }
}

#[tokio::test]
async fn a_request_that_is_refused_without_json_rpc_costs_the_session_nothing() {
    let server = HttpPeer::start(peer())
        .await
        .on_http(|request| request.calls("tools/call").then(|| HttpReply::status(400).body("bad arguments")));
    let client = client(over_http(&server)).await;
    let error = client.call("echo", None).await.unwrap_err();
    assert_eq!(error.data().maybe_ran, Some(false), "{}", whole(&error));
    assert!(whole(&error).contains("bad arguments"), "{}", whole(&error));
    assert_eq!((server.count("initialize"), server.count("tools/call")), (1, 1));
    assert_eq!(client.state(), State::Ready);
}

#[tokio::test]
async fn an_empty_session_id_is_none() {
    let server = HttpPeer::start(peer()).await.without_sessions();
    let server = server.on_http(|request| request.calls("initialize").then(|| HttpReply::usual().header(SESSION, "")));
    let client = client(over_http(&server)).await;
    client.call("echo", None).await.unwrap();
    let named = server.requests().into_iter().filter(|request| request.header(SESSION).is_some()).count();
    assert_eq!(named, 0);
}

#[tokio::test]
async fn an_answer_may_come_on_the_standalone_stream_after_202() {
    let peer = peer();
    let pushing = peer.clone();
    let server = HttpPeer::start(&peer).await.on_http(move |request| {
        request.calls("tools/call").then(|| {
            pushing.push(says(&request.id(), "over there"));
            HttpReply::status(202)
        })
    });
    let client = client(over_http(&server)).await;
    peer.wait_for_stream().await;
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "over there");
}

#[tokio::test]
async fn an_event_id_may_hold_any_text() {
    for id in ["ä/1", "日本", "a b", "{\"n\":1}"] {
        let called = Mutex::new(Value::Null);
        let server = HttpPeer::start(peer()).await.on_http(move |request| {
            if request.calls("tools/call") {
                *called.lock().unwrap() = request.id();
                return Some(HttpReply::event_stream([format!("id: {id}\nretry: 0\ndata:\n\n")]));
            }
            let last = request.headers.get("last-event-id")?;
            (last.as_bytes() == id.as_bytes()).then(|| HttpReply::sse([&says(&called.lock().unwrap(), "resumed")]))
        });
        let mut spec = over_http(&server);
        spec.timeouts.request = Duration::from_secs(2);
        let client = client(spec).await;
        let result = client.call("echo", None).await;
        assert!(result.is_ok(), "{id}: {}", whole(&result.unwrap_err()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_announces_a_change_at_each_look_is_looked_at_less_and_less() {
    let notice = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let peer = peer().announces_changes().on("tools/list", move |_, context| context.usual().after(notice.clone()));
    let client = client(in_process(&peer)).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let count = peer.count("tools/list");
    assert!(count < 150, "{count} requests in an hour");
    assert_eq!(client.state(), State::Ready);
    // A true change is still seen.
    peer.replace_tools(["other"]);
    let mut events = client.events();
    peer.notify("notifications/tools/list_changed");
    while names(&client) != ["other"] {
        lists_read(&mut events).await;
    }
}

#[tokio::test]
async fn a_server_that_worked_is_waited_for_while_a_gateway_denies_it() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = is_away.clone();
    let server = HttpPeer::start(peer()).await.on_http(move |request| {
        let denies = away.load(Ordering::SeqCst);
        // The first that asks for a new session finds nothing; the next one finds the server.
        if denies && is_get(request) && request.header(SESSION).is_none() {
            away.store(false, Ordering::SeqCst);
        }
        denies.then(|| HttpReply::html(404, "<h1>no such service</h1>"))
    });
    let client = client(over_http(&server)).await;
    let mut events = client.events();
    server.forget_sessions();
    is_away.store(true, Ordering::SeqCst);
    client.call("echo", None).await.unwrap();
    next_of(&mut events, EventKind::Reconnect).await;
    assert_eq!(server.sessions_begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_the_initialized_notice_is_used() {
    let server = HttpPeer::start(peer())
        .await
        .on_http(|request| request.calls("notifications/initialized").then(HttpReply::hang));
    let client = client(over_http(&server)).await;
    client.call("echo", None).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_asks_for_a_sign_in_while_calls_work_costs_nothing() {
    let gets = AtomicUsize::new(0);
    let server = HttpPeer::start(peer()).await.on_http(move |request| {
        is_get(request).then(|| match gets.fetch_add(1, Ordering::SeqCst) {
            0 => HttpReply::event_stream(["id: 1\ndata:\n\n"]),
            _ => HttpReply::status(401),
        })
    });
    let client = client(over_http(&server)).await;
    let mut events = client.events();
    server.wait_for_request(2, is_get).await;
    server.wait_for("ping").await;
    client.call("echo", None).await.unwrap();
    assert_eq!((client.state(), server.count("initialize")), (State::Ready, 1));
    let _ = &mut events;
}

#[tokio::test]
async fn a_flood_of_pings_whose_answers_are_not_taken_opens_few_connections() {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let flood = Tool::new("flood").answers(move |_, _| Reply::text("done").flood(3000, ping.clone()));
    let server = HttpPeer::start(peer().tool(flood))
        .await
        .answer_with(AnswerWith::Sse)
        .on_http(|request| (request.json()?.get("result").is_some()).then(HttpReply::hang));
    let client = client(over_http(&server)).await;
    assert_eq!(text(&client.call("flood", None).await.unwrap()), "done");
    assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    assert!(server.open_sockets() < 30, "{} sockets", server.open_sockets());
}

#[tokio::test]
async fn a_burst_of_pings_is_answered_to_the_last() {
    let ping = |id: u32| json!({ "jsonrpc": "2.0", "id": format!("p{id}"), "method": "ping" });
    let burst =
        Tool::new("burst").answers(move |_, _| (0..200).fold(Reply::text("done"), |reply, id| reply.before(ping(id))));
    let server = HttpPeer::start(peer().tool(burst)).await.answer_with(AnswerWith::Sse);
    let client = client(over_http(&server)).await;
    client.call("burst", None).await.unwrap();
    for id in 0..200 {
        assert_eq!(server.wait_for_response(format!("p{id}")).await["result"], json!({}));
    }
}

#[tokio::test]
async fn a_list_that_changes_between_its_pages_is_read_once_more() {
    let refusals = AtomicUsize::new(0);
    let peer = peer().tool("two").tool("three").page_size(1).on("tools/list", move |request, context| {
        let is_stale = request["params"]["cursor"].is_string() && refusals.fetch_add(1, Ordering::SeqCst) == 1;
        if is_stale { Reply::error(-32602, "Invalid cursor") } else { context.usual() }
    });
    let client = client(in_process(&peer)).await;
    assert_eq!(names(&client), ["echo", "two", "three"]);
    assert_eq!(client.status().warnings.len(), 0, "{:?}", client.status().warnings);
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_does_not_end_a_server_that_reports_progress() {
    let slow = Tool::new("slow").answers(|_, context| {
        let context = context.clone();
        Reply::later(async move {
            for step in 0..60 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if let Some(report) = context.progress(f64::from(step), 60.0) {
                    context.send(report).await;
                }
            }
            Reply::text("done")
        })
    });
    // It does one thing at a time.
    let busy = || Reply::text("").delay(Duration::from_secs(600));
    let peer = peer().tool(slow).on("ping", move |_, _| busy());
    let called = Arc::new(AtomicBool::new(false));
    let seen = called.clone();
    let peer = peer.on(
        "tools/list",
        move |_, context| {
            if seen.swap(true, Ordering::SeqCst) { busy() } else { context.usual() }
        },
    );
    let mut spec = in_process(&peer);
    spec.timeouts.heartbeat = Duration::from_secs(10);
    spec.timeouts.probe = Duration::from_secs(5);
    let client = client(spec).await;
    let result = client.call("slow", None).await;
    assert!(result.is_ok(), "{}", whole(&result.unwrap_err()));
    assert_eq!(peer.count("initialize"), 1);
}

#[tokio::test]
async fn connections_that_the_server_closed_meanwhile_cost_no_call() {
    let server = HttpPeer::start(peer()).await;
    let client = client(over_http(&server)).await;
    for _ in 0..50 {
        server.cut_connections();
        server.wait_for_few_sockets(0).await;
        let result = client.call("echo", None).await;
        assert!(result.is_ok(), "{}", whole(&result.unwrap_err()));
    }
    assert_eq!(server.count("initialize"), 1);
}

#[tokio::test]
async fn a_call_that_is_reset_on_a_used_connection_is_told_as_one_that_may_have_run() {
    let calls = AtomicUsize::new(0);
    let server = HttpPeer::start(peer()).await.on_http(move |request| {
        (request.calls("tools/call") && calls.fetch_add(1, Ordering::SeqCst) == 1).then(HttpReply::reset)
    });
    let client = client(over_http(&server)).await;
    client.call("echo", None).await.unwrap();
    let error = client.call("echo", None).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)));
    client.call("echo", None).await.unwrap();
    assert_eq!((server.count("tools/call"), client.state()), (3, State::Ready));
}

#[tokio::test]
async fn an_exchange_that_ends_without_an_answer_is_told_at_once_though_a_stream_is_open() {
    let peer = peer();
    for reply in [HttpReply::status(200), HttpReply::status(204), HttpReply::event_stream([": bye\n\n"])] {
        let shown = format!("{reply:?}");
        let server =
            HttpPeer::start(&peer).await.on_http(move |request| request.calls("tools/call").then(|| reply.clone()));
        let client = client(over_http(&server)).await;
        peer.wait_for_stream().await;
        let error = client.call("echo", None).await.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)), "{shown}");
    }
}

#[tokio::test]
async fn an_accepted_call_is_told_when_the_stream_ends_on_which_its_answer_was_to_come() {
    let peer = peer();
    let server =
        HttpPeer::start(&peer).await.on_http(|request| request.calls("tools/call").then(|| HttpReply::status(202)));
    let client = client(over_http(&server)).await;
    peer.wait_for_stream().await;
    let (outcome, ()) = tokio::join!(client.call("echo", None), async {
        peer.wait_for("tools/call").await;
        peer.end_streams();
    });
    let error = outcome.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ConnectionLost, Some(true)));
}

#[tokio::test]
async fn a_call_that_the_server_gives_up_ends_at_once_with_its_reason() {
    let cancelling = |reply: Reply, id: &Value| {
        let params = json!({ "requestId": id, "reason": "the disk is on fire" });
        reply.before(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
    };
    let tool = Tool::new("doomed").answers(move |_, context| cancelling(Reply::stall(), context.id()));
    let peer = peer().tool(tool);
    for (_server, client) in crate::fixture::everywhere(&peer).await {
        let error = client.call("doomed", None).await.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ServerCancelled, Some(true)));
        assert!(whole(&error).contains("the disk is on fire"), "{}", whole(&error));
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
    }
    assert_eq!(peer.count("notifications/cancelled"), 0, "the server knows already");
}

#[tokio::test]
async fn a_gateway_that_knows_no_server_for_a_while_is_waited_for() {
    for peer in [Peer::legacy(), Peer::modern()] {
        let left = AtomicUsize::new(0);
        let left = Arc::new(left);
        let denials = left.clone();
        let server = HttpPeer::start(peer.tool(Tool::new("echo").says("hi"))).await.without_sessions();
        let server = server.on_http(move |request| {
            let is_denied = request.method == "POST"
                && denials.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            is_denied.then(|| HttpReply::status(404).content_type("text/plain").body("404 page not found"))
        });
        let client = client(over_http(&server)).await;
        // The call, both questions behind it, and those that the connection's task asks for itself.
        left.store(4, Ordering::SeqCst);
        assert_eq!(text(&client.call("echo", None).await.unwrap()), "hi");
        assert_eq!(client.state(), State::Ready);
    }
}

/// A server that does one thing at a time: it writes this many pings before its answer to a call, and reads nothing
/// meanwhile.
async fn talkative(stream: DuplexStream, pings: u32) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let result = match message["method"].as_str() {
            Some("initialize") => {
                json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "t", "version": "1" } })
            }
            Some("tools/list") => json!({ "tools": [{ "name": "talk", "inputSchema": { "type": "object" } }] }),
            Some("tools/call") => {
                for id in 0..pings {
                    let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
                    writer.write_all(format!("{ping}\n").as_bytes()).await.unwrap();
                }
                json!({ "content": [{ "type": "text", "text": "done" }] })
            }
            _ => continue,
        };
        let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_much_before_it_listens_again_is_read_on() {
    for pings in [500, 5000] {
        let target = InProcessTarget::new(move || {
            let (near, far) = tokio::io::duplex(1024);
            #[expect(clippy::disallowed_methods, reason = "a server of this test, which ends with its pipe")]
            tokio::spawn(talkative(far, pings));
            near
        });
        let client = client(ServerSpec::in_process("peer", target).unwrap().era(EraChoice::Legacy)).await;
        for _ in 0..2 {
            let result = client.call("talk", None).await;
            assert!(result.is_ok(), "{pings}: {}", whole(&result.unwrap_err()));
        }
        assert_eq!(client.status().warnings.is_empty(), pings == 500, "what is not answered is told");
    }
}
