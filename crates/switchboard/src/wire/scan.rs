//! Walks over JSON text that is already known to be valid, in one pass, to find where its parts are.
//!
//! Parsing a message with `serde_json` has checked the text; asking it again for each part of each item would read the
//! same bytes once more per level. On text that is not valid the walk ends early; it never panics and never loops.

use std::ops::Range;

use memchr::memchr2;

/// A place in JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The beginning of `text`.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The text at `span`.
    pub(crate) fn slice(&self, span: &Range<usize>) -> &'a [u8] {
        self.text.get(span.clone()).unwrap_or_default()
    }

    /// How far the walk has come, in bytes.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Steps over the value here and says where it is.
    pub(crate) fn skip(&mut self) -> Range<usize> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => self.skip_string(),
            Some(b'{' | b'[') => self.skip_nested(),
            _ => self.skip_scalar(),
        }
        start..self.at
    }

    /// Steps into the object here; `false` when it is something else.
    pub(crate) fn enter_object(&mut self) -> bool {
        self.enter(b'{')
    }

    /// Steps into the array here; `false` when it is something else.
    pub(crate) fn enter_array(&mut self) -> bool {
        self.enter(b'[')
    }

    /// Steps to the value of the object's next member, and says where its name is, without the quotes. `None` steps out of
    /// the object. The value must be stepped over before the next call.
    pub(crate) fn next_member(&mut self) -> Option<Range<usize>> {
        self.next_item(b'}')?;
        if self.text.get(self.at) != Some(&b'"') {
            return None;
        }
        let start = self.at + 1;
        self.skip_string();
        let name = start..self.at.saturating_sub(1).max(start);
        if self.peek() == Some(b':') {
            self.at += 1;
        }
        Some(name)
    }

    /// Steps to the array's next element; `false` steps out of the array. The element must be stepped over before the next
    /// call.
    pub(crate) fn next_element(&mut self) -> bool {
        self.next_item(b']').is_some()
    }

    fn enter(&mut self, open: u8) -> bool {
        let is_there = self.peek() == Some(open);
        self.at += usize::from(is_there);
        is_there
    }

    fn next_item(&mut self, close: u8) -> Option<()> {
        let mut next = self.peek()?;
        if next == b',' {
            self.at += 1;
            next = self.peek()?;
        }
        if next == close {
            self.at += 1;
            return None;
        }
        Some(())
    }

    fn skip_string(&mut self) {
        self.at += 1;
        while let Some(rest) = self.text.get(self.at..) {
            match memchr2(b'"', b'\\', rest) {
                Some(found) if rest[found] == b'"' => {
                    self.at += found + 1;
                    return;
                }
                Some(found) => self.at += found + 2,
                None => break,
            }
        }
        self.at = self.text.len();
    }

    fn skip_nested(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    fn skip_scalar(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        // At least one byte, so that a walk over invalid text ends.
        self.at = (self.at + length.max(1)).min(self.text.len());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The value as the cursor sees it, one level deep.
    fn members(text: &str) -> Vec<(String, Value)> {
        let mut cursor = Cursor::new(text.as_bytes());
        let mut found = Vec::new();
        assert!(cursor.enter_object());
        while let Some(name) = cursor.next_member() {
            let span = cursor.skip();
            let name = serde_json::from_slice(&[b"\"", cursor.slice(&name), b"\""].concat()).unwrap();
            found.push((name, serde_json::from_slice(cursor.slice(&span)).unwrap()));
        }
        assert_eq!(cursor.peek(), None);
        found
    }

    #[test]
    fn members_and_elements_are_found_where_they_are() {
        let text = r#" { "a" : [1, {"x":"]}"}, "\\\""] ,"b\"c":"d,e" , "n":-1.5e3,"t":true } "#;
        let names: Vec<String> = members(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b\"c", "n", "t"]);
        let mut cursor = Cursor::new(b"[ [] , 1,\"]\" ]");
        assert!(cursor.enter_array());
        let mut spans = Vec::new();
        while cursor.next_element() {
            spans.push(cursor.skip());
        }
        assert_eq!(spans, [2..4, 7..8, 9..12]);
    }

    fn json() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec((".{0,6}", inner), 0..5)
                    .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest::proptest! {
        #[test]
        fn the_cursor_sees_what_the_parser_sees(value in json(), pretty: bool) {
            let object = serde_json::json!({ "a": value, "b": [value] });
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) }.unwrap();
            let found: serde_json::Map<String, Value> = members(&text).into_iter().collect();
            proptest::prop_assert_eq!(Value::Object(found), object);
        }

        #[test]
        fn a_walk_over_anything_ends(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:\\ a1".to_vec()), 0..40)) {
            let mut cursor = Cursor::new(&bytes);
            if cursor.enter_object() {
                while cursor.next_member().is_some() {
                    cursor.skip();
                }
            }
            let mut cursor = Cursor::new(&bytes);
            if cursor.enter_array() {
                while cursor.next_element() {
                    cursor.skip();
                }
            }
        }
    }
}
