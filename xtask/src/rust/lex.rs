//! Cuts Rust source into words and leaves comments out.

use std::ops::Range;

use super::Token;

/// All words of `text`; a literal is one word, however many lines it has.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut cursor = Cursor { text, at: 0 };
    let mut lines = Lines { text, at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(span) = cursor.next_word() {
        let first_line = lines.at(span.start);
        let last_line = lines.at(span.end);
        tokens.push(Token { span, first_line, last_line, in_test: false });
    }
    tokens
}

/// Turns growing offsets into line numbers.
struct Lines<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn at(&mut self, offset: usize) -> usize {
        self.line += self.text.as_bytes()[self.at..offset].iter().filter(|byte| **byte == b'\n').count();
        self.at = offset;
        self.line
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn next_word(&mut self) -> Option<Range<usize>> {
        self.skip_blank();
        let start = self.at;
        let rest = &self.text[start..];
        let first = rest.chars().next()?;
        let length = raw_string(rest)
            .or_else(|| quoted(rest))
            .or_else(|| character(rest))
            .unwrap_or_else(|| if is_word(first) || first == '\'' { word(rest) } else { sign(rest, first) });
        self.at = start + length;
        Some(start..self.at)
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start().len();
            let length = if blank > 0 {
                blank
            } else if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                block_comment(rest)
            } else {
                return;
            };
            self.at += length;
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Block comments nest in Rust.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, also after `b` or `c`. A raw identifier (`r#type`) is not one.
fn raw_string(rest: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| rest.strip_prefix(prefix).is_some_and(|after| after.trim_start_matches('#').starts_with('"')))?;
    let after = &rest[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let close = format!("\"{}", "#".repeat(hashes));
    let body = prefix.len() + hashes + 1;
    Some(rest[body..].find(&close).map_or(rest.len(), |end| body + end + close.len()))
}

/// `"…"`, also after `b` or `c`.
fn quoted(rest: &str) -> Option<usize> {
    let prefix = ["\"", "b\"", "c\""].into_iter().find(|prefix| rest.starts_with(prefix))?;
    Some(until_close(rest, prefix.len(), b'"'))
}

/// `'x'`, `'\n'`, also after `b`; `'name` is a lifetime and not one.
fn character(rest: &str) -> Option<usize> {
    let open = if rest.starts_with("b'") { 2 } else { 1 };
    if !rest[open - 1..].starts_with('\'') {
        return None;
    }
    let mut inside = rest[open..].chars();
    let first = inside.next()?;
    (first == '\\' || inside.next() == Some('\'')).then(|| until_close(rest, open, b'\''))
}

fn until_close(rest: &str, from: usize, close: u8) -> usize {
    let bytes = rest.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == close => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// An identifier, a raw identifier, a lifetime or a number.
fn word(rest: &str) -> usize {
    let first = rest.chars().next().map_or(0, char::len_utf8);
    let prefix = if rest.starts_with("r#") { 2 } else { first };
    prefix + rest[prefix..].find(|c| !is_word(c)).unwrap_or(rest.len() - prefix)
}

fn sign(rest: &str, first: char) -> usize {
    if ["::", "->", "=>"].iter().any(|sign| rest.starts_with(sign)) { 2 } else { first.len_utf8() }
}

#[cfg(test)]
mod tests {
    use super::tokens;

    fn words(text: &str) -> Vec<&str> {
        tokens(text).into_iter().map(|token| &text[token.span]).collect()
    }

    #[test]
    fn comments_are_left_out_and_may_nest() {
        assert_eq!(words("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
    }

    #[test]
    fn a_literal_is_one_word_whatever_it_holds() {
        assert_eq!(words(r###"x("// \" {", r#"a " b"#, b'{', '\'', '"')"###).len(), 12);
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_not_literals() {
        assert_eq!(words("<'a> r#type 'é' é"), ["<", "'a", ">", "r#type", "'é'", "é"]);
    }

    #[test]
    fn a_path_sign_is_one_word() {
        assert_eq!(words("a::b -> c"), ["a", "::", "b", "->", "c"]);
    }

    #[test]
    fn a_literal_that_never_ends_takes_the_rest() {
        assert_eq!(words("a \"b c"), ["a", "\"b c"]);
        assert_eq!(words("a /* b c"), ["a"]);
    }

    #[test]
    fn lines_are_counted_through_literals() {
        let lines: Vec<_> = tokens("a\n\"b\nc\"\nd").iter().map(|t| (t.first_line, t.last_line)).collect();
        assert_eq!(lines, [(1, 1), (2, 3), (4, 4)]);
    }
}
