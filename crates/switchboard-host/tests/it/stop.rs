//! Stopping: in order, in time, and with word of what was cut.

use std::time::Duration;

use http::Method;
use serde_json::json;
use switchboard_testing::{Gate, HttpPeer, Peer, Reply, Tool};
use tokio::net::TcpStream;

use crate::daemon::{Ask, Daemon, Setup};

fn slow(gate: &Gate) -> Peer {
    let gate = gate.clone();
    Peer::both().tool(Tool::new("slow").answers(move |_, _| Reply::text("at last").when(&gate)))
}

fn call() -> Ask {
    Ask::new(Method::POST, &Daemon::path("tools/call")).json(&json!({"serverId": "github", "name": "slow"}))
}

#[tokio::test]
async fn an_idle_daemon_stops_at_once_and_accepts_nothing_more() {
    let mut daemon = Setup::bare().start().await;
    let kept_alive = daemon.open(Ask::new(Method::GET, "/healthz")).await;
    daemon.begin_to_stop();
    assert!(daemon.stopped().await.is_clean());
    assert!(TcpStream::connect(daemon.address()).await.is_err());
    drop(kept_alive);
}

#[tokio::test]
async fn a_call_that_is_under_way_is_waited_for() {
    let gate = Gate::new();
    let peer = HttpPeer::start(slow(&gate)).await;
    let mut daemon = Setup::real().start().await;
    daemon.add("github", &peer.url()).await;
    let under_way = daemon.ask_aside(call());
    peer.wait_for("tools/call").await;
    daemon.begin_to_stop();
    gate.open();
    assert_eq!(under_way.await.unwrap().status, 200);
    assert!(daemon.stopped().await.is_clean());
}

#[tokio::test]
async fn a_call_that_does_not_end_in_time_is_cut_and_counted() {
    let peer = HttpPeer::start(slow(&Gate::new())).await;
    let mut daemon = Setup::real().options(|options| options.grace = Duration::from_millis(50)).start().await;
    daemon.add("github", &peer.url()).await;
    let waited_for = daemon.ask_aside(call());
    peer.wait_for("tools/call").await;
    daemon.ask(call().header("prefer", "respond-async")).await;
    peer.wait_for_nth("tools/call", 2).await;
    daemon.begin_to_stop();
    let stopped = daemon.stopped().await;
    assert_eq!((stopped.connections, stopped.calls), (1, 1));
    assert!(waited_for.await.is_err(), "the connection was cut");
}

#[tokio::test]
async fn event_streams_end_when_the_daemon_stops() {
    let mut daemon = Setup::real().start().await;
    let follow = Ask::new(Method::GET, &Daemon::path("events")).header("accept", "text/event-stream");
    let mut stream = daemon.open(follow).await;
    daemon.begin_to_stop();
    while stream.next().await.is_some() {}
    assert!(daemon.stopped().await.is_clean());
}
