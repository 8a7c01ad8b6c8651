//! What happened.

use http::Method;
use serde_json::{Value, json};
use switchboard_testing::{HttpPeer, Peer};

use crate::daemon::{Ask, Daemon, Opened, Setup};

fn follow(query: &str) -> Ask {
    Ask::new(Method::GET, &Daemon::path(&format!("events{query}"))).header("accept", "text/event-stream")
}

/// The next event of a stream, which comes in one part.
async fn next(stream: &mut Opened) -> Value {
    let text = stream.next().await.expect("the stream goes on");
    let event: Value =
        serde_json::from_str(text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap();
    assert!(text.lines().any(|line| line == format!("id: {}", event["seq"])), "{text}");
    event
}

#[tokio::test]
async fn events_are_listed_after_a_number() {
    let peer = HttpPeer::start(Peer::both()).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let all = daemon.get(&Daemon::path("events")).await.json();
    let all = all["events"].as_array().unwrap();
    assert!(all.iter().all(|event| event["type"].as_str().unwrap().starts_with("mcp:client:")));
    assert!(all.iter().any(|event| event["serverId"] == "github"));
    let second = all[1]["seq"].as_u64().unwrap();
    let rest = daemon.get(&Daemon::path(&format!("events?after={second}"))).await.json();
    assert_eq!(rest["events"].as_array().unwrap().as_slice(), &all[2..]);
    daemon.get(&Daemon::path("events?after=x")).await.problem(422, "invalid_input");
}

#[tokio::test]
async fn a_stream_begins_with_what_was_and_goes_on() {
    let peer = HttpPeer::start(Peer::both().tool("search")).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let last = daemon.get(&Daemon::path("events")).await.json()["events"].as_array().unwrap().len() as u64;

    let mut stream = daemon.open(follow(&format!("?after={}", last - 1))).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(next(&mut stream).await["seq"], last);
    let call = json!({"serverId": "github", "name": "search", "arguments": {"secret": "hush"}});
    daemon.post(&Daemon::path("tools/call"), &call).await;
    let event = next(&mut stream).await;
    assert_eq!((&event["type"], &event["seq"]), (&json!("mcp:client:call"), &json!(last + 1)));
    assert!(!event.to_string().contains("hush"), "contents are never told: {event}");
}

#[tokio::test]
async fn a_follower_that_reconnects_goes_on_where_it_was() {
    let peer = HttpPeer::start(Peer::both()).await;
    let daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let mut stream = daemon.open(follow("").header("last-event-id", "1")).await;
    assert_eq!(next(&mut stream).await["seq"], 2);
}

#[tokio::test]
async fn the_number_of_followers_is_bounded() {
    let daemon = Setup::real().options(|options| options.api.max_followers = 1).start().await;
    let first = daemon.open(follow("")).await;
    assert_eq!(first.status, 200);
    daemon.ask(follow("")).await.problem(429, "overloaded");
}
