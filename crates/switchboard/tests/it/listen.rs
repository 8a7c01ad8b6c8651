//! The stream of notices of modern servers: opened, acknowledged, opened again, replaced, refused, given up, closed.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard::event::{EventKind, EventStream};
use switchboard::{Client, ErrorKind, State};
use switchboard_testing::{Gate, HttpPeer, HttpReply, Peer, Reply, Resource};

use crate::fixture::{client, event, everywhere, in_process, lists_read, names, over_http};

const LISTEN: &str = "subscriptions/listen";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// A modern server that advertises every notice.
fn telling() -> Peer {
    Peer::modern().tool("old").resource(Resource::text("file:///a", "a")).announces_changes()
}

async fn stream_state(events: &mut EventStream, state: &str) {
    event(events, EventKind::Stream, |payload| payload["state"] == state).await;
}

/// The filters that were asked for, in order.
fn filters(peer: &Peer) -> Vec<Value> {
    peer.received_of(LISTEN).into_iter().map(|request| request["params"]["notifications"].clone()).collect()
}

#[tokio::test]
async fn notices_come_over_one_stream_that_stays_open() {
    let peer = telling();
    for (round, (_server, client)) in everywhere(&peer).await.into_iter().enumerate() {
        let mut events = client.events();
        peer.wait_for_nth(LISTEN, round + 1).await;
        peer.replace_tools([format!("new-{round}").as_str()]);
        peer.notify(TOOLS_CHANGED);
        // It may be told of the change before, too.
        while names(&client) != [format!("new-{round}")] {
            lists_read(&mut events).await;
        }
    }
    let asked = json!({ "toolsListChanged": true, "resourcesListChanged": true });
    assert_eq!(filters(&peer), [asked.clone(), asked.clone(), asked]);
    assert_eq!(peer.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_advertises_no_notices_is_not_asked_for_them() {
    let peer = Peer::modern().tool("echo").resource(Resource::text("file:///a", "a"));
    for (_server, client) in everywhere(&peer).await {
        client.call("echo", None).await.unwrap();
        let error = client.subscribe("file:///a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
    assert_eq!(peer.count(LISTEN), 0);
}

#[tokio::test]
async fn after_a_stream_ended_it_is_opened_again_and_the_lists_are_read_again() {
    let peer = telling();
    let server = HttpPeer::start(&peer).await;
    let client = client(over_http(&server)).await;
    let mut events = client.events();
    for (round, cut) in [false, true].into_iter().enumerate() {
        peer.wait_for_stream().await;
        peer.replace_tools([format!("unannounced-{round}").as_str()]);
        if cut {
            peer.cut_streams()
        } else {
            peer.end_streams()
        }
        stream_state(&mut events, "reopened").await;
        lists_read(&mut events).await;
        assert_eq!(names(&client), [format!("unannounced-{round}")]);
    }
    assert_eq!((client.state(), peer.count("server/discover"), peer.count(LISTEN)), (State::Ready, 1, 3));
}

#[tokio::test(start_paused = true)]
async fn three_reopenings_that_end_at_once_are_the_last_and_have_the_server_probed() {
    let peer = telling().on(LISTEN, |_, _| Reply::result(json!({})));
    let client = client(in_process(&peer)).await;
    let mut events = client.events();
    stream_state(&mut events, "given_up").await;
    peer.wait_for_nth("server/discover", 2).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(
        (peer.count(LISTEN), peer.count("server/discover")),
        (4, 2),
        "a server that answers keeps its connection"
    );
    assert_eq!(client.state(), State::Ready);
    assert_eq!(client.subscribe("file:///a").await.unwrap_err().kind(), ErrorKind::Unsupported);
    client.close().await;
    client.refresh().await.unwrap();
    peer.wait_for_nth(LISTEN, 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_lived_counts_its_ends_anew() {
    let peer = telling();
    let client = client(in_process(&peer)).await;
    let mut events = client.events();
    for _ in 0..10 {
        peer.wait_for_stream().await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        peer.end_streams();
        stream_state(&mut events, "reopened").await;
    }
    assert_eq!((client.state(), peer.count(LISTEN), peer.count("server/discover")), (State::Ready, 11, 1));
}

#[tokio::test(start_paused = true)]
async fn when_the_probe_finds_nobody_either_the_connection_is_lost() {
    let is_gone = Gate::new();
    let gone = is_gone.clone();
    let peer = telling()
        .on(LISTEN, |_, _| Reply::result(json!({})))
        .on("server/discover", move |_, context| match context.peer().count("server/discover") {
            1 => context.usual(),
            _ => Reply::stall().when(&gone),
        })
        .on("tools/list", |_, context| match context.peer().count(LISTEN) {
            0..4 => context.usual(),
            _ => Reply::stall(),
        });
    let client = client(in_process(&peer)).await;
    let mut events = client.events();
    event(&mut events, EventKind::State, |payload| payload["from"] == "ready").await;
    assert_eq!(client.status().error_detail.unwrap().code, "connection_lost");
}

#[tokio::test]
async fn a_refused_stream_is_none_quietly() {
    let in_memory = telling().on(LISTEN, |_, _| Reply::method_not_found(LISTEN));
    let first = client(in_process(&in_memory)).await;
    let refuse = |client: &Client| {
        let mut events = client.events();
        async move { stream_state(&mut events, "refused").await }
    };
    let wait = refuse(&first);
    in_memory.wait_for(LISTEN).await;
    drop(wait);
    for status in [400, 403, 404, 405, 406, 501] {
        let peer = telling();
        let gate = Gate::new();
        let held = gate.clone();
        let server = HttpPeer::start(&peer)
            .await
            .on_http(move |request| request.calls(LISTEN).then(|| HttpReply::status(status).when(&held)));
        let client = client(over_http(&server)).await;
        let refused = refuse(&client);
        gate.open();
        refused.await;
        client.call("old", None).await.unwrap();
        assert_eq!((client.state(), server.requests_of(LISTEN).len()), (State::Ready, 1), "{status}");
        assert_eq!(client.status().warnings, [], "{status}");
    }
    assert_eq!((first.state(), in_memory.count(LISTEN)), (State::Ready, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_an_acknowledgement_is_taken_for_open() {
    let peer = telling().on(LISTEN, |_, _| Reply::stall());
    let client = client(in_process(&peer)).await;
    client.subscribe("file:///a").await.unwrap();
    assert_eq!(peer.count(LISTEN), 2);
    let cancelled = peer.wait_for("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], peer.received_of(LISTEN)[0]["id"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_does_not_agree_to_is_refused_to_whoever_asks() {
    let peer = telling().on(LISTEN, |request, _| {
        Reply::stall().before(json!({
            "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {
                "_meta": { "io.modelcontextprotocol/subscriptionId": request["id"] },
                "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["file:///a"] },
            },
        }))
    });
    let client = client(in_process(&peer)).await;
    client.subscribe("file:///a").await.unwrap();
    assert_eq!(client.subscribe("file:///b").await.unwrap_err().kind(), ErrorKind::Unsupported);
    client.subscribe("file:///a").await.unwrap();
    assert_eq!((client.state(), client.status().warnings), (State::Ready, vec![]));
}

#[tokio::test]
async fn another_set_of_resources_replaces_the_stream_when_the_new_one_is_open() {
    for over_http_too in [false, true] {
        let peer = telling();
        let server = HttpPeer::start(&peer).await;
        let client = client(if over_http_too { over_http(&server) } else { in_process(&peer) }).await;
        let mut events = client.events();
        peer.wait_for_stream().await;
        client.subscribe("file:///a").await.unwrap();
        client.subscribe("file:///a").await.unwrap();
        client.subscribe("file:///b").await.unwrap();
        let resources: Vec<Value> =
            filters(&peer).into_iter().map(|mut filter| filter["resourceSubscriptions"].take()).collect();
        assert_eq!(resources, [json!(null), json!(["file:///a"]), json!(["file:///a", "file:///b"])]);
        if over_http_too {
            peer.wait_abandoned(LISTEN).await;
        } else {
            let cancelled = peer.wait_for_nth("notifications/cancelled", 2).await;
            assert_eq!(cancelled["params"]["requestId"], peer.received_of(LISTEN)[1]["id"]);
        }
        peer.push(json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated",
                          "params": { "uri": "file:///b" } }));
        let updated = event(&mut events, EventKind::ResourceUpdated, |_| true).await;
        assert_eq!(updated, json!({ "uri": "file:///b" }));
        client.unsubscribe("file:///b").await.unwrap();
        peer.wait_for_nth(LISTEN, 4).await;
        assert_eq!(filters(&peer)[3]["resourceSubscriptions"], json!(["file:///a"]));
        assert_eq!(peer.complaints(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_refused_wider_stream_leaves_the_narrow_one() {
    let peer = telling().on(LISTEN, |request, context| {
        if request["params"]["notifications"]["resourceSubscriptions"].is_array() {
            return Reply::error(-32602, "no such resource");
        }
        context.usual()
    });
    let client = client(in_process(&peer)).await;
    let mut events = client.events();
    peer.wait_for_stream().await;
    assert_eq!(client.subscribe("file:///x").await.unwrap_err().kind(), ErrorKind::Unsupported);
    peer.replace_tools(["new"]);
    assert_eq!(peer.notify(TOOLS_CHANGED), 1);
    lists_read(&mut events).await;
    assert_eq!(names(&client), ["new"]);
}

#[tokio::test]
async fn closing_tells_the_server_that_the_stream_is_not_wanted_any_more() {
    let peer = telling();
    let in_memory = client(in_process(&peer)).await;
    peer.wait_for_stream().await;
    in_memory.close().await;
    let cancelled = peer.wait_for("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], peer.received_of(LISTEN)[0]["id"]);

    let peer = telling();
    let server = HttpPeer::start(&peer).await;
    let http = client(over_http(&server)).await;
    peer.wait_for_stream().await;
    http.close().await;
    peer.wait_abandoned(LISTEN).await;
    assert_eq!(peer.count("notifications/cancelled"), 0);
}

#[tokio::test(start_paused = true)]
async fn b047_a_request_timeout_does_not_end_a_silent_stream() {
    let peer = telling();
    let client = client(in_process(&peer).request_timeout(Duration::from_secs(1))).await;
    let mut events = client.events();
    peer.wait_for_stream().await;
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    peer.replace_tools(["new"]);
    assert_eq!(peer.notify(TOOLS_CHANGED), 1);
    lists_read(&mut events).await;
    assert_eq!((names(&client), peer.count(LISTEN)), (vec!["new".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn after_a_loss_the_subscriptions_are_there_again_and_count_as_updated() {
    let peer = telling();
    let client = client(in_process(&peer)).await;
    client.subscribe("file:///a").await.unwrap();
    let mut events = client.events();
    peer.cut_streams();
    event(&mut events, EventKind::Reconnect, |_| true).await;
    let updated = event(&mut events, EventKind::ResourceUpdated, |_| true).await;
    assert_eq!(updated, json!({ "uri": "file:///a" }));
    assert_eq!(filters(&peer).last().unwrap()["resourceSubscriptions"], json!(["file:///a"]));
    assert_eq!(client.state(), State::Ready);
}
