//! What some rooms never name: pure files know no I/O, clock, lock or `async`; tasks start in one place only; the
//! library speaks MCP itself.

use super::floors::SOURCE;
use crate::finding::Finding;
use crate::rust::Code;
use crate::tree::{File, Tree};

/// Files and folders of the library that only compute.
const PURE: [&str; 5] = ["backoff.rs", "connection/state.rs", "auth/flow.rs", "catalogue/", "wire/"];

/// Single words that pure code never has.
const IMPURE_WORDS: [&str; 6] = ["async", "await", "tokio", "SystemTime", "Mutex", "RwLock"];

/// Paths that pure code never has.
const IMPURE_PATHS: [&[&str]; 3] = [&["std", "fs"], &["std", "net"], &["Instant", "now"]];

/// The packages that ship.
const SHIPPED: [&str; 3] = ["crates/switchboard/src/", "crates/switchboard-host/src/", "crates/switchboard-cli/src/"];

/// Calls that start a task which nothing owns.
const SPAWNS: [&[&str]; 5] = [
    &["tokio", "spawn"],
    &["tokio", "task", "spawn"],
    &["tokio", "task", "spawn_local"],
    &["task", "spawn"],
    &["task", "spawn_local"],
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, code) in tree.shipped_rust() {
        if is_pure(&file.path) {
            impure_words(file, code, &mut findings);
            impure_paths(file, code, &mut findings);
        }
        if SHIPPED.iter().any(|package| file.path.starts_with(package)) && !file.path.ends_with("/tasks.rs") {
            loose_tasks(file, code, &mut findings);
        }
        if file.path.starts_with(SOURCE) {
            foreign_types(file, code, &mut findings);
        }
    }
    findings
}

fn is_pure(path: &str) -> bool {
    let Some(inside) = path.strip_prefix(SOURCE).and_then(|rest| rest.strip_prefix('/')) else { return false };
    PURE.iter().any(|pure| match pure.strip_suffix('/') {
        // A room is a folder, or one file while it is small.
        Some(room) => inside.starts_with(pure) || inside.strip_suffix(".rs") == Some(room),
        None => inside == *pure,
    })
}

fn impure_words(file: &File, code: &Code, findings: &mut Vec<Finding>) {
    for index in (0..code.len()).filter(|&index| !code.in_test(index)) {
        if IMPURE_WORDS.contains(&code.word(index)) {
            findings.push(impure(file, code.line(index), code.word(index)));
        }
    }
}

fn impure_paths(file: &File, code: &Code, findings: &mut Vec<Finding>) {
    for path in code.paths().iter().filter(|path| !code.in_test(path.index)) {
        let found = IMPURE_PATHS.iter().find(|names| (0..path.segments.len()).any(|at| path.has_at(at, names)));
        if let Some(names) = found {
            findings.push(impure(file, code.line(path.index), &names.join("::")));
        }
    }
}

fn impure(file: &File, line: usize, what: &str) -> Finding {
    let message = format!("`{what}` in a file that only computes: hand the value in, or do this in a room above");
    Finding::new(&file.path, line, message)
}

fn loose_tasks(file: &File, code: &Code, findings: &mut Vec<Finding>) {
    for path in code.paths().iter().filter(|path| !code.in_test(path.index)) {
        if SPAWNS.iter().any(|names| path.segments.len() == names.len() && path.has_at(0, names)) {
            let message =
                format!("`{}` starts a task that nothing owns: start it in tasks.rs", path.segments.join("::"));
            findings.push(Finding::new(&file.path, code.line(path.index), message));
        }
    }
}

fn foreign_types(file: &File, code: &Code, findings: &mut Vec<Finding>) {
    for index in (0..code.len()).filter(|&index| code.word(index) == "rmcp" && !code.in_test(index)) {
        let message = "`rmcp` is a peer for tests: the library has types of its own in wire/";
        findings.push(Finding::new(&file.path, code.line(index), message));
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_pure_file_has_no_async_clock_lock_or_io() {
        let text = "use std::{fs, fmt};\nasync fn a() {}\nlet t = std::time::Instant::now();\nuse std::sync::Mutex;\n\
                    use std::net::IpAddr;\nfn b(now: Instant) {}\ntokio::x();\n";
        let mut lines = found("crates/switchboard/src/wire/frame.rs", text);
        lines.sort_unstable();
        assert_eq!(lines, [1, 2, 3, 4, 5, 7]);
    }

    #[test]
    fn purity_is_asked_of_pure_rooms_only() {
        let text = "use std::fs;";
        assert_eq!(found("crates/switchboard/src/catalogue.rs", text), [1]);
        assert_eq!(found("crates/switchboard/src/connection/state.rs", text), [1]);
        assert_eq!(found("crates/switchboard/src/connection/actor.rs", text), Vec::<usize>::new());
        assert_eq!(found("crates/switchboard-host/src/wire/mod.rs", text), Vec::<usize>::new());
    }

    #[test]
    fn tests_of_a_pure_file_may_read_files() {
        assert!(found("crates/switchboard/src/wire/frame.rs", "#[cfg(test)] mod tests { use std::fs; }").is_empty());
    }

    #[test]
    fn tasks_start_in_tasks_rs_only() {
        let text = "fn a() { tokio::spawn(b()) }\nuse tokio::task::spawn_local;\nuse tokio::task::spawn_blocking;";
        assert_eq!(found("crates/switchboard-host/src/app.rs", text), [1, 2]);
        assert!(found("crates/switchboard/src/tasks.rs", text).is_empty());
        assert!(found("crates/switchboard-testing/src/lib.rs", text).is_empty());
    }

    #[test]
    fn the_library_names_rmcp_in_tests_only() {
        let text = "use rmcp::model;\n#[cfg(test)] use rmcp::service;";
        assert_eq!(found("crates/switchboard/src/manager.rs", text), [1]);
        assert!(found("crates/switchboard-testing/src/lib.rs", text).is_empty());
    }
}
