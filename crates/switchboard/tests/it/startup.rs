//! Starts with many servers, some of which are slow or never answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use switchboard::spec::Retry;
use switchboard::store::MemoryStore;
use switchboard::{Added, Filter, Manager, ServerId, ServerSpec, State, ToolCall};
use switchboard_testing::{Gate, HttpPeer, HttpReply, Peer, Reply};

use crate::fixture::{in_process, manager, text};

fn named(name: &str, server: &HttpPeer) -> ServerSpec {
    ServerSpec::http(name, &server.url()).unwrap().id(name).unwrap()
}

fn id(name: &str) -> ServerId {
    name.parse().unwrap()
}

/// A store in which these servers are registered.
async fn registered(specs: impl IntoIterator<Item = ServerSpec>) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    let manager = Manager::builder("test", "1").shared_store(store.clone()).start_offline().await.unwrap();
    for spec in specs {
        manager.register(spec).await.unwrap();
    }
    manager.shutdown(Duration::ZERO).await;
    store
}

#[tokio::test]
async fn b053_one_server_that_never_answers_delays_nobody() {
    let good = join_all((0..3).map(|_| HttpPeer::start(Peer::both().tool("echo")))).await;
    let silent = HttpPeer::start(Peer::both()).await.on_http(|_| Some(HttpReply::hang()));
    let specs = good.iter().enumerate().map(|(number, server)| named(&format!("good-{number}"), server));
    let store = registered([named("silent", &silent)].into_iter().chain(specs)).await;

    let manager = Manager::builder("test", "1").shared_store(store).start().await.unwrap();
    silent.wait_for_request(1, |_| true).await;
    for number in 0..3 {
        let result = manager.call(ToolCall::new(id(&format!("good-{number}")), "echo")).await.unwrap();
        assert_eq!(text(&result), "{}");
    }
    let status = manager.status(&id("silent")).unwrap();
    assert_eq!((status.state, status.attempt), (State::Connecting, 1));
    assert_eq!(manager.wait_settled(Duration::ZERO).await, [id("silent")]);
    let ready = Filter::all().state(State::Ready);
    assert_eq!(manager.tools(&ready).len(), 3);
}

#[tokio::test]
async fn b053_the_server_that_never_answered_fails_with_its_cause() {
    let silent = HttpPeer::start(Peer::both()).await.on_http(|_| Some(HttpReply::hang()));
    let mut spec = named("silent", &silent).retry(Retry::attempts(1));
    spec.timeouts.connect = Duration::from_millis(100);
    let manager = Manager::builder("test", "1").shared_store(registered([spec]).await).start().await.unwrap();
    silent.wait_for_request(1, |_| true).await;
    assert_eq!(manager.wait_settled(Duration::from_secs(20)).await, []);
    let status = manager.status(&id("silent")).unwrap();
    assert_eq!(status.state, State::Failed);
    let error = status.error.unwrap();
    assert!(error.contains("`silent`") && error.contains("no answer to `initialize`"), "{error}");
    assert!(status.next_attempt_at.is_some(), "it is tried again by itself");
}

#[tokio::test(start_paused = true)]
async fn b053_in_memory_too_the_good_ones_are_ready_at_once() {
    let manager = manager().await;
    let silent = Peer::both().every(|_| Reply::stall());
    let spec = |name: &str, peer: &Peer| {
        let mut spec = in_process(peer);
        spec.name = name.to_owned();
        spec.id(name).unwrap().retry(Retry::attempts(3))
    };
    let add_silent = manager.add(spec("silent", &silent));
    let add_good = async {
        let began = tokio::time::Instant::now();
        for number in 0..3 {
            let added = manager.add(spec(&format!("good-{number}"), &Peer::both().tool("echo"))).await.unwrap();
            assert!(matches!(added, Added::Ready { .. }), "{added:?}");
        }
        assert_eq!(manager.status(&id("silent")).unwrap().state, State::Connecting);
        assert!(began.elapsed() < Duration::from_secs(1));
    };
    let began = tokio::time::Instant::now();
    let (added, ()) = tokio::join!(add_silent, add_good);
    let Added::Failed { error, .. } = added.unwrap() else { panic!("it never answers") };
    assert!(error.is_timeout(), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(45), "three attempts of 10 s: {:?}", began.elapsed());
    assert_eq!(manager.status(&id("silent")).unwrap().state, State::Failed);
}

/// Counts how many peers are at work at the same time.
#[derive(Clone, Default)]
struct AtWork(Arc<(AtomicUsize, AtomicUsize)>);

impl AtWork {
    /// A peer that takes its time before it answers the probe.
    fn slow(&self) -> Peer {
        let this = self.clone();
        Peer::modern().tool("echo").on("server/discover", move |_, context| {
            let (this, usual) = (this.clone(), context.usual());
            Reply::later(async move {
                let now = this.0.0.fetch_add(1, Ordering::SeqCst) + 1;
                this.0.1.fetch_max(now, Ordering::SeqCst);
                for _ in 0..200 {
                    tokio::task::yield_now().await;
                }
                this.0.0.fetch_sub(1, Ordering::SeqCst);
                usual
            })
        })
    }

    fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn b055_sixty_slow_servers_start_a_few_at_a_time_and_all_become_ready() {
    let at_work = AtWork::default();
    let servers = join_all((0..60).map(|_| HttpPeer::start(at_work.slow()))).await;
    let specs = servers.iter().enumerate().map(|(number, server)| named(&format!("s{number}"), server));
    let store = registered(specs).await;
    let builder = Manager::builder("test", "1").shared_store(store).restore_concurrency(8);
    let manager = builder.start().await.unwrap();
    assert_eq!(manager.wait_settled(Duration::from_secs(20)).await, []);
    assert_eq!(manager.tools(&Filter::all().state(State::Ready)).len(), 60);
    assert!((2..=8).contains(&at_work.most()), "{} at once", at_work.most());
}

#[tokio::test]
async fn b055_sixty_servers_added_at_once_all_become_ready() {
    let manager = manager().await;
    let at_work = AtWork::default();
    let added = join_all((0..60).map(|number| {
        let mut spec = in_process(&at_work.slow()).id(&format!("s{number}")).unwrap();
        spec.name = format!("s{number}");
        manager.add(spec)
    }));
    for added in added.await {
        assert!(matches!(added.unwrap(), Added::Ready { .. }));
    }
    assert_eq!(manager.tools(&Filter::all()).len(), 60);
}

#[tokio::test]
async fn b055_the_clock_of_a_connect_starts_when_its_turn_has_come() {
    let gate = Gate::new();
    let held = gate.clone();
    let first =
        HttpPeer::start(Peer::modern().tool("echo")).await.on_http(move |_| Some(HttpReply::usual().when(&held)));
    let second = HttpPeer::start(Peer::modern().tool("echo")).await;
    let mut waits = named("second", &second).retry(Retry::attempts(1));
    waits.timeouts.connect = Duration::from_millis(400);
    let store = registered([named("first", &first), waits]).await;
    let builder = Manager::builder("test", "1").shared_store(store).restore_concurrency(1);
    let manager = builder.start().await.unwrap();
    first.wait_for_request(1, |_| true).await;
    assert_eq!(manager.wait_settled(Duration::from_millis(500)).await, [id("first"), id("second")]);
    assert_eq!(second.accepted(), 0, "it waits for its turn");
    gate.open();
    assert_eq!(manager.wait_settled(Duration::from_secs(20)).await, []);
    assert_eq!(manager.tools(&Filter::all().state(State::Ready)).len(), 2);
}

#[tokio::test]
async fn a_server_that_somebody_waits_for_does_not_queue_behind_a_restore() {
    let silent = HttpPeer::start(Peer::both()).await.on_http(|_| Some(HttpReply::hang()));
    let server = HttpPeer::start(Peer::both().tool("echo")).await;
    let store = registered([named("silent", &silent)]).await;
    let builder = Manager::builder("test", "1").shared_store(store).restore_concurrency(1);
    let manager = builder.start().await.unwrap();
    silent.wait_for_request(1, |_| true).await;
    assert!(matches!(manager.add(named("new", &server)).await.unwrap(), Added::Ready { .. }));
}
