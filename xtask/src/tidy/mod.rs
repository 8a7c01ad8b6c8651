//! The checks behind `cargo xtask tidy`, one file each.

mod budget;
mod dependencies;
mod floors;
mod leftovers;
mod links;
mod module_comment;
mod purity;
mod references;
mod rooms;
mod test_binaries;

use std::fmt;

use crate::finding::Finding;
use crate::generated::Run;
use crate::tree::Tree;

/// What all checks found, and the sizes they measured.
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    notes: Vec<String>,
}

/// Runs every check over the tree.
pub(crate) fn run(tree: &Tree, programs: &dyn Run) -> Report {
    let mut findings = Vec::new();
    findings.extend(module_comment::check(tree));
    findings.extend(rooms::check(tree));
    findings.extend(purity::check(tree));
    findings.extend(budget::check(tree));
    findings.extend(test_binaries::check(tree));
    findings.extend(dependencies::check(tree));
    findings.extend(leftovers::check(tree));
    findings.extend(links::check(tree));
    let (stale, mut notes) = references::check(tree, programs);
    findings.extend(stale);
    findings.sort();
    findings.dedup();
    notes.push(budget::summary(tree));
    Report { findings, notes }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        for note in &self.notes {
            writeln!(f, "tidy: {note}")?;
        }
        match self.findings.len() {
            0 => writeln!(f, "tidy: nothing to mend"),
            count => writeln!(f, "tidy: {count} to mend"),
        }
    }
}
