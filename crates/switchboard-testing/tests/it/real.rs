//! The servers from the registries start, speak, and leave nothing behind.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testing::process::{is_group_alive, wait_until_group_gone};
use switchboard_testing::{CommandLine, real};

use crate::client::{HttpClient, legacy, modern};

/// What a server over stdio answers to one message.
fn first_answer(command: &CommandLine, message: &Value) -> Value {
    let mut process = Command::new(&command.program);
    process.args(&command.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = process.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{message}").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(stdin);
    child.kill().unwrap();
    child.wait().unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
}

fn initialize() -> Value {
    let info = json!({ "name": "test", "version": "1" });
    legacy(1, "initialize", json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info }))
}

#[test]
fn npms_reference_server_speaks_over_stdio() {
    assert_eq!(first_answer(&real::everything(), &initialize())["result"]["protocolVersion"], "2025-11-25");
    // The day on which this fails is the day on which it knows the modern era: correct the table in `real.rs` then.
    assert_eq!(first_answer(&real::everything(), &modern(1, "server/discover", json!({})))["error"]["code"], -32601);
}

#[test]
fn fastmcp_speaks_both_eras_over_stdio() {
    assert_eq!(first_answer(&real::fastmcp(), &initialize())["result"]["serverInfo"]["name"], "fastmcp-peer");
    let discovered = first_answer(&real::fastmcp(), &modern(1, "server/discover", json!({})));
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
}

#[tokio::test]
async fn npms_reference_server_speaks_over_http_and_is_gone_when_dropped() {
    let server = real::everything_over_http().await;
    let got = HttpClient::connect_to(server.port()).await.post(&initialize()).await;
    assert!(got.header("mcp-session-id").is_some());
    assert_eq!(got.events()[0]["result"]["protocolVersion"], "2025-11-25");
    let group = server.pid();
    assert!(is_group_alive(group));
    drop(server);
    assert!(wait_until_group_gone(group, Duration::from_secs(10)).await);
}

#[tokio::test]
async fn fastmcp_speaks_both_eras_over_http() {
    let server = real::fastmcp_over_http().await;
    let mut client = HttpClient::connect_to(server.port()).await;
    let got = client.post(&modern(1, "server/discover", json!({}))).await;
    assert_eq!(got.json()["result"]["supportedVersions"], json!(["2026-07-28"]));
    let mut client = HttpClient::connect_to(server.port()).await;
    let got = client.post(&initialize()).await;
    assert!(got.header("mcp-session-id").is_some());
}
