//! The storm: many servers, each of which suffers faults at random, and many callers who do not care. What must hold is said
//! in [`Outcome::check`]; the seed decides which fault meets which exchange.
//!
//! The long storm and the leak tests ask about the whole process, so each wants one of its own: `./test.sh storm`.

mod callers;
mod dials;
mod field;
mod leaks;

use std::time::{Duration, Instant};

use switchboard::Manager;
use switchboard_testing::Faults;
use switchboard_testing::process::{open_files, resident_memory, wait_until};

use callers::{Callers, Calls};
use dials::Dials;
use field::Field;
pub(crate) use field::refusing;

/// How soon after the last fault every healthy server is ready.
const CALM: Duration = Duration::from_secs(5);
/// How long what was closed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much more memory a process may hold after a storm than after a small one: what the allocator keeps.
const MEMORY: u64 = 32 << 20;

/// How large a storm is.
#[derive(Debug, Clone, Copy)]
struct Plan {
    seed: u64,
    servers: usize,
    callers: usize,
    length: Duration,
}

/// What a storm left behind.
struct Outcome {
    faults: Faults,
    calls: Calls,
    dials: Dials,
    /// How long after the last fault each healthy server took to answer a call again; the slowest.
    calm: Duration,
}

/// Runs a storm and expects it to leave nothing behind in this runtime.
async fn storm(plan: Plan) -> Outcome {
    let tasks_before = alive_tasks();
    let faults = Faults::seeded(plan.seed);
    let manager = Manager::builder("storm", "1.0.0").start().await.unwrap();
    let dials = Dials::follow(&manager);
    let field = Field::new(plan.servers, &faults).await;
    let callers = Callers::new(&manager, &field);
    field.register_all(&manager).await;

    let calling = async {
        let mut calls = callers.run(plan.callers, plan.seed, Instant::now() + plan.length).await;
        faults.stop();
        let calm = callers.wake_everyone(CALM, &mut calls).await;
        (calls, calm)
    };
    let (_, (calls, calm)) = tokio::join!(field.add_all(&manager), calling);

    let dials = dials.end().await;
    manager.shutdown(Duration::from_secs(5)).await;
    drop(callers);
    drop(manager);
    let all_closed = wait_until(PATIENCE, || field.open_sockets() == 0).await;
    assert!(all_closed, "{} sockets are still open at the servers", field.open_sockets());
    assert_eq!(field.complaints(), Vec::<String>::new(), "the client broke the rules");
    drop(field);
    let all_ended = wait_until(PATIENCE, || alive_tasks() <= tasks_before).await;
    assert!(all_ended, "{} tasks run, and {tasks_before} did before", alive_tasks());
    Outcome { faults, calls, dials, calm }
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

impl Outcome {
    fn check(&self) {
        println!("{}", self.figures());
        self.calls.check(&self.faults);
        self.dials.check();
        assert!(self.calm <= CALM, "the last server was back {:?} after the storm", self.calm);
    }

    fn figures(&self) -> String {
        let decisions = self.faults.decisions();
        let (most, server) = self.dials.most_in_a_minute();
        format!(
            "{} faults; {} calls ran; {}\nmost connects in a minute: {most}, of {server}; all back after {:?}",
            decisions.len(),
            self.faults.runs(),
            self.calls.figures(),
            self.calm,
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_passes_and_every_healthy_server_is_back() {
    let plan = Plan { seed: 1, servers: 40, callers: 20, length: Duration::from_secs(5) };
    storm(plan).await.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes more than a minute: ./test.sh storm"]
async fn a_minute_of_storm_over_two_hundred_servers_leaves_nothing_behind() {
    let seed = seed();
    println!("seed {seed}");
    let plan = Plan { seed, servers: 200, callers: 20, length: Duration::from_secs(60) };
    storm(Plan { length: Duration::from_secs(5), ..plan }).await.check();
    let (memory, files) = (resident_memory(), open_files());
    let outcome = storm(plan).await;
    outcome.check();
    drop(outcome);
    let (memory_after, files_after) = (resident_memory(), open_files());
    println!(
        "memory: {} MiB before, {} MiB after; files: {files} before, {files_after} after",
        memory >> 20,
        memory_after >> 20
    );
    assert!(files_after <= files, "{files_after} files are open, and {files} were before");
    assert!(memory_after <= memory + MEMORY, "{memory_after} bytes are held, and {memory} were before");
}

/// The seed of the long storm: that of `STORM_SEED`, to have one again, or a fixed one.
fn seed() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a person repeats a storm with it")]
    let given = std::env::var("STORM_SEED");
    given.map_or(20_261_130, |seed| seed.parse().expect("STORM_SEED is a number"))
}
