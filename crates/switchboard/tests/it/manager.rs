//! What people do with a manager: add, list, call, close, remove, come back tomorrow.

use std::sync::Arc;
use std::time::Duration;

use switchboard::manager::{CallLimits, Connected};
use switchboard::spec::InProcessTarget;
use switchboard::status::ListState;
use switchboard::store::MemoryStore;
use switchboard::{Added, Client, ErrorKind, Filter, Manager, Registered, ServerId, ServerSpec, State, ToolCall};
use switchboard_testing::{HttpPeer, Peer, Reply, Tool, memory};

use crate::fixture::{json, manager, ready};

fn in_process(name: &str, peer: &Peer) -> ServerSpec {
    let peer = peer.clone();
    ServerSpec::in_process(name, InProcessTarget::new(move || memory::serve(&peer))).unwrap()
}

#[tokio::test]
async fn a_server_of_either_era_is_added_listed_and_called() {
    for peer in [Peer::modern(), Peer::legacy(), Peer::both()] {
        let peer = peer.tool("echo").prompt("greet").instructions("be kind");
        for is_http in [false, true] {
            let manager = manager().await;
            let server = HttpPeer::start(&peer).await;
            let spec =
                if is_http { ServerSpec::http("peer", &server.url()).unwrap() } else { in_process("peer", &peer) };
            let id = ready(&manager, spec.id("peer").unwrap()).await;
            let tools = manager.tools(&Filter::all());
            assert_eq!(tools.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["tool_peer_echo"]);
            assert_eq!(manager.prompts(&Filter::all()).len(), 1);
            let call = ToolCall::by_key("tool_peer_echo").arguments(json(r#"{"message":"hi"}"#));
            let result = manager.call(call).await.unwrap();
            assert!(result.result.as_str().contains("hi") && !result.is_error, "{:?}", result.result);
            let status = manager.status(&id).unwrap();
            assert_eq!((status.state, status.instructions.as_deref()), (State::Ready, Some("be kind")));
            assert_eq!(status.lists.tools, ListState::Ok);
            assert_eq!(peer.complaints(), Vec::<String>::new());
            manager.shutdown(Duration::from_secs(1)).await;
        }
    }
}

#[tokio::test]
async fn two_overlapping_adds_share_one_connect() {
    let peer = Peer::modern().tool("echo");
    let manager = manager().await;
    let spec = in_process("peer", &peer);
    let (one, two) = tokio::join!(manager.add(spec.clone()), manager.add(spec));
    assert_eq!(one.unwrap().id(), two.unwrap().id());
    assert_eq!(peer.count("server/discover"), 1);
}

#[tokio::test]
async fn adding_again_is_known_and_other_settings_are_an_update() {
    let server = HttpPeer::start(Peer::both().tool("echo")).await;
    let manager = manager().await;
    let spec = ServerSpec::http("peer", &server.url()).unwrap();
    let (first, added) = manager.add_new(spec.clone()).await.unwrap();
    assert_eq!(first, Registered::New);
    let (again, _) = manager.add_new(ServerSpec::http("peer", &format!("{}/", server.url())).unwrap()).await.unwrap();
    assert_eq!(again, Registered::Updated, "another spelling of the URL is another setting of the same server");
    let (changed, later) = manager.add_new(spec.header("X-Key", "v").unwrap()).await.unwrap();
    assert_eq!((changed, later.id()), (Registered::Updated, added.id()));
    let last = server.requests_of("tools/list").pop().unwrap();
    assert_eq!(last.header("x-key"), Some("v"));
    assert_eq!(manager.registrations().len(), 1);
}

#[tokio::test]
async fn an_id_of_another_server_is_refused_and_nothing_changes() {
    let peer = Peer::modern();
    let manager = manager().await;
    ready(&manager, in_process("one", &peer).id("a.b").unwrap()).await;
    let error = manager.add(in_process("two", &peer).id("A-B").unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IdInUse);
    assert!(error.to_string().contains("`one`"), "{error}");
    assert_eq!(manager.registrations().len(), 1);
}

#[tokio::test]
async fn a_stable_id_given_later_moves_the_server_there() {
    let store: Arc<MemoryStore> = Arc::new(MemoryStore::new());
    let server = HttpPeer::start(Peer::both().tool("echo")).await;
    let manager = Manager::builder("test", "1").shared_store(store.clone()).start().await.unwrap();
    let spec = ServerSpec::http("peer", &server.url()).unwrap();
    let old = ready(&manager, spec.clone()).await;
    let new = ready(&manager, spec.id("stable").unwrap()).await;
    assert_ne!(old, new);
    assert_eq!(manager.status(&old).unwrap_err().kind(), ErrorKind::UnknownServer);
    manager.shutdown(Duration::from_secs(1)).await;
    let again = Manager::builder("test", "1").shared_store(store).start_offline().await.unwrap();
    assert_eq!(again.registrations().into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [new]);
}

#[tokio::test]
async fn a_failed_server_is_kept_and_tried_again_by_add() {
    let server = HttpPeer::start(Peer::both().tool("echo")).await;
    let url = server.url();
    server.stop().await;
    let manager = manager().await;
    let mut spec = ServerSpec::http("peer", &url).unwrap();
    spec.retry.max_attempts = 1;
    let Added::Failed { id, error } = manager.add(spec.clone()).await.unwrap() else { panic!("it is not there") };
    assert_eq!(error.kind(), ErrorKind::ConnectFailed, "{error:?}");
    let status = manager.status(&id).unwrap();
    assert_eq!(status.state, State::Failed);
    assert!(status.error.as_deref().unwrap().contains("refused"), "{:?}", status.error);
    server.start_again().await;
    assert_eq!(ready(&manager, spec).await, id);
    assert_eq!(manager.status(&id).unwrap().error, None);
}

#[tokio::test]
async fn registering_connecting_and_discovering_can_be_done_step_by_step() {
    let peer = Peer::legacy().tool("echo");
    let manager = manager().await;
    let (_, id) = manager.register(in_process("peer", &peer)).await.unwrap();
    assert_eq!(manager.status(&id).unwrap().state, State::Closed);
    assert!(matches!(manager.connect(&id).await.unwrap(), Connected::Connected));
    assert_eq!(manager.status(&id).unwrap().state, State::Connected);
    assert_eq!(peer.count("tools/list"), 0);
    assert!(matches!(manager.discover(&id).await.unwrap(), Added::Ready { .. }));
    assert_eq!(peer.count("tools/list"), 1);
}

#[tokio::test]
async fn a_closed_server_stays_registered_and_opens_again() {
    let peer = Peer::modern().tool("echo");
    let manager = manager().await;
    let id = ready(&manager, in_process("peer", &peer)).await;
    manager.close(&id).await.unwrap();
    manager.close(&id).await.unwrap();
    assert_eq!(manager.status(&id).unwrap().state, State::Closed);
    assert!(manager.status(&id).unwrap().stale);
    let result = manager.call(ToolCall::new(id.clone(), "echo")).await.unwrap();
    assert!(!result.is_error, "a call opens it");
    assert_eq!(manager.status(&id).unwrap().state, State::Ready);
}

#[tokio::test]
async fn removing_is_idempotent_and_unknown_ids_have_near_names() {
    let manager = manager().await;
    let id = ready(&manager, in_process("peer", &Peer::modern()).id("github").unwrap()).await;
    let error = manager.status(&ServerId::parse("githb").unwrap()).unwrap_err();
    assert_eq!((error.kind(), &error.data().nearest[..]), (ErrorKind::UnknownServer, &["github".to_owned()][..]));
    assert!(manager.remove(&id).await.unwrap());
    assert!(!manager.remove(&id).await.unwrap());
    assert!(manager.registrations().is_empty());
}

#[tokio::test]
async fn resources_prompts_and_completions_are_passed_through() {
    let peer = Peer::both()
        .resource(switchboard_testing::Resource::text("file:///a", "hello"))
        .prompt("greet")
        .completions(&["paris"]);
    let manager = manager().await;
    let id = ready(&manager, in_process("peer", &peer)).await;
    let limits = CallLimits::default();
    let read = manager.read_resource(&id, "file:///a", limits).await.unwrap();
    assert!(read.as_str().contains("hello"));
    assert!(manager.get_prompt(&id, "greet", None, limits).await.unwrap().as_str().contains("messages"));
    let params = json(r#"{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"city","value":"p"}}"#);
    assert!(manager.complete(&id, params, limits).await.unwrap().as_str().contains("paris"));
    let error = manager.read_resource(&id, "file:///none", limits).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ServerError);
    assert!(error.data().rpc.is_some());
}

#[tokio::test]
async fn a_client_is_one_server_without_a_registry() {
    let peer = Peer::both().tool(Tool::new("fail").answers(|_, _| Reply::tool_error("no")));
    let client = Client::connect(in_process("peer", &peer)).await.unwrap();
    assert_eq!(client.tools()[0].name(), "fail");
    assert_eq!(client.protocol_version().as_deref(), Some("2026-07-28"));
    assert!(client.call("fail", None).await.unwrap().is_error);
    let error = client.call("fial", None).await.unwrap_err();
    assert_eq!((error.kind(), &error.data().nearest[..]), (ErrorKind::UnknownTool, &["fail".to_owned()][..]));
    client.close().await;
    assert_eq!(client.state(), State::Closed);
}

#[tokio::test]
async fn a_bad_header_declaration_costs_the_tool_only_where_headers_are_mirrored() {
    let bad = serde_json::json!({
        "name": "bad",
        "inputSchema": {"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}},
    });
    for (peer, is_http, tools) in [
        (Peer::modern(), true, vec!["echo"]),
        (Peer::legacy(), true, vec!["echo", "bad"]),
        (Peer::modern(), false, vec!["echo", "bad"]),
    ] {
        let peer = peer.tool("echo").raw_tool(bad.clone());
        let manager = manager().await;
        let server = HttpPeer::start(&peer).await;
        let spec = if is_http { ServerSpec::http("peer", &server.url()).unwrap() } else { in_process("peer", &peer) };
        let id = ready(&manager, spec).await;
        let found = manager.tools(&Filter::all());
        assert_eq!(found.iter().map(|entry| entry.tool.name()).collect::<Vec<_>>(), tools);
        let warnings = manager.status(&id).unwrap().warnings;
        assert_eq!(warnings.iter().any(|warning| warning.item.as_deref() == Some("bad")), tools.len() == 1);
    }
}
