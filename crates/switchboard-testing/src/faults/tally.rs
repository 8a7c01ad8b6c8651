//! What happened under faults: the decisions, and how often each call has run.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use super::Decision;

#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    decisions: Vec<Decision>,
    runs: HashMap<u64, u32>,
}

impl Tally {
    fn see(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no test thread panics while it holds the tally")
    }

    pub(super) fn decided(&self, decision: Decision) {
        self.see().decisions.push(decision);
    }

    pub(super) fn ran(&self, id: u64) {
        *self.see().runs.entry(id).or_default() += 1;
    }

    pub(super) fn decisions(&self) -> Vec<Decision> {
        let mut decisions = self.see().decisions.clone();
        decisions.sort_unstable();
        decisions
    }

    pub(super) fn runs_of(&self, id: u64) -> u32 {
        self.see().runs.get(&id).copied().unwrap_or_default()
    }

    pub(super) fn runs(&self) -> usize {
        self.see().runs.len()
    }
}
