//! Notices of change, in both eras: lists read anew, resources updated, log entries, and lists that hold for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::event::{Event, EventKind, LogLevel};
use switchboard::spec::DriftPolicy;
use switchboard::status::ListState;
use switchboard::store::MemoryStore;
use switchboard::{Client, ErrorKind, Filter, State, ToolCall};
use switchboard_testing::{Gate, HttpPeer, Peer, Reply, Resource, Tool};

use crate::fixture::{
    client, event, in_process, json as wire, life, lists_read, names, next_life, over_http, payload, ready,
};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

fn notice(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method })
}

fn updated(uri: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } })
}

/// Legacy and modern servers that announce changes.
fn telling() -> [Peer; 2] {
    [Peer::legacy(), Peer::modern()]
        .map(|peer| peer.tool("old").prompt("p").resource(Resource::text("file:///a", "a")).announces_changes())
}

/// A client that hears what the peer pushes.
async fn listening(peer: &Peer) -> Client {
    let client = client(in_process(peer)).await;
    peer.wait_for_stream().await;
    client
}

/// Waits until nothing is under way any more on a paused clock.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn each_notice_has_its_lists_read_and_no_other() {
    for peer in telling() {
        let client = listening(&peer).await;
        let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
        let counts = || lists.map(|method| peer.count(method));
        let mut expected = counts();
        assert_eq!(expected, [1; 4]);
        for (notice, read) in [("tools", vec![0]), ("prompts", vec![1]), ("resources", vec![2, 3])] {
            let mut events = client.events();
            peer.notify(&format!("notifications/{notice}/list_changed"));
            lists_read(&mut events).await;
            read.into_iter().for_each(|list: usize| expected[list] += 1);
            assert_eq!(counts(), expected, "{notice}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn b091_a_burst_of_notices_costs_one_refresh_and_one_more_at_most() {
    for peer in telling() {
        let tool = Tool::new("burst").answers(|_, context| {
            context.peer().replace_tools(["burst", "last"]);
            Reply::text("done").flood(200, notice(TOOLS_CHANGED))
        });
        let peer = peer.tool(tool);
        let client = listening(&peer).await;
        client.call("burst", None).await.unwrap();
        settle().await;
        assert!((2..=3).contains(&peer.count("tools/list")), "{}", peer.count("tools/list"));
        assert_eq!(names(&client), ["burst", "last"]);
        assert_eq!(client.state(), State::Ready);
    }
}

#[tokio::test(start_paused = true)]
async fn b091_a_burst_during_a_slow_refresh_waits_for_its_end() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (under_way, highest) = (running.clone(), most.clone());
    let peer = Peer::legacy().tool("old").announces_changes().on("tools/list", move |_, context| {
        highest.fetch_max(under_way.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let (usual, under_way) = (context.usual(), under_way.clone());
        Reply::later(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            under_way.fetch_sub(1, Ordering::SeqCst);
            usual
        })
    });
    let _client = listening(&peer).await;
    for _ in 0..200 {
        peer.notify(TOOLS_CHANGED);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    settle().await;
    assert_eq!(most.load(Ordering::SeqCst), 1, "one refresh at a time");
    assert_eq!(peer.count("tools/list"), 3, "the discovery, one that ran, and one that waited");
}

#[tokio::test(start_paused = true)]
async fn b093_the_last_of_several_changes_is_the_one_that_is_held() {
    for peer in telling() {
        // Slower than the quiet time, and it lists what was there when it was asked.
        let peer = peer.on("tools/list", |_, context| context.usual().delay(Duration::from_millis(700)));
        let client = listening(&peer).await;
        for set in ["first", "second", "third"] {
            peer.replace_tools([set]);
            peer.notify(TOOLS_CHANGED);
            tokio::time::sleep(Duration::from_millis(330)).await;
        }
        settle().await;
        assert_eq!(names(&client), ["third"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_keeps_the_lists_and_is_tried_once_more() {
    for (failures, expected) in [(1, "new"), (5, "old")] {
        let peer = Peer::legacy().tool("old").announces_changes().on("tools/list", move |_, context| {
            match context.peer().count("tools/list") {
                number if number > 1 && number <= 1 + failures => Reply::error(-32603, "busy"),
                _ => context.usual(),
            }
        });
        let client = listening(&peer).await;
        peer.replace_tools(["new"]);
        peer.notify(TOOLS_CHANGED);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((peer.count("tools/list"), names(&client)), (2, vec!["old".to_owned()]));
        assert_eq!((client.state(), client.status().warnings[0].code.as_str()), (State::Ready, "list_failed"));
        settle().await;
        assert_eq!((peer.count("tools/list"), names(&client)), (3, vec![expected.to_owned()]), "{failures}");
        let state = if failures == 1 { ListState::Ok } else { ListState::Failed };
        assert_eq!((client.state(), client.status().lists.tools), (State::Ready, state));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_fails_midway_keeps_the_longer_list() {
    let peer =
        Peer::legacy().many_tools(4).page_size(2).announces_changes().on("tools/list", |_, context| {
            match context.peer().count("tools/list") {
                4 | 6 => Reply::error(-32603, "busy"),
                _ => context.usual(),
            }
        });
    let client = listening(&peer).await;
    peer.notify(TOOLS_CHANGED);
    settle().await;
    assert_eq!((peer.count("tools/list"), client.tools().len()), (6, 4));
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_tool_that_was_announced_waits_for_the_refresh() {
    for peer in telling() {
        let client = listening(&peer).await;
        let mut events = client.events();
        peer.replace_tools(["new"]);
        peer.notify(TOOLS_CHANGED);
        event(&mut events, EventKind::ListChanged, |payload| payload["state"] == "announced").await;
        client.call("new", None).await.unwrap();
        assert_eq!(peer.count("tools/list"), 2);
        let error = client.call("other", None).await.unwrap_err();
        assert_eq!((error.kind(), peer.count("tools/list")), (ErrorKind::UnknownTool, 2), "nothing was announced");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_updates_of_one_resource_becomes_one_event_and_the_last_is_not_lost() {
    for peer in telling() {
        let client = listening(&peer).await;
        client.subscribe("file:///a").await.unwrap();
        client.subscribe("file:///b").await.unwrap();
        let mut events = client.events();
        for _ in 0..500 {
            peer.push(updated("file:///a"));
        }
        peer.push(updated("file:///b"));
        settle().await;
        peer.push(updated("file:///a"));
        settle().await;
        client.close().await;
        let mut told = Vec::new();
        loop {
            let event = events.next().await.unwrap();
            match event.kind {
                EventKind::ResourceUpdated => told.push(payload(&event)["uri"].as_str().unwrap().to_owned()),
                EventKind::Close => break,
                _ => {}
            }
        }
        assert_eq!(told, ["file:///a", "file:///b", "file:///a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn legacy_subscriptions_are_requests_and_are_made_again_after_a_loss() {
    let [peer, _] = telling();
    let client = listening(&peer).await;
    client.subscribe("file:///a").await.unwrap();
    client.subscribe("file:///b").await.unwrap();
    client.unsubscribe("file:///b").await.unwrap();
    client.unsubscribe("file:///b").await.unwrap();
    assert_eq!((peer.count("resources/subscribe"), peer.count("resources/unsubscribe")), (2, 1));
    let mut events = client.events();
    peer.cut_streams();
    let told = event(&mut events, EventKind::ResourceUpdated, |_| true).await;
    assert_eq!(told, json!({ "uri": "file:///a" }), "an update may have been missed");
    let again = peer.wait_for_nth("resources/subscribe", 3).await;
    assert_eq!(again["params"]["uri"], "file:///a");
    settle().await;
    assert_eq!(peer.count("resources/subscribe"), 3);
}

#[tokio::test]
async fn a_subscription_that_the_server_refuses_is_none() {
    let [peer, _] = telling();
    let peer = peer.on("resources/subscribe", |_, _| Reply::error(-32002, "Resource not found"));
    let manager = crate::fixture::manager().await;
    let id = ready(&manager, in_process(&peer)).await;
    assert_eq!(manager.subscribe(&id, "file:///x").await.unwrap_err().kind(), ErrorKind::ServerError);
    assert_eq!(manager.subscriptions(&id).unwrap(), Vec::<String>::new());
    assert_eq!(manager.subscribe(&id, "").await.unwrap_err().kind(), ErrorKind::InvalidInput);
    let mute = Peer::legacy().resource(Resource::text("file:///a", "a"));
    let client = client(in_process(&mute)).await;
    assert_eq!(client.subscribe("file:///a").await.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(mute.count("resources/subscribe"), 0);
}

#[tokio::test]
async fn a_thousand_resources_are_the_most() {
    let [peer, _] = telling();
    let client = client(in_process(&peer)).await;
    for number in 0..1_000 {
        client.subscribe(&format!("file:///{number}")).await.unwrap();
    }
    let error = client.subscribe("file:///more").await.unwrap_err();
    assert_eq!((error.kind(), peer.count("resources/subscribe")), (ErrorKind::InvalidInput, 1_000));
    client.subscribe("file:///7").await.unwrap();
    client.unsubscribe("file:///7").await.unwrap();
    client.subscribe("file:///more").await.unwrap();
}

fn logged(level: &str, data: &Value) -> Value {
    let params = json!({ "level": level, "logger": "db", "data": data });
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params })
}

#[tokio::test(start_paused = true)]
async fn a_legacy_log_level_is_set_and_set_again_after_a_loss() {
    let peer = Peer::legacy().tool("echo").capabilities(json!({ "tools": {}, "logging": {} }));
    let client = listening(&peer).await;
    client.set_log_level(LogLevel::Warning).await.unwrap();
    assert_eq!(peer.received_of("logging/setLevel")[0]["params"]["level"], "warning");
    peer.cut_streams();
    let again = peer.wait_for_nth("logging/setLevel", 2).await;
    assert_eq!(again["params"]["level"], "warning");
    let mute = Peer::legacy().tool("echo");
    let client = crate::fixture::client(in_process(&mute)).await;
    assert_eq!(client.set_log_level(LogLevel::Debug).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(start_paused = true)]
async fn a_modern_log_level_goes_with_each_request() {
    const LEVEL: &str = "io.modelcontextprotocol/logLevel";
    let peer = Peer::modern().tool("echo").capabilities(json!({ "tools": {}, "logging": {} }));
    let client = client(in_process(&peer)).await;
    let level = |number: usize| peer.received_of("tools/call")[number]["params"]["_meta"][LEVEL].clone();
    client.call("echo", None).await.unwrap();
    assert_eq!(level(0), Value::Null);
    for (number, wanted) in [(1, LogLevel::Info), (2, LogLevel::Error)] {
        client.set_log_level(wanted).await.unwrap();
        client.call("echo", None).await.unwrap();
        assert_eq!(level(number), wanted.as_str());
    }
    client.close().await;
    client.refresh().await.unwrap();
    client.call("echo", None).await.unwrap();
    assert_eq!(level(3), "error", "the wish outlives the connection");
    assert_eq!(peer.complaints(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn log_entries_are_kept_in_order_and_told_without_what_they_say() {
    let tool = Tool::new("chatty").answers(|_, _| {
        let numbered = (0..300).fold(Reply::text("done"), |reply, number| reply.before(logged("info", &json!(number))));
        numbered.before(logged("loud", &json!({ "secret": "x".repeat(10_000) })))
    });
    let peer = Peer::legacy().tool(tool);
    let client = client(in_process(&peer)).await;
    let mut events = client.events();
    client.call("chatty", None).await.unwrap();
    let logs = client.logs();
    let data: Vec<String> = logs.iter().map(|entry| entry.data.to_string()).collect();
    assert_eq!((logs.len(), &*data[0], &*data[198]), (200, "101", "299"));
    let last = logs.last().unwrap();
    assert!(last.is_cut && last.level.is_none() && last.data.as_bytes().len() < 9_000, "{}", last.data);
    let told = event(&mut events, EventKind::Log, |_| true).await;
    assert_eq!(told, json!({ "level": "info", "logger": "db", "bytes": 1 }));
    let warnings = client.status().warnings;
    assert_eq!((warnings[0].code.as_str(), warnings[0].count), ("log_flood", 251));
}

/// A modern server whose results hold for that long.
fn holding(list: u64, discover: u64) -> Peer {
    let capabilities = json!({ "tools": {} });
    Peer::modern()
        .tool("echo")
        .on("tools/list", move |_, context| {
            let tools: Vec<Value> = if context.peer().count("tools/list") == 1 {
                vec![json!({ "name": "echo", "inputSchema": { "type": "object" } })]
            } else {
                ["echo", "new"].map(|name| json!({ "name": name, "inputSchema": { "type": "object" } })).into()
            };
            Reply::result(json!({ "tools": tools, "ttlMs": list, "cacheScope": "private" }))
        })
        .on("server/discover", move |_, _| {
            Reply::result(
                json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": discover }),
            )
        })
}

const HOUR: u64 = 3_600_000;

#[tokio::test]
async fn lists_that_hold_are_not_read_again_at_the_next_start() {
    let server = HttpPeer::start(holding(HOUR, HOUR)).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    let id = ready(&first, over_http(&server)).await;
    first.shutdown(Duration::from_secs(1)).await;

    let second = next_life(&store).await;
    let status = second.status(&id).unwrap();
    assert_eq!((status.state, status.stale, status.lists.tools), (State::Ready, false, ListState::Ok));
    second.call(ToolCall::new(id.clone(), "echo")).await.unwrap();
    assert_eq!((server.count("tools/list"), server.count("initialize")), (1, 0));
    second.discover(&id).await.unwrap();
    assert_eq!(server.count("tools/list"), 2, "somebody who asks gets the present list");
    assert_eq!(second.tools(&Filter::all()).len(), 2);
    second.close(&id).await.unwrap();
    second.establish(&id).await.unwrap();
    assert_eq!(server.count("tools/list"), 3, "what changed while it was closed is not known");
    second.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_server_that_is_down_at_the_next_start_does_not_stay_ready_on_its_word() {
    let server = HttpPeer::start(holding(HOUR, HOUR)).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    let id = ready(&first, over_http(&server)).await;
    first.shutdown(Duration::from_secs(1)).await;
    server.stop().await;
    let second = life(&store).await;
    let mut events = second.events_since(0);
    let is_lost = |event: &Event| event.kind == EventKind::State && payload(event)["from"] == "ready";
    if !events.0.iter().any(is_lost) {
        event(&mut events.1, EventKind::State, |payload| payload["from"] == "ready").await;
    }
    assert!(second.status(&id).unwrap().stale);
    second.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn where_changed_tools_are_refused_lists_are_read_however_long_they_hold() {
    let server = HttpPeer::start(holding(HOUR, HOUR)).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    ready(&first, over_http(&server).drift(DriftPolicy::RefuseChanged)).await;
    first.shutdown(Duration::from_secs(1)).await;
    let second = next_life(&store).await;
    assert_eq!(server.count("tools/list"), 2);
    second.shutdown(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_list_whose_time_is_over_is_read_again_when_somebody_looks() {
    let gate = Gate::new();
    let held = gate.clone();
    let peer = holding(1, HOUR);
    let client = client(in_process(&peer)).await;
    assert_eq!(peer.count("tools/list"), 1);
    let peer = peer.on("tools/list", move |_, _| {
        let tools = [json!({ "name": "later", "inputSchema": { "type": "object" } })];
        Reply::result(json!({ "tools": tools, "ttlMs": HOUR, "cacheScope": "private" })).when(&held)
    });
    let mut events = client.events();
    while peer.count("tools/list") == 1 {
        // The look does not wait; the millisecond is over before long.
        let _ = client.tools();
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        assert_eq!(names(&client), ["echo"], "the last known list is shown meanwhile");
    }
    gate.open();
    lists_read(&mut events).await;
    assert_eq!((names(&client), peer.count("tools/list")), (vec!["later".to_owned()], 2));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_promises_nothing_is_kept_until_there_is_a_reason() {
    let peer = holding(0, 0);
    let client = client(in_process(&peer)).await;
    for _ in 0..10 {
        settle().await;
        client.call("echo", Some(wire("{}"))).await.unwrap();
        let _ = client.tools();
    }
    assert_eq!(peer.count("tools/list"), 1);
    client.refresh().await.unwrap();
    assert_eq!(peer.count("tools/list"), 2);
}
