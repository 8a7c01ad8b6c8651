//! Closing, removing and shutting down: in order, in time, whatever the server does.

use std::time::{Duration, Instant};

use http::Method;
use switchboard::event::EventKind;
use switchboard::{Added, ErrorKind, Manager, ServerId, ServerSpec, State, ToolCall};
use switchboard_testing::{Gate, HttpPeer, HttpReply, Peer, Reply, Tool};

use crate::fixture::{in_process, manager, over_http, ready, text};

/// What an end may take: the two seconds, and some for a busy machine.
const BOUND: Duration = Duration::from_secs(4);

fn id() -> ServerId {
    "peer".parse().unwrap()
}

/// A peer with a tool that answers when the gate is opened.
fn slow(peer: Peer, gate: &Gate) -> Peer {
    let gate = gate.clone();
    peer.tool(Tool::new("slow").answers(move |_, _| Reply::text("at last").when(&gate))).tool("echo")
}

async fn call(manager: &Manager, tool: &str) -> switchboard::Result<String> {
    manager.call(ToolCall::new(id(), tool)).await.map(|result| text(&result))
}

/// Waits for a state.
async fn state_is(manager: &Manager, wanted: State) {
    let mut events = manager.events();
    while manager.status(&id()).unwrap().state != wanted {
        tokio::time::timeout(Duration::from_secs(20), events.next()).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_close_is_bounded_whatever_the_server_makes_of_it_and_leaves_it_connectable() {
    let id = id();
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let server = server.on_http(|request| (request.method == Method::DELETE).then(HttpReply::hang));
    let manager = manager().await;
    ready(&manager, over_http(&server)).await;
    server.wait_for_stream().await;
    let began = Instant::now();
    let looked = async {
        server.wait_for_request(1, |request| request.method == Method::DELETE).await;
        manager.status(&id).unwrap().state
    };
    let (closed, state) = tokio::join!(manager.close(&id), looked);
    closed.unwrap();
    assert_eq!(state, State::Closed, "it is gone here before the server has agreed");
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    manager.close(&id).await.unwrap();
    assert!(matches!(manager.establish(&id).await.unwrap(), Added::Ready { .. }));
    assert_eq!(call(&manager, "echo").await.unwrap(), "{}");
}

#[tokio::test]
async fn closing_at_once_from_several_sides_is_fine() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let manager = manager().await;
    ready(&manager, over_http(&server)).await;
    let id = id();
    let (one, two, ()) = tokio::join!(manager.close(&id), manager.close(&id), manager.close_all());
    one.and(two).unwrap();
    assert_eq!(server.requests().iter().filter(|request| request.method == Method::DELETE).count(), 1);
    let closes = manager.events_since(0).0.into_iter().filter(|event| event.kind == EventKind::Close).count();
    assert_eq!(closes, 1);
}

#[tokio::test]
async fn an_unknown_server_is_said_to_be_and_removing_it_is_fine() {
    let manager = manager().await;
    assert_eq!(manager.close(&id()).await.unwrap_err().kind(), ErrorKind::UnknownServer);
    assert!(!manager.remove(&id()).await.unwrap());
}

#[tokio::test]
async fn closing_or_removing_a_server_on_its_way_ends_the_wait_for_it() {
    for method in ["server/discover", "initialize", "tools/list"] {
        for is_removed in [false, true] {
            let gate = Gate::new();
            let held = gate.clone();
            let server = HttpPeer::start(Peer::legacy().tool("echo"))
                .await
                .on_http(move |request| request.calls(method).then(|| HttpReply::usual().when(&held)));
            let manager = manager().await;
            let end = async {
                server.wait_for(method).await;
                if is_removed {
                    assert!(manager.remove(&id()).await.unwrap());
                } else {
                    manager.close(&id()).await.unwrap();
                }
            };
            let began = Instant::now();
            let (added, ()) = tokio::join!(manager.add(over_http(&server)), end);
            assert!(began.elapsed() < BOUND, "{method} {:?}", began.elapsed());
            match added.unwrap() {
                Added::Failed { error, .. } => assert_eq!(error.kind(), ErrorKind::ServerClosed, "{method}"),
                other => panic!("{method}: {other:?}"),
            }
            gate.open();
            if is_removed {
                assert_eq!(manager.status(&id()).unwrap_err().kind(), ErrorKind::UnknownServer);
            } else {
                assert_eq!(manager.status(&id()).unwrap().state, State::Closed);
                assert!(matches!(manager.establish(&id()).await.unwrap(), Added::Ready { .. }), "{method}");
            }
        }
    }
}

#[tokio::test]
async fn closing_ends_the_calls_under_way_over_http_too() {
    for peer in [Peer::legacy(), Peer::modern()] {
        let server = HttpPeer::start(slow(peer, &Gate::new())).await;
        let manager = manager().await;
        ready(&manager, over_http(&server)).await;
        let close = async {
            server.wait_for("tools/call").await;
            manager.close(&id()).await.unwrap();
        };
        let (outcome, ()) = tokio::join!(call(&manager, "slow"), close);
        let error = outcome.unwrap_err();
        assert_eq!((error.kind(), error.data().maybe_ran), (ErrorKind::ServerClosed, Some(true)));
    }
}

#[tokio::test]
async fn a_removed_server_may_be_added_again_while_the_old_one_still_ends() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let server = server.on_http(|request| {
        let is_old = request.header("mcp-session-id") == Some("session-1");
        (is_old && request.method == Method::DELETE).then(HttpReply::hang)
    });
    let manager = manager().await;
    ready(&manager, over_http(&server)).await;
    let again = async {
        server.wait_for_request(1, |request| request.method == Method::DELETE).await;
        ready(&manager, over_http(&server)).await
    };
    let id = id();
    let (removed, _) = tokio::join!(manager.remove(&id), again);
    assert!(removed.unwrap());
    assert_eq!(call(&manager, "echo").await.unwrap(), "{}");
}

#[tokio::test]
async fn shutdown_waits_for_a_call_that_ends_in_time() {
    for spec in [None, Some(())] {
        let gate = Gate::new();
        let peer = slow(Peer::legacy(), &gate);
        let server = HttpPeer::start(&peer).await;
        let manager = manager().await;
        ready(&manager, if spec.is_some() { over_http(&server) } else { in_process(&peer) }).await;
        let end = async {
            peer.wait_for("tools/call").await;
            let ending = manager.shutdown(Duration::from_secs(20));
            let refusing = async {
                let error = call(&manager, "echo").await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ServerClosed, "nothing new is begun");
                assert_eq!(manager.establish(&id()).await.unwrap_err().kind(), ErrorKind::ServerClosed);
                gate.open();
            };
            tokio::join!(ending, refusing).0
        };
        let (answer, cut) = tokio::join!(call(&manager, "slow"), end);
        assert_eq!(answer.unwrap(), "at last");
        assert!(cut.is_clean(), "{cut:?}");
        assert_eq!(manager.status(&id()).unwrap().state, State::Closed);
    }
}

#[tokio::test]
async fn shutdown_cuts_a_call_that_never_ends_and_says_so() {
    let peer = slow(Peer::legacy(), &Gate::new());
    let server = HttpPeer::start(&peer).await;
    let manager = manager().await;
    ready(&manager, over_http(&server)).await;
    let end = async {
        peer.wait_for("tools/call").await;
        manager.shutdown(Duration::from_millis(50)).await
    };
    let began = Instant::now();
    let (answer, cut) = tokio::join!(call(&manager, "slow"), end);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::ServerClosed);
    assert_eq!((cut.calls, cut.servers), (1, 0));
    assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    assert_eq!(server.requests().iter().filter(|request| request.method == Method::DELETE).count(), 1);
    assert!(manager.shutdown(Duration::ZERO).await.is_clean(), "once more is harmless");
}

#[tokio::test]
async fn shutdown_tells_those_that_wait_at_once() {
    let gate = Gate::new();
    let peer = slow(Peer::legacy(), &gate);
    let manager = manager().await;
    let mut spec: ServerSpec = in_process(&peer);
    spec.limits.in_flight = 1;
    ready(&manager, spec).await;
    let end = async {
        peer.wait_for("tools/call").await;
        manager.shutdown(Duration::from_secs(20)).await
    };
    let waiting = async {
        peer.wait_for("tools/call").await;
        let outcome = call(&manager, "slow").await;
        gate.open();
        outcome
    };
    let (first, second, cut) = tokio::join!(call(&manager, "slow"), waiting, end);
    assert_eq!(first.unwrap(), "at last");
    assert_eq!(second.unwrap_err().kind(), ErrorKind::ServerClosed);
    assert!(cut.is_clean());
    assert_eq!(peer.count("tools/call"), 1);
}

#[tokio::test]
async fn shutdown_tells_a_call_that_waits_for_a_server_on_its_way() {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let server = server.on_http(|request| request.calls("initialize").then(HttpReply::hang));
    let manager = manager().await;
    manager.register(over_http(&server)).await.unwrap();
    let end = async {
        server.wait_for("initialize").await;
        state_is(&manager, State::Connecting).await;
        manager.shutdown(Duration::from_secs(20)).await
    };
    let began = Instant::now();
    let (answer, cut) = tokio::join!(call(&manager, "echo"), end);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::NotReady);
    assert!(cut.is_clean() && began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
