//! The callers of a storm: each calls a random tool of a random server with a number that no other call has, and holds the
//! library to what it says of the outcome.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use switchboard::manager::CallLimits;
use switchboard::{CallResult, Manager, ServerId, State, ToolCall};
use switchboard_testing::Faults;

use super::field::Field;

/// The time of one answer, and of one call in all.
const ANSWER: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(4);
/// How late a call may end on a busy machine.
const SLACK: Duration = Duration::from_secs(1);

/// Those who call.
pub(super) struct Callers {
    manager: Manager,
    all: Vec<ServerId>,
    healthy: Vec<ServerId>,
    next_id: AtomicU64,
}

/// How calls ended.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug)]
struct Call {
    id: u64,
    /// Whether it may be repeated: it does no harm twice, and its caller allows it.
    is_repeatable: bool,
    took: Duration,
    /// The code of the error and whether it says that the call may have run; or the result.
    outcome: Result<(), (&'static str, Option<bool>)>,
}

impl Callers {
    pub(super) fn new(manager: &Manager, field: &Field) -> Self {
        let (all, healthy) = (field.ids(false), field.ids(true));
        Self { manager: manager.clone(), all, healthy, next_id: AtomicU64::new(1) }
    }

    /// So many callers call until `end`.
    pub(super) async fn run(&self, callers: usize, seed: u64, end: Instant) -> Calls {
        let caller = |number: u64| async move {
            let mut random = fastrand::Rng::with_seed(seed ^ number);
            let mut calls = Vec::new();
            while Instant::now() < end {
                let server = &self.all[random.usize(..self.all.len())];
                calls.push(self.call(server, if random.bool() { "write" } else { "read" }).await);
            }
            calls
        };
        Calls(join_all((0..callers as u64).map(caller)).await.into_iter().flatten().collect())
    }

    async fn call(&self, server: &ServerId, tool: &str) -> Call {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let call = ToolCall::new(server.clone(), tool)
            .arguments(switchboard::wire::Json::of(&serde_json::json!({ "id": id })).unwrap())
            .limits(CallLimits::new(Some(ANSWER), Some(DEADLINE)));
        let is_repeatable = tool == "read";
        let call = if is_repeatable { call.retry_if_safe() } else { call };
        let began = Instant::now();
        let outcome = self.manager.call(call).await;
        let took = began.elapsed();
        let outcome = match outcome {
            Ok(result) => {
                expect_echo(&result, id);
                Ok(())
            }
            Err(error) => Err((error.kind().code(), error.data().maybe_ran)),
        };
        Call { id, is_repeatable, took, outcome }
    }

    /// Calls each healthy server until it answers and is ready. How long the slowest took.
    pub(super) async fn wake_everyone(&self, limit: Duration, calls: &mut Calls) -> Duration {
        let began = Instant::now();
        let wake = |server: ServerId| async move {
            let mut calls = Vec::new();
            loop {
                let call = self.call(&server, "write").await;
                let is_back = call.outcome.is_ok() && self.manager.status(&server).unwrap().state == State::Ready;
                calls.push(call);
                if is_back || began.elapsed() > 4 * limit {
                    return (server, began.elapsed(), calls);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let mut slowest = Duration::ZERO;
        for (server, took, made) in join_all(self.healthy.iter().cloned().map(wake)).await {
            if took > limit {
                let state = self.manager.status(&server).unwrap();
                println!("`{server}` took {took:?}: {:?}, {:?}, {:?}", state.state, state.error, made.last());
            }
            slowest = slowest.max(took);
            calls.0.extend(made);
        }
        slowest
    }
}

impl Calls {
    /// No call hung, none ran twice that might not, and none ran of which that was denied.
    pub(super) fn check(&self, faults: &Faults) {
        for call in &self.0 {
            assert!(call.took <= DEADLINE + SLACK, "it hung: {call:?}");
            let (runs, most) = (faults.runs_of(call.id), if call.is_repeatable { 2 } else { 1 });
            let is_true = match call.outcome {
                Ok(()) => (1..=most).contains(&runs),
                Err((_, Some(false))) => runs == 0,
                Err(_) => runs <= most,
            };
            assert!(is_true, "{call:?} ran {runs} times");
        }
    }

    pub(super) fn figures(&self) -> String {
        let mut outcomes = BTreeMap::<&str, usize>::new();
        for call in &self.0 {
            *outcomes.entry(call.outcome.map_or_else(|(code, _)| code, |()| "ok")).or_default() += 1;
        }
        let longest = self.0.iter().map(|call| call.took).max().unwrap_or_default();
        format!("{} calls, the longest {longest:?}: {outcomes:?}", self.0.len())
    }
}

/// The answer is that of this call.
fn expect_echo(result: &CallResult, id: u64) {
    let text = result.result.to_value()["content"][0]["text"].as_str().map(str::to_owned);
    assert_eq!(text.as_deref(), Some(format!("{{\"id\":{id}}}").as_str()));
}
