//! The server made with the official SDK answers in both eras on both transports.

use serde_json::{Value, json};
use switchboard_testing::RmcpServer;
use switchboard_testing::rmcp_peer::RmcpHttp;

use crate::client::{Got, HttpClient, LineClient, legacy, modern, notification};

async fn client(server: &RmcpHttp) -> HttpClient {
    HttpClient::connect_to(server.port()).await
}

/// The answer to the request with this id, in whatever it is wrapped.
fn answer(got: &Got, id: i64) -> Value {
    let messages = match got.header("content-type") {
        Some("application/json") => vec![got.json()],
        _ => got.events(),
    };
    messages.into_iter().find(|message| message["id"] == id).unwrap_or_else(|| panic!("no answer in {}", got.text()))
}

fn initialize() -> Value {
    let info = json!({ "name": "test", "version": "1" });
    legacy(0, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info }))
}

#[tokio::test]
async fn the_pipe_speaks_the_legacy_era() {
    let mut client = LineClient::new(RmcpServer::both().over_pipe());
    assert_eq!(client.request(&initialize()).await["result"]["protocolVersion"], "2025-11-25");
    client.send(&notification("notifications/initialized")).await;
    let tools = client.request(&legacy(1, "tools/list", json!({}))).await;
    let names: Vec<_> = tools["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    let add = json!({ "name": "add", "arguments": { "a": 2, "b": 3 } });
    assert_eq!(client.request(&legacy(2, "tools/call", add)).await["result"]["content"][0]["text"], "5");
    let read = client.request(&legacy(3, "resources/read", json!({ "uri": "note://numbers/7" }))).await;
    assert_eq!(read["result"]["contents"][0]["text"], "Number 7");
    let prompt =
        client.request(&legacy(4, "prompts/get", json!({ "name": "greet", "arguments": { "name": "Eve" } }))).await;
    assert_eq!(prompt["result"]["messages"][0]["content"]["text"], "Please greet Eve.");
}

#[tokio::test]
async fn the_pipe_speaks_the_modern_era() {
    let mut client = LineClient::new(RmcpServer::both().over_pipe());
    let discovered = client.request(&modern(1, "server/discover", json!({}))).await;
    assert!(discovered["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    let params = json!({ "name": "weather", "arguments": { "place": "Bonn" } });
    let weather = client.request(&modern(2, "tools/call", params)).await;
    assert_eq!(weather["result"]["structuredContent"], json!({ "place": "Bonn", "degrees": 21.5 }));
    let params = json!({ "name": "slow", "arguments": { "steps": 2 }, "_meta": { "progressToken": "p" } });
    let report = client.request(&modern(3, "tools/call", params)).await;
    assert_eq!(report["params"]["progressToken"], "p");
    while client.receive().await["id"] != 3 {}
    let params = json!({ "name": "fail", "arguments": { "reason": "no" } });
    let failed = client.request(&modern(4, "tools/call", params)).await;
    assert_eq!((&failed["result"]["isError"], &failed["result"]["content"][0]["text"]), (&json!(true), &json!("no")));
}

#[tokio::test]
async fn http_speaks_the_modern_era_without_sessions() {
    let server = RmcpServer::both().over_http().await;
    let mut client = client(&server).await;
    let got = client.post(&modern(1, "server/discover", json!({}))).await;
    assert_eq!(got.header("mcp-session-id"), None);
    assert!(answer(&got, 1)["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    let call = modern(2, "tools/call", json!({ "name": "echo", "arguments": { "message": "hi" } }));
    assert_eq!(answer(&client.post(&call).await, 2)["result"]["content"][0]["text"], "hi");
}

#[tokio::test]
async fn http_speaks_the_legacy_era_with_sessions() {
    let server = RmcpServer::both().over_http().await;
    let mut client = client(&server).await;
    let got = client.post(&initialize()).await;
    assert_eq!(answer(&got, 0)["result"]["protocolVersion"], "2025-11-25");
    let session = got.header("mcp-session-id").expect("a session begins").to_owned();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    assert_eq!(client.post_with(&notification("notifications/initialized"), &headers).await.status, 202);
    let call = legacy(2, "tools/call", json!({ "name": "echo", "arguments": { "message": "hi" } }));
    assert_eq!(answer(&client.post_with(&call, &headers).await, 2)["result"]["content"][0]["text"], "hi");
}

#[tokio::test]
async fn it_can_be_held_to_one_era() {
    let discover = modern(1, "server/discover", json!({}));
    let refused = LineClient::new(RmcpServer::legacy().over_pipe()).request(&discover).await;
    assert_eq!(refused["error"]["code"], -32022);
    assert!(!refused["error"]["data"]["supported"].as_array().unwrap().contains(&json!("2026-07-28")));
    let discovered = LineClient::new(RmcpServer::modern().over_pipe()).request(&discover).await;
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
    let server = RmcpServer::legacy().over_http().await;
    let refused = client(&server).await.post(&discover).await;
    assert_eq!((refused.status.as_u16(), refused.json()["error"]["code"].as_i64()), (400, Some(-32022)));
}
