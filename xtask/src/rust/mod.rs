//! Just enough understanding of Rust source for the checks: words with their lines, test code, and paths.
//!
//! A real parser would bring a dependency tree into every build; the checks need only words outside comments and
//! strings, brackets that match, and `use` trees.

mod lex;
mod paths;
mod tests_in;

use std::ops::Range;

pub(crate) use paths::Path;

/// One word of Rust source: an identifier, a literal, or a sign (`::` and `->` and `=>` are one sign each).
#[derive(Debug, Clone)]
struct Token {
    span: Range<usize>,
    first_line: usize,
    last_line: usize,
    in_test: bool,
}

/// A Rust file cut into words.
#[derive(Debug)]
pub(crate) struct Code {
    text: String,
    tokens: Vec<Token>,
    line_count: usize,
}

impl Code {
    pub(crate) fn read(text: &str) -> Self {
        let mut code = Self { text: text.to_owned(), tokens: lex::tokens(text), line_count: text.lines().count() };
        tests_in::mark(&mut code);
        code
    }

    pub(crate) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The word at `index`; empty past the end, so that look-ahead needs no bound checks.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &self.text[token.span.clone()])
    }

    /// The line on which the word at `index` begins, counted from one.
    pub(crate) fn line(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(self.line_count, |token| token.first_line)
    }

    /// Whether the word belongs to test code: an item under `#[cfg(test)]` or `#[test]`.
    pub(crate) fn in_test(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(|token| token.in_test)
    }

    pub(crate) fn is_identifier(&self, index: usize) -> bool {
        self.word(index).starts_with(|c: char| c.is_alphabetic() || c == '_')
    }

    /// Whether the words from `index` on are exactly `words`.
    pub(crate) fn matches(&self, index: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(offset, word)| self.word(index + offset) == *word)
    }

    /// The index of the bracket that closes the one at `open`, or of the last word when none does.
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for index in open..self.len() {
            match self.word(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index;
            }
        }
        self.len().saturating_sub(1)
    }

    /// How many lines of the file are outside test code: comments and blank lines count as what surrounds them.
    pub(crate) fn lines_outside_tests(&self) -> usize {
        self.line_count - self.lines_where(0..self.len(), |token| token.in_test)
    }

    /// How many lines carry at least one word of `range`.
    pub(crate) fn lines_with_words(&self, range: Range<usize>) -> usize {
        let mut count = 0;
        let mut counted = 0;
        for token in &self.tokens[range] {
            let first = token.first_line.max(counted + 1);
            count += (token.last_line + 1).saturating_sub(first);
            counted = counted.max(token.last_line);
        }
        count
    }

    /// Every path and every leaf of a `use` tree with two or more segments.
    pub(crate) fn paths(&self) -> Vec<Path> {
        paths::all(self)
    }

    /// Modules declared without a body (`mod name;`): name, line, and whether only tests have it.
    pub(crate) fn declared_modules(&self) -> impl Iterator<Item = (&str, usize, bool)> {
        (0..self.len())
            .filter(|&i| self.word(i) == "mod" && self.is_identifier(i + 1) && self.word(i + 2) == ";")
            .map(|i| (self.word(i + 1), self.line(i), self.in_test(i)))
    }

    /// Modules written in place (`mod name { … }`): name and the words of the body.
    pub(crate) fn inline_modules(&self) -> Vec<(&str, Range<usize>)> {
        (0..self.len())
            .filter(|&i| self.word(i) == "mod" && self.is_identifier(i + 1) && self.word(i + 2) == "{")
            .map(|i| (self.word(i + 1), i + 2..self.closing(i + 2)))
            .collect()
    }

    /// Lines between the first and the last word of each run of words that `wanted` picks.
    fn lines_where(&self, range: Range<usize>, wanted: impl Fn(&Token) -> bool) -> usize {
        let mut lines = 0;
        let mut run: Option<(usize, usize)> = None;
        for token in &self.tokens[range] {
            if wanted(token) {
                let first = run.map_or(token.first_line, |(first, _)| first);
                run = Some((first, token.last_line));
            } else if let Some((first, last)) = run.take() {
                lines += last + 1 - first;
            }
        }
        lines + run.map_or(0, |(first, last)| last + 1 - first)
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn test_code_does_not_count_as_lines_of_the_file() {
        let code = Code::read("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    // why\n    fn b() {}\n}\n");
        assert_eq!(code.lines_outside_tests(), 2);
    }

    #[test]
    fn comments_and_blank_lines_do_not_count_as_lines_with_words() {
        let code = Code::read("fn a() {\n    // why\n\n    let x = \"one\n    two\";\n}\n");
        assert_eq!(code.lines_with_words(0..code.len()), 4);
    }

    #[test]
    fn modules_are_told_apart_by_whether_they_have_a_body() {
        let code = Code::read("mod a;\n#[cfg(test)]\nmod tests;\nmod b { mod c {} }\n");
        assert_eq!(code.declared_modules().collect::<Vec<_>>(), [("a", 1, false), ("tests", 3, true)]);
        assert_eq!(code.inline_modules().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["b", "c"]);
    }
}
