//! Several servers of which some are not there: what the others offer is there all the same, and those that are gone are not
//! dialled for ever.

use std::time::Duration;

use switchboard::event::EventKind;
use switchboard::spec::Retry;
use switchboard::{Added, ErrorKind, Filter, Manager, ServerSpec, State, ToolCall};
use switchboard_testing::{HttpPeer, HttpReply, Peer, Resource};
use tokio::time::{Instant, timeout_at};

use crate::fixture::{manager, over_http, ready};
use crate::storm::refusing;

const DAY: Duration = Duration::from_secs(86_400);

fn at(socket: &tokio::net::TcpSocket) -> ServerSpec {
    ServerSpec::http("gone", &format!("http://{}/mcp", socket.local_addr().unwrap())).unwrap().id("gone").unwrap()
}

#[tokio::test]
async fn b057_one_server_that_refuses_costs_nothing_of_the_other() {
    let peer = Peer::both().tool("echo").prompt("greet").resource(Resource::text("file:///a", "hello"));
    let (server, socket) = (HttpPeer::start(peer).await, refusing());
    let manager = manager().await;
    ready(&manager, over_http(&server)).await;
    let Added::Failed { id, error } = manager.add(at(&socket).retry(Retry::attempts(1))).await.unwrap() else {
        panic!("it refuses")
    };
    assert_eq!(error.kind(), ErrorKind::ConnectFailed);

    let all = Filter::all();
    assert_eq!(manager.tools(&all).iter().map(|tool| tool.key.as_str()).collect::<Vec<_>>(), ["tool_peer_echo"]);
    assert_eq!((manager.prompts(&all).len(), manager.resources(&all).len()), (1, 1));
    assert!(manager.call(ToolCall::by_key("tool_peer_echo")).await.is_ok());
    let status = manager.status(&id).unwrap();
    assert_eq!(status.state, State::Failed);
    assert!(status.error.as_deref().unwrap().contains("refused"), "{:?}", status.error);
    assert_eq!(manager.status(&over_http(&server).id.unwrap()).unwrap().error, None);
}

/// When the only server of this manager is dialled within a day.
async fn dials_of_a_day(manager: &Manager) -> Vec<Duration> {
    let (began, mut events, mut dials) = (Instant::now(), manager.events(), Vec::new());
    while let Ok(Some(event)) = timeout_at(began + DAY, events.next()).await {
        if event.kind == EventKind::Preconnect {
            dials.push(began.elapsed());
        }
    }
    dials
}

#[tokio::test(start_paused = true)]
async fn b041_a_server_that_refuses_is_dialled_ever_more_seldom() {
    let socket = refusing();
    let manager = manager().await;
    manager.register(at(&socket)).await.unwrap();
    let connecting = async { manager.connect(&"gone".parse().unwrap()).await };
    let (connected, dials) = tokio::join!(connecting, dials_of_a_day(&manager));
    assert!(!matches!(connected.unwrap(), switchboard::manager::Connected::Connected));

    // Three attempts, then after 30 s, 60 s, … and every 15 min, each a quarter more or less.
    let waits: Vec<f64> = dials.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).skip(2).collect();
    assert!((80..=130).contains(&dials.len()), "{} dials", dials.len());
    for (round, wait) in waits.iter().enumerate() {
        let step = (30.0 * 2_f64.powi(i32::try_from(round).unwrap())).min(900.0);
        // The dial itself may take until its limit, as the paused clock does not wait for a socket.
        assert!((step * 0.74..=step * 1.26 + 10.0).contains(wait), "wait {round} took {wait} s");
    }
    let shortest = waits[6..].iter().copied().fold(f64::MAX, f64::min);
    let longest = waits[6..].iter().copied().fold(0.0, f64::max);
    assert!(longest - shortest > 100.0, "the waits are spread: {shortest} to {longest}");
}

#[tokio::test]
async fn b041_a_server_that_wants_a_sign_in_is_not_dialled_again() {
    let server = HttpPeer::start(Peer::both()).await.on_http(|_| Some(HttpReply::status(401)));
    let manager = manager().await;
    let added = manager.add(over_http(&server)).await.unwrap();
    assert_eq!(manager.status(added.id()).unwrap().state, State::Authenticating);
    let requests = server.requests().len();

    tokio::time::pause();
    assert_eq!(dials_of_a_day(&manager).await, []);
    let error = manager.call(ToolCall::new(added.id().clone(), "echo")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SignInRequired);
    assert_eq!(manager.status(added.id()).unwrap().state, State::Authenticating);
    assert_eq!(server.requests().len(), requests, "neither time nor a call dials it");
}
