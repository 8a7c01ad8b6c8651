//! Subscriptions and log levels, over the API.

use serde_json::json;
use switchboard_testing::{HttpPeer, Peer, Resource};

use crate::daemon::{Daemon, Setup};

#[tokio::test]
async fn a_resource_is_subscribed_to_and_its_updates_are_events() {
    let peer = Peer::modern().resource(Resource::text("file:///a", "a")).announces_changes();
    let server = HttpPeer::start(&peer).await;
    let daemon = Setup::real().start().await;
    daemon.add("peer", &server.url()).await;
    let subscribe = Daemon::path("resources/subscribe");
    let request = json!({ "serverId": "peer", "uri": "file:///a" });
    assert_eq!(daemon.post(&subscribe, &request).await.status, 204);
    peer.push(
        json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": "file:///a" } }),
    );
    loop {
        let events = daemon.get(&Daemon::path("events")).await.json();
        let told = events["events"].as_array().unwrap().iter();
        if let Some(event) = told.into_iter().find(|event| event["type"] == "mcp:client:resource_updated") {
            assert_eq!((&event["serverId"], &event["payload"]), (&json!("peer"), &json!({ "uri": "file:///a" })));
            break;
        }
    }
    assert_eq!(daemon.post(&Daemon::path("resources/unsubscribe"), &request).await.status, 204);
    let unknown = json!({ "serverId": "nobody", "uri": "file:///a" });
    daemon.post(&subscribe, &unknown).await.problem(404, "unknown_server");
    daemon.post(&subscribe, &json!({ "serverId": "peer" })).await.problem(422, "invalid_input");
}

#[tokio::test]
async fn a_log_level_is_set_where_the_server_logs() {
    let peer = Peer::legacy().tool("echo").capabilities(json!({ "tools": {}, "logging": {} }));
    let server = HttpPeer::start(&peer).await;
    let daemon = Setup::real().start().await;
    daemon.add("peer", &server.url()).await;
    let path = Daemon::path("servers/peer/log-level");
    assert_eq!(daemon.post(&path, &json!({ "level": "warning" })).await.status, 204);
    assert_eq!(peer.wait_for("logging/setLevel").await["params"]["level"], "warning");
    daemon.post(&path, &json!({ "level": "warn" })).await.problem(422, "invalid_input");
}
