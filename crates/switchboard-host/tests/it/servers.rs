//! Servers, registered and looked after.

use http::Method;
use serde_json::json;
use switchboard::Manager;
use switchboard::store::SqliteStore;
use switchboard_host::{Host, HostOptions, InstanceName};
use switchboard_testing::{HttpPeer, Peer};

use crate::daemon::{Ask, Daemon, Setup};

#[tokio::test]
async fn a_server_is_registered_once_and_shown_with_what_it_offers() {
    let peer = HttpPeer::start(Peer::both().tool("search").prompt("greet")).await;
    let daemon = Setup::real().start().await;
    let body = json!({"name": "GitHub", "id": "git.hub", "url": peer.url()});
    let first = daemon.post(&Daemon::path("servers"), &body).await;
    assert_eq!(first.status, 201);
    assert_eq!(first.header("location"), Daemon::path("servers/git-hub"));
    assert_eq!(first.json(), json!({"id": "git-hub", "state": "ready"}));
    let again = daemon.post(&Daemon::path("servers"), &body).await;
    assert_eq!((again.status, again.json()), (200, first.json()));

    let state = daemon.get(&Daemon::path("servers")).await.json();
    let server = &state["servers"]["git-hub"];
    assert_eq!((&server["state"], &server["name"]), (&json!("ready"), &json!("GitHub")));
    assert_eq!(server["lists"]["tools"], "ok");
    assert_eq!((&state["tools"][0]["name"], &state["tools"][0]["serverId"]), (&json!("search"), &json!("git-hub")));
    assert_eq!(state["prompts"][0]["serverId"], "git-hub");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_kept_as_failed_with_its_causes() {
    let daemon = Setup::real().start().await;
    let body = json!({"name": "gone", "id": "gone", "url": "http://127.0.0.1:1/mcp", "retry": {"maxAttempts": 1}});
    let answer = daemon.post(&Daemon::path("servers"), &body).await;
    assert_eq!(answer.status, 201);
    let standing = answer.json();
    assert_eq!((&standing["id"], &standing["state"]), (&json!("gone"), &json!("failed")));
    assert_eq!(standing["error"]["code"], "connect_failed");
    assert!(standing["error"]["causes"].is_array() && standing["error"]["message"].is_string());
    assert_eq!(daemon.get(&Daemon::path("servers")).await.json()["servers"]["gone"]["state"], "failed");
}

#[tokio::test]
async fn an_id_in_use_by_another_server_is_a_conflict() {
    let peer = HttpPeer::start(Peer::both()).await;
    let daemon = Setup::real().start().await;
    daemon.add("a-b", &peer.url()).await;
    let other = json!({"name": "other", "id": "a.b", "url": peer.url_at("/other")});
    daemon.post(&Daemon::path("servers"), &other).await.problem(409, "id_in_use");
}

#[tokio::test]
async fn a_server_is_closed_connected_and_removed() {
    let peer = HttpPeer::start(Peer::both().tool("search")).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let act = |action: &str| daemon.ask(Ask::new(Method::POST, &Daemon::path(&format!("servers/github/{action}"))));

    assert_eq!(act("close").await.status, 204);
    assert_eq!(daemon.get(&Daemon::path("servers")).await.json()["servers"]["github"]["state"], "closed");
    for action in ["connect", "discover"] {
        let answer = act(action).await;
        assert_eq!((answer.status, answer.json()), (200, json!({"id": "github", "state": "ready"})));
    }
    for _ in 0..2 {
        assert_eq!(daemon.delete(&Daemon::path("servers/github")).await.status, 204);
    }
    assert_eq!(daemon.get(&Daemon::path("servers")).await.json()["servers"], json!({}));
}

#[tokio::test]
async fn settings_are_changed_alone() {
    let peer = HttpPeer::start(Peer::both().tool("search").tool("delete")).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let patch = Ask::new(Method::PATCH, &Daemon::path("servers/github")).json(&json!({"tools": {"deny": ["delete"]}}));
    let answer = daemon.ask(patch).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"id": "github", "state": "ready"})));
    let refused = daemon.post(&Daemon::path("tools/call"), &json!({"serverId": "github", "name": "delete"})).await;
    refused.problem(403, "tool_not_allowed");

    let wrong = Ask::new(Method::PATCH, &Daemon::path("servers/github")).json(&json!({"retry": {"maxAttempts": 0}}));
    daemon.ask(wrong).await.problem(422, "invalid_input");
    let nobody = Ask::new(Method::PATCH, &Daemon::path("servers/nobody")).json(&json!({}));
    daemon.ask(nobody).await.problem(404, "unknown_server");
}

#[tokio::test]
async fn commands_are_for_the_owner() {
    let daemon = Setup::real().start().await;
    let command =
        json!({"name": "files", "id": "files", "command": "/nowhere/no-such-program", "retry": {"maxAttempts": 1}});
    let register = || Ask::new(Method::POST, &Daemon::path("servers")).json(&command);
    let problem = daemon.ask(register()).await.problem(403, "commands_not_allowed");
    assert!(problem["hint"].as_str().unwrap().contains("--allow-commands"), "{problem}");
    assert_eq!(daemon.get(&Daemon::path("servers")).await.json()["servers"], json!({}), "nothing was registered");

    let answer = daemon.ask(register().owner()).await;
    assert_eq!((answer.status, &answer.json()["state"]), (201, &json!("failed")));

    let sneaky = Ask::new(Method::PATCH, &Daemon::path("servers/files")).json(&json!({"env": {"LD_PRELOAD": "x"}}));
    daemon.ask(sneaky).await.problem(403, "commands_not_allowed");
}

#[tokio::test]
async fn everyone_may_register_commands_when_the_daemon_says_so() {
    let daemon = Setup::real().access(switchboard_host::Access::allow_commands).start().await;
    let command = json!({"name": "files", "command": "/nowhere/no-such-program", "retry": {"maxAttempts": 1}});
    assert_eq!(daemon.post(&Daemon::path("servers"), &command).await.status, 201);
}

#[tokio::test]
async fn instances_do_not_see_each_other() {
    let peer = HttpPeer::start(Peer::both()).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    assert_eq!(daemon.get("/agents/switchboard/other/servers").await.json()["servers"], json!({}));
}

#[tokio::test]
async fn known_instances_are_restored_at_the_start() {
    let peer = HttpPeer::start(Peer::both().tool("search")).await;
    let folder = tempfile::tempdir().unwrap();
    let host = || {
        let path = folder.path().join("switchboard.db");
        Host::new(HostOptions::default(), move |_| {
            let path = path.clone();
            async move { Manager::builder("switchboard-test", "1.0.0").store(SqliteStore::open(path)?).start().await }
        })
    };
    let mut first = Setup::of(host()).start().await;
    first.add("github", &peer.url()).await;
    first.begin_to_stop();
    assert!(first.stopped().await.is_clean());

    let again = host();
    assert!(again.restore([InstanceName::new("switchboard", "default").unwrap()]).await.is_empty());
    let second = Setup::of(again).start().await;
    let metrics = second.get("/metrics").await;
    assert!(metrics.text().contains("switchboard_instances 1"), "it is open before anyone asks for it");
    let call = json!({"serverId": "github", "name": "search"});
    assert_eq!(second.post(&Daemon::path("tools/call"), &call).await.status, 200);
}
