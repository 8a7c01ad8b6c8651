//! Which servers there are, in the order of their registration.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwapOption;

use crate::catalogue::ServerCatalogue;
use crate::connection::Connection;
use crate::error::{Error, ErrorKind, Result};
use crate::id::ServerId;
use crate::spec::ServerSpec;
use crate::time::Timestamp;

/// One registration.
#[derive(Clone)]
pub(super) enum Slot {
    /// A server.
    Server(Arc<ServerEntry>),
    /// A record that could not be read; it stands in the list as a failed server.
    Corrupt(Arc<CorruptEntry>),
}

/// A registered server.
pub(super) struct ServerEntry {
    pub(super) connection: Connection,
    /// Its place in the order.
    pub(super) position: u64,
    /// The version of its record in the store; 0 when there is none.
    pub(super) version: AtomicU64,
    /// Whether what is approved of it is known to be stored.
    pub(super) has_approval: AtomicBool,
    /// The catalogue that was saved last.
    saved: ArcSwapOption<ServerCatalogue>,
}

impl ServerEntry {
    pub(super) fn new(connection: Connection, position: u64) -> Self {
        Self {
            connection,
            position,
            version: AtomicU64::new(0),
            has_approval: AtomicBool::new(false),
            saved: ArcSwapOption::empty(),
        }
    }

    /// Whether this catalogue is not the one that was saved last; it counts as saved from now on.
    pub(super) fn is_new_catalogue(&self, catalogue: &Arc<ServerCatalogue>) -> bool {
        let before = self.saved.swap(Some(catalogue.clone()));
        before.is_none_or(|before| !Arc::ptr_eq(&before, catalogue))
    }
}

/// A record that could not be read.
pub(super) struct CorruptEntry {
    pub(super) error: Error,
    pub(super) at: Timestamp,
}

/// All registrations.
#[derive(Default)]
pub(super) struct Registry(RwLock<Slots>);

#[derive(Default)]
struct Slots {
    by_id: HashMap<ServerId, Slot>,
    order: Vec<ServerId>,
}

impl Registry {
    fn read(&self) -> RwLockReadGuard<'_, Slots> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn slot(&self, id: &ServerId) -> Option<Slot> {
        self.read().by_id.get(id).cloned()
    }

    /// All slots, in order.
    pub(super) fn slots(&self) -> Vec<(ServerId, Slot)> {
        let slots = self.read();
        slots.order.iter().filter_map(|id| Some((id.clone(), slots.by_id.get(id)?.clone()))).collect()
    }

    /// All connections, in order.
    pub(super) fn connections(&self) -> Vec<Connection> {
        let servers = self.slots().into_iter().filter_map(|(_, slot)| match slot {
            Slot::Server(entry) => Some(entry.connection.clone()),
            Slot::Corrupt(_) => None,
        });
        servers.collect()
    }

    /// Puts a slot in; a new one comes last, a known one keeps its place.
    pub(super) fn insert(&self, id: ServerId, slot: Slot) -> Option<Slot> {
        let mut slots = self.write();
        let before = slots.by_id.insert(id.clone(), slot);
        if before.is_none() {
            slots.order.push(id);
        }
        before
    }

    /// Puts a slot in the place of another one under another id.
    pub(super) fn rename(&self, from: &ServerId, id: ServerId, slot: Slot) -> Option<Slot> {
        let mut slots = self.write();
        let before = slots.by_id.remove(from);
        if let Some(place) = slots.order.iter_mut().find(|place| *place == from) {
            *place = id.clone();
        }
        slots.by_id.insert(id, slot);
        before
    }

    pub(super) fn remove(&self, id: &ServerId) -> Option<Slot> {
        let mut slots = self.write();
        slots.order.retain(|other| other != id);
        slots.by_id.remove(id)
    }

    /// The place behind all others.
    pub(super) fn next_position(&self) -> u64 {
        let slots = self.read();
        let positions = slots.by_id.values().filter_map(|slot| match slot {
            Slot::Server(entry) => Some(entry.position + 1),
            Slot::Corrupt(_) => None,
        });
        positions.max().unwrap_or(0)
    }

    /// The connection to the same server, if there is one.
    pub(super) fn same(&self, spec: &ServerSpec) -> Option<Connection> {
        let slots = self.read();
        slots.order.iter().find_map(|id| match slots.by_id.get(id)? {
            Slot::Server(entry) if entry.connection.spec().is_same_server(spec) => Some(entry.connection.clone()),
            _ => None,
        })
    }

    pub(super) fn resolve(&self, name_or_id: &str) -> Result<ServerId> {
        let slots = self.read();
        if let Some((id, _)) = slots.by_id.get_key_value(name_or_id) {
            return Ok(id.clone());
        }
        let is_named = |slot: &Slot| matches!(slot, Slot::Server(entry) if entry.connection.spec().name == name_or_id);
        let mut named = slots.order.iter().filter(|id| slots.by_id.get(*id).is_some_and(is_named));
        match (named.next(), named.next()) {
            (Some(id), None) => Ok(id.clone()),
            (Some(one), Some(two)) => {
                let text = format!(
                    "`{name_or_id}` is the name of several servers, `{one}` and `{two}` among them; give an id"
                );
                Err(Error::invalid("server", text))
            }
            (None, _) => {
                drop(slots);
                Err(self.unknown(name_or_id))
            }
        }
    }

    /// The error for a server that is not there, with near names.
    pub(super) fn unknown(&self, name_or_id: &str) -> Error {
        let slots = self.slots();
        let names = slots.iter().map(|(id, _)| id.as_str());
        let nearest = nearest(name_or_id, names);
        Error::new(ErrorKind::UnknownServer, format!("there is no server `{}`", name_or_id.escape_debug()))
            .with(|data| data.nearest = nearest)
    }
}

/// Up to three of `names` that are spelt much like `wanted`.
pub(super) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut near: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let contains = lower.contains(&wanted) || wanted.contains(&lower);
            let distance = distance(&wanted, &lower);
            let is_near = distance <= wanted.chars().count().max(6) / 3;
            (is_near || (contains && !wanted.is_empty())).then_some((distance, name))
        })
        .collect();
    near.sort_unstable();
    near.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

/// How many characters must be changed, added or taken out to make one text of the other (Levenshtein).
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().take(128).collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (index, left) in one.chars().take(128).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (at, right) in two.iter().enumerate() {
            let changed = diagonal + usize::from(left != *right);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[two.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_first() {
        let names = ["github", "gitlab", "everything", "files"];
        assert_eq!(nearest("githb", names.into_iter()), ["github", "gitlab"]);
        assert_eq!(nearest("every", names.into_iter()), ["everything"]);
        assert_eq!(nearest("zzz", names.into_iter()), Vec::<String>::new());
    }
}
