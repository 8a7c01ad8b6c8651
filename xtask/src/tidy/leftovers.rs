//! What a workshop leaves behind: paths of one machine, blank ends of lines, tabs in Rust.

use crate::finding::Finding;
use crate::tree::{File, Tree};

/// What only one machine has, cut in two so that this file does not find itself.
const MACHINE_PATHS: [&str; 3] = [concat!("../", "shared"), concat!("/work", "/"), concat!("/root", "/")];

/// Files that programs write, and inputs of tests, which are as they are.
fn is_exempt(path: &str) -> bool {
    path.ends_with(".lock") || path.ends_with("package-lock.json") || path.contains("/fixtures/")
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| !is_exempt(&file.path)) {
        for (index, line) in file.text.split('\n').enumerate() {
            findings.extend(check_line(file, line).map(|message| Finding::new(&file.path, index + 1, message)));
        }
    }
    findings
}

fn check_line(file: &File, line: &str) -> impl Iterator<Item = String> {
    let machine = MACHINE_PATHS
        .into_iter()
        .find(|path| begins_somewhere(line, path))
        .map(|path| format!("`{path}` is there on one machine only: name what is in the repository"));
    let blank = line.ends_with([' ', '\t', '\r']).then(|| "blank end of line: delete it".to_owned());
    let tab =
        (file.code.is_some() && line.contains('\t')).then(|| "a tab: write spaces, or `\\t` in a string".to_owned());
    machine.into_iter().chain(blank).chain(tab)
}

/// Whether the path begins a word of the line; `https://example.com/work/` is another thing.
fn begins_somewhere(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !(c.is_alphanumeric() || "_-.~}".contains(c)) || path.starts_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::{MACHINE_PATHS, check};
    use crate::tree::Tree;

    #[test]
    fn machine_paths_are_found_wherever_they_begin() {
        let [shared, work, root] = MACHINE_PATHS;
        let text = format!("see {shared}/a\ncd {work}b\nhttps://example.com{work}c\nHOME={root}d\n");
        let lines: Vec<_> = check(&Tree::of(&[("a.md", &text)])).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }

    #[test]
    fn blank_ends_and_tabs_are_found() {
        let tree = Tree::of(&[
            ("a.sh", "a \n\tb\n"),
            ("b.rs", "\ta\nb\r\n"),
            ("Cargo.lock", "a \n"),
            ("t/fixtures/a", "a \n"),
        ]);
        let places: Vec<_> = check(&tree).iter().map(|finding| format!("{}:{}", finding.file, finding.line)).collect();
        assert_eq!(places, ["a.sh:1", "b.rs:1", "b.rs:2"]);
    }
}
