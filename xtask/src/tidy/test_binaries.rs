//! One test binary a crate, and no test file that it does not run.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::tree::{File, Tree, module_folder};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let packages: BTreeSet<&str> = tree.files().filter_map(|file| file.path.strip_suffix("/Cargo.toml")).collect();
    let mut findings = Vec::new();
    for package in packages {
        let tests = format!("{package}/tests");
        for file in tree.files_under(&tests).filter(|file| file.path.ends_with(".rs")) {
            findings.extend(check_file(tree, &tests, file));
        }
    }
    findings
}

fn check_file(tree: &Tree, tests: &str, file: &File) -> Option<Finding> {
    let below = &file.path[tests.len() + 1..];
    if below == "it/main.rs" {
        return None;
    }
    if !below.contains('/') || (below.ends_with("/main.rs") && below.matches('/').count() == 1) {
        let message = "a test binary of its own: make it a module of tests/it/main.rs, one binary links faster";
        return Some(Finding::new(&file.path, 1, message));
    }
    if !below.starts_with("it/") {
        return Some(Finding::new(&file.path, 1, "no test binary has this file: move it below tests/it/"));
    }
    let module = file.path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
    let (folder, name) = module.rsplit_once('/')?;
    let is_declared = tree.files_under(tests).any(|parent| {
        let code = parent.code.as_ref().filter(|_| module_folder(&parent.path) == folder);
        code.is_some_and(|code| code.declared_modules().any(|(declared, _, _)| declared == name))
    });
    (!is_declared)
        .then(|| Finding::new(&file.path, 1, format!("is never run: add `mod {name};` to the module above it")))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn files_outside_the_one_binary_are_found() {
        let tree = Tree::of(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/tests/it/main.rs", "mod calls;\nmod peers;\n"),
            ("crates/a/tests/it/calls.rs", ""),
            ("crates/a/tests/it/peers/mod.rs", "mod npm;"),
            ("crates/a/tests/it/peers/npm.rs", ""),
            ("crates/a/tests/it/peers/lost.rs", ""),
            ("crates/a/tests/it/forgotten.rs", ""),
            ("crates/a/tests/second.rs", ""),
            ("crates/a/tests/third/main.rs", ""),
            ("crates/a/tests/common/mod.rs", ""),
            ("crates/a/tests/it/data/case.json", ""),
        ]);
        let files: Vec<_> =
            check(&tree).into_iter().map(|finding| finding.file.replace("crates/a/tests/", "")).collect();
        assert_eq!(files, ["common/mod.rs", "it/forgotten.rs", "it/peers/lost.rs", "second.rs", "third/main.rs"]);
    }
}
