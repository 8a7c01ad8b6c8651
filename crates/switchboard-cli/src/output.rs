//! Where words go: data to standard output, everything else to standard error, progress to a terminal only.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::problem::{Failure, Problem, Result};
use crate::settings::Settings;
use crate::table::Table;

/// The program's mouth.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    json: bool,
    color: bool,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
}

impl Output {
    /// Output as the settings want it.
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            json: settings.json,
            color: settings.color,
            stdout_is_terminal: settings.stdout_is_terminal,
            stderr_is_terminal: settings.stderr_is_terminal,
        }
    }

    /// Output before the settings are known: nothing but text or JSON.
    pub(crate) const fn plain(json: bool) -> Self {
        Self { json, color: false, stdout_is_terminal: false, stderr_is_terminal: false }
    }

    /// Whether JSON is wanted.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person looks at standard output, so that it may be drawn anew.
    pub(crate) const fn is_live(&self) -> bool {
        self.stdout_is_terminal && !self.json
    }

    /// One line of data, or several.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        let text = if self.stdout_is_terminal { harmless(text) } else { text.to_owned() };
        write_out(&[text.as_bytes(), b"\n"])
    }

    /// Text as it is, without a line's end.
    pub(crate) fn raw(&self, text: &[u8]) -> Result<()> {
        write_out(&[text])
    }

    /// A JSON text as it is, on lines of its own.
    pub(crate) fn json(&self, text: &str) -> Result<()> {
        write_out(&[text.as_bytes(), b"\n"])
    }

    /// Anything as one JSON document.
    pub(crate) fn document<T: Serialize>(&self, value: &T) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|cause| write_failed(io::Error::other(cause)))?;
        self.json(&text)
    }

    /// A table.
    pub(crate) fn table(&self, table: &Table) -> Result<()> {
        write_out(&[table.text(self.color).as_bytes()])
    }

    /// A remark for people, on standard error.
    pub(crate) fn note(&self, text: &str) {
        let text = if self.stderr_is_terminal { harmless(text) } else { text.to_owned() };
        // Nobody to tell when standard error is gone.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// What failed, on standard error.
    pub(crate) fn problem(&self, problem: &Problem) {
        if self.json {
            let _ = writeln!(io::stderr().lock(), "{}", problem.document());
        } else {
            self.note(&problem.text());
        }
    }

    /// A sign that something is under way; shown on a terminal only.
    pub(crate) fn progress(&self, what: impl Into<String>) -> Progress {
        let target = if self.stderr_is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(what.into());
        if self.stderr_is_terminal {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Progress(bar)
    }
}

/// A sign that something is under way. Goes away when dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Says something else.
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn write_out(parts: &[&[u8]]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let written = parts.iter().try_for_each(|part| stdout.write_all(part)).and_then(|()| stdout.flush());
    written.map_err(write_failed)
}

fn write_failed(cause: io::Error) -> Failure {
    if cause.kind() == io::ErrorKind::BrokenPipe {
        return Failure::ClosedPipe;
    }
    Problem::new("output_failed", "the output could not be written").because(cause).into()
}

/// The text without the control characters that a terminal would act upon.
pub(crate) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\u{9b}c\r\nd\te"), "a[2Jbc\nd\te");
    }

    #[test]
    fn a_closed_pipe_is_no_problem_and_a_full_disk_is_one() {
        assert!(matches!(write_failed(io::ErrorKind::BrokenPipe.into()), Failure::ClosedPipe));
        assert!(matches!(write_failed(io::ErrorKind::StorageFull.into()), Failure::Problem(_)));
    }
}
