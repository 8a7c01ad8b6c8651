//! What the bytes of a record mean: JSON documents with their version beside them.
//!
//! A document is stored as `{"v": 1, "data": {…}}`. A reader takes every version up to its own and brings older ones up
//! to date step by step. A record that cannot be read is a [`Corrupt`] value, never the failure of a whole list: it
//! costs the one server that it is about.

mod approval;
mod server;

use std::error::Error as StdError;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Entry, Expect, Key, Prefix, Result, Store};
use crate::error::{Error, ErrorKind};
use crate::wire::Json;

pub use approval::ApprovalRecord;
pub use server::{CatalogueRecord, EraVerdict, ServerRecord, SessionRecord, read_servers};

/// Something that is stored as a versioned document.
pub trait Document: Serialize + DeserializeOwned {
    /// The version that is written.
    const VERSION: u32;

    /// Turns the data of version `from` into that of the next one.
    ///
    /// Called for versions below [`Document::VERSION`] only, until that is reached.
    ///
    /// # Errors
    /// When the data is not what that version was, or the version never existed.
    fn upgrade(from: u32, data: Json) -> Result<Json, Box<dyn StdError + Send + Sync>> {
        let _ = data;
        Err(format!("there is no version {from}").into())
    }
}

/// A document as it was found, readable or not.
#[derive(Debug)]
#[non_exhaustive]
pub struct Stored<T> {
    /// Where it is stored.
    pub key: Key,
    /// Which version of the record it is, for the next write's [`Expect::Version`].
    pub version: u64,
    /// The document, or why it cannot be read.
    pub document: Result<T, Corrupt>,
}

impl<T: Document> Stored<T> {
    /// Reads a record of any known version.
    #[must_use]
    pub fn read(entry: &Entry) -> Self {
        let document = decode(&entry.value).map_err(|flaw| Corrupt { key: entry.key.clone(), flaw });
        Self { key: entry.key.clone(), version: entry.version, document }
    }
}

/// A record that cannot be read. It stays as it is until someone removes or replaces it.
#[derive(Debug, thiserror::Error)]
#[error("record `{key}` cannot be read")]
#[non_exhaustive]
pub struct Corrupt {
    /// Which record.
    pub key: Key,
    /// What is wrong with it.
    #[source]
    pub flaw: Flaw,
}

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// It is no document, or not one of this kind.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// It was written by a newer version of this library.
    #[error("it was written by a newer version (its layout is {found}, this version knows {known})")]
    Newer {
        /// The version of the document.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// It is of an older version and could not be brought up to date.
    #[error("it could not be brought up to date from version {from}")]
    Upgrade {
        /// The version at which it stopped.
        from: u32,
        /// The cause below.
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl From<Corrupt> for Error {
    fn from(corrupt: Corrupt) -> Self {
        let hint = match corrupt.flaw {
            Flaw::Newer { .. } => "use the newer version, or remove the server and add it again",
            _ => "remove the server and add it again",
        };
        Self::new(ErrorKind::Store, corrupt.to_string()).hint(hint).because(corrupt.flaw)
    }
}

/// All documents below `prefix`, readable or not, in the order of their keys.
///
/// Cancel safety: it only reads.
///
/// # Errors
/// When the store fails as a whole.
pub async fn read_all<T: Document>(store: &dyn Store, prefix: &Prefix) -> Result<Vec<Stored<T>>> {
    Ok(store.list(prefix).await?.iter().map(Stored::read).collect())
}

/// The document under `key`.
///
/// Cancel safety: it only reads.
///
/// # Errors
/// When the store fails. A record that cannot be read is no failure.
pub async fn read<T: Document>(store: &dyn Store, key: &Key) -> Result<Option<Stored<T>>> {
    Ok(store.get(key).await?.as_ref().map(Stored::read))
}

/// Writes `document` under `key`; answers the new version of the record.
///
/// Cancel safety: as [`Store::put`].
///
/// # Errors
/// When the document cannot be written as JSON, the record is not as expected, or the store fails.
pub async fn write<T: Document>(
    store: &dyn Store,
    key: &Key,
    document: &T,
    expect: Expect,
) -> crate::error::Result<u64> {
    Ok(store.put(key, encode(document)?, expect).await?)
}

#[derive(Serialize)]
struct Written<'a, T> {
    v: u32,
    data: &'a T,
}

#[derive(Deserialize)]
struct Read<'a> {
    v: u32,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// The bytes of a record.
///
/// # Errors
/// When the document cannot be written as JSON.
pub fn encode<T: Document>(document: &T) -> crate::error::Result<Bytes> {
    let text = serde_json::to_vec(&Written { v: T::VERSION, data: document });
    text.map(Bytes::from)
        .map_err(|source| Error::new(ErrorKind::Store, "a record cannot be written as JSON").because(source))
}

impl Flaw {
    /// Says where, and only says what when that cannot quote the document, which may hold secrets.
    fn malformed(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        if error.is_data() && !text.starts_with("missing field") {
            return Self::Malformed(format!("unexpected content at line {} column {}", error.line(), error.column()));
        }
        Self::Malformed(text)
    }
}

fn decode<T: Document>(value: &Bytes) -> Result<T, Flaw> {
    let Read { v, data } = serde_json::from_slice(value).map_err(|error| Flaw::malformed(&error))?;
    if v > T::VERSION {
        return Err(Flaw::Newer { found: v, known: T::VERSION });
    }
    if v == T::VERSION {
        return serde_json::from_str(data.get()).map_err(|error| Flaw::malformed(&error));
    }
    let upgraded = (v..T::VERSION).try_fold(Json::within(value, data), |data, from| {
        T::upgrade(from, data).map_err(|source| Flaw::Upgrade { from, source })
    })?;
    upgraded.read().map_err(|error| Flaw::malformed(&error))
}

#[cfg(test)]
mod tests;
