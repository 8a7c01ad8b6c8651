//! `recover LOSSES SECONDS`: how soon servers are ready again that went away for a moment, and how often servers are dialled
//! that never come back, in SECONDS. Prints one JSON line of figures.
//!
//! The servers are in this process, behind real sockets. Twenty lanes share the losses. What is measured from a server's
//! return to `ready` is mostly the rest of the wait that is under way then: 0.5, 0.5, 1, 2, 4 s, each a quarter more or less.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use switchboard::event::EventKind;
use switchboard::manager::CallLimits;
use switchboard::{Added, Manager, ServerId, ServerSpec, State, ToolCall};
use switchboard_testing::{HttpPeer, Peer};

/// Servers that go and come back at the same time.
const LANES: usize = 20;
/// How long a server is there before it goes: long enough for its loss to count as the first.
const HOLDS: Duration = Duration::from_millis(5_200);
/// How long it is away at most, in milliseconds.
const AWAY: u64 = 1_500;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    #[expect(clippy::disallowed_methods, reason = "a program of its own")]
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [losses, seconds] = &given[..] else { return Err("usage: recover LOSSES SECONDS".into()) };
    let (losses, length): (usize, Duration) = (losses.parse()?, Duration::from_secs(seconds.parse()?));
    let lanes = join_all((0..LANES).map(|lane| returns(lane, losses.div_ceil(LANES))));
    let (lanes, left_alone, called) = tokio::join!(lanes, dials(length, false), dials(length, true));
    let mut times = lanes.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64();
    let line = json!({
        "kind": "switchboard", "losses": times.len(), "back_p50_s": at(50), "back_p99_s": at(99),
        "seconds": length.as_secs(), "dials_left_alone": left_alone?, "dials_when_called": called?,
    });
    print(&line.to_string());
    Ok(())
}

/// How long it took after each return of one server until it was ready.
async fn returns(lane: usize, count: usize) -> Result<Vec<Duration>, Failure> {
    let (manager, server, id) = begin().await?;
    let mut random = fastrand::Rng::with_seed(lane as u64);
    // The lanes are out of step, as servers are.
    tokio::time::sleep(Duration::from_millis(random.u64(..2_000))).await;
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        tokio::time::sleep(HOLDS).await;
        server.forget_sessions();
        server.stop().await;
        // A call that fails is how the loss is noticed at once.
        call(&manager, &id).await;
        until(&manager, &id, |state| state != State::Ready).await?;
        tokio::time::sleep(Duration::from_millis(random.u64(..AWAY))).await;
        server.start_again().await;
        let began = Instant::now();
        until(&manager, &id, |state| state == State::Ready).await?;
        times.push(began.elapsed());
    }
    Ok(times)
}

/// How often a server is dialled that is gone for good, left alone or called all the time.
async fn dials(length: Duration, is_called: bool) -> Result<usize, Failure> {
    let (manager, server, id) = begin().await?;
    let mut events = manager.events();
    server.stop().await;
    call(&manager, &id).await;
    let calling = async {
        if !is_called {
            return std::future::pending().await;
        }
        loop {
            call(&manager, &id).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut dials = 0;
    let count = async {
        while let Some(event) = events.next().await {
            dials += usize::from(event.kind == EventKind::Preconnect);
        }
    };
    tokio::select! {
        () = calling => {}
        () = count => {}
        () = tokio::time::sleep(length) => {}
    }
    Ok(dials)
}

/// A call that fails soon, as the server is not there.
async fn call(manager: &Manager, id: &ServerId) {
    const SOON: Option<Duration> = Some(Duration::from_millis(200));
    let _ = manager.call(ToolCall::new(id.clone(), "echo").limits(CallLimits::new(SOON, SOON))).await;
}

/// A legacy server, ready in a manager.
async fn begin() -> Result<(Manager, HttpPeer, ServerId), Failure> {
    let server = HttpPeer::start(Peer::legacy().tool("echo")).await;
    let manager = Manager::builder("yard", "1.0.0").start().await?;
    match manager.add(ServerSpec::http("yard", &server.url())?.id("yard")?).await? {
        Added::Ready { id } => Ok((manager, server, id)),
        other => Err(format!("{other:?}").into()),
    }
}

/// Follows the events until the server's state fits.
async fn until(manager: &Manager, id: &ServerId, fits: impl Fn(State) -> bool) -> Result<(), Failure> {
    let mut events = manager.events();
    while !fits(manager.status(id)?.state) {
        events.next().await.ok_or("the manager is gone")?;
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print(line: &str) {
    println!("{line}");
}
