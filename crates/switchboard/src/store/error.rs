//! Why a store failed, said so that a person knows which file is meant and what to do.

use std::error::Error as StdError;

use super::Key;
use crate::error::{Error, ErrorKind};

type Source = Box<dyn StdError + Send + Sync>;

/// Why a store could not do as asked.
///
/// `place` names what is meant: a path, or the address of a store elsewhere.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The record is not in the version that the writer expected. Nothing was written.
    #[error("record `{key}` is not as expected, it {}", describe(*.present))]
    Conflict {
        /// Which record.
        key: Key,
        /// The version that is there.
        present: Option<u64>,
    },
    /// What is stored cannot be understood.
    #[error("`{place}` cannot be read, {reason}")]
    Corrupt {
        /// Where.
        place: String,
        /// What is wrong with it.
        reason: String,
        /// The cause below.
        source: Option<Source>,
    },
    /// The place may be read but not written.
    #[error("`{place}` cannot be written")]
    ReadOnly {
        /// Where.
        place: String,
        /// The cause below.
        source: Source,
    },
    /// No space is left.
    #[error("no space is left to write `{place}`")]
    Full {
        /// Where.
        place: String,
        /// The cause below.
        source: Source,
    },
    /// Another program kept the store to itself for too long.
    #[error("`{place}` is held by another program")]
    Busy {
        /// Where.
        place: String,
        /// The cause below.
        source: Source,
    },
    /// The store was written by a newer version of this library. Nothing was changed.
    #[error("`{place}` was written by a newer version (its layout is {found}, this version knows {known})")]
    Newer {
        /// Where.
        place: String,
        /// The version of its layout.
        found: u64,
        /// The newest version of the layout that is known here.
        known: u64,
    },
    /// The value is larger than the store can hold.
    #[error("record `{key}` is too large to be stored")]
    TooLarge {
        /// Which record.
        key: Key,
        /// The cause below.
        source: Source,
    },
    /// The store was closed.
    #[error("`{place}` was closed")]
    Closed {
        /// Where.
        place: String,
    },
    /// The file was moved or deleted while it was open. Nothing was written, for it would be lost at the next start.
    #[error("`{place}` was moved or deleted while it was open")]
    Gone {
        /// Where it was.
        place: String,
    },
    /// The medium failed.
    #[error("`{place}` could not be opened, read or written")]
    Io {
        /// Where.
        place: String,
        /// The cause below.
        source: Source,
    },
}

fn describe(present: Option<u64>) -> String {
    present.map_or_else(|| "does not exist".to_owned(), |version| format!("is in version {version}"))
}

impl StoreError {
    /// Whether the record was not in the version that the writer expected.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "read the record again and repeat the change",
            Self::Corrupt { .. } => {
                "name another file, or move this one away and put a copy that is whole in its place"
            }
            Self::ReadOnly { .. } => {
                "make the file and its folder writable for this user, for SQLite keeps two files beside it, \
                 or name another data folder"
            }
            Self::Full { .. } => "free some space and try again, nothing that was stored is lost",
            Self::Busy { .. } => "try again, or stop the other program that uses this file",
            Self::Newer { .. } => "use the newer version, or name another data folder, nothing was changed here",
            Self::TooLarge { .. } => "ask the server for less, or leave it out",
            Self::Closed { .. } => "open it again",
            Self::Gone { .. } => "put it back where it was, or start again, which makes a new one",
            Self::Io { .. } => {
                "check that the folder exists, that this user may write there, and that the disk is sound"
            }
        }
    }

    fn into_source(self) -> Option<Source> {
        match self {
            Self::Conflict { .. } | Self::Newer { .. } | Self::Closed { .. } | Self::Gone { .. } => None,
            Self::Corrupt { source, .. } => source,
            Self::ReadOnly { source, .. }
            | Self::Full { source, .. }
            | Self::Busy { source, .. }
            | Self::TooLarge { source, .. }
            | Self::Io { source, .. } => Some(source),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let outer = Self::new(ErrorKind::Store, error.to_string()).hint(error.hint());
        match error.into_source() {
            Some(source) => outer.because(source),
            None => outer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_error_names_the_place_the_cause_and_what_to_do() {
        let source = std::io::Error::other("disk quota exceeded").into();
        let error = Error::from(StoreError::Full { place: "/data/a.db".into(), source });
        assert_eq!(error.kind(), ErrorKind::Store);
        assert_eq!(error.to_string(), "no space is left to write `/data/a.db`");
        assert_eq!(error.causes(), ["disk quota exceeded"]);
        assert!(error.data().hint.as_deref().is_some_and(|hint| hint.contains("free some space")));
    }

    #[test]
    fn a_conflict_says_what_is_there() {
        let key = super::super::Prefix::root().key("a");
        let text = |present| StoreError::Conflict { key: key.clone(), present }.to_string();
        assert_eq!(text(Some(7)), "record `a` is not as expected, it is in version 7");
        assert_eq!(text(None), "record `a` is not as expected, it does not exist");
    }
}
