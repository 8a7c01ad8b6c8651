//! The doctor: which step fails, and what to do.

use serde_json::Value;

use crate::world::{HttpPeer, World};

/// The status of one step of the only server.
fn status<'a>(report: &'a Value, step: &str) -> &'a str {
    let steps = report["servers"][0]["steps"].as_array().unwrap();
    let found = steps.iter().find(|one| one["step"] == step);
    found.unwrap_or_else(|| panic!("no step `{step}`: {report}"))["status"].as_str().unwrap()
}

#[tokio::test]
async fn a_healthy_server_passes_every_step() {
    let world = World::new();
    for (name, era) in [("modern", "modern"), ("legacy", "legacy")] {
        let peer = HttpPeer::start(&world, era).await;
        world.run(&["add", name, &peer.url]).await.ended(0);
        let ran = world.run(&["doctor", name, "--json"]).await.ended(0);
        let report = ran.json();
        for step in ["url", "tcp", "http", "era", "handshake", "tools", "prompts", "resources"] {
            assert_eq!(status(&report, step), "ok", "{step}");
        }
        assert!(report.to_string().contains(era), "{report}");
        let text = world.run(&["doctor", name]).await.ended(0);
        assert!(text.stdout.contains("handshake"), "{}", text.stdout);
    }
}

#[tokio::test]
async fn a_server_of_the_old_transport_is_known_by_its_event_stream() {
    let world = World::new();
    let peer =
        switchboard_testing::HttpPeer::start(switchboard_testing::Peer::legacy().tool("echo")).await.legacy_sse();
    world.run(&["add", "found", &peer.sse_url()]).await.ended(0);
    world.run(&["add", "said", &peer.sse_url(), "--transport", "sse", "--id", "said"]).await.ended(0);
    for id in ["found", "said"] {
        let report = world.run(&["doctor", id, "--json"]).await.ended(0).json();
        for step in ["tcp", "event stream", "era", "handshake", "tools"] {
            assert_eq!(status(&report, step), "ok", "{id} {step}");
        }
        assert!(report.to_string().contains("HTTP+SSE: messages go to /messages?session="), "{report}");
        let listed = world.run(&["list", "--json"]).await.ended(0).json();
        assert_eq!(listed["servers"][id]["transport"], "sse", "{listed}");
    }
    let other = HttpPeer::start(&world, "modern").await;
    world.run(&["add", "wrong", &other.url, "--transport", "sse", "--retry-attempts", "1"]).await.ended(4);
    let report = world.run(&["doctor", "wrong", "--json"]).await.ended(4).json();
    assert_eq!(status(&report, "event stream"), "failed");
}

#[tokio::test]
async fn a_server_that_went_away_fails_at_the_socket() {
    let world = World::new();
    let peer = HttpPeer::start(&world, "both").await;
    world.run(&["add", "gone", &peer.url]).await.ended(0);
    peer.stop().await;
    let report = world.run(&["doctor", "gone", "--json"]).await.ended(4).json();
    assert_eq!(status(&report, "tcp"), "failed");
    assert_eq!(status(&report, "handshake"), "skipped");
    assert!(report.to_string().contains("is the server running"), "{report}");
}

#[tokio::test]
async fn a_command_that_ends_at_once_is_told_with_its_last_words() {
    let world = World::new();
    world.run(&["add", "broken", "--retry-attempts", "1", "--", "sh", "-c", "echo no key >&2; exit 3"]).await.ended(4);
    let report = world.run(&["doctor", "broken", "--json"]).await.ended(4).json();
    assert_eq!(status(&report, "command"), "ok");
    assert_eq!(status(&report, "start"), "failed");
    assert!(report.to_string().contains("no key"), "{report}");
}

#[tokio::test]
async fn without_servers_the_data_folder_is_checked() {
    let world = World::new();
    let report = world.run(&["doctor", "--json"]).await.ended(0).json();
    assert_eq!(report["servers"], serde_json::json!([]));
    assert!(report["dataFolder"]["steps"].as_array().unwrap().iter().any(|step| step["step"] == "store"));
    std::fs::write(world.home().join("file"), "").unwrap();
    let ran = world.run(&["doctor", "--data", "file"]).await.ended(4);
    assert!(ran.stdout.contains("it is a file"), "{}", ran.stdout);
}
