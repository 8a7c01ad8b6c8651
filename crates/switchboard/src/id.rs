//! Names of servers, and where generated names come from.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The longest server id, in characters.
pub const SERVER_ID_MAX_LENGTH: usize = 64;

/// The stable name of a registered server: 1 to 64 characters of `a-z A-Z 0-9 _ -`.
///
/// Ids given by people are normalised ([`ServerId::parse`]); ids made here are random ([`ServerId::generate`]).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId(Arc<str>);

impl ServerId {
    /// Normalises what a person gave: lower case, each run of other characters than `a-z 0-9 _ -` one hyphen, no
    /// hyphens or underscores at the ends, a letter in front (`id-` where there is none), 64 characters at most.
    ///
    /// A label without a single letter or digit that survives gets `id-` and a hash of itself, so that two such labels
    /// never become the same id. Normalising twice changes nothing.
    ///
    /// # Errors
    /// When the label is empty or only white space.
    ///
    /// ```
    /// use switchboard::ServerId;
    /// assert_eq!(ServerId::parse("GitHub MCP!")?.as_str(), "github-mcp");
    /// assert_eq!(ServerId::parse("42-things")?.as_str(), "id-42-things");
    /// assert_ne!(ServerId::parse("日本語")?, ServerId::parse("中文")?);
    /// # Ok::<(), switchboard::Error>(())
    /// ```
    #[doc(alias = "normalizeServerId")]
    pub fn parse(label: &str) -> Result<Self> {
        if label.trim().is_empty() {
            return Err(Error::invalid("id", "a server id may not be empty"));
        }
        let mut text = String::with_capacity(label.len());
        for character in label.to_lowercase().chars() {
            match character {
                'a'..='z' | '0'..='9' | '_' => text.push(character),
                _ if text.ends_with('-') => {}
                _ => text.push('-'),
            }
        }
        let trimmed = text.trim_matches(['-', '_']);
        let mut id = match trimmed.chars().next() {
            None => format!("id-{}", digest(label)),
            Some('a'..='z') => trimmed.to_owned(),
            Some(_) => format!("id-{trimmed}"),
        };
        id.truncate(SERVER_ID_MAX_LENGTH);
        Ok(Self(id.trim_end_matches('-').into()))
    }

    /// A new random id of 8 characters. The first is a letter, so that it is a fixed point of [`ServerId::parse`].
    #[must_use]
    pub fn generate() -> Self {
        let rest = (0..7).map(|_| fastrand::alphanumeric().to_ascii_lowercase());
        Self(std::iter::once(fastrand::lowercase()).chain(rest).collect::<String>().into())
    }

    /// An id as it stands in a store, taken as it is.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The first ten hexadecimal digits of the label's SHA-256.
fn digest(label: &str) -> String {
    Sha256::digest(label.as_bytes()).iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for ServerId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for ServerId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for ServerId {
    type Err = Error;

    fn from_str(label: &str) -> Result<Self> {
        Self::parse(label)
    }
}

impl Serialize for ServerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ServerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let label = String::deserialize(deserializer)?;
        Self::parse(&label).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(label: &str) -> String {
        ServerId::parse(label).unwrap().to_string()
    }

    #[test]
    fn labels_are_normalised_as_users_of_other_clients_know_it() {
        let table = [
            ("GitHub MCP!", "github-mcp".to_owned()),
            ("42-things", "id-42-things".to_owned()),
            ("__a__", "a".to_owned()),
            ("9", "id-9".to_owned()),
            ("mon serveur été", "mon-serveur-t".to_owned()),
            ("A__b--c", "a__b-c".to_owned()),
            ("a.b", "a-b".to_owned()),
            (&format!("{}_y", "x".repeat(63)), format!("{}_", "x".repeat(63))),
            (&format!("1{}", "b".repeat(70)), format!("id-1{}", "b".repeat(60))),
        ];
        for (label, id) in table {
            assert_eq!(parsed(label), id, "{label}");
        }
    }

    #[test]
    fn labels_whose_letters_all_vanish_get_a_hash_of_their_own() {
        let ids = ["é", "日本語", "-", "__", "!!"].map(parsed);
        for (index, id) in ids.iter().enumerate() {
            assert!(id.starts_with("id-") && id.len() > 8, "{id}");
            assert!(!ids[index + 1..].contains(id), "{id} twice");
        }
    }

    #[test]
    fn an_empty_label_is_refused() {
        assert!(ServerId::parse("").unwrap_err().is_invalid_input());
        assert!(ServerId::parse("  ").unwrap_err().is_invalid_input());
    }

    proptest::proptest! {
        #[test]
        fn normalising_twice_changes_nothing(label in "\\PC{1,80}") {
            if let Ok(once) = ServerId::parse(&label) {
                proptest::prop_assert_eq!(ServerId::parse(once.as_str()).unwrap(), once);
            }
        }

        #[test]
        fn every_id_is_safe_to_stand_in_a_tool_name(label in "\\PC{1,80}") {
            if let Ok(id) = ServerId::parse(&label) {
                let id = id.as_str();
                proptest::prop_assert!((1..=SERVER_ID_MAX_LENGTH).contains(&id.len()));
                proptest::prop_assert!(id.starts_with(|first: char| first.is_ascii_lowercase()));
                proptest::prop_assert!(id.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')));
            }
        }
    }

    #[test]
    fn generated_ids_are_already_normal() {
        for _ in 0..100 {
            let id = ServerId::generate();
            assert_eq!(parsed(id.as_str()), id.as_str());
        }
    }
}
