//! Calls: their time, their progress, giving up, taking turns, headers of their own, and what is told of their end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use switchboard::event::{CallEnd, EventStream, Payload};
use switchboard::manager::CallLimits;
use switchboard::{Client, ErrorKind, ServerId, ToolCall};
use switchboard_testing::{AnswerWith, Context, Gate, HttpPeer, HttpReply, HttpRequest, Peer, Reply, Tool};

use crate::fixture::{client, everywhere, in_process, over_http, refusal, text};

fn call(tool: &str) -> ToolCall {
    ToolCall::new(ServerId::parse("peer").unwrap(), tool)
}

/// A call that is given up after that many milliseconds.
fn short(tool: &str, millis: u64) -> ToolCall {
    call(tool).limits(CallLimits::new(Some(Duration::from_millis(millis)), None))
}

fn report(context: &Context, members: &Value) -> Value {
    let mut report = context.progress(0.0, 0.0).expect("the call has a progress token");
    let token = report["params"]["progressToken"].clone();
    report["params"] = members.clone();
    report["params"]["progressToken"] = token;
    report
}

fn held(name: &str, gate: &Gate) -> Tool {
    let gate = gate.clone();
    Tool::new(name).answers(move |_, _| Reply::text("at last").when(&gate))
}

/// How the next call ended, as the events tell it.
async fn next_end(events: &mut EventStream) -> CallEnd {
    loop {
        if let Payload::Call(end) = events.next().await.unwrap().payload {
            return end;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b087_progress_keeps_a_long_call_alive() {
    let tool = Tool::new("work").answers(|_, context| {
        let context = context.clone();
        Reply::later(async move {
            for done in 1..=10 {
                tokio::time::sleep(Duration::from_millis(300)).await;
                context.send(report(&context, &json!({ "progress": done, "total": 10 }))).await;
            }
            Reply::text("done")
        })
    });
    let client = client(in_process(&Peer::both().tool(tool))).await;
    assert_eq!(text(&client.call_with(short("work", 1000)).await.unwrap()), "done");

    let limits = CallLimits::new(Some(Duration::from_secs(1)), Some(Duration::from_secs(2)));
    let error = client.call_with(call("work").limits(limits)).await.unwrap_err();
    assert!(error.is_timeout() && error.data().after.unwrap() < Duration::from_millis(2100), "{error:?}");
}

#[tokio::test]
async fn progress_reaches_the_caller_in_order_and_ends_with_the_call() {
    let first = Arc::new(Mutex::new(None));
    let late = {
        let first = first.clone();
        Tool::new("late").answers(move |_, _| {
            let report: Value = first.lock().unwrap().clone().unwrap();
            Reply::text("done").before(report)
        })
    };
    let tool = Tool::new("work").answers(move |_, context| {
        let reports = [
            json!({ "progress": 1, "total": 4, "message": "reading" }),
            json!({ "progress": 3.5, "total": 4 }),
            json!({ "progress": 3, "message": "back a little" }),
        ];
        *first.lock().unwrap() = Some(report(context, &json!({ "progress": 9 })));
        reports.iter().fold(Reply::text("done"), |reply, it| reply.before(report(context, it)))
    });
    for (_server, client) in everywhere(&Peer::both().tool(tool).tool(late)).await {
        let mut call = call("work");
        let mut progress = call.progress();
        assert_eq!(text(&client.call_with(call.clone()).await.unwrap()), "done");
        // A report of the first call during the second, while its stream is still followed.
        client.call("late", None).await.unwrap();
        drop(call);
        let mut seen = Vec::new();
        while let Some(report) = progress.next().await {
            seen.push((report.progress, report.total, report.message.unwrap_or_default()));
        }
        let expected = [(1.0, Some(4.0), "reading"), (3.5, Some(4.0), ""), (3.0, None, "back a little")];
        assert_eq!(seen, expected.map(|(progress, total, message)| (progress, total, message.to_owned())));
    }
}

#[tokio::test]
async fn a_flood_of_progress_is_bounded_and_the_latest_report_comes_through() {
    let tool = Tool::new("work").answers(|_, context| {
        let flood = report(context, &json!({ "progress": 1 }));
        Reply::text("done").flood(20_000, flood).before(report(context, &json!({ "progress": 2 })))
    });
    for (_server, client) in everywhere(&Peer::both().tool(tool)).await {
        let mut call = call("work");
        let mut progress = call.progress();
        client.call_with(call).await.unwrap();
        let mut seen = Vec::new();
        while let Some(report) = progress.next().await {
            seen.push(report.progress);
        }
        assert_eq!((seen.len(), seen.last()), (32, Some(&2.0)));
    }
}

#[tokio::test]
async fn a_server_that_never_stops_talking_does_not_keep_a_call_past_its_time() {
    let chatter = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info" } });
    let tool = Tool::new("work").answers(move |_, _| Reply::stall().flood(usize::MAX, chatter.clone()));
    let server = HttpPeer::start(Peer::modern().tool(tool)).await.answer_with(AnswerWith::Sse);
    let client = client(over_http(&server)).await;
    assert!(client.call_with(short("work", 300)).await.unwrap_err().is_timeout());
}

#[tokio::test]
async fn b089_a_server_is_told_once_that_an_answer_is_not_wanted_any_more() {
    let gate = Gate::new();
    let peer = || Peer::both().tool(held("slow", &gate)).tool("echo").ignores_cancel();
    let (memory, legacy) = (peer(), HttpPeer::start(Peer::legacy().tool(held("slow", &gate)).tool("echo")).await);
    let over_memory = client(in_process(&memory)).await;
    let over_legacy = client(over_http(&legacy)).await;
    for (peer, client) in [(&memory, over_memory), (legacy.peer(), over_legacy)] {
        let error = client.call_with(short("slow", 100)).await.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::Timeout, Some(true)));
        let cancelled = peer.wait_for("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], peer.wait_for("tools/call").await["id"]);
        // What is sent after it has come, so nothing else was on its way.
        client.call("echo", None).await.unwrap();
        assert_eq!((peer.count("notifications/cancelled"), peer.count("tools/call")), (1, 2));
    }
}

#[tokio::test]
async fn b089_over_modern_http_giving_up_closes_the_stream_and_sends_nothing() {
    let server = HttpPeer::start(Peer::modern().tool(held("slow", &Gate::new())).tool("echo")).await;
    let client = client(over_http(&server)).await;
    assert!(client.call_with(short("slow", 100)).await.unwrap_err().is_timeout());
    server.wait_abandoned("tools/call").await;
    client.call("echo", None).await.unwrap();
    assert_eq!((server.count("notifications/cancelled"), server.count("tools/call")), (0, 2));
}

#[tokio::test]
async fn b089_a_late_answer_is_dropped_quietly() {
    let gate = Gate::new();
    let peer = Peer::both().tool(held("slow", &gate)).tool("echo").ignores_cancel();
    let client = client(in_process(&peer)).await;
    assert!(client.call_with(short("slow", 50)).await.unwrap_err().is_timeout());
    peer.wait_for("notifications/cancelled").await;
    gate.open();
    // The late answer comes before the one to this.
    let result = client.call("slow", None).await.unwrap();
    assert_eq!(text(&result), "at last");
    client.call("echo", None).await.unwrap();
    assert!(client.status().warnings.is_empty(), "{:?}", client.status().warnings);
}

#[tokio::test]
async fn b089_an_initialize_that_is_given_up_is_not_cancelled() {
    let peer = Peer::legacy().on("initialize", |_, _| Reply::stall());
    let server = HttpPeer::start(&peer).await;
    for mut spec in [in_process(&peer), over_http(&server)] {
        spec.timeouts.connect = Duration::from_millis(200);
        spec.timeouts.probe = Duration::from_millis(100);
        refusal(spec).await;
    }
    assert_eq!((peer.count("notifications/cancelled"), peer.count("initialize")), (0, 2));
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_once_and_told_as_such() {
    let peer = Peer::both().tool(held("slow", &Gate::new())).tool("echo");
    let legacy = HttpPeer::start(Peer::legacy().tool(held("slow", &Gate::new())).tool("echo")).await;
    let over_memory = client(in_process(&peer)).await;
    let over_legacy = client(over_http(&legacy)).await;
    for (peer, client) in [(&peer, over_memory), (legacy.peer(), over_legacy)] {
        let mut events = client.events();
        let id = {
            let mut call = Box::pin(client.call("slow", None));
            tokio::select! {
                result = &mut call => panic!("{result:?}"),
                request = peer.wait_for("tools/call") => request["id"].clone(),
            }
        };
        assert_eq!(next_end(&mut events).await.outcome, "cancelled");
        assert_eq!(peer.wait_for("notifications/cancelled").await["params"]["requestId"], id);
        client.call("echo", None).await.unwrap();
        assert_eq!(next_end(&mut events).await.outcome, "ok");
        client.call("echo", None).await.unwrap();
        assert_eq!(peer.count("notifications/cancelled"), 1);
    }
}

#[tokio::test]
async fn the_end_of_each_call_is_told_as_it_was() {
    let peer = Peer::both()
        .tool(Tool::new("fine").says("ok"))
        .tool(Tool::new("wrong").answers(|_, _| Reply::tool_error("no")))
        .tool(Tool::new("refused").answers(|_, _| Reply::error(-32000, "no")))
        .tool(Tool::new("slow").answers(|_, _| Reply::stall()))
        .tool(Tool::new("deadly").answers(|_, _| Reply::cut()));
    let client = client(in_process(&peer)).await;
    let mut events = client.events();
    let table = [
        ("fine", "ok"),
        ("wrong", "tool_error"),
        ("refused", "server_error"),
        ("unknown", "unknown_tool"),
        ("slow", "timeout"),
        ("deadly", "connection_lost"),
    ];
    for (tool, outcome) in table {
        let result = client.call_with(short(tool, 50)).await;
        let end = next_end(&mut events).await;
        assert_eq!((&*end.name, end.outcome), (tool, outcome));
        assert_eq!(end.bytes > 0, result.is_ok());
        assert!(end.duration_ms > 0.0);
    }
}

/// A client of a server that takes two calls at a time, and whose calls wait for the gate.
async fn narrow(peer: &Peer) -> Client {
    let mut spec = in_process(peer);
    (spec.limits.in_flight, spec.limits.waiting) = (2, 3);
    client(spec).await
}

fn numbered(number: usize) -> ToolCall {
    let mut call = call("slow");
    call.arguments = Some(json!({ "number": number }).into());
    call
}

#[tokio::test]
async fn calls_take_turns_in_the_order_of_asking() {
    let gate = Gate::new();
    let peer = Peer::both().tool(held("slow", &gate));
    let client = narrow(&peer).await;
    let mut calls: Vec<_> = (0..5).map(|number| Box::pin(client.call_with(numbered(number)))).collect();
    for call in &mut calls {
        assert!(call.now_or_never().is_none());
    }
    peer.wait_for_nth("tools/call", 2).await;
    // As many as may wait do so already.
    let error = client.call_with(numbered(9)).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::Overloaded, Some(false)));
    assert_eq!(peer.count("tools/call"), 2);

    // One that does not wait any more leaves its place to another, at the end of the queue.
    drop(calls.remove(3));
    let mut late = Box::pin(client.call_with(numbered(5)));
    assert!((&mut late).now_or_never().is_none());
    calls.push(late);
    gate.open();
    for result in futures_util::future::join_all(calls).await {
        result.unwrap();
    }
    let numbers = peer.received_of("tools/call").into_iter();
    let numbers: Vec<_> = numbers.map(|call| call["params"]["arguments"]["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2, 4, 5]);
}

#[tokio::test]
async fn a_turn_that_does_not_come_in_time_is_told_and_nothing_was_sent() {
    let peer = Peer::both().tool(held("slow", &Gate::new()));
    let mut spec = in_process(&peer);
    spec.limits.in_flight = 1;
    let client = client(spec).await;
    let mut first = Box::pin(client.call("slow", None));
    assert!((&mut first).now_or_never().is_none());
    let error = client.call_with(short("slow", 50)).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::Timeout, Some(false)), "{error}");
    peer.wait_for("tools/call").await;
    assert_eq!((peer.count("tools/call"), peer.count("notifications/cancelled")), (1, 0));
}

#[tokio::test]
async fn a_call_may_bring_headers_of_its_own() {
    for peer in [Peer::modern(), Peer::legacy()] {
        let server = HttpPeer::start(peer.tool("echo")).await;
        let spec = over_http(&server).header("X-Tenant", "all").unwrap().header("X-Other", "kept").unwrap();
        let client = client(spec).await;
        let call = call("echo").header("X-Tenant", "seven").unwrap().header("Authorization", "Bearer s3cret").unwrap();
        assert!(!format!("{call:?}").contains("s3cret"));
        client.call_with(call).await.unwrap();
        client.call("echo", None).await.unwrap();
        let values = |name: &str, call: &HttpRequest| -> Vec<String> {
            call.headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
        };
        let headers =
            |name: &str| -> Vec<_> { server.requests_of("tools/call").iter().map(|call| values(name, call)).collect() };
        let expected: [Vec<&str>; 2] = [vec!["seven"], vec!["all"]];
        assert_eq!(headers("x-tenant"), expected);
        let expected: [Vec<&str>; 2] = [vec!["Bearer s3cret"], vec![]];
        assert_eq!(headers("authorization"), expected);
        let expected: [Vec<&str>; 2] = [vec!["kept"], vec!["kept"]];
        assert_eq!(headers("x-other"), expected);
    }
}

#[tokio::test]
async fn headers_that_the_protocol_sets_are_refused_and_so_are_headers_without_http() {
    let names =
        ["Mcp-Session-Id", "mcp-anything", "Content-Type", "content-language", "Host", "Accept", "Upgrade", "a b"];
    for name in names {
        let error = call("echo").header(name, "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
    }
    assert!(call("echo").header("X-Key", "a\r\nb: c").is_err());

    let peer = Peer::both().tool("echo");
    let client = client(in_process(&peer)).await;
    let error = client.call_with(call("echo").header("X-Key", "x").unwrap()).await.unwrap_err();
    assert_eq!((error.kind(), peer.count("tools/call")), (ErrorKind::InvalidInput, 0));
}

#[tokio::test]
async fn a_slow_answer_of_a_child_raises_no_doubt_about_it() {
    let peer = Peer::legacy().tool(held("slow", &Gate::new())).tool("echo");
    let client = client(in_process(&peer)).await;
    assert!(client.call_with(short("slow", 50)).await.unwrap_err().is_timeout());
    client.call("echo", None).await.unwrap();
    assert_eq!((peer.count("ping"), peer.count("initialize")), (0, 1));
}

#[tokio::test]
async fn a_call_that_waits_for_its_turn_when_the_server_is_closed_does_not_open_it_again() {
    let gate = Gate::new();
    let server = HttpPeer::start(Peer::modern().tool(held("slow", &gate))).await;
    let mut spec = over_http(&server);
    spec.limits.in_flight = 1;
    let client = client(spec).await;
    let mut first = Box::pin(client.call("slow", None));
    tokio::select! {
        result = &mut first => panic!("{result:?}"),
        _ = server.wait_for("tools/call") => {}
    }
    let mut second = Box::pin(client.call("slow", None));
    assert!((&mut second).now_or_never().is_none());
    client.close().await;
    drop(first);
    let error = second.await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ServerClosed, Some(false)), "{error}");
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn b037_what_an_http_error_says_reaches_the_caller() {
    let page = format!("<html><body><h1>Bad gateway</h1>{}</body></html>", "x".repeat(2 << 20));
    let server = HttpPeer::start(Peer::modern().tool("echo"))
        .await
        .on_http(move |request| request.calls("tools/call").then(|| HttpReply::html(502, &page)));
    let client = client(over_http(&server)).await;
    let error = client.call("echo", None).await.unwrap_err();
    assert_eq!(error.data().maybe_ran, Some(true));
    let causes = error.causes().join(": ");
    assert!(causes.contains("502") && causes.contains("Bad gateway") && causes.len() < 1000, "{causes}");
}
