//! Registers servers: what is new, what is the same as before, what has other settings, and whose id is taken.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::registry::{ServerEntry, Slot};
use super::{Inner, Manager};
use crate::catalogue::ServerCatalogue;
use crate::connection::{Connection, Memory};
use crate::error::{Error, ErrorKind, Result};
use crate::event::EventKind;
use crate::id::ServerId;
use crate::spec::{ServerSpec, SpecDocument, Target};

/// Whether a registration was new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registered {
    /// It is new.
    New,
    /// It was there with the same settings.
    Known,
    /// It was there with other settings or under another id, which were replaced.
    Updated,
}

/// A change of some settings of a registration. Members are those of [`SpecDocument`]; `null` restores a default. The name,
/// the id and the target stay.
#[derive(Debug, Clone, Default)]
pub struct SettingsPatch(pub Map<String, Value>);

/// Members of a registration that a change of settings may not touch.
const FIXED: [&str; 5] = ["name", "id", "url", "command", "args"];

impl Inner {
    pub(super) async fn register(self: &Arc<Self>, spec: ServerSpec) -> Result<(Registered, ServerId)> {
        self.check_open()?;
        let spec = spec.checked()?;
        let _one_at_a_time = self.registering.lock().await;
        let known = self.registry.same(&spec);
        if let Some(wanted) = &spec.id {
            let is_taken = self.registry.slot(wanted).is_some();
            if is_taken && known.as_ref().is_none_or(|known| known.id() != wanted) {
                return Err(self.id_in_use(wanted));
            }
        }
        match known {
            None => {
                let id = spec.id.clone().unwrap_or_else(|| self.free_id());
                let position = self.registry.next_position();
                self.put_in(id.clone(), with_id(spec, &id), position, (Memory::default(), ServerCatalogue::default()))
                    .await?;
                Ok((Registered::New, id))
            }
            Some(known) => {
                let id = spec.id.clone().unwrap_or_else(|| known.id().clone());
                let spec = with_id(spec, &id);
                if *known.spec() == spec {
                    return Ok((Registered::Known, id));
                }
                self.replace(&known, id.clone(), spec).await?;
                Ok((Registered::Updated, id))
            }
        }
    }

    pub(super) async fn update(self: &Arc<Self>, id: &ServerId, patch: SettingsPatch) -> Result<()> {
        self.check_open()?;
        let _one_at_a_time = self.registering.lock().await;
        let known = self.connection(id)?;
        let spec = patched(known.spec(), patch)?;
        if *known.spec() == spec {
            return Ok(());
        }
        self.replace(&known, id.clone(), spec).await
    }

    /// Replaces a registration by one with other settings or another id, and closes its connection.
    async fn replace(self: &Arc<Self>, known: &Connection, id: ServerId, spec: ServerSpec) -> Result<()> {
        let Some(Slot::Server(entry)) = self.registry.slot(known.id()) else {
            return Err(self.registry.unknown(known.id().as_str()));
        };
        // What is known of the server stays true: it is the same one. Its session was opened with other settings.
        let memory = Memory { session: None, ..known.memory() };
        let remembered = (memory, ServerCatalogue::clone(&known.catalogue()).stale(true));
        if *known.id() == id {
            self.put_in(id, spec, entry.position, remembered).await?;
        } else {
            let position = entry.position;
            let renamed = self.make(id.clone(), spec, position, remembered);
            self.write(&renamed).await?;
            if let Some(approval) = renamed.connection.catalogue().comparison().approval() {
                self.write_approval(&renamed, approval).await?;
            }
            self.forget(known.id()).await?;
            self.registry.rename(known.id(), id.clone(), Slot::Server(renamed));
            self.merged.invalidate();
            self.surroundings.events.emit(EventKind::Register, Some(&id), serde_json::json!({ "before": known.id() }));
        }
        let old = known.clone();
        self.tasks.spawn(async move { old.close().await });
        Ok(())
    }

    /// Writes a registration and puts it in its place.
    async fn put_in(
        self: &Arc<Self>,
        id: ServerId,
        spec: ServerSpec,
        position: u64,
        remembered: (Memory, ServerCatalogue),
    ) -> Result<()> {
        let entry = self.make(id.clone(), spec, position, remembered);
        self.write(&entry).await?;
        let name = entry.connection.spec().name.clone();
        self.registry.insert(id.clone(), Slot::Server(entry));
        self.merged.invalidate();
        self.surroundings.events.emit(EventKind::Register, Some(&id), serde_json::json!({ "name": name }));
        Ok(())
    }

    /// A registered server that is in no place yet.
    pub(super) fn make(
        self: &Arc<Self>,
        id: ServerId,
        spec: ServerSpec,
        position: u64,
        remembered: (Memory, ServerCatalogue),
    ) -> Arc<ServerEntry> {
        let observer = self.persist.clone();
        let connection = Connection::new((id, spec), self.surroundings.clone(), observer, remembered);
        Arc::new(ServerEntry::new(connection, position))
    }

    fn free_id(&self) -> ServerId {
        loop {
            let id = ServerId::generate();
            if self.registry.slot(&id).is_none() {
                return id;
            }
        }
    }

    fn id_in_use(&self, id: &ServerId) -> Error {
        let hint = "choose another id, or remove that server first";
        let text = match self.registry.slot(id) {
            Some(Slot::Server(entry)) => {
                let spec = entry.connection.spec();
                format!("the id `{id}` is in use by server `{}` ({})", spec.name, spec.target.display())
            }
            _ => format!("the id `{id}` is in use by a registration that cannot be read"),
        };
        Error::new(ErrorKind::IdInUse, text).hint(hint)
    }
}

impl Manager {
    /// Adds a server and says whether its registration was new; otherwise as [`Manager::add`].
    ///
    /// Cancel safety: the registration is written or not; the connect goes on in the background.
    ///
    /// # Errors
    /// As [`Manager::add`].
    pub async fn add_new(&self, spec: ServerSpec) -> Result<(Registered, super::Added)> {
        let (registered, id) = self.register(spec).await?;
        Ok((registered, self.establish(&id).await?))
    }
}

fn with_id(mut spec: ServerSpec, id: &ServerId) -> ServerSpec {
    spec.id = Some(id.clone());
    spec
}

/// The registration with some settings changed.
fn patched(spec: &ServerSpec, patch: SettingsPatch) -> Result<ServerSpec> {
    if let Some(fixed) = FIXED.iter().find(|fixed| patch.0.contains_key(**fixed)) {
        let text = "cannot be changed; remove the server and add it anew";
        return Err(Error::invalid(*fixed, text));
    }
    if let Target::InProcess(_) = spec.target {
        return Err(Error::invalid("", "a server in this process has no settings to change"));
    }
    let invalid = |error: serde_json::Error| Error::invalid("", error.to_string());
    let mut document = match serde_json::to_value(SpecDocument::from(spec.clone())) {
        Ok(Value::Object(document)) => document,
        Ok(_) => Map::new(),
        Err(error) => return Err(invalid(error)),
    };
    for (member, value) in patch.0 {
        merge(&mut document, member, value);
    }
    let document: SpecDocument = serde_json::from_value(Value::Object(document)).map_err(invalid)?;
    ServerSpec::try_from(document)
}

/// Groups of settings are changed member by member (RFC 7396); everything else is replaced.
fn merge(document: &mut Map<String, Value>, member: String, value: Value) {
    match value {
        Value::Null => {
            document.remove(&member);
        }
        Value::Object(new) if matches!(member.as_str(), "retry" | "timeouts" | "limits" | "tools") => {
            let group = document.entry(member).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(group) = group {
                for (name, value) in new {
                    if value.is_null() {
                        group.remove(&name);
                    } else {
                        group.insert(name, value);
                    }
                }
            }
        }
        value => {
            document.insert(member, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch(value: Value) -> SettingsPatch {
        let Value::Object(members) = value else { panic!("an object") };
        SettingsPatch(members)
    }

    #[test]
    fn settings_are_changed_member_by_member() {
        let spec = ServerSpec::http("a", "http://h/mcp").unwrap().header("X-Key", "v").unwrap();
        let changed = patched(&spec, patch(json!({"timeouts": {"requestMs": 5}, "limits": {"inFlight": 2}}))).unwrap();
        let changed = patched(&changed, patch(json!({"timeouts": {"probeMs": 7}, "limits": null}))).unwrap();
        assert_eq!((changed.timeouts.request.as_millis(), changed.timeouts.probe.as_millis()), (5, 7));
        assert_eq!(changed.limits, spec.limits);
        assert_eq!(changed.target, spec.target, "what is not named stays");
    }

    #[test]
    fn what_makes_a_server_itself_cannot_be_changed() {
        let spec = ServerSpec::http("a", "http://h/mcp").unwrap();
        for change in [
            json!({"url": "http://x/"}),
            json!({"name": "b"}),
            json!({"nonsense": 1}),
            json!({"retry": {"maxAttempts": 0}}),
        ] {
            assert!(patched(&spec, patch(change)).unwrap_err().is_invalid_input());
        }
    }
}
