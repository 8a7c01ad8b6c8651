//! Inside the library, rooms import only downward. Test code may import anything.

use std::collections::{BTreeMap, BTreeSet};

use super::floors::{Place, SOURCE};
use crate::finding::Finding;
use crate::rust::{Code, Path};
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let map = Map::read(tree);
    let mut findings = Vec::new();
    for (file, code) in tree.shipped_rust() {
        // The root only lists the rooms and opens them to the outside.
        match module_of(&file.path) {
            Some(module) if !module.is_empty() => check_file(&map, file, code, &module, &mut findings),
            _ => {}
        }
    }
    findings
}

fn check_file(map: &Map, file: &File, code: &Code, module: &[String], findings: &mut Vec<Finding>) {
    let Some(here) = Place::of(module) else {
        let message = format!("`{}` has no floor: give it one in xtask/src/tidy/floors.rs", module.join("::"));
        findings.push(Finding::new(&file.path, 1, message));
        return;
    };
    let inline = code.inline_modules();
    for path in code.paths().into_iter().filter(|path| !code.in_test(path.index)) {
        let mut around = module.to_vec();
        around.extend(inline.iter().filter(|(_, body)| body.contains(&path.index)).map(|(name, _)| (*name).to_owned()));
        if let Some(message) = map.absolute(&path, around).and_then(|target| objection(here, &target)) {
            findings.push(Finding::new(&file.path, code.line(path.index), message));
        }
    }
}

/// Why code at `here` may not name `target`.
fn objection(here: Place, target: &[String]) -> Option<String> {
    if target == ["*"] {
        return Some("a glob over the whole crate hides what is imported: name the rooms".to_owned());
    }
    let Some(there) = Place::of(target) else {
        return Some(format!(
            "`{}` is of no room that xtask/src/tidy/floors.rs knows: import it from its room, or give the room a floor",
            target.join("::")
        ));
    };
    (!here.may_import(there)).then(|| {
        format!(
            "`{}` (floor {}) may not import from `{}` (floor {}): imports go downward; move the shared part down or \
             hand it in as a value",
            here.room, here.floor, there.room, there.floor
        )
    })
}

/// The modules of the library, and the names that each of them passes on from another.
struct Map {
    modules: BTreeSet<Vec<String>>,
    passed_on: BTreeMap<Vec<String>, Vec<String>>,
}

impl Map {
    fn read(tree: &Tree) -> Self {
        let modules = tree.rust().filter_map(|(file, _)| module_of(&file.path)).collect();
        let mut map = Self { modules, passed_on: BTreeMap::new() };
        for (file, code) in tree.shipped_rust() {
            let Some(module) = module_of(&file.path) else { continue };
            let inline = code.inline_modules();
            let counts = |path: &Path| {
                path.is_import
                    && !code.in_test(path.index)
                    && !inline.iter().any(|(_, body)| body.contains(&path.index))
            };
            for path in code.paths().into_iter().filter(counts) {
                let (Some(name), Some(target)) = (path.segments.last(), map.local(&path, &module)) else { continue };
                let name = [module.as_slice(), std::slice::from_ref(name)].concat();
                if target != name {
                    map.passed_on.insert(name, target);
                }
            }
        }
        map
    }

    /// The path from the root, when it begins at the root, at the module itself or at one around it.
    fn absolute(&self, path: &Path, mut around: Vec<String>) -> Option<Vec<String>> {
        let mut rest = path.segments.as_slice();
        match rest[0].as_str() {
            "crate" => around.clear(),
            "self" | "super" => {}
            _ => return None,
        }
        while let [first, more @ ..] = rest
            && ["crate", "self", "super"].contains(&first.as_str())
        {
            if first == "super" {
                around.pop();
            }
            rest = more;
        }
        around.extend_from_slice(rest);
        Some(self.followed(around))
    }

    /// As [`Map::absolute`], also for a path that begins with a module below.
    fn local(&self, path: &Path, module: &[String]) -> Option<Vec<String>> {
        let child = [module, &path.segments[..1]].concat();
        let is_child = self.modules.contains(&child);
        if is_child { Some([module, &path.segments].concat()) } else { self.absolute(path, module.to_vec()) }
    }

    /// Follows names that are passed on (`wire::Json` is `wire::json::Json`) to where they are at home.
    fn followed(&self, mut target: Vec<String>) -> Vec<String> {
        // A chain of re-exports is short; the bound is for two that point at each other.
        for _ in 0..8 {
            let module = (0..=target.len()).rev().find(|&end| end == 0 || self.modules.contains(&target[..end]));
            let end = (module.unwrap_or(0) + 1).min(target.len());
            let Some(home) = self.passed_on.get(&target[..end]) else { break };
            target = [home, &target[end..]].concat();
        }
        target
    }
}

/// The module path of a file of the library; empty for its root.
fn module_of(path: &str) -> Option<Vec<String>> {
    let inside = path.strip_prefix(SOURCE)?.strip_prefix('/')?.strip_suffix(".rs")?;
    let mut module: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|name| name == "mod") || module == ["lib"] {
        module.pop();
    }
    Some(module)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    /// Findings in the tree made of these files of the library, as `file:line`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = files.iter().map(|(path, _)| format!("crates/switchboard/src/{path}")).collect();
        let files: Vec<(&str, &str)> =
            paths.iter().map(String::as_str).zip(files.iter().map(|(_, text)| *text)).collect();
        let short = |path: &str| path.trim_start_matches("crates/switchboard/src/").to_owned();
        check(&Tree::of(&files)).iter().map(|finding| format!("{}:{}", short(&finding.file), finding.line)).collect()
    }

    #[test]
    fn downward_is_right_and_upward_is_found() {
        let files = [
            ("manager/mod.rs", "use crate::connection::Handle;"),
            ("connection/mod.rs", "\nfn a() { crate::manager::b() }"),
            ("wire/mod.rs", "use crate::{error::Error, transport::http};"),
        ];
        assert_eq!(found(&files), ["connection/mod.rs:2", "wire/mod.rs:1"]);
    }

    #[test]
    fn neighbours_on_a_floor_do_not_know_one_another_except_on_the_ground() {
        let files = [
            ("store/mod.rs", "use crate::catalogue::Tool;"),
            ("error.rs", "use crate::id::ServerId;"),
            ("id.rs", "use crate::error::Error;"),
        ];
        assert_eq!(found(&files), ["store/mod.rs:1"]);
    }

    #[test]
    fn super_counts_as_an_import_only_when_it_leaves_the_room() {
        let files = [
            ("transport/http.rs", "use super::guard::Guard;\nuse super::super::session::Session;"),
            (
                "transport/mod.rs",
                "use super::session::Session;\nmod inner { use super::guard; use super::super::auth::A; }",
            ),
        ];
        assert_eq!(found(&files), ["transport/http.rs:2", "transport/mod.rs:1", "transport/mod.rs:2"]);
    }

    #[test]
    fn test_code_may_import_anything() {
        let files = [
            ("wire/mod.rs", "#[cfg(test)]\nmod tests { use crate::manager::Manager; }\n#[cfg(test)]\nmod more;"),
            ("wire/more.rs", "use crate::manager::Manager;"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn a_name_passed_on_counts_where_it_is_at_home() {
        let files = [
            ("lib.rs", "mod error; mod manager; mod wire;\npub use error::Error;\npub use manager::Manager;"),
            ("wire/mod.rs", "mod json;\npub use json::Json;\npub struct Frame;\nuse crate::Manager;"),
            ("wire/json.rs", "use crate::Error;"),
            ("error.rs", "use crate::wire::Json;\nuse crate::wire::Frame;"),
            ("manager/mod.rs", "use crate::Error;"),
        ];
        assert_eq!(found(&files), ["error.rs:2", "wire/mod.rs:4"]);
    }

    #[test]
    fn a_room_without_a_floor_and_a_glob_over_the_crate_are_found() {
        let files = [("helpers.rs", ""), ("manager/mod.rs", "use crate::helpers::x;\nuse crate::*;")];
        assert_eq!(found(&files), ["helpers.rs:1", "manager/mod.rs:1", "manager/mod.rs:2"]);
    }
}
