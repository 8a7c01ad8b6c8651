//! Links and paths in Markdown lead somewhere.

use crate::finding::Finding;
use crate::generated::REFERENCES;
use crate::tree::{File, Tree};

/// Endings by which a word in code style is taken for a file.
const FILE_ENDINGS: [&str; 8] = [".rs", ".md", ".toml", ".sh", ".mjs", ".py", ".json", ".txt"];

/// Folders of the repository: what begins with one of them is a path of ours.
const FOLDERS: [&str; 5] = ["crates/", "xtask/", "bench/", "conformance/", "peers/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.path.ends_with(".md")) {
        // History names what has been; it stays as it was written.
        let is_history = file.path.ends_with("CHANGELOG.md");
        let mut in_block = false;
        for (index, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
                continue;
            }
            if in_block {
                continue;
            }
            let links = links(line).into_iter().filter(|link| !link_leads(tree, file, link));
            findings.extend(links.map(|link| {
                Finding::new(&file.path, index + 1, format!("the link `{link}` leads nowhere: mend or delete it"))
            }));
            let paths = code_words(line).filter(|path| !is_history && is_path(path) && !path_leads(tree, file, path));
            findings.extend(paths.map(|path| {
                Finding::new(&file.path, index + 1, format!("`{path}` is not there: name it as it is now"))
            }));
        }
    }
    findings
}

/// The targets of the inline links of a line, outside code style.
fn links(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for prose in line.split('`').step_by(2) {
        for (at, _) in prose.match_indices("](") {
            let target = &prose[at + 2..];
            let end = target.find([')', ' ']).unwrap_or(target.len());
            found.push(&target[..end]);
        }
    }
    found
}

/// The parts of a line in code style.
fn code_words(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn link_leads(tree: &Tree, file: &File, link: &str) -> bool {
    let path = link.split('#').next().unwrap_or_default();
    let is_elsewhere = path.contains(':') || path.is_empty();
    is_elsewhere || tree.has(&joined(folder_of(file), path))
}

/// Whether code style holds a path of this repository, as opposed to a method name, a type or a pattern.
fn is_path(word: &str) -> bool {
    let plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let relative = !word.starts_with('/') && !word.starts_with("target/") && word.contains('/');
    let ours = FOLDERS.iter().any(|folder| word.starts_with(folder));
    plain && relative && (ours || FILE_ENDINGS.iter().any(|ending| word.ends_with(ending)))
}

/// A path may be named from the root, from the page, or by its end (`connection/state.rs`).
fn path_leads(tree: &Tree, file: &File, path: &str) -> bool {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    let ends_so = format!("/{path}");
    tree.has(path)
        || tree.has(&joined(folder_of(file), path))
        || tree.files().any(|file| file.path.ends_with(&ends_so))
        || REFERENCES.iter().any(|reference| reference.path == path)
}

fn folder_of(file: &File) -> &str {
    file.path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `path` as seen from `folder`, with `..` taken out.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    fn found(page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/PAGE.md", page),
            ("docs/STYLE.md", ""),
            ("README.md", ""),
            ("crates/a/src/connection/state.rs", ""),
        ]);
        let name = |message: &str| message.split('`').nth(1).unwrap().to_owned();
        check(&tree).iter().map(|finding| name(&finding.message)).collect()
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = "[a](STYLE.md#names) [b](../README.md) [c](../docs) [d](https://example.com/x) [e](#here)\n\
                    [f](GONE.md) [g](../GONE.md#x)\n";
        assert_eq!(found(page), ["GONE.md", "../GONE.md#x"]);
    }

    #[test]
    fn paths_in_code_style_are_checked_and_other_words_are_not() {
        let page = "`connection/state.rs` `crates/a/src` `docs/STYLE.md` `tools/list` `text/event-stream` `a/*.rs`\n\
                    `connection/gone.rs` `crates/b/` `docs/openapi.json`\n";
        assert_eq!(found(page), ["connection/gone.rs", "crates/b/"]);
    }

    #[test]
    fn blocks_of_code_are_left_alone() {
        assert!(found("```text\n[a](GONE.md) `crates/gone.rs`\n```\n`[a](GONE.md)`\n").is_empty());
    }
}
