//! Writes what was learned of servers, behind their backs: connections only mark themselves, and one task writes.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use super::Inner;
use super::entries::Merged;
use super::registry::{ServerEntry, Slot};
use crate::connection::Observer;
use crate::error::Result;
use crate::id::ServerId;
use crate::spec::Target;
use crate::status::Failure;
use crate::store::record::{self, CatalogueRecord, EraVerdict, ServerRecord};
use crate::store::{Expect, Key, StoreError};
use crate::time::Timestamp;
use crate::wire::model::ListKind;

/// Servers whose records must be written.
pub(super) struct Persist {
    marked: Mutex<BTreeMap<ServerId, ()>>,
    /// Held while marked servers are written, so that whoever writes the rest knows what was begun before as written.
    writing: tokio::sync::Mutex<()>,
    wake: Notify,
    merged: Merged,
}

impl Persist {
    pub(super) fn new(merged: Merged) -> Self {
        Self { marked: Mutex::default(), writing: tokio::sync::Mutex::default(), wake: Notify::new(), merged }
    }

    fn take(&self) -> Vec<ServerId> {
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *marked).into_keys().collect()
    }
}

impl Observer for Persist {
    fn changed(&self, id: &ServerId) {
        self.merged.invalidate();
        self.marked.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), ());
        self.wake.notify_one();
    }
}

/// Writes marked servers until the manager is gone.
pub(super) async fn run(persist: Arc<Persist>, inner: Weak<Inner>) {
    loop {
        persist.wake.notified().await;
        let Some(inner) = inner.upgrade() else { return };
        inner.save_marked().await;
    }
}

impl Inner {
    /// Writes the records of all servers that changed since the last time.
    async fn save_marked(&self) {
        let _one_at_a_time = self.persist.writing.lock().await;
        for id in self.persist.take() {
            if let Some(Slot::Server(entry)) = self.registry.slot(&id)
                && let Err(error) = self.save(&entry).await
            {
                tracing::warn!(server = %id, error = %crate::error::chain(&error), "what was learned of a server could not be saved");
            }
        }
    }

    /// Writes what has not been written yet.
    pub(super) async fn save_all(&self) {
        self.save_marked().await;
    }

    fn record_key(&self, id: &ServerId) -> Key {
        ServerRecord::place(&self.instance).key(id.as_str())
    }

    fn catalogue_key(&self, id: &ServerId) -> Key {
        CatalogueRecord::place(&self.instance).key(id.as_str())
    }

    /// Writes a registration that somebody waits for. Servers in this process are not remembered.
    pub(super) async fn write(&self, entry: &ServerEntry) -> Result<()> {
        if matches!(entry.connection.spec().target, Target::InProcess(_)) {
            return Ok(());
        }
        let key = self.record_key(entry.connection.id());
        let version = record::write(&*self.store, &key, &record_of(entry), Expect::Any).await?;
        entry.version.store(version, Ordering::Release);
        Ok(())
    }

    /// Removes a server's records.
    pub(super) async fn forget(&self, id: &ServerId) -> Result<()> {
        self.store.delete(&self.record_key(id), Expect::Any).await?;
        self.store.delete(&self.catalogue_key(id), Expect::Any).await?;
        Ok(())
    }

    /// Writes what was learned of a server, unless its registration was changed or removed by another process.
    async fn save(&self, entry: &ServerEntry) -> Result<()> {
        let connection = &entry.connection;
        if !self.remembers || matches!(connection.spec().target, Target::InProcess(_)) {
            return Ok(());
        }
        let expect = Expect::Version(entry.version.load(Ordering::Acquire));
        let value = record::encode(&record_of(entry))?;
        match self.store.put(&self.record_key(connection.id()), value, expect).await {
            Ok(version) => entry.version.store(version, Ordering::Release),
            // Another process has the newer word on it.
            Err(StoreError::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let catalogue = connection.catalogue();
        if catalogue.is_stale() || !entry.is_new_catalogue(&catalogue) {
            return Ok(());
        }
        let key = self.catalogue_key(connection.id());
        record::write(&*self.store, &key, &catalogue_of(entry), Expect::Any).await?;
        Ok(())
    }
}

/// What is remembered of a server besides its catalogue.
fn record_of(entry: &ServerEntry) -> ServerRecord {
    let connection = &entry.connection;
    let mut record = ServerRecord::new(entry.position, connection.spec().clone());
    if let Some(verdict) = connection.memory().verdict {
        record.era = Some(EraVerdict { era: verdict.era, protocol_version: verdict.version, at: verdict.at });
        record.discover_result = verdict.discover;
    }
    record.last_error = connection.view().failure.map(|(error, at)| Failure { at, ..Failure::of(&error) });
    record
}

/// The last known catalogue.
fn catalogue_of(entry: &ServerEntry) -> CatalogueRecord {
    let (catalogue, facts) = (entry.connection.catalogue(), entry.connection.memory().facts);
    let items = |kind| catalogue.items(kind).iter().map(|item| item.json().clone()).collect();
    let mut record = CatalogueRecord::new("", Timestamp::now());
    record.capabilities = facts.capabilities;
    record.server_info = facts.info;
    record.instructions = facts.instructions;
    record.lists = catalogue.states();
    record.tools = catalogue.tools().iter().map(|tool| tool.json().clone()).collect();
    record.prompts = items(ListKind::Prompts);
    record.resources = items(ListKind::Resources);
    record.resource_templates = items(ListKind::ResourceTemplates);
    record
}
