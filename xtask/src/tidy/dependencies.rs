//! Every direct dependency of the library is argued in `deny.toml`.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::tree::Tree;

const MANIFEST: &str = "crates/switchboard/Cargo.toml";
const ARGUMENTS: &str = "deny.toml";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (Some(manifest), Some(arguments)) = (tree.file(MANIFEST), tree.file(ARGUMENTS)) else { return Vec::new() };
    let used = dependencies(&manifest.text);
    let argued = argued(&arguments.text);
    let unargued = used.iter().filter(|(name, _)| !argued.contains_key(*name)).map(|(name, line)| {
        Finding::new(MANIFEST, *line, format!("`{name}` is not argued: add `# - {name}: why` to {ARGUMENTS}"))
    });
    let unused = argued.iter().filter(|(name, _)| !used.contains_key(*name)).map(|(name, line)| {
        Finding::new(ARGUMENTS, *line, format!("`{name}` is no direct dependency of the library: delete the line"))
    });
    unargued.chain(unused).collect()
}

/// Names and lines under `[dependencies]` and `[target.….dependencies]`.
fn dependencies(manifest: &str) -> BTreeMap<&str, usize> {
    let mut found = BTreeMap::new();
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[dependencies]" || (line.starts_with("[target.") && line.ends_with(".dependencies]"));
        } else if let Some(end) = line.find(['.', ' ', '=']).filter(|_| inside && !line.starts_with('#')) {
            found.insert(&line[..end], index + 1);
        }
    }
    found
}

/// Names and lines of `# - name: why`.
fn argued(text: &str) -> BTreeMap<&str, usize> {
    let entry = |line| str::strip_prefix(line, "# - ")?.split_once(": ").map(|(name, _)| name);
    text.lines().enumerate().filter_map(|(index, line)| Some((entry(line)?, index + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn a_dependency_without_an_argument_and_an_argument_without_a_dependency_are_found() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nbytes.workspace = true\nurl = \"2\"\n\n\
                        [target.'cfg(unix)'.dependencies]\nrustix = { version = \"1\" }\n[dev-dependencies]\nx = \"1\"\n";
        let arguments = "# - bytes: shared buffers\n# - gone: was needed once\n";
        let tree = Tree::of(&[("crates/switchboard/Cargo.toml", manifest), ("deny.toml", arguments)]);
        let places: Vec<_> = check(&tree).iter().map(|finding| format!("{}:{}", finding.file, finding.line)).collect();
        assert_eq!(places, ["crates/switchboard/Cargo.toml:8", "crates/switchboard/Cargo.toml:5", "deny.toml:2"]);
    }
}
