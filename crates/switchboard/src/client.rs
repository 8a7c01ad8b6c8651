//! One server without a registry: the same connection, listing, calling and reading, with no store behind it.

use std::sync::Arc;
use std::time::Duration;

use crate::connection::{Connection, Observer};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{EventStream, LogEntry, LogLevel};
use crate::id::ServerId;
use crate::manager::{Builder, CallLimits, CallResult, Drift, ToolCall, approving, call, drift_of, notices, status_of};
use crate::spec::ServerSpec;
use crate::status::{ServerStatus, State};
use crate::wire::model::ListKind;
use crate::wire::{Json, ListItem, Tool};

/// One MCP server. Cheap to clone; all clones are the same connection, which ends with the last of them.
///
/// ```no_run
/// use switchboard::{Client, ServerSpec};
///
/// # async fn example() -> switchboard::Result<()> {
/// let client = Client::connect(ServerSpec::http("github", "https://mcp.example/mcp")?).await?;
/// for tool in client.tools() {
///     println!("{}", tool.name());
/// }
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "createMcpClient")]
#[doc(alias = "createStdioMcpClient")]
pub struct Client {
    connection: Connection,
    events: Arc<crate::event::EventLog>,
}

/// Nothing outlives a client.
struct Forgetful;

impl Observer for Forgetful {
    fn changed(&self, _id: &ServerId) {}
}

impl Client {
    /// Connects to a server, with the retries of its registration, and reads its lists.
    ///
    /// Must be called inside a tokio runtime. For another name, version or environment than the defaults, use
    /// [`Builder::connect`].
    ///
    /// Cancel safety: dropping the future ends the connection.
    ///
    /// # Errors
    /// When the server cannot be reached, or a person must sign in.
    pub async fn connect(spec: ServerSpec) -> Result<Self> {
        crate::Manager::builder("switchboard", env!("CARGO_PKG_VERSION")).connect(spec).await
    }

    /// What the server calls itself, as it sent it.
    #[must_use]
    pub fn server_info(&self) -> Option<Json> {
        self.connection.memory().facts.info
    }

    /// The revision that is spoken; `None` while it is not connected.
    #[must_use]
    pub fn protocol_version(&self) -> Option<String> {
        Some(self.connection.live()?.session.version.to_owned())
    }

    /// All that is known of the server.
    #[must_use]
    pub fn status(&self) -> ServerStatus {
        status_of(&self.connection)
    }

    /// The last 64 KiB at most that its child process wrote to its standard error, as clean text; `None` when no child is
    /// connected.
    #[must_use]
    pub fn stderr(&self) -> Option<String> {
        self.connection.stderr()
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> State {
        self.connection.state()
    }

    /// Its tools.
    #[must_use]
    pub fn tools(&self) -> Vec<Tool> {
        self.connection.looked_at();
        self.connection.catalogue().tools().to_vec()
    }

    /// Its prompts.
    #[must_use]
    pub fn prompts(&self) -> Vec<ListItem> {
        self.connection.looked_at();
        self.connection.catalogue().items(ListKind::Prompts).to_vec()
    }

    /// Its resources.
    #[must_use]
    pub fn resources(&self) -> Vec<ListItem> {
        self.connection.looked_at();
        self.connection.catalogue().items(ListKind::Resources).to_vec()
    }

    /// Its resource templates.
    #[must_use]
    pub fn resource_templates(&self) -> Vec<ListItem> {
        self.connection.looked_at();
        self.connection.catalogue().items(ListKind::ResourceTemplates).to_vec()
    }

    /// Reads the lists anew, and connects first where that is needed.
    ///
    /// Cancel safety: dropping the future stops waiting; the discovery goes on.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn refresh(&self) -> Result<()> {
        let view = self.connection.discover().await;
        outcome(&self.connection, view.state)
    }

    /// Calls a tool by the server's own name.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more; the tool may have run.
    ///
    /// # Errors
    /// Every kind that has to do with calls. A result that the tool marks as an error is no error here.
    pub async fn call(&self, tool: &str, arguments: Option<Json>) -> Result<CallResult> {
        let mut call = ToolCall::new(self.connection.id().clone(), tool);
        call.arguments = arguments;
        self.call_with(call).await
    }

    /// Calls a tool with limits and checks of its own. The call's server is not looked at.
    ///
    /// Cancel safety: as [`Client::call`].
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_with(&self, call: ToolCall) -> Result<CallResult> {
        call::tool(&self.connection, &call.tool, &call, &self.events).await
    }

    /// Reads a resource: the server's result as it came.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn read_resource(&self, uri: &str) -> Result<Json> {
        call::read_resource(&self.connection, uri, CallLimits::default()).await
    }

    /// Gets a prompt: the server's result as it came. `arguments` is an object of strings.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn get_prompt(&self, name: &str, arguments: Option<Json>) -> Result<Json> {
        call::get_prompt(&self.connection, name, arguments, CallLimits::default()).await
    }

    /// Completes an argument: `params` as `completion/complete` takes them.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn complete(&self, params: Json) -> Result<Json> {
        call::complete(&self.connection, params, CallLimits::default()).await
    }

    /// Sends a request of any method, such as one of an extension: the server's result as it came. `params` is an object.
    ///
    /// Cancel safety: dropping the future tells the server that the answer is not wanted any more.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn request(&self, method: &str, params: Json) -> Result<Json> {
        call::request(&self.connection, method, params, CallLimits::default()).await
    }

    /// Subscribes to a resource; see [`Manager::subscribe`](crate::Manager::subscribe).
    ///
    /// Cancel safety: the subscription may be made or not.
    ///
    /// # Errors
    /// When the server does not tell of updates, or 1,000 resources are subscribed to already; those of [`Client::call`].
    pub async fn subscribe(&self, uri: &str) -> Result<()> {
        notices::subscribe(&self.connection, uri).await
    }

    /// Ends a subscription. Where there is none, nothing happens.
    ///
    /// Cancel safety: the subscription is ended on our side; the server may not know.
    ///
    /// # Errors
    /// When the server refuses. The subscription is ended on our side all the same.
    pub async fn unsubscribe(&self, uri: &str) -> Result<()> {
        notices::unsubscribe(&self.connection, uri).await
    }

    /// Asks for log entries of that level and above, over all lives of the connection.
    ///
    /// Cancel safety: the level may be set or not.
    ///
    /// # Errors
    /// When the server does not log; those of [`Client::call`].
    pub async fn set_log_level(&self, level: LogLevel) -> Result<()> {
        notices::set_log_level(&self.connection, level).await
    }

    /// The last 200 log entries of the server, the oldest first.
    #[must_use]
    pub fn logs(&self) -> Vec<LogEntry> {
        self.connection.logs()
    }

    /// How its tools differ from those that it had first, or that were approved since.
    #[must_use]
    pub fn drift(&self) -> Drift {
        drift_of(&self.connection)
    }

    /// Approves tools as they are known now, for as long as this client lives: those named, or all.
    ///
    /// # Errors
    /// When a name is unknown; nothing is approved then.
    pub fn approve(&self, tools: Option<&[String]>) -> Result<()> {
        self.connection.approve(&approving(&self.connection, tools)?);
        Ok(())
    }

    /// What happens to the connection from now on.
    #[must_use]
    pub fn events(&self) -> EventStream {
        self.events.since(u64::MAX).1
    }

    /// Closes the connection in good order. Closing twice is fine; a later call opens it again.
    ///
    /// Cancel safety: dropping the future stops waiting; the close goes on.
    pub async fn close(&self) {
        self.connection.close().await;
    }
}

fn outcome(connection: &Connection, state: State) -> Result<()> {
    match (state, connection.view().failure) {
        (State::Ready, _) => Ok(()),
        (_, Some((error, _))) => Err(error),
        (state, None) => Err(Error::new(ErrorKind::ServerClosed, format!("it is {state}")).of(connection.id())),
    }
}

impl Builder {
    /// Connects to one server without a registry; the store of this builder is not used.
    ///
    /// Cancel safety: dropping the future ends the connection.
    ///
    /// # Errors
    /// When the server cannot be reached, or a person must sign in.
    pub async fn connect(self, spec: ServerSpec) -> Result<Client> {
        let spec = spec.checked()?;
        let id = spec.id.clone().unwrap_or_else(ServerId::generate);
        let surroundings = Arc::new(self.surroundings());
        let events = surroundings.events.clone();
        let connection = Connection::new((id, spec), surroundings, Arc::new(Forgetful), Default::default());
        let view = connection.connect(true).await;
        match outcome(&connection, view.state) {
            Ok(()) => Ok(Client { connection, events }),
            Err(error) => {
                let _ = tokio::time::timeout(Duration::from_secs(5), connection.close()).await;
                Err(error)
            }
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", self.connection.id()).field("state", &self.state()).finish()
    }
}
