//! Finds the items of a file that only a test build has.

use super::Code;

/// Words that begin an item; a field or a variant begins with its own name and ends at a comma.
const ITEM: [&str; 16] = [
    "async",
    "const",
    "enum",
    "extern",
    "fn",
    "impl",
    "let",
    "macro_rules",
    "mod",
    "static",
    "struct",
    "trait",
    "type",
    "union",
    "unsafe",
    "use",
];

/// Marks every word of an item under `#[cfg(test)]`, `#[test]` or `#[…::test]`; all of them after `#![cfg(test)]`.
pub(super) fn mark(code: &mut Code) {
    let mut index = 0;
    while index < code.len() {
        let whole_file = code.matches(index, &["#", "!", "["]) && is_test(code, index + 2);
        let end = if whole_file {
            code.len() - 1
        } else if code.matches(index, &["#", "["]) && is_test(code, index + 1) {
            item_end(code, index)
        } else {
            index += 1;
            continue;
        };
        for token in &mut code.tokens[index..=end] {
            token.in_test = true;
        }
        index = end + 1;
    }
}

/// Whether the attribute whose `[` stands at `open` means test code.
fn is_test(code: &Code, open: usize) -> bool {
    let close = code.closing(open);
    let inside: Vec<&str> = (open + 1..close).map(|i| code.word(i)).collect();
    let names_test = |word: &str| word == "test";
    match inside.first() {
        Some(&"cfg") => inside.iter().any(|word| names_test(word)) && !inside.contains(&"not"),
        _ => inside.iter().take_while(|word| **word != "(").last().is_some_and(|word| names_test(word)),
    }
}

/// The last word of the item that the attribute at `start` belongs to.
fn item_end(code: &Code, start: usize) -> usize {
    let mut index = start;
    while code.matches(index, &["#", "["]) {
        index = code.closing(index + 1) + 1;
    }
    if code.word(index) == "pub" {
        index += 1;
        if code.word(index) == "(" {
            index = code.closing(index) + 1;
        }
    }
    let is_item = ITEM.contains(&code.word(index));
    while index < code.len() {
        match code.word(index) {
            ";" => return index,
            "," if !is_item => return index,
            "{" => return code.closing(index),
            "(" | "[" => index = code.closing(index),
            ")" | "]" | "}" => return index - 1,
            _ => {}
        }
        index += 1;
    }
    code.len() - 1
}

#[cfg(test)]
mod tests {
    use super::super::Code;

    fn outside(text: &str) -> String {
        let code = Code::read(text);
        let words: Vec<_> = (0..code.len()).filter(|&i| !code.in_test(i)).map(|i| code.word(i)).collect();
        words.join(" ")
    }

    #[test]
    fn an_item_ends_with_its_body_or_its_semicolon() {
        assert_eq!(outside("#[cfg(test)] mod t { fn a() {} } fn b() {}"), "fn b ( ) { }");
        assert_eq!(outside("#[cfg(test)] pub(crate) use x::y; fn b() {}"), "fn b ( ) { }");
        assert_eq!(outside("#[cfg(test)] fn a<A, B>(x: [u8; 2]) -> u8 { 1 } fn b() {}"), "fn b ( ) { }");
    }

    #[test]
    fn a_field_ends_at_its_comma_or_with_its_struct() {
        assert_eq!(outside("struct S { #[cfg(test)] a: u8, b: u8 }"), "struct S { b : u8 }");
        assert_eq!(outside("struct S { #[cfg(test)] a: u8 }"), "struct S { }");
    }

    #[test]
    fn further_attributes_belong_to_the_item() {
        assert_eq!(outside("#[tokio::test(start_paused = true)] #[ignore] async fn a() {} x"), "x");
        assert_eq!(outside("#[cfg(all(test, unix))] mod t {} x"), "x");
    }

    #[test]
    fn what_is_built_without_tests_is_not_test_code() {
        assert_eq!(outside("#[cfg(not(test))] fn a() {}"), "# [ cfg ( not ( test ) ) ] fn a ( ) { }");
        assert_eq!(outside("#[must_use] fn a() {}"), "# [ must_use ] fn a ( ) { }");
    }

    #[test]
    fn an_inner_attribute_makes_the_whole_file_test_code() {
        assert_eq!(outside("#![cfg(test)] fn a() {}"), "");
    }
}
