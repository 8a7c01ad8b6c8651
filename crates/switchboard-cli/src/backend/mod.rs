//! Who answers the commands: a daemon that runs on the same data folder, or a manager in this process. Both answer the
//! documents of the HTTP API, so that a command does not care which it is.

pub(crate) mod client;
mod events;
pub(crate) mod local;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use switchboard::State;
use switchboard::catalogue::ToolFormat;
use switchboard::wire::Json;

use crate::args::Time;
use crate::daemon_file;
use crate::problem::Result;
use crate::session::Session;
use crate::views::Servers;
use client::Client;
pub(crate) use events::Feed;
use local::Local;

/// How soon it is looked again whether servers are still connecting.
pub(crate) const BETWEEN_LOOKS: Duration = Duration::from_millis(25);

/// Which servers a manager in this process connects to when it starts. A daemon has its own mind about that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// None, until one is needed.
    Nothing,
    /// All.
    Everything,
}

/// The lists of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources.
    Resources,
    /// Resource templates.
    ResourceTemplates,
}

impl List {
    /// The member of the document that holds the list.
    pub(crate) const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
        }
    }

    /// The last part of the list's address.
    const fn path(self) -> &'static str {
        match self {
            Self::ResourceTemplates => "resource-templates",
            other => other.member(),
        }
    }
}

/// Which servers' items are meant: by id, and by state; nothing given means all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    /// Ids.
    pub(crate) servers: Vec<String>,
    /// States.
    pub(crate) states: Vec<State>,
    /// The shape of tools; MCP's own unless given.
    pub(crate) format: ToolFormat,
}

/// A tool call.
#[derive(Debug)]
pub(crate) struct CallRequest {
    /// The server's id; `None`: the tool is named by its key.
    pub(crate) server: Option<String>,
    /// The server's own name of the tool, or the key.
    pub(crate) tool: String,
    /// An object.
    pub(crate) arguments: Json,
    /// Whether the arguments are checked first.
    pub(crate) validate: bool,
    /// How long it may take.
    pub(crate) time: Time,
}

/// A tool's answer.
#[derive(Debug)]
pub(crate) struct CallAnswer {
    /// The server's result, byte for byte.
    pub(crate) result: Json,
    /// Whether the server marked it as an error.
    pub(crate) is_error: bool,
    /// What is odd about it.
    pub(crate) warnings: Vec<String>,
}

/// Who answers the commands.
pub(crate) enum Backend {
    /// A manager in this process.
    Local(Local),
    /// A daemon.
    Daemon(Box<Client>),
}

impl Backend {
    /// Finds the daemon of the session's data folder, or starts a manager.
    pub(crate) async fn open(session: &Session, wake: Wake) -> Result<Self> {
        let settings = &session.settings;
        if let Some(daemon) = daemon_file::running(&settings.data).await? {
            return Ok(Self::Daemon(Box::new(Client::new(&daemon, &settings.instance))));
        }
        Ok(Self::Local(Local::new(session.manager(&settings.data, wake).await?)))
    }

    /// Whether a daemon answers.
    pub(crate) const fn is_daemon(&self) -> bool {
        matches!(self, Self::Daemon(_))
    }

    /// All servers with all that they offer: `GET /servers`.
    pub(crate) async fn servers(&self) -> Result<Json> {
        match self {
            Self::Local(local) => local.servers(),
            Self::Daemon(client) => client.get("servers", &[]).await,
        }
    }

    /// All servers without what they offer, read.
    pub(crate) async fn servers_view(&self) -> Result<Servers> {
        let document = match self {
            Self::Local(local) => local.overview()?,
            Self::Daemon(client) => client.get("servers", &[("brief", "true")]).await?,
        };
        Servers::read(&document)
    }

    /// One list of the catalogue.
    pub(crate) async fn list(&self, list: List, query: &Query) -> Result<Json> {
        match self {
            Self::Local(local) => local.list(list, query),
            Self::Daemon(client) => {
                let servers = query.servers.iter().map(|id| ("serverId", id.as_str()));
                let states = query.states.iter().map(|state| ("state", state.as_str()));
                let format = (query.format != ToolFormat::Mcp).then(|| ("format", query.format.name()));
                client.get(list.path(), &servers.chain(states).chain(format).collect::<Vec<_>>()).await
            }
        }
    }

    /// Registers a server, connects and discovers: `POST /servers`.
    pub(crate) async fn add(&self, document: &Value) -> Result<Json> {
        match self {
            Self::Local(local) => local.add(document).await,
            Self::Daemon(client) => {
                client.post("servers", &Json::from(document.clone())).await.map(|answer| answer.body)
            }
        }
    }

    /// Connects and discovers: `POST /servers/{id}/connect`.
    pub(crate) async fn connect(&self, id: &str) -> Result<Json> {
        match self {
            Self::Local(local) => local.connect(id).await,
            Self::Daemon(client) => {
                client.post(&format!("servers/{id}/connect"), &Json::empty_object()).await.map(|answer| answer.body)
            }
        }
    }

    /// Closes a connection.
    pub(crate) async fn close(&self, id: &str) -> Result<()> {
        match self {
            Self::Local(local) => local.close(id).await,
            Self::Daemon(client) => client.post(&format!("servers/{id}/close"), &Json::empty_object()).await.map(drop),
        }
    }

    /// Closes and forgets a server.
    pub(crate) async fn remove(&self, id: &str) -> Result<()> {
        match self {
            Self::Local(local) => local.remove(id).await,
            Self::Daemon(client) => client.delete(&format!("servers/{id}")).await,
        }
    }

    /// How a server's tools differ from those that were approved: `GET /servers/{id}/drift`.
    pub(crate) async fn drift(&self, id: &str) -> Result<Json> {
        match self {
            Self::Local(local) => local.drift(id),
            Self::Daemon(client) => client.get(&format!("servers/{id}/drift"), &[]).await,
        }
    }

    /// Approves tools of a server, all when none are named: `POST /servers/{id}/approve`.
    pub(crate) async fn approve(&self, id: &str, tools: &[String]) -> Result<()> {
        let tools = (!tools.is_empty()).then_some(tools);
        match self {
            Self::Local(local) => local.approve(id, tools).await,
            Self::Daemon(client) => {
                let body = tools.map_or_else(|| json!({}), |tools| json!({ "tools": tools }));
                client.post(&format!("servers/{id}/approve"), &Json::from(body)).await.map(drop)
            }
        }
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, call: CallRequest) -> Result<CallAnswer> {
        match self {
            Self::Local(local) => local.call(call).await,
            Self::Daemon(client) => client.call(&call).await,
        }
    }

    /// Reads a resource.
    pub(crate) async fn read(&self, server: &str, uri: &str, time: Time) -> Result<Json> {
        match self {
            Self::Local(local) => local.read(server, uri, time).await,
            Self::Daemon(client) => client.read(server, uri, time).await,
        }
    }

    /// Gets a prompt.
    pub(crate) async fn prompt(&self, server: &str, name: &str, arguments: Json, time: Time) -> Result<Json> {
        match self {
            Self::Local(local) => local.prompt(server, name, arguments, time).await,
            Self::Daemon(client) => client.prompt(server, name, &arguments, time).await,
        }
    }

    /// Completes an argument.
    pub(crate) async fn complete(&self, server: &str, parameters: Json, time: Time) -> Result<Json> {
        match self {
            Self::Local(local) => local.complete(server, parameters, time).await,
            Self::Daemon(client) => client.complete(server, &parameters, time).await,
        }
    }

    /// The calls that are known. A manager in this process has none that anyone could ask for.
    pub(crate) async fn calls(&self) -> Result<Json> {
        match self {
            Self::Local(_) => Ok(Json::from(json!({"calls": []}))),
            Self::Daemon(client) => client.get("calls", &[]).await,
        }
    }

    /// The events behind number `after`; without one, those from now on.
    pub(crate) async fn events(&self, after: Option<u64>) -> Result<Feed> {
        match self {
            Self::Local(local) => Ok(local.events(after)),
            Self::Daemon(client) => client.events(after).await,
        }
    }

    /// Waits until none of `ids` (all, when there are none) is connecting, or `limit` has passed. Says who still is.
    pub(crate) async fn settle(&self, session: &Session, ids: &[String], limit: Duration) -> Result<Vec<String>> {
        let progress = session.output.progress("connecting");
        let end = Instant::now() + limit;
        loop {
            let pending = match self {
                Self::Local(local) => local.unsettled(ids),
                Self::Daemon(_) => self.servers_view().await?.unsettled(ids),
            };
            if pending.is_empty() || Instant::now() >= end {
                return Ok(pending);
            }
            progress.say(format!("waiting for {}", pending.join(", ")));
            tokio::time::sleep(BETWEEN_LOOKS.min(end.saturating_duration_since(Instant::now()))).await;
        }
    }
}
