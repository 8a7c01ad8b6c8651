//! The merged catalogue.

use serde_json::{Value, json};
use switchboard_testing::{HttpPeer, Peer, Resource, Tool};

use crate::daemon::{Daemon, Setup};

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn tools_are_the_servers_own_with_our_members_beside_theirs() {
    let tool = Tool::new("search").with("x-unknown", json!({"kept": [1, 2.50]}));
    let peer = HttpPeer::start(Peer::both().tool(tool)).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let tools = daemon.get(&Daemon::path("tools")).await.json();
    let tool = &tools["tools"][0];
    assert_eq!(tool["x-unknown"], json!({"kept": [1, 2.50]}));
    assert_eq!((&tool["serverId"], &tool["key"]), (&json!("github"), &json!("tool_github_search")));
    assert_eq!(tools.get("nextCursor"), None);
}

#[tokio::test]
async fn filters_may_repeat() {
    let daemon = Setup::real().start().await;
    let mut peers = Vec::new();
    for id in ["a", "b", "c"] {
        let peer = HttpPeer::start(Peer::both().tool(id)).await;
        daemon.add(id, &peer.url()).await;
        peers.push(peer);
    }
    for (query, expected) in [
        ("serverId=a&serverId=c", vec!["a", "c"]),
        ("serverName=b", vec!["b"]),
        ("state=ready", vec!["a", "b", "c"]),
        ("state=failed&state=closed", vec![]),
        ("serverId=a&serverName=b", vec![]),
    ] {
        let tools = daemon.get(&Daemon::path(&format!("tools?{query}"))).await.json();
        assert_eq!(names(&tools["tools"]), expected, "{query}");
    }
}

#[tokio::test]
async fn lists_are_paged() {
    let peer = HttpPeer::start(Peer::both().many_tools(25)).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let all = daemon.get(&Daemon::path("tools")).await.json();
    let (mut seen, mut query) = (Vec::new(), "limit=10".to_owned());
    loop {
        let page = daemon.get(&Daemon::path(&format!("tools?{query}"))).await.json();
        let tools = page["tools"].as_array().unwrap();
        assert!(tools.len() <= 10);
        seen.extend(tools.clone());
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        query = format!("limit=10&cursor={cursor}");
    }
    assert_eq!(Value::from(seen), all["tools"]);
    daemon.get(&Daemon::path("tools?cursor=nonsense")).await.problem(422, "invalid_input");
}

#[tokio::test]
async fn prompts_resources_and_templates_name_their_server() {
    let peer = Peer::both()
        .prompt("greet")
        .resource(Resource::text("file:///a.txt", "hello"))
        .template("file:///{name}", "files");
    let peer = HttpPeer::start(peer).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    for (path, member, field, value) in [
        ("prompts", "prompts", "name", "greet"),
        ("resources", "resources", "uri", "file:///a.txt"),
        ("resource-templates", "resourceTemplates", "uriTemplate", "file:///{name}"),
    ] {
        let list = daemon.get(&Daemon::path(path)).await.json();
        let item = &list[member][0];
        assert_eq!((&item[field], &item["serverId"]), (&json!(value), &json!("github")), "{path}");
    }
}

#[tokio::test]
async fn tools_are_sent_in_the_shape_of_a_provider() {
    let peer = HttpPeer::start(Peer::both().many_tools(3)).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let openai = daemon.get(&Daemon::path("tools?format=openai")).await.json();
    let functions = openai["tools"].as_array().unwrap();
    assert_eq!(functions.len(), 3);
    assert!(
        functions.iter().all(|tool| tool["type"] == "function" && tool["function"]["name"].is_string()),
        "{openai}"
    );

    let gemini = daemon.get(&Daemon::path("tools?format=gemini&limit=2")).await.json();
    assert_eq!(gemini["tools"][0]["functionDeclarations"].as_array().unwrap().len(), 2);
    let cursor = gemini["nextCursor"].as_str().unwrap();
    let rest = daemon.get(&Daemon::path(&format!("tools?format=gemini&limit=2&cursor={cursor}"))).await.json();
    assert_eq!(rest["tools"][0]["functionDeclarations"].as_array().unwrap().len(), 1);
    assert_eq!(rest.get("nextCursor"), None);
}
