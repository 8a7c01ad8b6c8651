//! Adding, listing, removing: with a daemon and without.

use crate::world::{HttpPeer, World};

#[tokio::test]
async fn a_server_is_added_remembered_and_removed_without_a_daemon() {
    let world = World::new();
    let added = world.add_demo("My Demo", "both").await.ended(0);
    assert_eq!(added.stdout, "my-demo is ready: 3 tools, 1 prompt, 1 resource\n");

    let servers = world.run(&["list", "--json"]).await.ended(0).json();
    let server = &servers["servers"]["my-demo"];
    assert_eq!((server["state"].as_str(), server["name"].as_str()), (Some("ready"), Some("My Demo")));
    assert_eq!(server["protocolVersion"], "2026-07-28");
    assert_eq!(servers["tools"].as_array().unwrap().len(), 3);

    let table = world.run(&["list"]).await.ended(0);
    assert!(table.stdout.starts_with("ID ") && table.stdout.contains("my-demo"), "{}", table.stdout);
    assert!(table.stdout.contains("2026-07-28") && table.stdout.contains("stdio"), "{}", table.stdout);

    world.run(&["remove", "My Demo"]).await.ended(0);
    let empty = world.run(&["list"]).await.ended(0);
    assert_eq!(empty.stdout, "");
    assert!(empty.stderr.contains("add"), "{}", empty.stderr);
    let problem = world.run(&["remove", "my-demo", "--json"]).await.ended(2).problem();
    assert_eq!(problem["code"], "unknown_server");
}

#[tokio::test]
async fn the_same_works_with_a_daemon_and_both_see_the_same_servers() {
    let world = World::new();
    let peer = HttpPeer::start(&world, "legacy").await;
    world.add_demo("one", "modern").await.ended(0);
    let daemon = world.daemon().await;
    world.run(&["add", "two", &peer.url]).await.ended(0);
    let servers = world.run(&["list", "--json"]).await.ended(0).json();
    let states: Vec<_> =
        servers["servers"].as_object().unwrap().iter().map(|(id, one)| (id.as_str(), &one["state"])).collect();
    assert_eq!(states, [("one", &"ready".into()), ("two", &"ready".into())]);
    world.run(&["close", "two"]).await.ended(0);
    let servers = world.run(&["list", "--json"]).await.ended(0).json();
    assert_eq!(servers["servers"]["two"]["state"], "closed");
    world.run(&["connect", "two"]).await.ended(0);
    assert!(daemon.stop("TERM").await.success());
    let servers = world.run(&["list", "--json"]).await.ended(0).json();
    assert_eq!(servers["servers"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn a_server_that_fails_is_kept_and_said_to_be() {
    let world = World::new();
    let line = ["add", "broken", "--retry-attempts", "1", "--", "sh", "-c", "echo 'API_KEY is missing' >&2; exit 3"];
    let ran = world.run(&line).await.ended(4);
    assert!(ran.stderr.contains("API_KEY is missing"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the registration is kept"), "{}", ran.stderr);
    let outcome = world.run(&["connect", "broken", "--json"]).await.ended(4).json();
    assert_eq!(outcome["state"], "failed");
    assert_eq!(outcome["error"]["code"], "connect_failed");
    let table = world.run(&["list"]).await.ended(0);
    assert!(table.stdout.contains("failed"), "{}", table.stdout);
}

#[tokio::test]
async fn a_command_that_does_not_exist_is_told() {
    let world = World::new();
    let ran = world.run(&["add", "none", "--retry-attempts", "1", "--", "no-such-command-here"]).await.ended(4);
    assert!(ran.stderr.contains("no-such-command-here"), "{}", ran.stderr);
    assert!(ran.stderr.contains("doctor none"), "{}", ran.stderr);
}

#[tokio::test]
async fn another_server_under_a_taken_id_is_refused() {
    let world = World::new();
    world.add_demo("demo", "both").await.ended(0);
    let problem = world.run(&["add", "demo", "http://127.0.0.1:1/mcp", "--json"]).await.ended(2).problem();
    assert_eq!(problem["code"], "id_in_use");
    world.add_demo("demo", "both").await.ended(0);
}

#[tokio::test]
async fn an_unknown_server_is_told_with_the_one_that_was_meant() {
    let world = World::new();
    world.add_demo("everything", "both").await.ended(0);
    for line in [
        &["connect", "everthing"][..],
        &["close", "everthing"],
        &["remove", "everthing"],
        &["doctor", "everthing"],
        &["read", "everthing", "demo://welcome"],
        &["prompt", "everthing", "greet"],
        &["tools", "--server", "everthing"],
        &["call", "everthing/echo"],
    ] {
        let ran = world.run(line).await.ended(2);
        assert!(ran.stderr.contains("did you mean: `everything`"), "{line:?}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn instances_have_servers_of_their_own() {
    let world = World::new();
    world.add_demo("demo", "both").await.ended(0);
    let other = world.run(&["--instance", "other", "list", "--json"]).await.ended(0).json();
    assert!(other["servers"].as_object().unwrap().is_empty());
}
