//! One JSON value, kept as the bytes it came in.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// One JSON value as text, cheap to clone and byte for byte what was received.
///
/// A value cut out of a message shares the message's buffer. The text is known to be valid JSON, in UTF-8.
///
/// ```
/// let json: switchboard::wire::Json = "{ \"a\": 1 }".parse().unwrap();
/// assert_eq!(json.as_str(), "{ \"a\": 1 }");
/// assert_eq!(json.to_value()["a"], 1);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Bytes);

impl Json {
    /// Checks that `bytes` are one JSON value and keeps them, without the white space around it.
    ///
    /// # Errors
    /// When they are not valid JSON or not UTF-8.
    pub fn parse(bytes: impl Into<Bytes>) -> Result<Self, serde_json::Error> {
        let bytes = bytes.into();
        let raw: &RawValue = serde_json::from_slice(&bytes)?;
        Ok(Self::within(&bytes, raw))
    }

    /// The part of `whole` that `raw` borrows from it, sharing its buffer.
    ///
    /// Copies when `raw` lies elsewhere.
    #[must_use]
    pub fn within(whole: &Bytes, raw: &RawValue) -> Self {
        let part = raw.get().as_bytes();
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        match start.checked_add(part.len()) {
            Some(end) if end <= whole.len() => Self(whole.slice(start..end)),
            _ => Self(Bytes::copy_from_slice(part)),
        }
    }

    /// A copy in a buffer of its own size. What is cut from a message shares the message's buffer and keeps it alive; what
    /// lives long should be cut from a copy.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Text that is already known to be one JSON value.
    pub(crate) fn trusted(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        debug_assert!(serde_json::from_slice::<&RawValue>(&bytes).is_ok());
        Self(bytes)
    }

    /// The JSON text of anything that can be serialised.
    ///
    /// # Errors
    /// When `value` cannot be written as JSON, such as a map whose keys are not strings.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_vec(value).map(|text| Self(text.into()))
    }

    /// The empty object, `{}`.
    #[must_use]
    pub const fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Every constructor has checked the text, so the fallback is never taken.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// The bytes of the text.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Whether this is a JSON object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.0.as_ref() == b"null"
    }

    /// The value as a tree.
    #[must_use]
    pub fn to_value(&self) -> Value {
        // Nesting deeper than serde_json's limit of 128 reads as `null`.
        serde_json::from_slice(&self.whole_characters().0).unwrap_or(Value::Null)
    }

    /// The same value with a replacement character for each escape that is half of a character (a lone surrogate). JSON
    /// allows them and some servers cut texts there, but no string of ours can hold them.
    #[must_use]
    pub fn whole_characters(&self) -> Self {
        match halves(&self.0) {
            halves if halves.is_empty() => self.clone(),
            halves => {
                let mut text = self.0.to_vec();
                for at in halves {
                    text[at..at + 6].copy_from_slice(b"\\ufffd");
                }
                Self(text.into())
            }
        }
    }

    /// The value read as `T`.
    ///
    /// # Errors
    /// When it has another shape.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The value read as `T`, which may borrow from it.
    ///
    /// # Errors
    /// When it has another shape.
    pub fn view<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }
}

/// Where the escapes are that are half of a character.
fn halves(text: &[u8]) -> Vec<usize> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut halves = Vec::new();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &text[at..]) {
        at += found;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                halves.push(at);
                at += 6;
            }
            // Another escape: what stands behind the backslash cannot begin one.
            _ => at = (at + 2).min(text.len()),
        }
    }
    halves
}

impl std::str::FromStr for Json {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text: Box<str> = raw.into();
        Ok(Self(Bytes::from(text.into_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cut_out_of_a_message_shares_its_buffer() {
        let whole = Bytes::from_static(b"{\"a\": {\"b\":  1} }");
        let map: std::collections::BTreeMap<&str, &RawValue> = serde_json::from_slice(&whole).unwrap();
        let json = Json::within(&whole, map["a"]);
        assert_eq!(json.as_str(), "{\"b\":  1}");
        assert!(whole.as_ptr_range().contains(&json.as_bytes().as_ptr()));
    }

    #[test]
    fn bytes_survive_being_serialised_inside_something_else() {
        let json: Json = "{ \"big\":12345678901234567890123 }".parse().unwrap();
        assert_eq!(serde_json::to_string(&[json]).unwrap(), "[{ \"big\":12345678901234567890123 }]");
    }

    #[test]
    fn b113_half_a_character_is_replaced_where_text_is_read_and_kept_where_it_is_passed_on() {
        let json: Json = r#"["a\ud83d", "\\ud83d", "\ud83d\ude00", "\udc00\ud800x"]"#.parse().unwrap();
        assert_eq!(json.as_str(), r#"["a\ud83d", "\\ud83d", "\ud83d\ude00", "\udc00\ud800x"]"#);
        let read = json.to_value();
        assert_eq!(read, serde_json::json!(["a\u{fffd}", "\\ud83d", "\u{1f600}", "\u{fffd}\u{fffd}x"]));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        assert!("{".parse::<Json>().is_err());
        assert!(Json::parse(&b"\"\xff\""[..]).is_err());
    }
}
