//! What a step found, how long it took, and what to do about it.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::output::Output;
use crate::problem::Result;

/// The width of the columns of the status and of the step's name.
const STATUS_WIDTH: usize = 8;
const NAME_WIDTH: usize = 20;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// As it should be.
    Ok,
    /// It works, but something is odd.
    Warning,
    /// It does not work.
    Failed,
    /// It was not tried.
    Skipped,
}

/// What a step found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) status: Status,
    pub(super) found: String,
    pub(super) advice: Option<String>,
}

impl Finding {
    pub(super) fn ok(found: impl Into<String>) -> Self {
        Self { status: Status::Ok, found: found.into(), advice: None }
    }

    pub(super) fn warning(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Status::Warning, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn failed(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { status: Status::Failed, found: found.into(), advice: Some(advice.into()) }
    }

    pub(super) fn skipped(why: impl Into<String>) -> Self {
        Self { status: Status::Skipped, found: why.into(), advice: None }
    }
}

/// One step, done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    step: String,
    status: Status,
    found: String,
    took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Step {
    /// The step in one line, and its advice in another.
    fn text(&self) -> String {
        let status = match self.status {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Failed => "failed",
            Status::Skipped => "skipped",
        };
        let took = if self.took_ms > 0 { format!(" ({} ms)", self.took_ms) } else { String::new() };
        let mut text = format!("  {status:STATUS_WIDTH$} {:NAME_WIDTH$} {}{took}", self.step, self.found);
        if let Some(advice) = &self.advice {
            text.push_str(&format!("\n  {:STATUS_WIDTH$} {:NAME_WIDTH$} → {advice}", "", ""));
        }
        text
    }
}

/// The steps of one thing that is checked, said as they are done.
#[derive(Debug)]
pub(super) struct Checkup<'a> {
    output: &'a Output,
    steps: Vec<Step>,
}

impl<'a> Checkup<'a> {
    /// Begins the checks of `what`.
    pub(super) fn begin(output: &'a Output, what: &str) -> Result<Self> {
        if !output.is_json() {
            output.line(what)?;
        }
        Ok(Self { output, steps: Vec::new() })
    }

    /// Makes a step, and says what it found; whether it worked.
    pub(super) async fn step(&mut self, name: &str, check: impl Future<Output = Finding>) -> Result<bool> {
        let progress = self.output.progress(name.to_owned());
        let begin = Instant::now();
        let finding = check.await;
        drop(progress);
        let works = finding.status != Status::Failed;
        self.record(name, finding, begin.elapsed())?;
        Ok(works)
    }

    /// Records what is known without trying.
    pub(super) fn say(&mut self, name: &str, finding: Finding) -> Result<()> {
        self.record(name, finding, Duration::ZERO)
    }

    /// Records that a step was not tried.
    pub(super) fn skip(&mut self, name: &str, why: &str) -> Result<()> {
        self.say(name, Finding::skipped(why))
    }

    /// Whether a step failed.
    pub(super) fn has_failed(&self) -> bool {
        self.steps.iter().any(|step| step.status == Status::Failed)
    }

    /// The steps as JSON.
    pub(super) fn into_document(self) -> Value {
        // Texts and numbers always are JSON.
        serde_json::to_value(self.steps).unwrap_or_default()
    }

    fn record(&mut self, name: &str, finding: Finding, took: Duration) -> Result<()> {
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let Finding { status, found, advice } = finding;
        let step = Step { step: name.to_owned(), status, found, took_ms, advice };
        if !self.output.is_json() {
            self.output.line(&step.text())?;
        }
        self.steps.push(step);
        Ok(())
    }
}

/// The first `count` characters, in one line, harmless for a terminal.
pub(super) fn excerpt(text: &str, count: usize) -> String {
    let line = crate::output::harmless(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(count) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line_and_its_advice_another() {
        let step = Step {
            step: "tcp".into(),
            status: Status::Failed,
            found: "refused".into(),
            took_ms: 3,
            advice: Some("start it".into()),
        };
        let lines: Vec<String> = step.text().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "  failed   tcp                  refused (3 ms)");
        assert_eq!(lines[1].trim_start(), "→ start it");
        assert_eq!(lines[0].find("refused"), lines[1].find('→'));
    }

    #[test]
    fn excerpts_are_short_and_harmless() {
        assert_eq!(excerpt("<html>\n  <b>é</b>\u{1b}[2J", 9), "<html> <b…");
        assert_eq!(excerpt("short", 9), "short");
    }
}
