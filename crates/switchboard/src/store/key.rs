//! The names of records: segments that cannot run into each other.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The name of a record: one or more segments, such as `agents/helper/servers/github`.
///
/// Each segment may be any text, the empty one included. In the written form a segment keeps `A-Z a-z 0-9 - _ .`, every
/// other byte is `%` and two hexadecimal digits, and an empty segment is a lone `%`, so that different segments
/// always make different keys. Keys are ordered by their written form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The written form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The segments as they were given.
    pub fn segments(&self) -> impl Iterator<Item = String> {
        // Only what `escape` wrote gets in here, so it always reads back.
        self.0.split('/').map(|written| unescape(written).unwrap_or_default())
    }

    /// The last segment as it was given.
    #[must_use]
    pub fn name(&self) -> String {
        self.segments().last().unwrap_or_default()
    }
}

/// Reads the written form.
impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let canonical = text.split('/').all(|written| {
            let mut again = String::with_capacity(written.len());
            unescape(written).is_some_and(|segment| {
                escape(&segment, &mut again);
                again == written
            })
        });
        if canonical { Ok(Self(text.into())) } else { Err(Error::invalid("key", format!("`{text}` is not a key"))) }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.0)
    }
}

/// The place of all keys that begin with the same segments, as a folder is the place of files.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// The place of all keys.
    #[must_use]
    pub fn root() -> Self {
        Self("".into())
    }

    /// The place `segment` in this one.
    #[must_use]
    pub fn join(&self, segment: &str) -> Self {
        let mut text = self.0.to_string();
        escape(segment, &mut text);
        text.push('/');
        Self(text.into())
    }

    /// The key `segment` in this place.
    #[must_use]
    pub fn key(&self, segment: &str) -> Key {
        let mut text = self.0.to_string();
        escape(segment, &mut text);
        Key(text.into())
    }

    /// The written form: empty for the root, else with a `/` at the end. A key lies below when its written form begins
    /// with this.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `key` lies below.
    #[must_use]
    pub fn contains(&self, key: &Key) -> bool {
        key.as_str().starts_with(&*self.0)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prefix({})", self.0)
    }
}

fn escape(segment: &str, written: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if segment.is_empty() {
        written.push('%');
    }
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            written.push(char::from(byte));
        } else {
            written.push('%');
            written.push(char::from(DIGITS[usize::from(byte >> 4)]));
            written.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

/// Reads back what [`escape`] wrote; nothing for text that it cannot have written.
fn unescape(written: &str) -> Option<String> {
    if written == "%" {
        return Some(String::new());
    }
    let mut segment = Vec::with_capacity(written.len());
    let mut bytes = written.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (high, low) = (bytes.next()?, bytes.next()?);
            let digits = char::from(high).to_digit(16)? * 16 + char::from(low).to_digit(16)?;
            segment.push(u8::try_from(digits).ok()?);
        } else {
            segment.push(byte);
        }
    }
    String::from_utf8(segment).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(segments: &[String]) -> Key {
        let (name, place) = segments.split_last().unwrap();
        place.iter().fold(Prefix::root(), |prefix, segment| prefix.join(segment)).key(name)
    }

    #[test]
    fn a_slash_a_percent_sign_or_an_empty_segment_never_makes_two_keys_one() {
        let segments = ["a/b", "a%2Fb", "", "%", "%25", "a", "b", "/", "//", "日本", "a b", "A"].map(String::from);
        let mut keys = Vec::new();
        for first in &segments {
            keys.push(key(std::slice::from_ref(first)));
            keys.extend(segments.iter().map(|second| key(&[first.clone(), second.clone()])));
        }
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn the_written_form_is_plain() {
        let written = |segment: &str| Prefix::root().join("servers").key(segment).to_string();
        assert_eq!(written("github-1_a.b"), "servers/github-1_a.b");
        assert_eq!(written("a/b %"), "servers/a%2Fb%20%25");
        assert_eq!(written(""), "servers/%");
    }

    #[test]
    fn a_place_holds_what_lies_below_it_and_not_its_namesakes() {
        let place = Prefix::root().join("a");
        assert!(place.contains(&place.key("b")));
        assert!(place.contains(&place.join("b").key("c")));
        assert!(place.contains(&place.key("")));
        assert!(!place.contains(&Prefix::root().key("a")));
        assert!(!place.contains(&Prefix::root().key("ab")));
        assert!(!place.contains(&Prefix::root().join("ab").key("c")));
        assert!(!place.contains(&Prefix::root().key("a/b")));
        assert!(Prefix::root().contains(&Prefix::root().key("a/b")));
    }

    #[test]
    fn text_that_is_not_a_written_key_is_refused() {
        for text in ["", "a//b", "/a", "a/", "a b", "%4", "%2f", "%41", "%FF", "é"] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_key_reads_back(segments in proptest::collection::vec("\\PC{0,8}|[/%a]{0,4}", 1..5)) {
            let key = key(&segments);
            proptest::prop_assert_eq!(&key.as_str().parse::<Key>().unwrap(), &key);
            proptest::prop_assert_eq!(key.segments().collect::<Vec<_>>(), segments);
        }

        #[test]
        fn different_segments_make_different_keys(
            one in proptest::collection::vec("[/%a2F5]{0,4}", 1..4),
            other in proptest::collection::vec("[/%a2F5]{0,4}", 1..4),
        ) {
            proptest::prop_assert_eq!(one == other, key(&one) == key(&other));
        }
    }
}
