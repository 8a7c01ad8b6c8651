//! Sessions with legacy servers over restarts: taken up again, replaced, renewed, and ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use http::Method;
use serde_json::{Value, json};
use switchboard::event::{Event, EventKind, Payload};
use switchboard::store::record::{self, CatalogueRecord, ServerRecord};
use switchboard::store::{MemoryStore, Prefix, Store};
use switchboard::{Filter, Manager, ServerId, State};
use switchboard_testing::{HttpPeer, HttpReply, HttpRequest, Peer};

use crate::fixture::{life, next_life, over_http, ready};

fn id() -> ServerId {
    "peer".parse().unwrap()
}

fn instance() -> Prefix {
    Prefix::root().join("instances").join("default")
}

/// The session id that is stored.
async fn stored(store: &Arc<MemoryStore>) -> Option<String> {
    let key = ServerRecord::place(&instance()).key("peer");
    let record = record::read::<ServerRecord>(&**store, &key).await.unwrap()?.document.unwrap();
    Some(record.session?.id.expose().clone())
}

/// Waits until this session id is stored, or none.
async fn until_stored(store: &Arc<MemoryStore>, wanted: Option<&str>) {
    let mut changes = store.watch(&instance());
    let reached = async {
        while stored(store).await.as_deref() != wanted {
            changes.next().await.unwrap();
        }
    };
    let is_reached = tokio::time::timeout(Duration::from_secs(20), reached).await.is_ok();
    assert!(is_reached, "{:?} is stored, not {wanted:?}", stored(store).await);
}

/// A life that registers the server and ends as by `kill -9`, once all is written.
async fn killed_life(store: &Arc<MemoryStore>, server: &HttpPeer) {
    let mut changes = store.watch(&CatalogueRecord::place(&instance()));
    let manager = life(store).await;
    ready(&manager, over_http(server)).await;
    changes.next().await.unwrap();
    until_stored(store, Some("session-1")).await;
    drop(manager);
}

/// What the events say of sessions.
fn news(manager: &Manager) -> Vec<String> {
    let states = manager.events_since(0).0.into_iter().filter_map(|event: Event| match event.payload {
        Payload::Value(payload) if event.kind == EventKind::Session => payload["state"].as_str().map(str::to_owned),
        _ => None,
    });
    states.collect()
}

fn of_session(request: &HttpRequest) -> Option<&str> {
    request.header("mcp-session-id")
}

fn tools(manager: &Manager) -> Vec<String> {
    manager.tools(&Filter::all()).iter().map(|entry| entry.tool.name().to_owned()).collect()
}

#[tokio::test]
async fn a_session_that_a_killed_process_left_is_taken_up_without_a_handshake() {
    let peer = Peer::legacy().tool("echo").instructions("be kind").announces_changes();
    let server = HttpPeer::start(peer).await;
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    let before = server.requests().len();

    let second = next_life(&store).await;
    let status = second.status(&id()).unwrap();
    assert_eq!((status.state, status.stale), (State::Ready, false));
    assert_eq!(status.protocol_version.as_deref(), Some("2025-11-25"));
    assert_eq!(status.instructions.as_deref(), Some("be kind"));
    assert_eq!(status.capabilities.unwrap().to_value()["tools"], json!({"listChanged": true}));
    assert_eq!(status.server_info.unwrap().to_value()["name"], "fake-peer");
    assert_eq!(news(&second), ["resumed"]);
    let stream = server.wait_for_request(2, |request| request.method == Method::GET).await;
    assert_eq!(of_session(&stream), Some("session-1"));
    let since = server.requests().split_off(before);
    assert!(since.iter().all(|request| of_session(request) == Some("session-1")), "{since:?}");
    assert!(since.iter().all(|request| request.header("mcp-protocol-version") == Some("2025-11-25")));
    assert_eq!((server.count("initialize"), server.count("notifications/initialized")), (1, 1));

    server.replace_tools(["new"]);
    server.wait_for_stream().await;
    let mut events = second.events();
    server.notify("notifications/tools/list_changed");
    while tools(&second) != ["new"] {
        events.next().await.unwrap();
    }
    let mut ids: Vec<Value> = server.received().iter().map(|message| message["id"].clone()).collect();
    ids.retain(|id| !id.is_null());
    let count = ids.len();
    ids.sort_by_key(ToString::to_string);
    ids.dedup();
    assert_eq!(ids.len(), count, "no id is used twice in a session");
    assert_eq!(server.complaints(), Vec::<String>::new());
}

#[tokio::test]
async fn b003_a_stored_session_that_the_server_does_not_know_is_replaced_at_once() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    server.forget_sessions();
    server.replace_tools(["today"]);

    let second = next_life(&store).await;
    assert_eq!(second.status(&id()).unwrap().state, State::Ready);
    assert_eq!((tools(&second), news(&second)), (vec!["today".to_owned()], vec!["replaced".to_owned()]));
    assert_eq!(server.count("initialize"), 2);
    let listed = server.requests_of("tools/list");
    let listed: Vec<_> = listed.iter().map(of_session).collect();
    assert_eq!(listed, [Some("session-1"), Some("session-1"), Some("session-2")], "rediscovered once");
    assert_eq!(server.count("server/discover"), 1, "a server that says so plainly is what it was taken for");
    until_stored(&store, Some("session-2")).await;
}

#[tokio::test]
async fn b003_a_session_that_was_refused_is_forgotten_also_when_no_new_one_can_be_had() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    server.forget_sessions();
    let server = server.on_http(|request| request.calls("initialize").then(|| HttpReply::status(503)));
    let second = life(&store).await;
    server.wait_for_nth("initialize", 2).await;
    until_stored(&store, None).await;
    drop(second);
}

#[tokio::test]
async fn b003_an_error_whose_code_happens_to_be_404_replaces_nothing() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    let server = server.on_http(|request| {
        let answer = json!({"jsonrpc": "2.0", "id": request.id(), "error": {"code": 404, "message": "no such tenant"}});
        request.calls("tools/list").then(|| HttpReply::json(&answer))
    });
    let second = next_life(&store).await;
    let status = second.status(&id()).unwrap();
    assert_eq!(status.state, State::Ready);
    assert!(status.warnings.iter().any(|warning| warning.message.contains("no such tenant")), "{:?}", status.warnings);
    assert_eq!((server.count("initialize"), news(&second)), (1, vec!["resumed".to_owned()]));
    assert_eq!(stored(&store).await.as_deref(), Some("session-1"));
}

fn refusal(code: i64, id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
}

#[tokio::test]
async fn any_doubt_about_a_stored_session_replaces_it() {
    let answers: [fn(Value) -> HttpReply; 5] = [
        |_| HttpReply::status(400),
        |_| HttpReply::status(410),
        |_| HttpReply::html(200, "<p>hi"),
        |id| HttpReply::json(&refusal(-32_000, &id)).with_status(400),
        |id| HttpReply::json(&refusal(-32_600, &id)),
    ];
    for answer in answers {
        let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
        let store = Arc::new(MemoryStore::new());
        killed_life(&store, &server).await;
        let server = server.on_http(move |request| {
            let is_old = of_session(request) == Some("session-1");
            (is_old && request.calls("tools/list")).then(|| answer(request.id()))
        });
        let second = next_life(&store).await;
        assert_eq!(second.status(&id()).unwrap().state, State::Ready);
        assert_eq!((server.count("initialize"), news(&second)), (2, vec!["replaced".to_owned()]));
        until_stored(&store, Some("session-2")).await;
    }
}

#[tokio::test]
async fn a_server_that_changed_its_era_overnight_ends_ready() {
    let is_modern = Arc::new(AtomicBool::new(false));
    let turned = is_modern.clone();
    let server = HttpPeer::start(Peer::both().tool("echo")).await.on_http(move |request| {
        let is_modern = turned.load(Ordering::SeqCst);
        let is_refused = if is_modern { of_session(request).is_some() } else { request.calls("server/discover") };
        is_refused.then(|| HttpReply::status(400))
    });
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    is_modern.store(true, Ordering::SeqCst);
    let second = next_life(&store).await;
    let status = second.status(&id()).unwrap();
    assert_eq!((status.state, status.protocol_version.as_deref()), (State::Ready, Some("2026-07-28")));
    until_stored(&store, None).await;
}

#[tokio::test]
async fn a_server_that_changed_its_version_overnight_ends_ready() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    server.forget_sessions();
    let _ = server.peer().clone().protocol_version("2025-06-18");
    let second = next_life(&store).await;
    let status = second.status(&id()).unwrap();
    assert_eq!((status.state, status.protocol_version.as_deref()), (State::Ready, Some("2025-06-18")));
}

#[tokio::test]
async fn an_end_in_good_order_ends_the_session_and_forgets_it_when_the_server_agrees() {
    for status in [200, 204, 404, 410, 405, 500] {
        let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
        let server = server
            .on_http(move |request| (request.method == Method::DELETE).then(|| HttpReply::usual().with_status(status)));
        let store = Arc::new(MemoryStore::new());
        let first = life(&store).await;
        ready(&first, over_http(&server)).await;
        assert!(first.shutdown(Duration::from_secs(1)).await.is_clean());
        let end = server.wait_for_request(1, |request| request.method == Method::DELETE).await;
        assert_eq!((of_session(&end), end.header("mcp-protocol-version")), (Some("session-1"), Some("2025-11-25")));
        let is_kept = matches!(status, 405 | 500);
        assert_eq!(stored(&store).await.is_some(), is_kept, "{status}");
        // The peer has forgotten the session, whatever it said.
        let second = next_life(&store).await;
        assert_eq!(second.status(&id()).unwrap().state, State::Ready);
        assert_eq!(news(&second), if is_kept { vec!["replaced".to_owned()] } else { vec![] }, "{status}");
    }
}

#[tokio::test]
async fn a_session_that_the_server_does_not_end_is_taken_up_by_the_next_start() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let server = server.on_http(|request| (request.method == Method::DELETE).then(|| HttpReply::status(405)));
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    ready(&first, over_http(&server)).await;
    first.shutdown(Duration::from_secs(1)).await;
    let second = next_life(&store).await;
    assert_eq!((news(&second), server.count("initialize")), (vec!["resumed".to_owned()], 1));
}

#[tokio::test]
async fn a_manager_that_connects_nothing_leaves_a_stored_session_alone() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    let before = server.requests().len();
    let idle = Manager::builder("test", "1").shared_store(store.clone()).start_offline().await.unwrap();
    idle.shutdown(Duration::from_secs(1)).await;
    assert_eq!(server.requests().len(), before);
    assert_eq!(stored(&store).await.as_deref(), Some("session-1"));
}

#[tokio::test]
async fn a_changed_registration_never_takes_a_session_up() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    let before = server.requests().len();
    let second = Manager::builder("test", "1").shared_store(store.clone()).start_offline().await.unwrap();
    ready(&second, over_http(&server).header("x-tenant", "other").unwrap()).await;
    let since = server.requests().split_off(before);
    assert!(since.iter().all(|request| of_session(request) != Some("session-1")), "{since:?}");
    assert_eq!(server.count("initialize"), 2);
    until_stored(&store, Some("session-2")).await;
    second.remove(&id()).await.unwrap();
    assert_eq!(stored(&store).await, None);
}

#[tokio::test]
async fn too_little_known_of_a_server_means_a_handshake() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    killed_life(&store, &server).await;
    let key = CatalogueRecord::place(&instance()).key("peer");
    store.delete(&key, switchboard::store::Expect::Any).await.unwrap();
    let second = next_life(&store).await;
    assert_eq!((second.status(&id()).unwrap().state, server.count("initialize")), (State::Ready, 2));
    assert_eq!(news(&second), Vec::<String>::new());
}

#[tokio::test]
async fn a_session_that_is_lost_while_it_lives_is_renewed() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    let manager = life(&store).await;
    ready(&manager, over_http(&server)).await;
    server.forget_sessions();
    manager.discover(&id()).await.unwrap();
    assert_eq!(manager.wait_settled(Duration::from_secs(20)).await, []);
    assert_eq!((manager.status(&id()).unwrap().state, server.count("initialize")), (State::Ready, 2));
    assert_eq!(news(&manager), ["renewed"]);
    until_stored(&store, Some("session-2")).await;
}
