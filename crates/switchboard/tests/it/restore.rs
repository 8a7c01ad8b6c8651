//! The next day: what is remembered of servers, what is asked again, and what happens when it is wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::spec::Retry;
use switchboard::status::ListState;
use switchboard::store::record::{CatalogueRecord, ServerRecord};
use switchboard::store::{Expect, MemoryStore, Prefix, Store};
use switchboard::{Added, ErrorKind, Filter, Manager, ServerId, ServerSpec, State, ToolCall};
use switchboard_testing::{Gate, HttpPeer, HttpReply, HttpRequest, Peer, Reply, Resource};

use crate::fixture::{life, next_life, over_http, ready, text};

async fn end(manager: Manager) {
    manager.shutdown(Duration::from_secs(1)).await;
}

fn peer_id() -> ServerId {
    "peer".parse().unwrap()
}

fn tool_names(manager: &Manager) -> Vec<String> {
    manager.tools(&Filter::all()).iter().map(|entry| entry.tool.name().to_owned()).collect()
}

/// Whether an `add` says that a person must sign in.
fn asks_to_sign_in(added: &Added) -> bool {
    added.state() == State::Authenticating
}

#[tokio::test]
async fn b175_a_server_that_waits_for_a_sign_in_says_so_before_and_after_a_restart() {
    let server = HttpPeer::start(Peer::both().tool("echo"))
        .await
        .on_http(|_| Some(HttpReply::status(401).header("www-authenticate", "Bearer")));
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    assert!(asks_to_sign_in(&first.add(over_http(&server)).await.unwrap()));
    assert_eq!(first.status(&peer_id()).unwrap().state, State::Authenticating);
    end(first).await;

    let second = next_life(&store).await;
    assert_eq!(second.status(&peer_id()).unwrap().state, State::Authenticating);
    assert!(asks_to_sign_in(&second.add(over_http(&server)).await.unwrap()));
    let status = second.status(&peer_id()).unwrap();
    assert_eq!(status.state, State::Authenticating);
    assert_eq!(status.error_detail.unwrap().code, "sign_in_required");
    let error = second.call(ToolCall::new(peer_id(), "echo")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SignInRequired, "a call says so at once");
    assert_eq!(second.registrations().len(), 1);
    end(second).await;
}

#[tokio::test]
async fn b175_a_server_that_lets_us_in_after_the_restart_is_ready() {
    let is_open = Arc::new(AtomicBool::new(false));
    let opened = is_open.clone();
    let server = HttpPeer::start(Peer::both().tool("echo"))
        .await
        .on_http(move |_| (!opened.load(Ordering::SeqCst)).then(|| HttpReply::status(401)));
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    assert!(asks_to_sign_in(&first.add(over_http(&server)).await.unwrap()));
    end(first).await;
    is_open.store(true, Ordering::SeqCst);
    let second = next_life(&store).await;
    let status = second.status(&peer_id()).unwrap();
    assert_eq!((status.state, status.error), (State::Ready, None));
    ready(&second, over_http(&server)).await;
    end(second).await;
}

/// A modern server that says for how long its discover result holds.
fn holding(ttl: Option<u64>) -> Peer {
    Peer::both().tool("echo").on("server/discover", move |_, _| {
        let mut result =
            json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "instructions": "be kind" });
        if let Some(ttl) = ttl {
            result["ttlMs"] = ttl.into();
        }
        Reply::result(result)
    })
}

#[tokio::test]
async fn the_last_known_catalogue_is_shown_while_the_server_hangs() {
    let peer = holding(None)
        .prompt("greet")
        .resource(Resource::text("file:///a", "hello"))
        .template("file:///{x}", "x")
        .capabilities(json!({ "tools": {}, "prompts": {}, "resources": {} }))
        .on("server/discover", |_, context| context.usual());
    let server = HttpPeer::start(peer.instructions("be kind")).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    ready(&first, over_http(&server)).await;
    let before = serde_json::to_value(first.servers()).unwrap();
    end(first).await;

    let gate = Gate::new();
    let held = gate.clone();
    let server = server.on_http(move |_| Some(HttpReply::usual().when(&held)));
    let asked = server.requests().len();
    let second = life(&store).await;
    server.wait_for_request(asked + 1, |_| true).await;
    let status = second.status(&peer_id()).unwrap();
    assert_eq!((status.state, status.stale), (State::Connecting, true));
    assert_eq!(status.instructions.as_deref(), Some("be kind"));
    assert_eq!(status.lists.tools, ListState::Ok);
    let after = serde_json::to_value(second.servers()).unwrap();
    for list in ["tools", "prompts", "resources", "resourceTemplates"] {
        assert_eq!((&after[list], after[list].as_array().unwrap().len()), (&before[list], 1), "{list}");
    }
    assert_eq!(after["servers"]["peer"]["capabilities"], before["servers"]["peer"]["capabilities"]);

    let call = second.call(ToolCall::by_key("tool_peer_echo"));
    let open = async {
        tokio::task::yield_now().await;
        gate.open();
    };
    let (result, ()) = tokio::join!(call, open);
    assert_eq!(text(&result.unwrap()), "{}", "a call of a tool that is shown waits for its server");
    assert_eq!(second.wait_settled(Duration::from_secs(20)).await, []);
    assert!(!second.status(&peer_id()).unwrap().stale);
    end(second).await;
}

#[tokio::test]
async fn what_changed_overnight_takes_the_place_of_what_was_known() {
    let server = HttpPeer::start(Peer::both().tool("old").tool("kept")).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    ready(&first, over_http(&server)).await;
    end(first).await;
    server.replace_tools(["kept", "new"]);
    let second = next_life(&store).await;
    assert_eq!(tool_names(&second), ["kept", "new"]);
    let error = second.call(ToolCall::new(peer_id(), "old")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownTool);
    end(second).await;
}

#[tokio::test]
async fn without_a_connect_the_last_known_catalogue_is_there_and_a_call_opens_it() {
    let server = HttpPeer::start(Peer::both().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    ready(&first, over_http(&server)).await;
    end(first).await;
    let asked = server.requests().len();
    let second = Manager::builder("test", "1").shared_store(store).start_offline().await.unwrap();
    let status = second.status(&peer_id()).unwrap();
    assert_eq!((status.state, status.stale, tool_names(&second)), (State::Closed, true, vec!["echo".to_owned()]));
    assert_eq!(server.requests().len(), asked);
    second.call(ToolCall::by_key("tool_peer_echo")).await.unwrap();
    end(second).await;
}

#[tokio::test]
async fn the_order_of_servers_and_their_tools_is_kept() {
    let server = HttpPeer::start(Peer::both().tool("t")).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    let names = ["m", "z", "a", "k", "b", "y", "c"];
    let spec = |name: &str| ServerSpec::http(name, &server.url()).unwrap().id(name).unwrap();
    for name in names {
        ready(&first, spec(name)).await;
    }
    first.remove(&"k".parse().unwrap()).await.unwrap();
    ready(&first, spec("k")).await;
    end(first).await;
    let expected = ["m", "z", "a", "b", "y", "c", "k"];
    for _ in 0..2 {
        let next = next_life(&store).await;
        let order: Vec<String> = next.servers().servers.into_iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(order, expected);
        let tools: Vec<String> = next.tools(&Filter::all()).into_iter().map(|entry| entry.server.to_string()).collect();
        assert_eq!(tools, expected);
        end(next).await;
    }
}

/// Overwrites a record of the server `peer` in this place.
async fn damage(store: &MemoryStore, place: fn(&Prefix) -> Prefix, bytes: &'static [u8]) {
    let key = place(&Prefix::root().join("instances").join("default")).key("peer");
    assert!(store.get(&key).await.unwrap().is_some(), "it was written");
    store.put(&key, bytes.into(), Expect::Any).await.unwrap();
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_a_failed_server_and_costs_nobody_else() {
    let damages: [&[u8]; 7] = [
        b"",
        b"\xff\x00",
        b"{",
        b"[]",
        b"{\"v\":1,\"data\":{}}",
        b"{\"v\":99,\"data\":{}}",
        b"{\"v\":1,\"data\":{\"position\":0,\"spec\":{\"name\":\"x\",\"url\":\"nonsense\"}}}",
    ];
    for bytes in damages {
        let server = HttpPeer::start(Peer::both().tool("echo")).await;
        let store = Arc::new(MemoryStore::new());
        let first = life(&store).await;
        let other = ServerSpec::http("other", &server.url()).unwrap().id("other").unwrap();
        ready(&first, over_http(&server)).await;
        ready(&first, other).await;
        end(first).await;
        damage(&store, ServerRecord::place, bytes).await;

        let second = next_life(&store).await;
        let status = second.status(&peer_id()).unwrap();
        assert_eq!(status.state, State::Failed);
        assert!(status.error.as_deref().unwrap().contains("cannot be read"), "{:?}", status.error);
        assert_eq!(second.status(&"other".parse().unwrap()).unwrap().state, State::Ready);
        assert_eq!(tool_names(&second), ["echo"]);
        let error = second.call(ToolCall::new(peer_id(), "echo")).await.unwrap_err();
        assert_eq!((error.kind(), error.data().hint.is_some()), (ErrorKind::Store, true), "it says what to do");
        assert_eq!(second.add(over_http(&server)).await.unwrap_err().kind(), ErrorKind::IdInUse);
        assert!(second.remove(&peer_id()).await.unwrap());
        ready(&second, over_http(&server)).await;
        end(second).await;
        let third = next_life(&store).await;
        assert_eq!(third.status(&peer_id()).unwrap().state, State::Ready);
        end(third).await;
    }
}

#[tokio::test]
async fn a_catalogue_that_cannot_be_read_is_only_not_shown() {
    for bytes in [b"".as_slice(), b"{\"v\":99,\"data\":{}}", b"{\"v\":1,\"data\":{\"tools\":5}}"] {
        let server = HttpPeer::start(Peer::both().tool("echo")).await;
        let store = Arc::new(MemoryStore::new());
        let first = life(&store).await;
        ready(&first, over_http(&server)).await;
        end(first).await;
        damage(&store, CatalogueRecord::place, bytes).await;
        let offline = Manager::builder("test", "1").shared_store(store.clone()).start_offline().await.unwrap();
        assert_eq!(tool_names(&offline), Vec::<String>::new());
        end(offline).await;
        let second = next_life(&store).await;
        assert_eq!(tool_names(&second), ["echo"]);
        end(second).await;
    }
}

#[tokio::test]
async fn a_modern_server_is_not_asked_again_what_it_is() {
    for ttl in [None, Some(3_600_000)] {
        let server = HttpPeer::start(holding(ttl)).await;
        let store = Arc::new(MemoryStore::new());
        let first = life(&store).await;
        ready(&first, over_http(&server)).await;
        end(first).await;
        for lives in 2..=4 {
            let next = next_life(&store).await;
            let status = next.status(&peer_id()).unwrap();
            assert_eq!((status.state, status.instructions.as_deref()), (State::Ready, Some("be kind")));
            assert_eq!(status.protocol_version.as_deref(), Some("2026-07-28"));
            assert_eq!((server.count("server/discover"), server.count("tools/list")), (1, lives));
            next.call(ToolCall::by_key("tool_peer_echo")).await.unwrap();
            end(next).await;
        }
        assert_eq!(server.count("initialize"), 0);
    }
}

#[tokio::test]
async fn a_modern_server_whose_answer_no_longer_holds_is_asked_once_more() {
    let server = HttpPeer::start(holding(Some(0))).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    ready(&first, over_http(&server)).await;
    end(first).await;
    let second = next_life(&store).await;
    assert_eq!((server.count("server/discover"), server.count("initialize")), (2, 0));
    end(second).await;
}

#[tokio::test]
async fn a_legacy_server_goes_straight_to_the_handshake() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    ready(&first, over_http(&server)).await;
    end(first).await;
    for lives in 2..=3 {
        let next = next_life(&store).await;
        assert_eq!(next.status(&peer_id()).unwrap().state, State::Ready);
        assert_eq!((server.count("server/discover"), server.count("initialize")), (1, lives));
        end(next).await;
    }
}

fn is_modern(request: &HttpRequest) -> bool {
    request.json().is_some_and(|body| body["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_some())
}

/// A server over HTTP whose era is that of its first life until the switch is thrown, and the other one from then on.
/// What is of the wrong era is answered by `refusal`, which gets the request's id.
async fn turning(
    from_modern: bool,
    refusal: impl Fn(&Value) -> HttpReply + Send + Sync + 'static,
) -> (HttpPeer, Arc<AtomicBool>) {
    let has_turned = Arc::new(AtomicBool::new(false));
    let turned = has_turned.clone();
    let server = HttpPeer::start(holding(None)).await.on_http(move |request| {
        let wants_modern = from_modern != turned.load(Ordering::SeqCst);
        let is_wrong = request.method == "POST" && is_modern(request) != wants_modern;
        is_wrong.then(|| refusal(&request.id()))
    });
    (server, has_turned)
}

fn rpc(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

/// How servers refuse what is not of their era.
fn refusals() -> Vec<fn(&Value) -> HttpReply> {
    vec![
        |id| HttpReply::json(&rpc(id, -32000, "Bad Request: Mcp-Session-Id header is required")).with_status(400),
        |id| HttpReply::json(&rpc(id, -32602, "Received request before initialization was complete")),
        |id| HttpReply::json(&rpc(id, -32601, "Method not found")),
        |id| HttpReply::json(&rpc(id, -32601, "Method not found")).with_status(404),
        |_| HttpReply::status(400),
        |_| HttpReply::status(404),
        |_| HttpReply::html(405, "<h1>no</h1>"),
        |_| HttpReply::event_stream([""]),
    ]
}

#[tokio::test]
async fn a_server_that_changed_its_era_overnight_is_asked_anew_and_ends_ready() {
    for (from_modern, version) in [(true, "2025-11-25"), (false, "2026-07-28")] {
        for (number, refusal) in refusals().into_iter().enumerate() {
            let (server, has_turned) = turning(from_modern, refusal).await;
            let store = Arc::new(MemoryStore::new());
            let first = life(&store).await;
            ready(&first, over_http(&server)).await;
            end(first).await;
            has_turned.store(true, Ordering::SeqCst);
            let second = next_life(&store).await;
            let status = second.status(&peer_id()).unwrap();
            assert_eq!(
                (status.state, status.protocol_version.as_deref()),
                (State::Ready, Some(version)),
                "{number}: {:?}",
                status.error
            );
            assert_eq!((status.lists.tools, tool_names(&second).len()), (ListState::Ok, 1), "{number}");
            second.call(ToolCall::by_key("tool_peer_echo")).await.unwrap();
            end(second).await;

            let asked = (server.count("server/discover"), server.count("initialize"));
            let third = next_life(&store).await;
            let again = (server.count("server/discover"), server.count("initialize"));
            let expected = if from_modern { (asked.0, asked.1 + 1) } else { asked };
            assert_eq!(again, expected, "the new verdict is remembered: {number}");
            end(third).await;
        }
    }
}

#[tokio::test]
async fn a_verdict_is_not_doubted_because_the_server_is_away() {
    let server = HttpPeer::start(holding(None)).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    ready(&first, over_http(&server)).await;
    end(first).await;
    server.stop().await;
    let second = life(&store).await;
    assert_eq!(tool_names(&second), ["echo"]);
    let mut events = second.events();
    while second.status(&peer_id()).unwrap().error.is_none() {
        events.next().await.unwrap();
    }
    server.start_again().await;
    assert_eq!(second.wait_settled(Duration::from_secs(20)).await, []);
    assert_eq!(second.status(&peer_id()).unwrap().state, State::Ready);
    assert_eq!(server.count("initialize"), 0);
    end(second).await;
}

#[tokio::test]
async fn settings_survive_and_are_used() {
    let server = HttpPeer::start(Peer::both().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    let first = life(&store).await;
    let spec = over_http(&server).header("X-Key", "secret").unwrap().retry(Retry::attempts(7));
    ready(&first, spec.clone()).await;
    end(first).await;
    let second = next_life(&store).await;
    assert_eq!(second.registrations()[0].1, spec);
    assert_eq!(server.requests_of("tools/list").pop().unwrap().header("x-key"), Some("secret"));
    assert!(!format!("{second:?} {:?}", second.servers()).contains("secret"));
    end(second).await;
}

#[tokio::test]
async fn namespaces_do_not_see_each_others_servers() {
    let server = HttpPeer::start(Peer::both().tool("echo")).await;
    let store = Arc::new(MemoryStore::new());
    let of = |namespace: &str| Manager::builder("test", "1").shared_store(store.clone()).namespace(namespace).start();
    let one = of("one").await.unwrap();
    ready(&one, over_http(&server)).await;
    end(one).await;
    let two = of("two").await.unwrap();
    assert!(two.registrations().is_empty());
    end(two).await;
    assert_eq!(of("one").await.unwrap().registrations().len(), 1);
}

#[tokio::test]
async fn a_file_remembers_as_memory_does() {
    let folder = tempfile::tempdir().unwrap();
    let open = || switchboard::store::SqliteStore::open(folder.path().join("agent.db")).unwrap();
    let server = HttpPeer::start(holding(None)).await;
    let first = Manager::builder("test", "1").store(open()).start().await.unwrap();
    ready(&first, over_http(&server)).await;
    let before = serde_json::to_value(first.servers()).unwrap();
    end(first).await;
    let second = Manager::builder("test", "1").store(open()).start().await.unwrap();
    assert_eq!(tool_names(&second), ["echo"]);
    assert_eq!(second.wait_settled(Duration::from_secs(20)).await, []);
    let mut after = serde_json::to_value(second.servers()).unwrap();
    for moment in ["since", "latencyMs"] {
        after["servers"]["peer"][moment] = before["servers"]["peer"][moment].clone();
    }
    assert_eq!(after, before);
    assert_eq!((server.count("server/discover"), server.count("tools/list")), (1, 2));
    end(second).await;
}
