//! What all servers offer, as one: filtered, keyed, and in the shape that users know.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::Inner;
use super::registry::{Slot, nearest};
use crate::catalogue::ServerCatalogue;
use crate::catalogue::drift::Withheld;
use crate::catalogue::naming::{self, ToolKey};
use crate::connection::Connection;
use crate::error::{Error, ErrorKind, Result};
use crate::id::ServerId;
use crate::spec::ServerSpec;
use crate::status::{Failure, ListCounts, ListStates, ServerStatus, State, clean};
use crate::wire::model::ListKind;
use crate::wire::{Json, ListItem, Tool};

/// Which servers are meant: each list is empty, which means all, or names what fits; all three must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "MCPServerFilter")]
pub struct Filter {
    /// Ids of servers.
    pub server_ids: Vec<ServerId>,
    /// Names of servers.
    pub server_names: Vec<String>,
    /// States of servers.
    pub states: Vec<State>,
}

impl Filter {
    /// Every server.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Only this server, and others named the same way.
    #[must_use]
    pub fn server(mut self, id: &ServerId) -> Self {
        self.server_ids.push(id.clone());
        self
    }

    /// Only servers of this name, and others named the same way.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.server_names.push(name.into());
        self
    }

    /// Only servers in this state, and others named the same way.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.states.push(state);
        self
    }

    fn fits(&self, connection: &Connection) -> bool {
        let fits_id = self.server_ids.is_empty() || self.server_ids.contains(connection.id());
        let fits_name = self.server_names.is_empty() || self.server_names.contains(&connection.spec().name);
        let fits_state = self.states.is_empty() || self.states.contains(&connection.state());
        fits_id && fits_name && fits_state
    }
}

/// One tool of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolEntry {
    /// The server.
    pub server: ServerId,
    /// The key under which models see it.
    pub key: ToolKey,
    /// The tool as the server listed it.
    pub tool: Tool,
    /// Why it is not offered, when it is not: `denied`, `changed` or `unapproved`.
    pub withheld: Option<&'static str>,
}

impl Serialize for ToolEntry {
    /// Writes the server's own tool with `serverId`, `key` and, when it is not offered, `withheld` beside its members.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut ours = format!("\"serverId\":\"{}\",\"key\":\"{}\"", self.server, self.key);
        if let Some(why) = self.withheld {
            ours.push_str(&format!(",\"withheld\":\"{why}\""));
        }
        beside(self.tool.json(), &ours).serialize(serializer)
    }
}

/// One prompt, resource or resource template of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Entry {
    /// The server.
    pub server: ServerId,
    /// The item as the server listed it.
    pub item: ListItem,
}

impl Serialize for Entry {
    /// Writes the server's own item with `serverId` beside its members.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        beside(self.item.json(), &format!("\"serverId\":\"{}\"", self.server)).serialize(serializer)
    }
}

/// An object with more members behind its own, which stay byte for byte.
fn beside(object: &Json, members: &str) -> Json {
    let text = object.as_str();
    let inside = text.strip_suffix('}').unwrap_or(text);
    let comma = if inside.trim_end() == "{" { "" } else { "," };
    Json::trusted(format!("{inside}{comma}{members}}}"))
}

/// Everything about all servers at one moment, in the shape that browsers of such agents know.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[doc(alias = "MCPServersState")]
pub struct McpServersState {
    /// By server id, in the order of registration.
    #[serde(serialize_with = "as_map")]
    pub servers: Vec<(ServerId, ServerStatus)>,
    /// The tools of all servers.
    pub tools: Vec<ToolEntry>,
    /// The prompts of all servers.
    pub prompts: Vec<Entry>,
    /// The resources of all servers.
    pub resources: Vec<Entry>,
    /// The resource templates of all servers.
    pub resource_templates: Vec<Entry>,
}

fn as_map<S: Serializer>(servers: &[(ServerId, ServerStatus)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(servers.iter().map(|(id, status)| (id, status)))
}

/// The tools of all servers under their keys, put together when somebody looks and not before.
#[derive(Debug, Clone, Default)]
pub(super) struct Merged(Arc<MergedState>);

#[derive(Debug, Default)]
struct MergedState {
    /// Counts changes of any catalogue.
    version: AtomicU64,
    known: Mutex<Option<(u64, Arc<MergedTools>)>>,
}

#[derive(Debug)]
struct MergedTools {
    tools: Vec<ToolEntry>,
    by_key: HashMap<ToolKey, usize>,
}

impl Merged {
    /// Says that some catalogue changed.
    pub(super) fn invalidate(&self) {
        self.0.version.fetch_add(1, Ordering::AcqRel);
    }

    fn tools(&self, connections: impl FnOnce() -> Vec<Connection>) -> Arc<MergedTools> {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.0.version.load(Ordering::Acquire);
        if let Some((of, merged)) = &*known
            && *of == version
        {
            return merged.clone();
        }
        let merged = Arc::new(merge(&connections()));
        *known = Some((version, merged.clone()));
        merged
    }
}

fn merge(connections: &[Connection]) -> MergedTools {
    let catalogues: Vec<_> = connections.iter().map(|connection| (connection, connection.catalogue())).collect();
    let tools = catalogues.iter().flat_map(|(connection, catalogue)| {
        let policy = &connection.spec().tools;
        let known = (connection, &**catalogue);
        catalogue.tools().iter().map(move |tool| (connection.id(), policy.shown(tool.name()), tool, known))
    });
    let tools: Vec<_> = tools.collect();
    let keys = naming::assign(tools.iter().map(|(id, shown, ..)| (*id, *shown)));
    let entries: Vec<ToolEntry> = tools
        .into_iter()
        .zip(keys)
        .map(|((id, _, tool, (connection, catalogue)), key)| {
            let withheld = withheld(connection.spec(), catalogue, tool.name());
            ToolEntry { server: id.clone(), key, tool: tool.clone(), withheld }
        })
        .collect();
    let by_key = entries.iter().enumerate().map(|(index, entry)| (entry.key.clone(), index)).collect();
    MergedTools { tools: entries, by_key }
}

/// Why a tool is not offered, in one word.
fn withheld(spec: &ServerSpec, catalogue: &ServerCatalogue, name: &str) -> Option<&'static str> {
    if !spec.tools.allows(name) {
        return Some("denied");
    }
    catalogue.withheld(name, spec.drift).map(Withheld::word)
}

impl Inner {
    fn merged_tools(&self) -> Arc<MergedTools> {
        self.merged.tools(|| self.registry.connections())
    }

    pub(super) fn tools(&self, filter: &Filter) -> Vec<ToolEntry> {
        let fitting = self.fitting(filter);
        let merged = self.merged_tools();
        merged.tools.iter().filter(|entry| fitting.contains(&entry.server)).cloned().collect()
    }

    pub(super) fn items(&self, kind: ListKind, filter: &Filter) -> Vec<Entry> {
        let connections = self.registry.connections();
        let fitting = connections.iter().filter(|connection| filter.fits(connection));
        let entries = fitting.flat_map(|connection| {
            let catalogue = connection.catalogue();
            let items: Vec<ListItem> = catalogue.items(kind).to_vec();
            items.into_iter().map(|item| Entry { server: connection.id().clone(), item })
        });
        entries.collect()
    }

    fn fitting(&self, filter: &Filter) -> HashSet<ServerId> {
        let connections = self.registry.connections();
        let fitting = connections.iter().filter(|connection| filter.fits(connection));
        fitting.map(|connection| connection.id().clone()).collect()
    }

    /// The server and the server's own name of the tool with that key.
    pub(super) fn tool_by_key(&self, key: &str) -> Result<(ServerId, Arc<str>)> {
        let merged = self.merged_tools();
        match merged.by_key.get(key) {
            Some(&index) => {
                let entry = &merged.tools[index];
                Ok((entry.server.clone(), entry.tool.name().into()))
            }
            None => {
                let near = nearest(key, merged.tools.iter().map(|entry| entry.key.as_str()));
                let text = format!("there is no tool with the key `{}`", key.escape_debug());
                Err(Error::new(ErrorKind::UnknownTool, text).with(|data| data.nearest = near))
            }
        }
    }

    pub(super) fn servers(&self) -> McpServersState {
        let all = Filter::all();
        McpServersState {
            tools: self.tools(&all),
            prompts: self.items(ListKind::Prompts, &all),
            resources: self.items(ListKind::Resources, &all),
            resource_templates: self.items(ListKind::ResourceTemplates, &all),
            ..self.overview()
        }
    }

    pub(super) fn overview(&self) -> McpServersState {
        McpServersState {
            servers: self.registry.slots().into_iter().map(|(id, slot)| (id.clone(), status(&id, &slot))).collect(),
            tools: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            resource_templates: Vec::new(),
        }
    }
}

/// All that is known of one server.
pub(super) fn status(id: &ServerId, slot: &Slot) -> ServerStatus {
    match slot {
        Slot::Server(entry) => of_connection(&entry.connection),
        Slot::Corrupt(corrupt) => {
            let failure = Failure { at: corrupt.at, ..Failure::of(&corrupt.error) };
            ServerStatus {
                name: id.to_string(),
                server_url: String::new(),
                auth_url: None,
                state: State::Failed,
                error: Some(failure.text()),
                instructions: None,
                capabilities: None,
                server_info: None,
                transport: "unknown",
                protocol_version: None,
                since: corrupt.at,
                attempt: 0,
                next_attempt_at: None,
                stale: false,
                error_detail: Some(failure),
                latency_ms: None,
                lists: ListStates::default(),
                counts: ListCounts::default(),
                warnings: Vec::new(),
            }
        }
    }
}

/// All that is known of one server that can be used.
pub(crate) fn of_connection(connection: &Connection) -> ServerStatus {
    let (view, catalogue, memory) = (connection.view(), connection.catalogue(), connection.memory());
    let live = connection.live();
    let failure = view.failure.map(|(error, at)| Failure { at, ..Failure::of(&error) });
    let version = live.as_ref().map(|live| live.session.version.to_owned());
    ServerStatus {
        name: connection.spec().name.clone(),
        server_url: connection.spec().target.display(),
        auth_url: None,
        state: view.state,
        error: failure.as_ref().map(Failure::text),
        instructions: memory.facts.instructions.map(|text| clean_instructions(&text)),
        capabilities: memory.facts.capabilities,
        server_info: memory.facts.info,
        transport: connection.transport(),
        protocol_version: version.or(memory.verdict.map(|verdict| verdict.version)),
        since: view.since,
        attempt: view.attempt,
        next_attempt_at: view.next_attempt_at,
        stale: catalogue.is_stale(),
        error_detail: failure.map(|failure| Failure { message: clean(&failure.message), ..failure }),
        latency_ms: live.and_then(|live| live.session.latency()).map(millis),
        lists: catalogue.states(),
        counts: catalogue.counts(),
        warnings: connection.warnings(),
    }
}

/// Milliseconds, to the hundredth.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e5).round() / 100.0
}

/// Advice to models without control characters, whole.
fn clean_instructions(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_members_stand_behind_the_servers_own_bytes() {
        let object = |text: &str| beside(&text.parse().unwrap(), "\"k\":1");
        assert_eq!(object(r#"{"a": {"b":{}}}"#).as_str(), r#"{"a": {"b":{}},"k":1}"#);
        assert_eq!(object("{ }").as_str(), "{ \"k\":1}");
    }
}
