//! Calling tools, reading, prompts: what is sent, what is printed, how it ends.

use std::time::Duration;

use serde_json::json;
use switchboard_testing::process::wait_until_gone;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::world::{PATIENCE, World, send};

async fn with_demo() -> World {
    let world = World::new();
    world.add_demo("demo", "both").await.ended(0);
    world
}

#[tokio::test]
async fn tools_are_called_by_address_and_by_key() {
    let world = with_demo().await;
    let ran = world.run(&["call", "demo/echo", "message=hi"]).await.ended(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi\n", ""));
    let tools = world.run(&["tools", "--json"]).await.ended(0).json();
    let key = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "add").unwrap()["key"].clone();
    let result = world.run(&["call", key.as_str().unwrap(), "a=19", "b=23", "--json"]).await.ended(0).json();
    assert_eq!(result["structuredContent"], json!({"sum": 42}));
}

#[tokio::test]
async fn calls_are_the_same_through_a_daemon() {
    let world = with_demo().await;
    let daemon = world.daemon().await;
    assert_eq!(world.run(&["call", "demo/add", "a=1", "b=2"]).await.ended(0).stdout, "3\n");
    world.run(&["call", "demo/roll", "dice=0"]).await.ended(1);
    assert_eq!(world.run(&["read", "demo", "demo://welcome"]).await.ended(0).stdout.lines().count(), 1);
    assert!(world.run(&["prompt", "demo", "greet", "name=Ada"]).await.ended(0).stdout.contains("Ada"));
    let calls = world.run(&["calls", "--json"]).await.ended(0).json();
    assert!(calls["calls"].is_array());
    assert!(daemon.stop("TERM").await.success());
}

#[tokio::test]
async fn a_call_may_bring_headers_where_there_is_http_to_carry_them() {
    let world = with_demo().await;
    let call = |header: &'static str| ["call", "demo/echo", "message=hi", "--retry-if-safe", "--header", header];
    // The demo server is a child process.
    let ran = world.run(&call("X-Tenant: seven")).await.ended(2);
    assert!(ran.stderr.contains("only servers over HTTP take headers"), "{}", ran.stderr);
    for header in ["nothing", "Host: x", "Content-Type: x"] {
        world.run(&call(header)).await.ended(2);
    }
    let ran = world.run(&["call", "demo/echo", "message=hi", "--retry-if-safe"]).await.ended(0);
    assert_eq!(ran.stdout, "hi\n");
}

#[tokio::test]
async fn arguments_come_from_text_from_a_file_and_from_standard_input() {
    let world = with_demo().await;
    let text = r#"{"message": "hé"}"#;
    std::fs::write(world.home().join("arguments.json"), text).unwrap();
    for given in [text, "@arguments.json"] {
        assert_eq!(world.run(&["call", "demo/echo", "--args", given]).await.ended(0).stdout, "hé\n");
    }
    let ran = world.run_with_input(&["call", "demo/echo", "--args", "-"], text).await.ended(0);
    assert_eq!(ran.stdout, "hé\n");
    let ran = world.run(&["call", "demo/echo", "message=won", "--args", text]).await.ended(0);
    assert_eq!(ran.stdout, "won\n");
}

#[tokio::test]
async fn malformed_arguments_are_told_with_their_place() {
    let world = World::new();
    for (given, word) in [("{\"a\": }", "line 1, column 7"), ("[1]", "object"), ("@none.json", "none.json")] {
        let ran = world.run(&["call", "demo/echo", "--args", given]).await.ended(2);
        assert!(ran.stderr.contains(word), "{given}: {}", ran.stderr);
    }
    let world = with_demo().await;
    let problem = world.run(&["call", "demo/add", "a=one", "b=2", "--json"]).await.ended(2).problem();
    assert_eq!(problem["code"], "invalid_arguments");
    assert_eq!(problem["errors"][0]["path"], "/a");
}

#[tokio::test]
async fn a_tool_that_answers_with_an_error_ends_with_1() {
    let world = with_demo().await;
    let ran = world.run(&["call", "demo/roll", "dice=0"]).await.ended(1);
    assert!(ran.stdout.contains("from 1 to 100"), "{ran:?}");
}

#[tokio::test]
async fn an_unknown_tool_is_told_with_the_one_that_was_meant() {
    let world = with_demo().await;
    for wanted in ["demo/ecko", "ecko"] {
        let problem = world.run(&["call", wanted, "--json"]).await.ended(2).problem();
        assert_eq!(problem["code"], "unknown_tool", "{wanted}");
        assert!(problem["nearest"].to_string().contains("echo"), "{wanted}: {problem}");
    }
}

#[tokio::test]
async fn lists_and_their_json_are_printed() {
    let world = with_demo().await;
    assert!(world.run(&["tools"]).await.ended(0).stdout.contains("demo/echo"));
    assert!(world.run(&["resources"]).await.ended(0).stdout.contains("demo://welcome"));
    assert!(world.run(&["prompts"]).await.ended(0).stdout.contains("greet"));
    let templates = world.run(&["resources", "--templates", "--json"]).await.ended(0).json();
    assert_eq!(templates["resourceTemplates"], json!([]));
    let of_server = world.run(&["tools", "--server", "demo", "--json"]).await.ended(0).json();
    assert_eq!(of_server["tools"][0]["serverId"], "demo");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ctrl_c_ends_the_children_and_ends_with_130() {
    let world = World::new();
    // A server that says who it is, and then never answers.
    let fifo = world.home().join("pid");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut said = tokio::net::unix::pipe::OpenOptions::new().read_write(true).open_receiver(&fifo).unwrap();
    let script = "echo $$ > pid; exec cat > /dev/null";
    let child = world.command(&["add", "silent", "--cwd", ".", "--", "sh", "-c", script]).spawn().unwrap();
    let mut text = [0; 32];
    let count = timeout(PATIENCE, said.read(&mut text)).await.expect("the server is not started").unwrap();
    let pid: u32 = std::str::from_utf8(&text[..count]).unwrap().trim().parse().unwrap();
    send("INT", child.id().unwrap());
    let output = timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(130));
    // It was killed before the program ended; how soon a killed process is gone is up to the kernel.
    assert!(wait_until_gone(pid, Duration::from_secs(2)).await, "the server outlives the program");
}
