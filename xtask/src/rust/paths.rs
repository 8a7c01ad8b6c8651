//! Paths as they are written: `a::b::c`, and every leaf of a `use` tree.

use super::Code;

/// One path, with the word it begins at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// At least two segments; a glob ends in `*`.
    pub(crate) segments: Vec<String>,
    /// Index of the last segment's word.
    pub(crate) index: usize,
    /// Whether it stands in a `use` item.
    pub(crate) is_import: bool,
}

impl Path {
    /// Whether the segments from `at` on begin with `names`.
    pub(crate) fn has_at(&self, at: usize, names: &[&str]) -> bool {
        let rest = self.segments.get(at..).unwrap_or_default();
        rest.len() >= names.len() && rest.iter().zip(names).all(|(segment, name)| segment == name)
    }
}

pub(super) fn all(code: &Code) -> Vec<Path> {
    let mut found = Vec::new();
    let mut index = 0;
    while index < code.len() {
        if !code.is_identifier(index) {
            index += 1;
            continue;
        }
        let is_import = code.word(index) == "use";
        let known = found.len();
        // An import may begin with `::` or with a bare tree.
        let begin = index + usize::from(is_import) + usize::from(is_import && code.word(index + 1) == "::");
        index = read(code, begin, Vec::new(), &mut found);
        for path in &mut found[known..] {
            path.is_import = is_import;
        }
    }
    found.retain(|path| path.segments.len() > 1);
    found
}

/// Reads one path or tree that continues `segments` at `index`; returns the index after it.
fn read(code: &Code, index: usize, mut segments: Vec<String>, found: &mut Vec<Path>) -> usize {
    if code.word(index) == "{" {
        let close = code.closing(index);
        let mut leaf = index + 1;
        while leaf < close {
            leaf = read(code, leaf, segments.clone(), found);
            // Past `as name` and the comma.
            while leaf < close && code.word(leaf) != "," {
                leaf += 1;
            }
            leaf += 1;
        }
        return close + 1;
    }
    // `a::{self}` is `a`.
    if segments.is_empty() || code.word(index) != "self" {
        segments.push(code.word(index).trim_start_matches("r#").to_owned());
    }
    let goes_on =
        code.word(index + 1) == "::" && (code.is_identifier(index + 2) || ["{", "*"].contains(&code.word(index + 2)));
    if goes_on {
        return read(code, index + 2, segments, found);
    }
    found.push(Path { segments, index, is_import: false });
    index + 1
}

#[cfg(test)]
mod tests {
    use super::super::Code;

    fn paths(text: &str) -> Vec<String> {
        Code::read(text).paths().iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn a_tree_gives_its_leaves() {
        assert_eq!(
            paths("use crate::{a::{self, B as C, d::*}, e};"),
            ["crate::a", "crate::a::B", "crate::a::d::*", "crate::e"]
        );
    }

    #[test]
    fn paths_in_expressions_and_types_are_found() {
        assert_eq!(paths("let x: super::A<crate::b::C> = ::d::e::<F>();"), ["super::A", "crate::b::C", "d::e"]);
    }

    #[test]
    fn single_words_and_strings_are_no_paths() {
        assert_eq!(paths("let a = \"b::c\"; // d::e"), Vec::<String>::new());
    }

    #[test]
    fn imports_are_told_from_other_paths() {
        let code = Code::read("pub use ::a::b; use {c::d}; e::f();");
        let imports: Vec<_> = code.paths().iter().map(|path| path.is_import).collect();
        assert_eq!(imports, [true, true, false]);
    }

    #[test]
    fn a_tree_without_its_end_does_not_hang() {
        assert_eq!(paths("use a::{b, c"), ["a::b"]);
    }
}
