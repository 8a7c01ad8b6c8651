//! Extra HTTP headers of a server, in order, their values hidden.

use http::{HeaderName, HeaderValue};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::secret::Secret;

/// Headers that the protocol or HTTP itself sets, and that a registration may not override.
const MANAGED: [&str; 12] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

/// Extra headers for every request to a server. A name may stand there more than once; values are never printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Headers(Vec<(HeaderName, Secret<HeaderValue>)>);

impl Headers {
    /// Adds one header.
    ///
    /// # Errors
    /// A sentence part that says why it may not be sent.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), String> {
        let name: HeaderName = name.trim().parse().map_err(|_| format!("`{name}` is not a header name"))?;
        if MANAGED.contains(&name.as_str()) || name.as_str().starts_with("mcp-param-") {
            return Err(format!("the header `{name}` is set by the protocol"));
        }
        let mut value = HeaderValue::from_str(value.trim())
            .map_err(|_| format!("the value of header `{name}` holds characters that a header may not have"))?;
        value.set_sensitive(true);
        self.0.push((name, Secret::new(value)));
        Ok(())
    }

    /// The headers, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value.expose()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Headers {
    /// Writes a list of pairs, so that repeated names survive.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()))))
    }
}

impl<'de> Deserialize<'de> for Headers {
    /// Reads an object of names and values, or a list of pairs.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = Headers;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of header names and values, or a list of pairs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::default();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            headers.add(&name, &value).map_err(serde::de::Error::custom)?;
        }
        Ok(headers)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Headers, A::Error> {
        let mut headers = Headers::default();
        while let Some((name, value)) = list.next_element::<(String, String)>()? {
            headers.add(&name, &value).map_err(serde::de::Error::custom)?;
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip_with_repeated_names_and_are_not_printed() {
        let mut headers = Headers::default();
        headers.add("X-Key", "one").unwrap();
        headers.add("x-key", "two").unwrap();
        let text = serde_json::to_string(&headers).unwrap();
        assert_eq!(text, r#"[["x-key","one"],["x-key","two"]]"#);
        assert_eq!(serde_json::from_str::<Headers>(&text).unwrap(), headers);
        assert!(!format!("{headers:?}").contains("two"));
    }

    #[test]
    fn headers_of_the_protocol_and_line_breaks_are_refused() {
        let mut headers = Headers::default();
        for (name, value) in
            [("Mcp-Session-Id", "x"), ("Mcp-Param-A", "x"), ("a b", "x"), ("a", "x\r\ny: z"), ("", "x")]
        {
            assert!(headers.add(name, value).is_err(), "{name}");
        }
    }
}
