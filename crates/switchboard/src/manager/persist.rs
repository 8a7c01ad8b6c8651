//! Writes what was learned of servers, behind their backs: connections only mark themselves, and one task writes.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Notify;

use super::entries::Merged;
use super::registry::{ServerEntry, Slot};
use super::{Inner, restore};
use crate::catalogue::ServerCatalogue;
use crate::catalogue::drift::Approval;
use crate::connection::{Connection, Observer};
use crate::error::Result;
use crate::id::ServerId;
use crate::spec::Target;
use crate::status::Failure;
use crate::store::record::{self, ApprovalRecord, CatalogueRecord, EraVerdict, ServerRecord};
use crate::store::{Expect, Key, StoreError};
use crate::time::Timestamp;
use crate::wire::model::ListKind;

/// Servers whose records must be written.
pub(super) struct Persist {
    marked: Mutex<BTreeSet<ServerId>>,
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
        std::mem::take(&mut *marked).into_iter().collect()
    }
}

impl Observer for Persist {
    fn changed(&self, id: &ServerId) {
        self.merged.invalidate();
        self.marked.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
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
    pub(super) async fn save_marked(&self) {
        let _one_at_a_time = self.persist.writing.lock().await;
        for id in self.persist.take() {
            if let Some(Slot::Server(entry)) = self.registry.slot(&id)
                && let Err(error) = self.save(&entry).await
            {
                tracing::warn!(server = %id, error = %crate::error::chain(&error), "what was learned of a server could not be saved");
            }
        }
    }

    fn record_key(&self, id: &ServerId) -> Key {
        ServerRecord::place(&self.instance).key(id.as_str())
    }

    fn catalogue_key(&self, id: &ServerId) -> Key {
        CatalogueRecord::place(&self.instance).key(id.as_str())
    }

    /// Writes a registration that somebody waits for. Servers in this process are not remembered.
    pub(super) async fn write(&self, entry: &ServerEntry) -> Result<()> {
        if !is_remembered(&entry.connection) {
            return Ok(());
        }
        let key = self.record_key(entry.connection.id());
        let version = record::write(&*self.store, &key, &record_of(entry), Expect::Any).await?;
        entry.version.store(version, Ordering::Release);
        Ok(())
    }

    fn approval_key(&self, id: &ServerId) -> Key {
        ApprovalRecord::place(&self.instance).key(id.as_str())
    }

    /// Writes what a person approved.
    pub(super) async fn write_approval(&self, entry: &ServerEntry, approval: &Approval) -> Result<()> {
        if is_remembered(&entry.connection) {
            let (key, record) = (self.approval_key(entry.connection.id()), approval_record(approval));
            record::write(&*self.store, &key, &record, Expect::Any).await?;
        }
        entry.has_approval.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes what was approved because it was the first that the server offered, unless something is approved already.
    async fn save_first_approval(&self, entry: &Arc<ServerEntry>) -> Result<()> {
        let connection = &entry.connection;
        let catalogue = connection.catalogue();
        let Some(approval) = catalogue.comparison().approval() else { return Ok(()) };
        // What is removed meanwhile must not come back.
        let _one_at_a_time = self.registering.lock().await;
        let is_present = |slot| matches!(slot, Slot::Server(present) if Arc::ptr_eq(&present, entry));
        if !self.registry.slot(connection.id()).is_some_and(is_present) {
            return Ok(());
        }
        let key = self.approval_key(connection.id());
        match self.store.put(&key, record::encode(&approval_record(approval))?, Expect::Absent).await {
            Ok(_) => {}
            // A person, or another process, was quicker.
            Err(StoreError::Conflict { .. }) => {
                let stored = record::read::<ApprovalRecord>(&*self.store, &key).await?;
                if let Some(Ok(record)) = stored.map(|stored| stored.document) {
                    connection.approve(&restore::approval_of(&record));
                }
            }
            Err(error) => return Err(error.into()),
        }
        entry.has_approval.store(true, Ordering::Release);
        Ok(())
    }

    /// Removes a server's records.
    pub(super) async fn forget(&self, id: &ServerId) -> Result<()> {
        self.store.delete(&self.record_key(id), Expect::Any).await?;
        self.store.delete(&self.catalogue_key(id), Expect::Any).await?;
        self.store.delete(&self.approval_key(id), Expect::Any).await?;
        Ok(())
    }

    /// Writes what was learned of a server, unless its registration was changed or removed by another process.
    async fn save(&self, entry: &Arc<ServerEntry>) -> Result<()> {
        let connection = &entry.connection;
        if !self.remembers || !is_remembered(connection) {
            return Ok(());
        }
        // Looked at now: it counts as stale when the connection is lost while something is written.
        let catalogue = connection.catalogue();
        let expect = Expect::Version(entry.version.load(Ordering::Acquire));
        let value = record::encode(&record_of(entry))?;
        match self.store.put(&self.record_key(connection.id()), value, expect).await {
            Ok(version) => entry.version.store(version, Ordering::Release),
            // Another process has the newer word on it.
            Err(StoreError::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if !entry.has_approval.load(Ordering::Acquire) {
            self.save_first_approval(entry).await?;
        }
        if catalogue.is_stale() || !entry.is_new_catalogue(&catalogue) {
            return Ok(());
        }
        let key = self.catalogue_key(connection.id());
        record::write(&*self.store, &key, &catalogue_of(connection, &catalogue), Expect::Any).await?;
        Ok(())
    }
}

/// Whether the server outlives this process. One that lives in it does not.
fn is_remembered(connection: &Connection) -> bool {
    !matches!(connection.spec().target, Target::InProcess(_))
}

fn approval_record(approval: &Approval) -> ApprovalRecord {
    let tools = approval.tools.iter().map(|tool| tool.json().clone()).collect();
    ApprovalRecord::new(approval.at.unwrap_or_else(Timestamp::now), tools)
}

/// What is remembered of a server besides its catalogue.
fn record_of(entry: &ServerEntry) -> ServerRecord {
    let connection = &entry.connection;
    let mut record = ServerRecord::new(entry.position, connection.spec().clone());
    let memory = connection.memory();
    record.session = memory.session;
    if let Some(verdict) = memory.verdict {
        record.era = Some(EraVerdict { era: verdict.era, protocol_version: verdict.version, at: verdict.at });
        record.discover_result = verdict.discover;
    }
    record.transport = connection.memory().transport;
    record.last_error = connection.view().failure.map(|(error, at)| Failure { at, ..Failure::of(&error) });
    record
}

/// The last known catalogue.
fn catalogue_of(connection: &Connection, catalogue: &ServerCatalogue) -> CatalogueRecord {
    let facts = connection.memory().facts;
    let items = |kind| catalogue.items(kind).iter().map(|item| item.json().clone()).collect();
    let mut record = CatalogueRecord::new("", Timestamp::now());
    record.capabilities = facts.capabilities;
    record.server_info = facts.info;
    record.instructions = facts.instructions;
    record.lists = catalogue.states();
    record.expiries = catalogue.expiries();
    record.tools = catalogue.tools().iter().map(|tool| tool.json().clone()).collect();
    record.prompts = items(ListKind::Prompts);
    record.resources = items(ListKind::Resources);
    record.resource_templates = items(ListKind::ResourceTemplates);
    record
}
