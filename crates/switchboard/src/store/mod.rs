//! Where registrations, sign-ins and last known catalogues are remembered: records by key, nothing more.
//!
//! The trait is narrow on purpose. A record is bytes under a [`Key`] with a version; a writer may say which version it
//! means to replace; keys are listed by [`Prefix`]; changes can be watched. No query language leaks through, so that a
//! replicated key-value bucket can stand here as well as a file. What the bytes mean is the business of
//! [`record`], which knows the versions of every document.
//!
//! ```
//! # futures_util::FutureExt::now_or_never(async {
//! use switchboard::store::{Expect, MemoryStore, Prefix, Store};
//!
//! let store = MemoryStore::new();
//! let key = Prefix::root().join("servers").key("github");
//! let version = store.put(&key, "{}".into(), Expect::Absent).await?;
//! assert!(store.put(&key, "[]".into(), Expect::Absent).await.is_err());
//! store.put(&key, "[]".into(), Expect::Version(version)).await?;
//! # Ok::<(), switchboard::Error>(())
//! # }).unwrap().unwrap();
//! ```

mod error;
mod key;
mod memory;
pub mod record;
#[cfg(feature = "sqlite")]
mod sqlite;
mod watch;

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

pub use error::StoreError;
pub use key::{Key, Prefix};
pub use memory::MemoryStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use watch::{Change, WATCH_CAPACITY};

/// A result whose error is a [`StoreError`].
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Records by key, with versions.
///
/// An implementation promises:
/// - a write whose future answered `Ok` is there for every later read, also after the process was killed (a store that
///   lives in memory only, such as [`MemoryStore`], keeps this for as long as it lives);
/// - a write that failed left the record as it was, or, when the medium itself failed in the middle, as it should
///   have become; never anything in between;
/// - two writes with the same [`Expect::Version`] cannot both succeed, whoever makes them;
/// - versions of one key only ever grow, also when the record was deleted in between.
///
/// Cancel safety: dropping a future of a read has no effect. Dropping one of a write leaves open whether the write is
/// made; it is made whole or not at all.
pub trait Store: Send + Sync + 'static {
    /// The record under `key`.
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entry>>>;

    /// Writes `value` under `key` when the record there is as `expect` says; answers the new version.
    ///
    /// Otherwise nothing is written, and the error is a [`StoreError::Conflict`] with the version that is there.
    fn put<'a>(&'a self, key: &'a Key, value: Bytes, expect: Expect) -> BoxFuture<'a, Result<u64>>;

    /// Removes the record under `key` when it is as `expect` says; answers whether there was one.
    fn delete<'a>(&'a self, key: &'a Key, expect: Expect) -> BoxFuture<'a, Result<bool>>;

    /// All records below `prefix`, in the order of their keys.
    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Entry>>>;

    /// The changes below `prefix` that are made through this store from now on, in the order in which they were made.
    ///
    /// The stream ends with the store. A reader that falls behind by more than the store's bound gets
    /// [`Change::Missed`] and should list again.
    fn watch(&self, prefix: &Prefix) -> BoxStream<'static, Change>;
}

/// A record as it is stored.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Where it is stored.
    pub key: Key,
    /// Which version it is. Grows with each write.
    pub version: u64,
    /// What is stored.
    pub value: Bytes,
}

impl Entry {
    /// A record as a store answers it.
    #[must_use]
    pub const fn new(key: Key, version: u64, value: Bytes) -> Self {
        Self { key, version, value }
    }
}

/// Values may hold secrets, so only their size is shown.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({}, version {}, {} bytes)", self.key, self.version, self.value.len())
    }
}

/// What a writer expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there.
    Any,
    /// Nothing is there.
    Absent,
    /// The record is there in this version.
    Version(u64),
}

impl Expect {
    /// Compares with the version that is there.
    ///
    /// # Errors
    /// A [`StoreError::Conflict`] about `key` when it is another one.
    pub fn check(self, key: &Key, present: Option<u64>) -> Result<()> {
        let met = match self {
            Self::Any => true,
            Self::Absent => present.is_none(),
            Self::Version(version) => present == Some(version),
        };
        if met { Ok(()) } else { Err(StoreError::Conflict { key: key.clone(), present }) }
    }
}

#[cfg(test)]
mod tests;
