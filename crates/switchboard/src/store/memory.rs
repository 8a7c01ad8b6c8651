//! A store that lives as long as the process: for tests, and for agents that need no memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::watch::{Change, Watchers};
use super::{Entry, Expect, Key, Prefix, Result, Store};

/// Keeps records in memory. Clones share them.
#[derive(Clone)]
pub struct MemoryStore {
    records: Arc<Mutex<Records>>,
    watchers: Watchers,
}

#[derive(Default)]
struct Records {
    by_key: BTreeMap<Key, Entry>,
    /// The version last given, over all keys, so that a record made anew never repeats one.
    version: u64,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self { records: Arc::default(), watchers: Watchers::new() }
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        // Nothing under the lock can panic half-way, so a poisoned lock still guards whole records.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, key: &Key, value: Bytes, expect: Expect) -> Result<u64> {
        let mut records = self.records();
        expect.check(key, records.by_key.get(key).map(|entry| entry.version))?;
        records.version += 1;
        let version = records.version;
        records.by_key.insert(key.clone(), Entry::new(key.clone(), version, value));
        // Told under the lock, so that watchers hear of changes in their order.
        self.watchers.tell(Change::Written { key: key.clone(), version });
        Ok(version)
    }

    fn remove(&self, key: &Key, expect: Expect) -> Result<bool> {
        let mut records = self.records();
        expect.check(key, records.by_key.get(key).map(|entry| entry.version))?;
        let removed = records.by_key.remove(key).is_some();
        if removed {
            self.watchers.tell(Change::Deleted { key: key.clone() });
        }
        Ok(removed)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entry>>> {
        Box::pin(async { Ok(self.records().by_key.get(key).cloned()) })
    }

    fn put<'a>(&'a self, key: &'a Key, value: Bytes, expect: Expect) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move { self.write(key, value, expect) })
    }

    fn delete<'a>(&'a self, key: &'a Key, expect: Expect) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { self.remove(key, expect) })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Entry>>> {
        Box::pin(async {
            let records = self.records();
            Ok(records.by_key.values().filter(|entry| prefix.contains(&entry.key)).cloned().collect())
        })
    }

    fn watch(&self, prefix: &Prefix) -> BoxStream<'static, Change> {
        self.watchers.watch(prefix)
    }
}
