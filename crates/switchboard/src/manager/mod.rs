//! Many servers as one: registration, connections, the merged catalogue, and calls.

mod builder;
pub(crate) mod call;
mod drift;
mod entries;
pub(crate) mod notices;
mod offer;
mod persist;
mod register;
mod registry;
mod restore;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

pub use self::builder::Builder;
pub use self::call::{CallLimits, CallResult, Progress, ProgressStream, ToolCall};
pub use self::drift::{ChangedTool, Drift};
pub(crate) use self::drift::{approving, drift_of};
use self::entries::Merged;
pub(crate) use self::entries::of_connection as status_of;
pub use self::entries::{Entry, Filter, McpServersState, ToolEntry};
use self::persist::Persist;
pub use self::register::{Registered, SettingsPatch};
use self::registry::{Registry, ServerEntry, Slot};
use crate::catalogue::ToolFormat;
use crate::connection::{Connection, Surroundings, View};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, EventKind, EventStream};
use crate::id::ServerId;
use crate::spec::ServerSpec;
use crate::status::{ServerStatus, State};
use crate::store::{Prefix, Store};
use crate::tasks::Tasks;
use crate::wire::Json;

/// How long a shutdown waits, once all connections are closed, for servers that take their time to end: longer than a
/// child may take that ignores everything but a kill.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Many MCP servers as one. Cheap to clone; all clones are the same manager.
///
/// ```no_run
/// use switchboard::{Added, Filter, Manager, ServerSpec, ToolCall};
/// use switchboard::wire::Json;
///
/// # async fn example() -> switchboard::Result<()> {
/// let manager = Manager::builder("my-agent", "1.0.0").start().await?;
/// match manager.add(ServerSpec::http("github", "https://mcp.example/mcp")?.id("github")?).await? {
///     Added::Ready { id } => {
///         let arguments: Json = r#"{"query": "rust"}"#.parse().unwrap();
///         let result = manager.call(ToolCall::new(id, "search").arguments(arguments)).await?;
///         println!("{}", result.result);
///     }
///     Added::Authenticating { auth_url, .. } => println!("sign in at {auth_url}"),
///     Added::Failed { error, .. } => println!("{error}"),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "MCPClientManager")]
pub struct Manager {
    inner: Arc<Inner>,
}

struct Inner {
    surroundings: Arc<Surroundings>,
    store: Arc<dyn Store>,
    /// Whether anything outlives this manager. What is learned of servers is only written then.
    remembers: bool,
    instance: Prefix,
    registry: Registry,
    /// Registrations are changed one at a time; connects are not.
    registering: tokio::sync::Mutex<()>,
    merged: Merged,
    persist: Arc<Persist>,
    tasks: Tasks,
    is_shut_down: AtomicBool,
}

/// How an `add` ended. The registration is kept in all cases.
#[derive(Debug, Clone)]
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
        error: Error,
    },
}

impl Added {
    /// The server's id.
    #[must_use]
    pub fn id(&self) -> &ServerId {
        match self {
            Self::Ready { id } | Self::Authenticating { id, .. } | Self::Failed { id, .. } => id,
        }
    }

    /// The state that the server is in by this, which is the one that its status shows.
    #[must_use]
    pub fn state(&self) -> State {
        match self {
            Self::Ready { .. } => State::Ready,
            Self::Authenticating { .. } => State::Authenticating,
            // A person must act, although nobody could say where.
            Self::Failed { error, .. } if error.kind() == ErrorKind::SignInRequired => State::Authenticating,
            Self::Failed { .. } => State::Failed,
        }
    }

    fn of(id: ServerId, view: View) -> Self {
        match (view.state, view.failure) {
            (State::Ready, _) => Self::Ready { id },
            (_, Some((error, _))) => Self::Failed { id, error },
            (state, None) => {
                let error = Error::new(ErrorKind::ServerClosed, format!("it is {state}")).of(&id);
                Self::Failed { id, error }
            }
        }
    }
}

/// What a shutdown had to cut because it did not end in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutDown {
    /// Calls that were under way when the grace time was over.
    pub calls: usize,
    /// Servers that did not end in good order.
    pub servers: usize,
}

impl ShutDown {
    /// Whether everything ended by itself.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

/// How a `connect` ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Connected {
    /// The connection is open; the lists may not have been read.
    Connected,
    /// A person must sign in at `auth_url`.
    Authenticating {
        /// Where to sign in.
        auth_url: String,
    },
    /// It could not be reached.
    Failed {
        /// Why.
        error: Error,
    },
}

impl Manager {
    /// Sets up a manager for the agent of that name and version, which is what servers are told.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> Builder {
        Builder::new(name.into(), version.into())
    }

    /// Registers, connects and discovers, and waits for how that ends.
    ///
    /// The same name and target again joins what is there: two overlapping adds share one connect, and a failed server is
    /// tried anew. Other settings replace the old ones and reconnect.
    ///
    /// Cancel safety: the registration is written or not; the connect goes on in the background.
    ///
    /// # Errors
    /// Only when nothing was registered: bad input, an id in use, a store that cannot be written.
    #[doc(alias = "addMcpServer")]
    pub async fn add(&self, spec: ServerSpec) -> Result<Added> {
        let (_, id) = self.register(spec).await?;
        self.establish(&id).await
    }

    /// Registers without connecting; says whether that was new.
    ///
    /// Cancel safety: the registration is written or not.
    ///
    /// # Errors
    /// As [`Manager::add`].
    #[doc(alias = "registerServer")]
    pub async fn register(&self, spec: ServerSpec) -> Result<(Registered, ServerId)> {
        self.inner.register(spec).await
    }

    /// Changes settings of a registration and reconnects.
    ///
    /// Cancel safety: the change is written or not; the connect goes on in the background.
    ///
    /// # Errors
    /// When the id is unknown, a setting is wrong, or the store cannot be written.
    pub async fn update(&self, id: &ServerId, patch: SettingsPatch) -> Result<Added> {
        self.inner.update(id, patch).await?;
        self.establish(id).await
    }

    /// Connects and discovers, and waits for how that ends; joins what is under way.
    ///
    /// Cancel safety: dropping the future stops waiting; the connect goes on.
    ///
    /// # Errors
    /// When the id is unknown.
    #[doc(alias = "establishConnection")]
    pub async fn establish(&self, id: &ServerId) -> Result<Added> {
        let connection = self.usable(id)?;
        Ok(Added::of(id.clone(), connection.connect(true).await))
    }

    /// Connects without reading the lists; joins what is under way.
    ///
    /// Cancel safety: dropping the future stops waiting; the connect goes on.
    ///
    /// # Errors
    /// When the id is unknown.
    #[doc(alias = "connectToServer")]
    pub async fn connect(&self, id: &ServerId) -> Result<Connected> {
        let view = self.usable(id)?.connect(false).await;
        Ok(match Added::of(id.clone(), view.clone()) {
            Added::Authenticating { auth_url, .. } => Connected::Authenticating { auth_url },
            Added::Failed { .. } if matches!(view.state, State::Connected | State::Discovering) => Connected::Connected,
            Added::Failed { error, .. } => Connected::Failed { error },
            Added::Ready { .. } => Connected::Connected,
        })
    }

    /// Reads the lists anew, and connects first where that is needed.
    ///
    /// Cancel safety: dropping the future stops waiting; the discovery goes on.
    ///
    /// # Errors
    /// When the id is unknown.
    #[doc(alias = "discoverIfConnected")]
    pub async fn discover(&self, id: &ServerId) -> Result<Added> {
        let view = self.usable(id)?.discover().await;
        Ok(Added::of(id.clone(), view))
    }

    /// Waits until no server is connecting or discovering, or `limit` has passed; the ids of those that still are.
    ///
    /// Cancel safety: dropping the future stops waiting and changes nothing.
    #[doc(alias = "waitForConnections")]
    pub async fn wait_settled(&self, limit: Duration) -> Vec<ServerId> {
        let connections: Vec<Connection> = self.inner.registry.connections();
        let mut waits: FuturesUnordered<_> =
            connections.iter().map(|connection| connection.wait_for(State::is_settled)).collect();
        let all = async { while waits.next().await.is_some() {} };
        let _ = tokio::time::timeout(limit, all).await;
        let missing = connections.iter().filter(|connection| !connection.state().is_settled());
        missing.map(|connection| connection.id().clone()).collect()
    }

    /// Closes a connection; the server stays registered and `connect` opens it again. Closing twice is fine. Waits for the
    /// server's end, but never longer than two seconds: what takes longer goes on behind.
    ///
    /// Cancel safety: dropping the future stops waiting; the close goes on.
    ///
    /// # Errors
    /// When the id is unknown.
    #[doc(alias = "closeConnection")]
    pub async fn close(&self, id: &ServerId) -> Result<()> {
        self.connection(id)?.close().await;
        Ok(())
    }

    /// Closes all connections at once.
    ///
    /// Cancel safety: dropping the future stops waiting; the closes go on.
    #[doc(alias = "closeAllConnections")]
    pub async fn close_all(&self) {
        all(self.inner.registry.connections().iter().map(Connection::close)).await;
    }

    /// Closes and forgets a server; whether there was one. Bounded in time, whatever the server does.
    ///
    /// Cancel safety: the registration is removed or not.
    ///
    /// # Errors
    /// When the store cannot be written; nothing is removed then.
    #[doc(alias = "removeMcpServer")]
    pub async fn remove(&self, id: &ServerId) -> Result<bool> {
        let one_at_a_time = self.inner.registering.lock().await;
        if self.inner.registry.slot(id).is_none() {
            return Ok(false);
        }
        self.inner.forget(id).await?;
        let slot = self.inner.registry.remove(id);
        self.inner.merged.invalidate();
        self.inner.surroundings.events.emit(EventKind::Remove, Some(id), serde_json::json!({}));
        drop(one_at_a_time);
        if let Some(Slot::Server(entry)) = slot {
            let connection = entry.connection.clone();
            let (ended, has_ended) = tokio::sync::oneshot::channel::<()>();
            // Of its own, so that it goes on when nobody waits for it.
            self.inner.tasks.spawn(async move {
                connection.close().await;
                drop(ended);
            });
            let _ = has_ended.await;
        }
        Ok(true)
    }

    /// Ends in good order: nothing new is begun, what waits is told, calls under way end within `grace` or are given up,
    /// sessions are closed and children are ended, and the store has what was learned. Says what had to be cut. Bounded in
    /// time by `grace` and some seconds. Shutting down twice is harmless.
    ///
    /// Cancel safety: dropping the future leaves the rest to the drop of the manager, which ends children at once.
    pub async fn shutdown(&self, grace: Duration) -> ShutDown {
        let inner = &self.inner;
        inner.is_shut_down.store(true, Ordering::Release);
        let connections = inner.registry.connections();
        connections.iter().for_each(Connection::admit_none);
        // Nothing is under way where there is no session; what waits for one is told.
        let idle = connections.iter().filter(|connection| connection.live().is_none());
        let closed = all(idle.map(Connection::close));
        let drained = tokio::time::timeout(grace, all(connections.iter().map(Connection::drained)));
        let _ = tokio::join!(closed, drained);
        let calls = connections.iter().map(Connection::under_way).sum();
        // What a server offers counts as known only while it is there.
        inner.save_marked().await;
        all(connections.iter().map(Connection::close)).await;
        let servers = inner.surroundings.endings.finish(END_LIMIT).await;
        inner.save_marked().await;
        inner.tasks.end(END_LIMIT).await;
        let cut = ShutDown { calls, servers };
        if !cut.is_clean() {
            tracing::warn!(calls, servers, "cut what did not end in time");
        }
        cut
    }

    /// The id of the server that `name_or_id` means: an id, else a name that only one server has.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownServer`] when there is none, with near names in its data; [`ErrorKind::InvalidInput`] when more
    /// than one server has that name.
    pub fn resolve(&self, name_or_id: &str) -> Result<ServerId> {
        self.inner.registry.resolve(name_or_id)
    }

    /// All that is known of one server.
    ///
    /// # Errors
    /// When the id is unknown.
    pub fn status(&self, id: &ServerId) -> Result<ServerStatus> {
        let slot = self.inner.registry.slot(id).ok_or_else(|| self.inner.registry.unknown(id.as_str()))?;
        Ok(entries::status(id, &slot))
    }

    /// The last 64 KiB at most that a child process wrote to its standard error in this life of its connection, as clean
    /// text; `None` when no child is connected. What a failed child said last stands in its error.
    ///
    /// # Errors
    /// When the id is unknown.
    pub fn stderr(&self, id: &ServerId) -> Result<Option<String>> {
        Ok(self.connection(id)?.stderr())
    }

    /// All servers with all that they offer.
    #[doc(alias = "getMcpServers")]
    #[must_use]
    pub fn servers(&self) -> McpServersState {
        self.inner.servers()
    }

    /// All servers without what they offer: the lists are empty, their lengths stand in each server's `counts`.
    #[must_use]
    pub fn overview(&self) -> McpServersState {
        self.inner.overview()
    }

    /// The registrations, in order.
    #[doc(alias = "listServers")]
    #[must_use]
    pub fn registrations(&self) -> Vec<(ServerId, ServerSpec)> {
        let connections = self.inner.registry.connections();
        connections.iter().map(|connection| (connection.id().clone(), connection.spec().clone())).collect()
    }

    /// Tools of the servers that fit, last known ones included.
    #[doc(alias = "listTools")]
    #[must_use]
    pub fn tools(&self, filter: &Filter) -> Vec<ToolEntry> {
        self.inner.looked_at();
        self.inner.tools(filter)
    }

    /// Tools of the servers that fit, each in the shape of a provider's request; [`ToolFormat::list`] makes the value of
    /// its `tools` from them. A tool that cannot be offered there is left out; that, and what was repaired or lost on the
    /// way, becomes a warning in the server's status.
    #[doc(alias = "getAITools")]
    #[must_use]
    pub fn offer(&self, format: ToolFormat, filter: &Filter) -> Vec<Json> {
        self.inner.looked_at();
        self.inner.offer(format, filter)
    }

    /// Prompts of the servers that fit.
    #[doc(alias = "listPrompts")]
    #[must_use]
    pub fn prompts(&self, filter: &Filter) -> Vec<Entry> {
        self.inner.looked_at();
        self.inner.items(crate::wire::model::ListKind::Prompts, filter)
    }

    /// Resources of the servers that fit.
    #[doc(alias = "listResources")]
    #[must_use]
    pub fn resources(&self, filter: &Filter) -> Vec<Entry> {
        self.inner.looked_at();
        self.inner.items(crate::wire::model::ListKind::Resources, filter)
    }

    /// Resource templates of the servers that fit.
    #[doc(alias = "listResourceTemplates")]
    #[must_use]
    pub fn resource_templates(&self, filter: &Filter) -> Vec<Entry> {
        self.inner.looked_at();
        self.inner.items(crate::wire::model::ListKind::ResourceTemplates, filter)
    }

    /// Calls a tool. Waits for a server that is connecting or coming back, and wakes one that has failed, within the
    /// call's own time.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more; the tool may have run.
    ///
    /// # Errors
    /// Every kind that has to do with calls; see [`ErrorKind`]. A result that the tool marks as an error is no error here.
    #[doc(alias = "callTool")]
    pub async fn call(&self, call: ToolCall) -> Result<CallResult> {
        let (connection, name) = self.inner.target_of(&call)?;
        let events = &self.inner.surroundings.events;
        call::tool(&connection, &name, &call, events).await
    }

    /// Reads a resource: the server's result as it came.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    ///
    /// # Errors
    /// As [`Manager::call`].
    #[doc(alias = "readResource")]
    pub async fn read_resource(&self, server: &ServerId, uri: &str, limits: CallLimits) -> Result<Json> {
        call::read_resource(&self.usable(server)?, uri, limits).await
    }

    /// Gets a prompt: the server's result as it came. `arguments` is an object of strings.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    ///
    /// # Errors
    /// As [`Manager::call`].
    #[doc(alias = "getPrompt")]
    pub async fn get_prompt(
        &self,
        server: &ServerId,
        name: &str,
        arguments: Option<Json>,
        limits: CallLimits,
    ) -> Result<Json> {
        call::get_prompt(&self.usable(server)?, name, arguments, limits).await
    }

    /// Completes an argument of a prompt or of a resource template: `params` as `completion/complete` takes them, the
    /// server's result as it came.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    ///
    /// # Errors
    /// As [`Manager::call`].
    pub async fn complete(&self, server: &ServerId, params: Json, limits: CallLimits) -> Result<Json> {
        call::complete(&self.usable(server)?, params, limits).await
    }

    /// Sends a request of any method, such as one of an extension: the server's result as it came. `params` is an object.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    ///
    /// # Errors
    /// As [`Manager::call`].
    pub async fn request(&self, server: &ServerId, method: &str, params: Json, limits: CallLimits) -> Result<Json> {
        call::request(&self.usable(server)?, method, params, limits).await
    }

    /// The events to come.
    #[must_use]
    pub fn events(&self) -> EventStream {
        self.inner.surroundings.events.since(u64::MAX).1
    }

    /// The kept events after number `after` (at most the last 1,000), and a follower right behind them.
    #[must_use]
    pub fn events_since(&self, after: u64) -> (Vec<Event>, EventStream) {
        self.inner.surroundings.events.since(after)
    }

    fn connection(&self, id: &ServerId) -> Result<Connection> {
        self.inner.connection(id)
    }

    /// A connection to be used.
    fn usable(&self, id: &ServerId) -> Result<Connection> {
        self.inner.check_open()?;
        self.connection(id)
    }
}

/// Waits for all of them at once.
async fn all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut futures: FuturesUnordered<_> = futures.collect();
    while futures.next().await.is_some() {}
}

impl Inner {
    /// Somebody looks at the lists.
    fn looked_at(&self) {
        self.registry.connections().iter().for_each(Connection::looked_at);
    }

    fn connection(&self, id: &ServerId) -> Result<Connection> {
        self.entry(id).map(|entry| entry.connection.clone())
    }

    fn entry(&self, id: &ServerId) -> Result<Arc<ServerEntry>> {
        match self.registry.slot(id) {
            Some(Slot::Server(entry)) => Ok(entry),
            Some(Slot::Corrupt(corrupt)) => Err(corrupt.error.clone()),
            None => Err(self.registry.unknown(id.as_str())),
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.is_shut_down.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::ServerClosed, "the manager is shutting down"));
        }
        Ok(())
    }

    /// The connection and the server's own name of the tool that a call means.
    fn target_of(&self, call: &ToolCall) -> Result<(Connection, Arc<str>)> {
        self.check_open()?;
        match &call.server {
            Some(id) => Ok((self.connection(id)?, call.tool.clone())),
            None => {
                let (id, name) = self.tool_by_key(&call.tool)?;
                Ok((self.connection(&id)?, name))
            }
        }
    }
}

impl Drop for Inner {
    /// Without [`Manager::shutdown`] nothing is waited for: tasks end at their next step, and children are killed when
    /// their connections go.
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager").field("servers", &self.inner.registry.connections().len()).finish_non_exhaustive()
    }
}
