//! Whether a server is still there: asked without a reason every now and then, and with one at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use switchboard::event::{EventKind, EventStream};
use switchboard::{Client, ServerSpec, State};
use switchboard_testing::{Gate, HttpPeer, HttpReply, Peer, Reply, Tool};

use crate::fixture::{client, in_process, over_http};

const BEAT: Duration = Duration::from_secs(30);

/// The same server, asked every half minute; an answer has five seconds.
fn beating(mut spec: ServerSpec) -> ServerSpec {
    spec.timeouts.heartbeat = BEAT;
    spec.timeouts.probe = Duration::from_secs(5);
    spec
}

/// A legacy peer that does not answer these methods while the switch is on.
fn silenced(methods: &[&str], switch: &Arc<AtomicBool>) -> Peer {
    methods.iter().fold(Peer::legacy().tool("echo"), |peer, method| {
        let switch = switch.clone();
        peer.on(method, move |_, context| if switch.load(Ordering::SeqCst) { Reply::stall() } else { context.usual() })
    })
}

async fn next_of(events: &mut EventStream, kind: EventKind) {
    while events.next().await.unwrap().kind != kind {}
}

async fn until(client: &Client, wanted: State) {
    let mut events = client.events();
    while client.state() != wanted {
        events.next().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_is_noticed_by_the_heartbeat_and_connected_anew() {
    let switch = Arc::new(AtomicBool::new(false));
    let peer = silenced(&["ping", "tools/list"], &switch);
    let client = client(beating(in_process(&peer))).await;
    peer.wait_for("ping").await;
    assert_eq!((client.state(), peer.count("initialize")), (State::Ready, 1));
    let mut events = client.events();
    switch.store(true, Ordering::SeqCst);
    peer.wait_for_nth("tools/list", 2).await;
    while client.state() == State::Ready {
        events.next().await.unwrap();
    }
    switch.store(false, Ordering::SeqCst);
    next_of(&mut events, EventKind::Reconnect).await;
    until(&client, State::Ready).await;
    assert_eq!(peer.count("initialize"), 2);
}

#[tokio::test(start_paused = true)]
async fn b051_a_server_that_never_answers_ping_is_asked_another_way_and_kept() {
    let peer = silenced(&["ping"], &Arc::new(AtomicBool::new(true)));
    let client = client(beating(in_process(&peer))).await;
    for beat in 1..=10 {
        peer.wait_for_nth("ping", beat).await;
    }
    assert_eq!((client.state(), peer.count("initialize")), (State::Ready, 1));
    assert!(peer.count("tools/list") >= 10, "the second question");
}

#[tokio::test(start_paused = true)]
async fn the_next_heartbeat_is_waited_for_only_when_the_last_was_answered() {
    let peer = Peer::legacy().tool("echo").on("ping", |_, context| context.usual().delay(Duration::from_secs(4)));
    let _client = client(beating(in_process(&peer))).await;
    peer.wait_for("ping").await;
    let first = tokio::time::Instant::now();
    peer.wait_for_nth("ping", 6).await;
    let five = first.elapsed();
    let expected = 5 * (BEAT + Duration::from_secs(4));
    assert!(five >= expected && five < expected + Duration::from_secs(1), "{five:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_beats_while_it_is_closed() {
    let peer = Peer::legacy().tool("echo");
    let client = client(beating(in_process(&peer))).await;
    peer.wait_for_nth("ping", 2).await;
    client.close().await;
    let before = peer.received().len();
    tokio::time::advance(20 * BEAT).await;
    tokio::task::yield_now().await;
    assert_eq!((peer.received().len(), client.state()), (before, State::Closed));
    client.call("echo", None).await.unwrap();
    let pings = peer.count("ping");
    peer.wait_for_nth("ping", pings + 1).await;
}

#[tokio::test]
async fn a_probe_that_fails_reports_what_made_it_ask() {
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = is_cut.clone();
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await.without_sessions().on_http(move |request| {
        if request.calls("tools/call") {
            cut.store(true, Ordering::SeqCst);
        }
        cut.load(Ordering::SeqCst).then(|| match request.rpc_method().as_deref() {
            Some("tools/call") => HttpReply::cut(),
            _ => HttpReply::status(502),
        })
    });
    let client = client(over_http(&server)).await;
    let mut events = client.events();
    client.call("echo", None).await.unwrap_err();
    while client.state() == State::Ready {
        events.next().await.unwrap();
    }
    let failure = client.status().error_detail.unwrap();
    let whole = format!("{}: {}", failure.message, failure.causes.join(": "));
    assert!(whole.contains("lost") && !whole.contains("502"), "{whole}");
    assert_eq!(failure.code, "connection_lost");
}

#[tokio::test(start_paused = true)]
async fn a_probe_under_way_is_the_only_one_and_a_silent_server_is_dropped_once() {
    let switch = Arc::new(AtomicBool::new(false));
    let peer = silenced(&["ping", "tools/list"], &switch);
    let client = client(beating(in_process(&peer))).await;
    switch.store(true, Ordering::SeqCst);
    let mut events = client.events();
    peer.wait_for("ping").await;
    while client.state() == State::Ready {
        events.next().await.unwrap();
    }
    assert_eq!((peer.count("ping"), peer.count("initialize")), (1, 1), "one probe, and then one drop");
    switch.store(false, Ordering::SeqCst);
    until(&client, State::Ready).await;
    assert_eq!(peer.count("initialize"), 2);
}

#[tokio::test]
async fn b049_a_ping_is_answered_while_a_call_is_under_way() {
    let gate = Gate::new();
    let held = gate.clone();
    let slow = Tool::new("slow").answers(move |_, _| Reply::text("at last").when(&held));
    let peer = Peer::legacy().tool(slow);
    let server = HttpPeer::start(&peer).await;
    for spec in [in_process(&peer), over_http(&server)] {
        let client = client(spec).await;
        peer.wait_for_stream().await;
        let calls = peer.count("tools/call");
        let pinged = async {
            peer.wait_for_nth("tools/call", calls + 1).await;
            for id in [json!(7000 + calls), json!(format!("seven-{calls}"))] {
                peer.push(json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
                assert_eq!(peer.wait_for_response(id).await["result"], json!({}));
            }
            gate.open();
        };
        let (answer, ()) = tokio::join!(client.call("slow", None), pinged);
        answer.unwrap();
        client.close().await;
    }
}
