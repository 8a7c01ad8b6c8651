//! Wakes up: records become servers, with the last catalogue that was known of them. Nothing here waits for a server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::entries::Merged;
use super::persist::{self, Persist};
use super::registry::{CorruptEntry, Registry, Slot};
use super::{Inner, Manager};
use crate::catalogue::drift::Approval;
use crate::catalogue::{Listing, ServerCatalogue, ToolSet};
use crate::connection::{Memory, Surroundings};
use crate::error::{Error, ErrorKind, Result, chain};
use crate::id::ServerId;
use crate::session::ServerFacts;
use crate::session::era::Verdict;
use crate::store::record::{ApprovalRecord, CatalogueRecord, Corrupt, ServerRecord, Stored, read_all, read_servers};
use crate::store::{MemoryStore, Prefix, Store};
use crate::tasks::Tasks;
use crate::time::Timestamp;
use crate::wire::model::{ListKind, items_page, tools_page};
use crate::wire::{Era, Json};

/// A manager with all that is registered in the store, connecting nothing.
pub(super) async fn restore(
    surroundings: Surroundings,
    store: Option<Arc<dyn Store>>,
    namespace: &str,
) -> Result<Manager> {
    let remembers = store.is_some();
    let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
    let instance = Prefix::root().join("instances").join(namespace);
    let records = read_servers(&*store, &instance).await?;
    let catalogues = read_all::<CatalogueRecord>(&*store, &CatalogueRecord::place(&instance)).await?;
    let mut catalogues: HashMap<String, CatalogueRecord> = catalogues
        .into_iter()
        // A catalogue that cannot be read is only not shown until the next one is.
        .filter_map(|stored| Some((stored.key.name().to_string(), stored.document.ok()?)))
        .collect();
    let approvals = read_all::<ApprovalRecord>(&*store, &ApprovalRecord::place(&instance)).await?;
    let mut approvals: HashMap<String, _> =
        approvals.into_iter().map(|stored| (stored.key.name(), stored.document)).collect();
    let merged = Merged::default();
    let inner = Arc::new(Inner {
        surroundings: Arc::new(surroundings),
        store,
        remembers,
        instance,
        registry: Registry::default(),
        registering: tokio::sync::Mutex::new(()),
        merged: merged.clone(),
        persist: Arc::new(Persist::new(merged)),
        tasks: Tasks::new(),
        is_shut_down: AtomicBool::new(false),
    });
    for (id, stored) in records {
        let known = (catalogues.remove(id.as_str()), approvals.remove(id.as_str()));
        let slot = inner.slot_of(&id, stored, known);
        inner.registry.insert(id, slot);
    }
    inner.tasks.spawn(persist::run(inner.persist.clone(), Arc::downgrade(&inner)));
    Ok(Manager { inner })
}

impl Inner {
    fn slot_of(
        self: &Arc<Self>,
        id: &ServerId,
        stored: Stored<ServerRecord>,
        (catalogue, approval): (Option<CatalogueRecord>, Option<Result<ApprovalRecord, Corrupt>>),
    ) -> Slot {
        let record = match stored.document {
            Ok(record) => record,
            Err(corrupt) => {
                tracing::warn!(server = %id, "the registration of a server cannot be read");
                let error = Error::new(ErrorKind::Store, "its registration cannot be read")
                    .of(id)
                    .because(corrupt)
                    .hint("remove the server and add it anew");
                return Slot::Corrupt(Arc::new(CorruptEntry { error, at: Timestamp::now() }));
            }
        };
        let verdict = record.era.map(|era| Verdict {
            era: era.era,
            version: era.protocol_version,
            discover: record.discover_result,
            at: era.at,
        });
        let facts = catalogue.as_ref().map(facts_of).unwrap_or_default();
        let catalogue = catalogue.map(catalogue_of).unwrap_or_default();
        let (session, transport) = (record.session, record.transport);
        // What the tools are now is asked where it decides whether they may be called.
        let is_trusted = !record.spec.drift.refuses() && verdict.as_ref().is_some_and(|known| known.era == Era::Modern);
        let catalogue = if is_trusted { catalogue } else { catalogue.stale(true) };
        let memory = Memory { verdict, facts, transport, session, ..Memory::default() };
        let (has_approval, catalogue) = (approval.is_some(), compared(id, catalogue, approval));
        let mut spec = record.spec;
        spec.id = Some(id.clone());
        let entry = self.make(id.clone(), spec, record.position, (memory, catalogue));
        entry.version.store(stored.version, Ordering::Release);
        entry.has_approval.store(has_approval, Ordering::Release);
        Slot::Server(entry)
    }
}

fn facts_of(record: &CatalogueRecord) -> ServerFacts {
    ServerFacts {
        capabilities: record.capabilities.clone(),
        info: record.server_info.clone(),
        instructions: record.instructions.clone(),
    }
}

/// The catalogue of a record, marked as the last one known unless every list of it still holds.
fn catalogue_of(record: CatalogueRecord) -> ServerCatalogue {
    let facts = facts_of(&record);
    let mut catalogue = ServerCatalogue::default();
    let states = record.lists;
    if let Ok(page) = tools_page(&as_result(ListKind::Tools, &record.tools)) {
        catalogue.set_tools(Listing { items: page.items, state: states.tools }, Vec::new());
    }
    let lists = [
        (ListKind::Prompts, record.prompts, states.prompts),
        (ListKind::Resources, record.resources, states.resources),
        (ListKind::ResourceTemplates, record.resource_templates, states.resource_templates),
    ];
    for (kind, items, state) in lists {
        if let Ok(page) = items_page(&as_result(kind, &items), kind) {
            catalogue.set_items(kind, Listing { items: page.items, state }, Vec::new());
        }
    }
    for (kind, expiry) in [
        (ListKind::Tools, record.expiries.tools),
        (ListKind::Prompts, record.expiries.prompts),
        (ListKind::Resources, record.expiries.resources),
        (ListKind::ResourceTemplates, record.expiries.resource_templates),
    ] {
        catalogue.set_expiry(kind, expiry);
    }
    let holds = catalogue.holds(Timestamp::now(), |kind| facts.offers(kind.capability()));
    catalogue.stale(!holds)
}

/// The catalogue compared with what was approved. Where that cannot be read, nothing counts as approved, and nothing is
/// approved anew before a person looks.
fn compared(
    id: &ServerId,
    catalogue: ServerCatalogue,
    approval: Option<Result<ApprovalRecord, Corrupt>>,
) -> ServerCatalogue {
    let approval = approval.map(|record| match record {
        Ok(record) => approval_of(&record),
        Err(corrupt) => {
            tracing::warn!(server = %id, error = %chain(&corrupt), "what was approved of a server cannot be read");
            Approval::default()
        }
    });
    catalogue.compared(approval)
}

/// What a record says was approved.
pub(super) fn approval_of(record: &ApprovalRecord) -> Approval {
    let tools = tools_page(&as_result(ListKind::Tools, &record.tools)).map(|page| page.items).unwrap_or_default();
    Approval { at: Some(record.at), tools: Arc::new(ToolSet::new(tools, |_| {})) }
}

/// The items in the shape of a page, so that they are read in the same way.
fn as_result(kind: ListKind, items: &[Json]) -> Json {
    let mut text = format!("{{\"{}\":[", kind.member());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(item.as_str());
    }
    text.push_str("]}");
    Json::trusted(text)
}
