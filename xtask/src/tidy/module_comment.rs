//! Every Rust file opens with a comment that says what the room is.

use crate::finding::Finding;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mend = "open the file with `//!` and one sentence about what the room is";
    tree.rust()
        .filter(|(file, _)| !file.text.strip_prefix("//!").is_some_and(starts_with_words))
        .map(|(file, _)| Finding::new(&file.path, 1, mend))
        .collect()
}

fn starts_with_words(rest: &str) -> bool {
    rest.lines().next().is_some_and(|line| !line.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tree::Tree;

    #[test]
    fn a_file_without_a_module_comment_is_found() {
        let tree = Tree::of(&[
            ("a.rs", "//! What it is.\n"),
            ("b.rs", "// Licence\n//! What it is.\n"),
            ("c.rs", "//!\nfn a() {}\n"),
            ("d.rs", ""),
            ("e.md", "no Rust"),
        ]);
        let files: Vec<_> = check(&tree).into_iter().map(|finding| finding.file).collect();
        assert_eq!(files, ["b.rs", "c.rs", "d.rs"]);
    }
}
