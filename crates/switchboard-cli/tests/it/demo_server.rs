//! The demo server as a process: it speaks, and it ends with whoever started it.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::world::{HttpPeer, PATIENCE, World};

#[tokio::test]
async fn over_stdio_it_answers_line_by_line_and_ends_with_its_input() {
    let world = World::new();
    let lines = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}"#,
        "\n",
    );
    let ran = world.run_with_input(&["demo-server", "--stdio"], lines).await.ended(0);
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers[1]["result"]["structuredContent"]["sum"], 3);
    assert_eq!(ran.stderr, "");
}

#[tokio::test]
async fn over_http_it_listens_on_a_free_port_and_ends_with_its_input() {
    let world = World::new();
    let peer = HttpPeer::start(&world, "both").await;
    let address = peer.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let body =
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("mcp-session-id: demo-1") && answer.contains("\"protocolVersion\":\"2025-11-25\""),
        "{answer}"
    );
    assert!(peer.stop().await.success());
}

#[tokio::test]
async fn a_port_in_use_is_told() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = world.command(&["demo-server", "--http", "--listen", &address]);
    command.stdin(Stdio::piped());
    let ran = crate::world::finish(command).await.ended(4);
    assert!(ran.stderr.contains(&address), "{}", ran.stderr);
}
