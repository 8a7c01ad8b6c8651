//! Many servers as one: registration, connections, the merged catalogue, and calls.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::event::{Event, EventStream};
use crate::id::ServerId;
use crate::spec::ServerSpec;
use crate::status::{ServerStatus, State};
use crate::store::Store;
use crate::wire::Json;

/// Sets up a [`Manager`].
#[derive(Default)]
pub struct Builder {}

impl Builder {
    /// Where registrations are kept; without one they are kept in memory.
    #[must_use]
    pub fn store(self, _store: Arc<dyn Store>) -> Self {
        unimplemented!()
    }

    /// The part of the store that is this manager's: several agents may share one store.
    #[must_use]
    pub fn namespace(self, _namespace: &str) -> Self {
        unimplemented!()
    }

    /// The environment that child processes may inherit from.
    #[must_use]
    pub fn environment(self, _variables: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>) -> Self {
        unimplemented!()
    }

    /// How many servers are connected at a time when the manager starts; 32 unless set.
    #[must_use]
    pub fn restore_concurrency(self, _servers: usize) -> Self {
        unimplemented!()
    }

    /// Opens the store, and starts connecting what is registered there, in the background.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(self) -> Result<Manager> {
        unimplemented!()
    }

    /// Opens the store and knows what is registered there, but connects nothing by itself.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start_offline(self) -> Result<Manager> {
        unimplemented!()
    }
}

/// How an `add` or `connect` ended. The registration is kept in all three cases.
#[derive(Debug)]
#[non_exhaustive]
pub enum Added {
    /// Connected, and its lists are read.
    Ready {
        /// The server's id.
        id: ServerId,
    },
    /// A person must sign in at `auth_url`.
    Authenticating {
        /// The server's id.
        id: ServerId,
        /// Where to sign in.
        auth_url: String,
    },
    /// It could not be reached.
    Failed {
        /// The server's id.
        id: ServerId,
        /// Why.
        error: crate::Error,
    },
}

/// Whether `add` made a new registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registered {
    /// It is new.
    New,
    /// It was there with the same settings.
    Known,
    /// It was there with other settings, which were replaced.
    Updated,
}

/// Which servers are meant: each list is empty (all) or names what fits; all three must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
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
}

/// A tool call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCall {
    /// Which server; `None`: `tool` is a tool key.
    pub server: Option<ServerId>,
    /// The server's own name of the tool, or its key.
    pub tool: String,
    /// The arguments, an object; absent means `{}`.
    pub arguments: Option<Json>,
    /// The time for one answer.
    pub timeout: Option<Duration>,
    /// The time in all, whatever the progress.
    pub deadline: Option<Duration>,
    /// Whether the arguments are checked against the input schema first.
    pub validate: bool,
}

impl ToolCall {
    /// A call of a server's tool by its own name.
    pub fn new(server: ServerId, tool: impl Into<String>) -> Self {
        Self {
            server: Some(server),
            tool: tool.into(),
            arguments: None,
            timeout: None,
            deadline: None,
            validate: false,
        }
    }

    /// A call by the key under which models see the tool.
    pub fn by_key(key: impl Into<String>) -> Self {
        Self { server: None, tool: key.into(), arguments: None, timeout: None, deadline: None, validate: false }
    }

    /// The same call with these arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: impl Into<Json>) -> Self {
        self.arguments = Some(arguments.into());
        self
    }
}

/// A tool's answer: the server's result, byte for byte.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallResult {
    /// The server that answered.
    pub server: ServerId,
    /// The result as it came.
    pub result: Json,
    /// Whether the server marked the result as an error (`isError`).
    pub is_error: bool,
    /// What is wrong with the result by the tool's output schema.
    pub warnings: Vec<String>,
}

/// One tool of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolEntry {
    /// The server.
    pub server: ServerId,
    /// The key under which models see it.
    pub key: Arc<str>,
    /// The tool as the server listed it.
    pub tool: crate::wire::Tool,
    /// Why it is not offered, when it is not: `denied`.
    pub withheld: Option<&'static str>,
}

impl Serialize for ToolEntry {
    fn serialize<S: serde::Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        unimplemented!()
    }
}

/// One prompt, resource or resource template of one server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Entry {
    /// The server.
    pub server: ServerId,
    /// The item as the server listed it.
    pub item: Json,
}

impl Serialize for Entry {
    fn serialize<S: serde::Serializer>(&self, _serializer: S) -> Result<S::Ok, S::Error> {
        unimplemented!()
    }
}

/// Everything about all servers at one moment, in the shape that browsers of such agents know.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct McpServersState {
    /// By server id, in the order of registration.
    pub servers: serde_json::Map<String, serde_json::Value>,
    /// The tools of all servers.
    pub tools: Vec<ToolEntry>,
    /// The prompts of all servers.
    pub prompts: Vec<Entry>,
    /// The resources of all servers.
    pub resources: Vec<Entry>,
    /// The resource templates of all servers.
    pub resource_templates: Vec<Entry>,
}

/// A change of some settings of a registration; members as in [`crate::spec::SpecDocument`], `null` restores a default.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SettingsPatch(pub serde_json::Map<String, serde_json::Value>);

/// Many MCP servers as one. Cheap to clone; all clones are the same manager.
#[derive(Clone)]
pub struct Manager {}

impl Manager {
    /// A manager for the agent of that name and version, which is what servers are told.
    pub fn builder(_name: impl Into<String>, _version: impl Into<String>) -> Builder {
        unimplemented!()
    }

    /// Registers, connects and discovers.
    ///
    /// # Errors
    /// Only when nothing was registered: bad input, an id in use, a store that cannot be written.
    pub async fn add(&self, _spec: ServerSpec) -> Result<(Registered, Added)> {
        unimplemented!()
    }

    /// Registers without connecting.
    ///
    /// # Errors
    /// As [`Manager::add`].
    pub async fn register(&self, _spec: ServerSpec) -> Result<(Registered, ServerId)> {
        unimplemented!()
    }

    /// Changes settings of a registration and reconnects.
    ///
    /// # Errors
    /// When the id is unknown, a setting is wrong, or the store cannot be written.
    pub async fn update(&self, _id: &ServerId, _patch: SettingsPatch) -> Result<Added> {
        unimplemented!()
    }

    /// Connects and discovers; joins what is under way.
    ///
    /// # Errors
    /// When the id is unknown.
    pub async fn connect(&self, _id: &ServerId) -> Result<Added> {
        unimplemented!()
    }

    /// Reads the lists anew.
    ///
    /// # Errors
    /// When the id is unknown.
    pub async fn discover(&self, _id: &ServerId) -> Result<Added> {
        unimplemented!()
    }

    /// Waits until no server is connecting or discovering, or `limit` has passed; the ids of those that still are.
    pub async fn wait_settled(&self, _limit: Duration) -> Vec<ServerId> {
        unimplemented!()
    }

    /// Closes a connection; the server stays registered.
    ///
    /// # Errors
    /// When the id is unknown.
    pub async fn close(&self, _id: &ServerId) -> Result<()> {
        unimplemented!()
    }

    /// Closes and forgets a server. Unknown ids are fine; whether there was one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn remove(&self, _id: &ServerId) -> Result<bool> {
        unimplemented!()
    }

    /// Ends calls, closes all connections, ends child processes, flushes the store.
    pub async fn shutdown(&self, _grace: Duration) {
        unimplemented!()
    }

    /// The id of the server that `name_or_id` means: an id, else a name that only one server has.
    ///
    /// # Errors
    /// When there is none, or more than one; near names are in the error's data.
    pub fn resolve(&self, _name_or_id: &str) -> Result<ServerId> {
        unimplemented!()
    }

    /// Status of one server.
    ///
    /// # Errors
    /// When the id is unknown.
    pub fn status(&self, _id: &ServerId) -> Result<ServerStatus> {
        unimplemented!()
    }

    /// All servers with all that they offer.
    #[doc(alias = "getMcpServers")]
    pub fn servers(&self) -> McpServersState {
        unimplemented!()
    }

    /// The registrations, in order.
    pub fn registrations(&self) -> Vec<(ServerId, ServerSpec)> {
        unimplemented!()
    }

    /// Tools of the servers that fit.
    #[doc(alias = "listTools")]
    pub fn tools(&self, _filter: &Filter) -> Vec<ToolEntry> {
        unimplemented!()
    }

    /// Prompts of the servers that fit.
    pub fn prompts(&self, _filter: &Filter) -> Vec<Entry> {
        unimplemented!()
    }

    /// Resources of the servers that fit.
    pub fn resources(&self, _filter: &Filter) -> Vec<Entry> {
        unimplemented!()
    }

    /// Resource templates of the servers that fit.
    pub fn resource_templates(&self, _filter: &Filter) -> Vec<Entry> {
        unimplemented!()
    }

    /// Calls a tool. Waits for a server that is connecting, and wakes one that has failed.
    ///
    /// # Errors
    /// Every kind that has to do with calls.
    #[doc(alias = "callTool")]
    pub async fn call(&self, _call: ToolCall) -> Result<CallResult> {
        unimplemented!()
    }

    /// Reads a resource: the server's result as it came.
    ///
    /// # Errors
    /// As [`Manager::call`].
    pub async fn read_resource(&self, _server: &ServerId, _uri: &str, _limits: CallLimits) -> Result<Json> {
        unimplemented!()
    }

    /// Gets a prompt: the server's result as it came. `arguments` is an object of strings.
    ///
    /// # Errors
    /// As [`Manager::call`].
    pub async fn get_prompt(
        &self,
        _server: &ServerId,
        _name: &str,
        _arguments: Option<Json>,
        _limits: CallLimits,
    ) -> Result<Json> {
        unimplemented!()
    }

    /// Completes an argument: `params` as `completion/complete` takes them; the server's result as it came.
    ///
    /// # Errors
    /// As [`Manager::call`].
    pub async fn complete(&self, _server: &ServerId, _params: Json, _limits: CallLimits) -> Result<Json> {
        unimplemented!()
    }

    /// The events to come.
    pub fn events(&self) -> EventStream {
        unimplemented!()
    }

    /// The kept events after number `after` (at most the last 1,000), and a follower right behind them.
    pub fn events_since(&self, _after: u64) -> (Vec<Event>, EventStream) {
        unimplemented!()
    }
}

/// Time limits of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallLimits {
    /// The time for one answer; restarted by progress.
    pub timeout: Option<Duration>,
    /// The time in all.
    pub deadline: Option<Duration>,
}
