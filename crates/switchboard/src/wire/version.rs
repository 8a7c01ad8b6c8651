//! The protocol's revisions and its two eras.

use std::fmt;

/// The revision of the modern era that we speak.
pub const MODERN: &str = "2026-07-28";

/// The revisions of the legacy era that we speak, newest first.
pub const LEGACY: [&str; 5] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];

/// The two ways in which the protocol has been spoken (specification 2026-07-28, "Versioning", Terminology).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// Stateless: version, identity and capabilities travel with each request.
    Modern,
    /// A session that begins with `initialize`.
    Legacy,
}

impl Era {
    /// The era in lower case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Legacy => "legacy",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The revision of ours that is spelt `text`, and its era.
#[must_use]
pub fn known(text: &str) -> Option<(&'static str, Era)> {
    if text == MODERN {
        return Some((MODERN, Era::Modern));
    }
    LEGACY.into_iter().find(|version| *version == text).map(|version| (version, Era::Legacy))
}

/// The best revision of the modern era that both sides speak.
#[must_use]
pub fn common_modern<T: AsRef<str>>(offered: &[T]) -> Option<&'static str> {
    offered.iter().any(|version| version.as_ref() == MODERN).then_some(MODERN)
}

/// The best revision of the legacy era that both sides speak.
#[must_use]
pub fn common_legacy<T: AsRef<str>>(offered: &[T]) -> Option<&'static str> {
    LEGACY.into_iter().find(|ours| offered.iter().any(|version| version.as_ref() == *ours))
}

/// Whether `text` looks like a revision newer than the legacy ones: a date, later than the last of them.
#[must_use]
pub fn is_modern_date(text: &str) -> bool {
    let is_date = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_date && text > LEGACY[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_told_apart_by_era() {
        assert_eq!(known("2026-07-28"), Some((MODERN, Era::Modern)));
        assert_eq!(known("2024-11-05").unwrap().1, Era::Legacy);
        assert_eq!(known("2099-01-01"), None);
        assert!(is_modern_date("2027-01-01") && !is_modern_date("2025-11-25") && !is_modern_date("DRAFT-2026"));
    }

    #[test]
    fn the_newest_common_revision_is_chosen() {
        assert_eq!(common_legacy(&["2024-11-05", "2025-06-18"]), Some("2025-06-18"));
        assert_eq!(common_modern(&["2025-11-25"]), None);
    }
}
