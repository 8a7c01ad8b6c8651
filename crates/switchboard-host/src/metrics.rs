//! What the daemon counts, in the text format that Prometheus reads.
//!
//! Written by hand: two families are counted and one is looked up, which is less than a registry crate would need.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use switchboard::State;

use crate::call_table::Outcome;

/// The upper bounds of the histogram's buckets, in seconds.
const BUCKETS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

/// Counts of calls, since the daemon started.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Mutex<Calls>);

#[derive(Debug, Default, Clone)]
struct Calls {
    by_outcome: BTreeMap<&'static str, u64>,
    /// Calls that took no longer than each bound; not yet added up.
    buckets: [u64; BUCKETS.len()],
    seconds: f64,
    count: u64,
}

impl Metrics {
    /// Counts one call that has ended.
    pub(crate) fn count(&self, outcome: &Outcome, took: Duration) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.by_outcome.entry(label(outcome)).or_default() += 1;
        let seconds = took.as_secs_f64();
        if let Some(bucket) = BUCKETS.iter().position(|bound| seconds <= *bound) {
            calls.buckets[bucket] += 1;
        }
        calls.seconds += seconds;
        calls.count += 1;
    }

    /// The text, with the states of all servers and the number of open instances as they are now.
    pub(crate) fn text(&self, states: impl IntoIterator<Item = State>, instances: usize) -> String {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write_instances(&mut text, instances)
            .and_then(|()| write_servers(&mut text, states))
            .and_then(|()| write_calls(&mut text, &calls));
        text
    }
}

/// The outcome of a call, as a label: `ok`, `tool_error`, or the code of its failure.
fn label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done { is_error: false, .. } => "ok",
        Outcome::Done { is_error: true, .. } => "tool_error",
        Outcome::Failed(error) => error.kind().code(),
        Outcome::Cancelled => "cancelled",
        Outcome::Cut => "cut",
    }
}

fn write_instances(text: &mut String, instances: usize) -> std::fmt::Result {
    writeln!(text, "# HELP switchboard_instances Instances that are open.")?;
    writeln!(text, "# TYPE switchboard_instances gauge")?;
    writeln!(text, "switchboard_instances {instances}")
}

fn write_servers(text: &mut String, states: impl IntoIterator<Item = State>) -> std::fmt::Result {
    let mut counts = BTreeMap::from(State::ALL.map(|state| (state.as_str(), 0_u64)));
    for state in states {
        *counts.entry(state.as_str()).or_default() += 1;
    }
    writeln!(text, "# HELP switchboard_servers Registered servers by state.")?;
    writeln!(text, "# TYPE switchboard_servers gauge")?;
    for (state, count) in counts {
        writeln!(text, "switchboard_servers{{state=\"{state}\"}} {count}")?;
    }
    Ok(())
}

fn write_calls(text: &mut String, calls: &Calls) -> std::fmt::Result {
    writeln!(text, "# HELP switchboard_calls_total Calls that have ended, by outcome.")?;
    writeln!(text, "# TYPE switchboard_calls_total counter")?;
    for (outcome, count) in &calls.by_outcome {
        writeln!(text, "switchboard_calls_total{{outcome=\"{outcome}\"}} {count}")?;
    }
    writeln!(text, "# HELP switchboard_call_duration_seconds How long calls took.")?;
    writeln!(text, "# TYPE switchboard_call_duration_seconds histogram")?;
    let mut sum = 0;
    for (bound, count) in BUCKETS.iter().zip(calls.buckets) {
        sum += count;
        writeln!(text, "switchboard_call_duration_seconds_bucket{{le=\"{bound}\"}} {sum}")?;
    }
    writeln!(text, "switchboard_call_duration_seconds_bucket{{le=\"+Inf\"}} {}", calls.count)?;
    writeln!(text, "switchboard_call_duration_seconds_sum {}", calls.seconds)?;
    writeln!(text, "switchboard_call_duration_seconds_count {}", calls.count)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use switchboard::{Error, ErrorKind};

    use super::*;

    #[test]
    fn calls_are_counted_by_outcome_and_duration_and_servers_by_state() {
        let metrics = Metrics::default();
        let done = |is_error| Outcome::Done { result: "{}".parse().unwrap(), is_error, is_odd: false };
        metrics.count(&done(false), Duration::from_millis(4));
        metrics.count(&done(false), Duration::from_millis(250));
        metrics.count(&done(true), Duration::from_secs(2));
        let timeout = Error::new(ErrorKind::Timeout, "late");
        metrics.count(&Outcome::Failed(Arc::new(timeout)), Duration::from_secs(1000));

        let text = metrics.text([State::Ready, State::Ready, State::Failed], 2);
        for line in [
            "switchboard_instances 2",
            "switchboard_servers{state=\"ready\"} 2",
            "switchboard_servers{state=\"failed\"} 1",
            "switchboard_servers{state=\"closed\"} 0",
            "switchboard_calls_total{outcome=\"ok\"} 2",
            "switchboard_calls_total{outcome=\"tool_error\"} 1",
            "switchboard_calls_total{outcome=\"timeout\"} 1",
            "switchboard_call_duration_seconds_bucket{le=\"0.005\"} 1",
            "switchboard_call_duration_seconds_bucket{le=\"0.25\"} 2",
            "switchboard_call_duration_seconds_bucket{le=\"600\"} 3",
            "switchboard_call_duration_seconds_bucket{le=\"+Inf\"} 4",
            "switchboard_call_duration_seconds_sum 1002.254",
            "switchboard_call_duration_seconds_count 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
