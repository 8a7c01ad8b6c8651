//! The daemon: one a data folder, found by its file, and as it was after a kill.

use crate::world::World;

#[tokio::test]
async fn a_second_daemon_names_the_first_and_ends_with_4() {
    let world = World::new();
    let first = world.daemon().await;
    let ran = world.run(&["serve", "--listen", "127.0.0.1:0", "--json"]).await.ended(4);
    let problem = ran.problem();
    assert_eq!(problem["code"], "daemon_running");
    assert_eq!(problem["pid"], first.pid());
    assert_eq!(format!("http://{}", problem["address"].as_str().unwrap()), first.url);
    assert!(first.stop("TERM").await.success());
    assert!(!world.data().join("daemon.json").exists());
}

#[tokio::test]
async fn a_daemon_that_was_killed_is_replaced_and_its_servers_are_found() {
    let world = World::new();
    let first = world.daemon().await;
    world.add_demo("demo", "both").await.ended(0);
    first.kill().await;
    assert!(world.data().join("daemon.json").exists(), "it had no chance to tidy up");

    let alone = world.run(&["call", "demo/echo", "message=alone"]).await.ended(0);
    assert_eq!(alone.stdout, "alone\n");
    let second = world.daemon().await;
    let again = world.run(&["call", "demo/echo", "message=again"]).await.ended(0);
    assert_eq!(again.stdout, "again\n");
    assert!(second.stop("TERM").await.success());
}

#[tokio::test]
async fn a_port_in_use_is_told_with_what_to_do() {
    let world = World::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = world.run(&["serve", "--listen", &address]).await.ended(4);
    assert!(ran.stderr.contains(&address) && ran.stderr.contains("--listen"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_listener_for_everybody_needs_a_token() {
    let world = World::new();
    let ran = world.run(&["serve", "--listen", "0.0.0.0:0"]).await.ended(2);
    assert!(ran.stderr.contains("--token-file"), "{}", ran.stderr);
    let ran = world.run(&["serve", "--listen", "0.0.0.0:0", "--token-file", "none"]).await.ended(2);
    assert!(ran.stderr.contains("none"), "{}", ran.stderr);
    std::fs::write(world.home().join("empty"), "\n").unwrap();
    let ran = world.run(&["serve", "--listen", "0.0.0.0:0", "--token-file", "empty"]).await.ended(2);
    assert!(ran.stderr.contains("must hold one token"), "{}", ran.stderr);
}

#[cfg(unix)]
#[tokio::test]
async fn what_only_the_owner_may_know_is_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let daemon = world.daemon().await;
    let path = world.data().join("daemon.json");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let file: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(file["pid"], daemon.pid());
    let shown = world.run(&["doctor", "--json"]).await;
    assert!(!format!("{shown:?}").contains(file["token"].as_str().unwrap()));
    assert_eq!(daemon.stop("INT").await.code(), Some(130));
}

#[tokio::test]
async fn events_are_followed_through_the_daemon_as_lines_of_json() {
    use tokio::io::{AsyncBufReadExt, BufReader};
    let world = World::new();
    let daemon = world.daemon().await;
    let mut watching = world.command(&["watch", "--after", "0", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    world.add_demo("demo", "both").await.ended(0);
    let seen = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("the watch ended");
            let event: serde_json::Value = serde_json::from_str(&line).unwrap();
            if event["type"] == "mcp:client:discover" {
                return event;
            }
        }
    };
    let event = tokio::time::timeout(crate::world::PATIENCE, seen).await.unwrap();
    assert_eq!(event["serverId"], "demo");
    crate::world::send("INT", watching.id().unwrap());
    assert_eq!(watching.wait().await.unwrap().code(), Some(130));
    assert!(daemon.stop("TERM").await.success());
}
