//! Faults that other clients of this kind were seen to have, each injected here, each with the opposite outcome.
//!
//! Those that belong to a room of their own stand there:
//!
//! | fault | tests |
//! |---|---|
//! | a session that ends while it is used, or over a restart | `calls`, `sessions` |
//! | lists: one fails, one never answers, cursors without an end, answers that come too late | `lists` |
//! | a listen stream that ends, templates that are not read again, a list that is fresh | `listen`, `notices` |
//! | a fallback to another transport decided by words, the first error lost | `legacy_sse` |
//! | a DELETE that hangs, a server that cannot be removed | `closing` |
//! | a corrupt record, a start that waits for a server | `restore`, `startup` |
//! | tool keys that no model takes | the unit tests of `catalogue/naming.rs` |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::event::{Event, EventKind};
use switchboard::manager::CallLimits;
use switchboard::spec::Retry;
use switchboard::{Added, Client, ErrorKind, Filter, Manager, ServerId, State, ToolCall};
use switchboard_testing::{Gate, GetStream, HttpPeer, HttpReply, Peer, Reply};

use crate::fixture::{in_process, manager, over_http, ready, text};

fn id() -> ServerId {
    "peer".parse().unwrap()
}

/// What the server was asked, in order: JSON-RPC methods, and `GET` for its own stream.
fn asked(server: &HttpPeer) -> Vec<String> {
    let word = |request: &switchboard_testing::HttpRequest| request.rpc_method().unwrap_or(request.method.to_string());
    server.requests().iter().map(word).collect()
}

/// A server that can be told to let nobody in any more.
async fn guarded(peer: Peer) -> (HttpPeer, Arc<AtomicBool>) {
    let is_shut = Arc::new(AtomicBool::new(false));
    let shut = is_shut.clone();
    let server = HttpPeer::start(peer).await.on_http(move |_| {
        shut.load(Ordering::SeqCst).then(|| HttpReply::status(401).header("www-authenticate", "Bearer"))
    });
    (server, is_shut)
}

#[tokio::test]
async fn a_legacy_connect_asks_in_the_order_of_the_specification() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await.get_stream(GetStream::Open);
    let manager = manager().await;
    ready(&manager, over_http(&server)).await;
    server.wait_for_request(1, |request| request.method == "GET").await;
    let asked = asked(&server);
    assert_eq!(asked[..3], ["server/discover", "initialize", "notifications/initialized"]);
    let mut rest = asked[3..].to_vec();
    rest.sort();
    assert_eq!(rest, ["GET", "tools/list"], "the server's own stream and the lists");
}

#[tokio::test]
async fn a_modern_request_names_its_revision_and_method_and_no_session() {
    let server = HttpPeer::start(Peer::modern().tool("echo")).await;
    let manager = manager().await;
    ready(&manager, over_http(&server)).await;
    assert_eq!(asked(&server).first().map(String::as_str), Some("server/discover"));
    for request in server.requests() {
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("mcp-method"), request.rpc_method().as_deref());
        assert_eq!(request.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn a_sign_in_that_is_needed_in_mid_session_shows_in_the_state_and_costs_no_catalogue() {
    for peer in [Peer::modern().tool("echo"), Peer::legacy().tool("echo")] {
        let (server, is_shut) = guarded(peer).await;
        let manager = manager().await;
        ready(&manager, over_http(&server)).await;
        is_shut.store(true, Ordering::SeqCst);
        let error = manager.call(ToolCall::new(id(), "echo")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SignInRequired);
        manager.wait_settled(Duration::from_secs(20)).await;
        let status = manager.status(&id()).unwrap();
        assert_eq!((status.state, status.stale), (State::Authenticating, true));
        assert_eq!(manager.tools(&Filter::all()).len(), 1, "the last known catalogue stays");
        let asked_before = server.requests().len();
        let error = manager.call(ToolCall::new(id(), "echo")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SignInRequired, "the next one answers at once");
        assert_eq!(server.requests().len(), asked_before, "a server that waits for a person is left alone");
    }
}

#[tokio::test]
async fn a_connect_that_fails_says_so_in_its_result_and_in_the_status() {
    let server = HttpPeer::start(Peer::both()).await.on_http(|_| Some(HttpReply::html(500, "<h1>Out of order</h1>")));
    let manager = manager().await;
    let Added::Failed { error, .. } = manager.add(over_http(&server)).await.unwrap() else { panic!("it connected") };
    let status = manager.status(&id()).unwrap();
    let detail = status.error_detail.unwrap();
    assert_eq!((status.state, detail.code.as_str()), (State::Failed, error.kind().code()));
    assert!(status.error.unwrap().contains("Out of order"), "the server's own words, without its HTML");
}

#[tokio::test]
async fn a_server_that_wants_a_sign_in_has_one_state_wherever_it_is_asked_for() {
    let (server, is_shut) = guarded(Peer::both()).await;
    is_shut.store(true, Ordering::SeqCst);
    let manager = manager().await;
    let added = manager.add(over_http(&server)).await.unwrap();
    assert_eq!(added.state(), State::Authenticating);
    assert_eq!(manager.status(&id()).unwrap().state, State::Authenticating);
    assert_eq!(manager.servers().servers[0].1.state, State::Authenticating);
}

#[tokio::test]
async fn two_discoveries_at_once_both_succeed() {
    let gate = Gate::new();
    let held = gate.clone();
    let peer = Peer::both().tool("echo");
    let manager = manager().await;
    ready(&manager, in_process(&peer)).await;
    let _ = peer.clone().on("tools/list", move |_, context| context.usual().when(&held));
    let id = id();
    let (first, second) = (manager.discover(&id), manager.discover(&id));
    let opening = async {
        peer.wait_for_nth("tools/list", 2).await;
        gate.open();
    };
    let (first, second, ()) = tokio::join!(first, second, opening);
    assert_eq!((first.unwrap().state(), second.unwrap().state()), (State::Ready, State::Ready));
    assert!(peer.count("tools/list") <= 3, "one running and one waiting");
}

#[tokio::test]
async fn one_list_that_fails_leaves_the_others_whatever_the_code() {
    for code in [-32603, -32601, -32000, 404] {
        let peer = Peer::both().tool("echo").prompt("greet").on("prompts/list", move |_, _| Reply::error(code, "no"));
        let client = Client::connect(in_process(&peer)).await.unwrap();
        assert_eq!((client.state(), client.tools().len(), client.prompts().len()), (State::Ready, 1, 0), "{code}");
    }
}

#[tokio::test]
async fn the_first_connect_is_tried_again_too_and_obeys_the_server() {
    let peer = Peer::both().tool("echo");
    let first = AtomicBool::new(true);
    let server = HttpPeer::start(&peer).await.on_http(move |_| {
        first.swap(false, Ordering::SeqCst).then(|| HttpReply::status(503).header("retry-after", "1"))
    });
    let manager = manager().await;
    let began = std::time::Instant::now();
    ready(&manager, over_http(&server).retry(Retry::attempts(2))).await;
    assert!(began.elapsed() >= Duration::from_secs(1), "the server asked for a second");
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused_when_they_are_given() {
    let manager = manager().await;
    let peer = Peer::both();
    let mut spec = in_process(&peer);
    spec.retry.max_attempts = 0;
    assert!(manager.register(spec).await.unwrap_err().is_invalid_input());
    assert!(manager.servers().servers.is_empty());
}

/// The kinds of the events of one server, without repetition of neighbours.
fn kinds(events: &[Event]) -> Vec<EventKind> {
    let mut kinds: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
    kinds.dedup();
    kinds
}

#[tokio::test]
async fn every_change_in_a_servers_life_is_an_event_and_none_holds_a_content() {
    let peer = Peer::legacy().tool("echo").announces_changes();
    let server = HttpPeer::start(&peer).await.get_stream(GetStream::Open);
    let manager = manager().await;
    ready(&manager, over_http(&server)).await;
    let arguments: switchboard::wire::Json = r#"{"password":"hunter2"}"#.parse().unwrap();
    manager.call(ToolCall::new(id(), "echo").arguments(arguments)).await.unwrap();

    server.stop().await;
    let limits = CallLimits::new(None, Some(Duration::from_secs(1)));
    let error = manager.call(ToolCall::new(id(), "echo").limits(limits)).await.unwrap_err();
    assert_eq!(error.data().maybe_ran, Some(false), "{error:?}");
    server.start_again().await;
    let limits = CallLimits::new(Some(Duration::from_secs(30)), None);
    manager.call(ToolCall::new(id(), "echo").limits(limits)).await.unwrap();
    manager.wait_settled(Duration::from_secs(20)).await;
    manager.close(&id()).await.unwrap();
    manager.remove(&id()).await.unwrap();

    let (events, _) = manager.events_since(0);
    let kinds = kinds(&events);
    for kind in [
        EventKind::Register,
        EventKind::Preconnect,
        EventKind::Connect,
        EventKind::State,
        EventKind::Discover,
        EventKind::Call,
        EventKind::Lost,
        EventKind::Reconnect,
        EventKind::Close,
        EventKind::Remove,
    ] {
        assert!(kinds.contains(&kind), "no {kind:?} in {kinds:?}");
    }
    let calls: Vec<Value> = events
        .iter()
        .filter(|event| event.kind == EventKind::Call)
        .map(|event| serde_json::to_value(&event.payload).unwrap())
        .collect();
    assert_eq!((&calls[0]["outcome"], &calls[0]["name"]), (&json!("ok"), &json!("echo")));
    assert!(calls[0]["durationMs"].is_number() && calls[0]["bytes"].is_number());
    assert!(!serde_json::to_string(&events).unwrap().contains("hunter2"));
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
}

#[tokio::test]
async fn a_connection_that_broke_is_not_said_to_be_ready() {
    let peer = Peer::both().tool("echo").announces_changes();
    let manager = manager().await;
    ready(&manager, in_process(&peer)).await;
    peer.wait_for_stream().await;
    let mut events = manager.events();
    peer.cut_streams();
    let seen = async {
        while let Some(event) = events.next().await {
            if event.kind == EventKind::Lost {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), seen).await.expect("the loss was not noticed");
    assert_ne!(manager.status(&id()).unwrap().state, State::Ready);
    let result = manager.call(ToolCall::new(id(), "echo")).await.unwrap();
    assert_eq!(text(&result), "{}", "the next call waits for the way back");
}

#[tokio::test]
async fn a_start_waits_for_nobody_and_says_who_is_missing() {
    let store = Arc::new(switchboard::store::MemoryStore::new());
    let silent = HttpPeer::start(Peer::both()).await.on_http(|_| Some(HttpReply::hang()));
    let builder = || Manager::builder("test", "1").shared_store(store.clone());
    let first = builder().start_offline().await.unwrap();
    first.register(over_http(&silent)).await.unwrap();
    first.shutdown(Duration::ZERO).await;
    let manager = builder().start().await.unwrap();
    assert_eq!(manager.wait_settled(Duration::ZERO).await, [id()], "the start waited for nobody");
}

#[tokio::test(start_paused = true)]
async fn a_call_before_the_tools_are_known_is_not_told_that_there_is_none() {
    let peer = Peer::both().tool("echo").on("tools/list", |_, _| Reply::stall());
    let manager = manager().await;
    let (_, id) = manager.register(in_process(&peer)).await.unwrap();
    let limits = CallLimits::new(None, Some(Duration::from_millis(200)));
    let error = manager.call(ToolCall::new(id, "echo").limits(limits)).await.unwrap_err();
    assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::NotReady, Some(false)), "{error}");
}
