//! Tools that change, over the API.

use http::Method;
use serde_json::{Value, json};
use switchboard_testing::{HttpPeer, Peer, Tool};

use crate::daemon::{Ask, Daemon, Setup};

async fn discover(daemon: &Daemon) {
    let discover = Ask::new(Method::POST, &Daemon::path("servers/peer/discover"));
    assert_eq!(daemon.ask(discover).await.status, 200);
}

/// A daemon with a server that was added under that policy, and then changed its tool `a` and got a tool `b`.
async fn drifted(policy: &str) -> (Daemon, HttpPeer) {
    let peer = Peer::both().tool(Tool::new("a").annotations(json!({"destructiveHint": true})));
    let server = HttpPeer::start(&peer).await;
    let daemon = Setup::real().start().await;
    let body = json!({"name": "peer", "id": "peer", "url": server.url(), "drift": policy});
    assert_eq!(daemon.post(&Daemon::path("servers"), &body).await.json()["state"], "ready");
    peer.replace_tools([Tool::new("a").annotations(json!({"destructiveHint": false})), Tool::new("b")]);
    discover(&daemon).await;
    (daemon, server)
}

async fn drift(daemon: &Daemon) -> Value {
    let answer = daemon.get(&Daemon::path("servers/peer/drift")).await;
    assert_eq!(answer.status, 200);
    answer.json()
}

#[tokio::test]
async fn drift_is_shown_with_the_old_and_the_new_definition() {
    let (daemon, _server) = drifted("warn").await;
    let drift = drift(&daemon).await;
    assert_eq!((&drift["policy"], &drift["added"], &drift["removed"]), (&json!("warn"), &json!(["b"]), &json!([])));
    assert!(drift["approvedAt"].is_string() && drift["fingerprint"].as_str().unwrap().len() == 64, "{drift}");
    let changed = &drift["changed"][0];
    assert_eq!((&changed["name"], &changed["severity"]), (&json!("a"), &json!("high")));
    assert_eq!(changed["kinds"], json!(["hint"]));
    assert_eq!(changed["before"]["annotations"]["destructiveHint"], true);
    assert_eq!(changed["after"]["annotations"]["destructiveHint"], false);
    let change = json!({
        "kind": "hint", "severity": "high", "path": "annotations/destructiveHint", "before": true, "after": false,
    });
    assert_eq!(changed["changes"], json!([change]));

    let state = daemon.get(&Daemon::path("servers")).await.json();
    let warnings = state["servers"]["peer"]["warnings"].as_array().unwrap();
    assert_eq!((&warnings[0]["code"], &warnings[0]["item"]), (&json!("tool_drift"), &json!("a")));
    let events = daemon.get(&Daemon::path("events")).await.json();
    let is_drift = |event: &&Value| event["type"] == "mcp:client:drift";
    let event = events["events"].as_array().unwrap().iter().find(is_drift).expect("an event");
    assert_eq!((&event["serverId"], &event["payload"]["changed"][0]["name"]), (&json!("peer"), &json!("a")));
}

#[tokio::test]
async fn a_withheld_tool_is_listed_as_such_offered_to_nobody_and_refused() {
    for (policy, b) in [("refuse-changed", json!(null)), ("refuse-unapproved", json!("unapproved"))] {
        let (daemon, _server) = drifted(policy).await;
        let expected_a = if b.is_null() { json!("changed") } else { json!("unapproved") };
        let tools = daemon.get(&Daemon::path("tools")).await.json();
        assert_eq!((&tools["tools"][0]["withheld"], &tools["tools"][1]["withheld"]), (&expected_a, &b), "{policy}");
        let openai = daemon.get(&Daemon::path("tools?format=openai")).await.json();
        assert_eq!(openai["tools"].as_array().unwrap().len(), usize::from(b.is_null()), "{policy}");
        let call = json!({"tool": "tool_peer_a"});
        let problem = daemon.post(&Daemon::path("tools/call"), &call).await.problem(403, "tool_changed");
        assert_eq!(problem["serverId"], "peer");
        assert_eq!(problem["changes"].is_array(), b.is_null(), "{problem}");
    }
}

#[tokio::test]
async fn tools_are_approved_by_name_and_all_at_once() {
    let (daemon, _server) = drifted("refuse-unapproved").await;
    let approve = Daemon::path("servers/peer/approve");
    assert_eq!(daemon.post(&approve, &json!({"tools": ["a"]})).await.status, 204);
    assert_eq!(drift(&daemon).await["added"], json!(["b"]));
    let call = |name: &str| json!({"serverId": "peer", "name": name});
    assert_eq!(daemon.post(&Daemon::path("tools/call"), &call("a")).await.status, 200);
    daemon.post(&Daemon::path("tools/call"), &call("b")).await.problem(403, "tool_changed");
    for (body, left) in [(Some(json!({})), 0), (None, 0)] {
        let ask = Ask::new(Method::POST, &approve);
        let ask = body.iter().fold(ask, |ask, body| ask.json(body));
        assert_eq!(daemon.ask(ask).await.status, 204);
        assert_eq!(drift(&daemon).await["added"].as_array().unwrap().len(), left);
    }
    assert_eq!(daemon.post(&Daemon::path("tools/call"), &call("b")).await.status, 200);
}

#[tokio::test]
async fn what_cannot_be_approved_is_told() {
    let (daemon, _server) = drifted("warn").await;
    let approve = Daemon::path("servers/peer/approve");
    let problem = daemon.post(&approve, &json!({"tools": ["a", "c"]})).await.problem(404, "unknown_tool");
    assert!(problem["detail"].as_str().unwrap().contains("`c`"), "{problem}");
    daemon.post(&approve, &json!({"tool": ["a"]})).await.problem(422, "invalid_input");
    daemon.post(&Daemon::path("servers/nobody/approve"), &json!({})).await.problem(404, "unknown_server");
    daemon.get(&Daemon::path("servers/nobody/drift")).await.problem(404, "unknown_server");
    let odd = json!({"name": "x", "url": "http://127.0.0.1:1/", "drift": "refuse"});
    daemon.post(&Daemon::path("servers"), &odd).await.problem(422, "invalid_input");
    assert_eq!(drift(&daemon).await["changed"].as_array().unwrap().len(), 1, "nothing was approved");
}
