//! Who runs, in which order, and with how much work.
//!
//! In every round the floor, ours and the peers take turns, so that a machine that slows down slows them all.

use std::path::Path;

use crate::contest::Contestant;

/// Where `bench/run.sh` builds and installs, seen from the root of the repository.
pub const BUILT: &str = "target/bench";

/// Calls under way at once.
pub const CONCURRENCY: [usize; 3] = [1, 16, 64];

/// The name of the one who measures how servers come back.
pub const RECOVERY: &str = "switchboard recovery";

pub const ERAS: [&str; 2] = ["modern", "legacy"];

/// How much is measured.
pub struct Plan {
    quick: bool,
    pub rounds: usize,
    /// Servers held at once.
    pub held: usize,
    /// Starts of the program.
    pub starts: usize,
    /// Losses of servers that come back.
    pub losses: usize,
    /// Seconds in which the dials of dead servers are counted.
    pub dead: usize,
}

impl Plan {
    pub fn new(quick: bool) -> Self {
        let (losses, dead) = if quick { (20, 20) } else { (100, 60) };
        Self { quick, rounds: 3, held: 1_000, starts: 20, losses, dead }
    }

    pub fn callers(&self, concurrency: usize) -> Vec<Contestant> {
        let share = if self.quick { 4 } else { 1 };
        // A few seconds for each, at the speed that each has.
        let fast = if concurrency == 1 { 30_000 } else { 60_000 } / share;
        let c = concurrency.to_string();
        let rust = |name: &str, program: &str, calls: usize, more: &[&str]| {
            let calls = calls.to_string();
            let command = [&[program], more, &["URL", &calls, &c]].concat();
            Contestant::new(format!("{name} @{c}"), &command)
        };
        let floor = |kind: &str| rust(&format!("bare {kind}"), &built("release/yard-floor"), fast, &[kind]);
        let ours = |era: &str| rust(&format!("switchboard {era}"), &built("release/examples/calls"), fast, &[era]);
        let rmcp = |era: &str| {
            rust(&format!("rmcp pooled {era}"), &built("release/rmcp-calls"), fast / 2, &[era]).with("pooled")
        };
        let mut order =
            vec![floor("hyper"), ours("modern"), rmcp("modern"), floor("reqwest"), ours("legacy"), rmcp("legacy")];
        if !self.quick {
            order.extend(ERAS.map(|era| rust(&format!("rmcp {era}"), &built("release/rmcp-calls"), 6_000, &[era])));
            order.extend(ERAS.map(|era| {
                let kind = format!("ts-{era}");
                let calls = built("js/calls.mjs");
                Contestant::new(format!("TypeScript {era} @{c}"), &["node", &calls, &kind, "URL", "1500", &c])
            }));
            order.extend(["py-mcp", "py-fastmcp"].map(|kind| {
                let python = built("py/bin/python");
                Contestant::new(
                    format!("{kind} legacy @{c}"),
                    &[&python, "bench/peers/py/calls.py", kind, "URL", "700", &c],
                )
            }));
        }
        present(order)
    }

    pub fn holders(&self) -> Vec<Contestant> {
        let count = self.held.to_string();
        let rust = |name: &str, program: &str, era: &str| {
            Contestant::new(format!("{name} {era} held"), &[&built(program), era, "URL", &count, "64"])
        };
        let mut order = Vec::new();
        for era in ERAS {
            order.push(rust("switchboard", "release/examples/hold", era));
            order.push(rust("rmcp pooled", "release/rmcp-hold", era).with("pooled"));
        }
        if !self.quick {
            order.extend(ERAS.map(|era| rust("rmcp", "release/rmcp-hold", era)));
            order.extend([("modern", "auto"), ("legacy", "legacy")].map(|(era, mode)| {
                let hold = built("js/hold.mjs");
                let command = ["node", "--expose-gc", &hold, mode, "URL", &count, "64"];
                Contestant::new(format!("TypeScript {era} held"), &command)
            }));
        }
        present(order)
    }

    pub fn catalogues(&self) -> Vec<Contestant> {
        let floor = Contestant::new("catalogue floor".to_owned(), &[&built("release/catalogue-floor")]);
        let example = built("release/examples/catalogue");
        let ours = Contestant::new("switchboard catalogue".to_owned(), &[&example, &built("tools-10000.jsonl")]);
        present(vec![floor, ours])
    }

    /// Takes its time, and there is nobody to compare it with: one round is enough.
    pub fn recovery(&self) -> Vec<Contestant> {
        let (losses, dead) = (self.losses.to_string(), self.dead.to_string());
        present(vec![Contestant::new(RECOVERY.to_owned(), &[&built("release/examples/recover"), &losses, &dead])])
    }
}

fn built(path: &str) -> String {
    format!("{BUILT}/{path}")
}

/// Those whose programs and scripts are there; the report says who is missing.
fn present(order: Vec<Contestant>) -> Vec<Contestant> {
    let is_there = |contestant: &Contestant| {
        contestant.command.iter().filter(|word| word.starts_with(BUILT)).all(|path| Path::new(path).exists())
    };
    order.into_iter().filter(is_there).collect()
}
