//! A manager in this process, on the data folder.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::catalogue::ToolFormat;
use switchboard::manager::{Added, CallLimits};
use switchboard::spec::SpecDocument;
use switchboard::store::{SqliteStore, Store};
use switchboard::wire::Json;
use switchboard::{Filter, Manager, ServerId, ServerSpec, ToolCall};

use super::events::Feed;
use super::{CallAnswer, CallRequest, List, Query, Wake};
use crate::args::Time;
use crate::problem::{Failure, Problem, Result};
use crate::settings::Settings;

/// The agent that the program itself is.
pub(crate) const AGENT: &str = "switchboard";

/// The file in the data folder that holds the store.
const STORE: &str = "switchboard.db";

/// Starts a manager on the data in `folder`.
pub(crate) async fn start(settings: &Settings, folder: &Path, wake: Wake) -> Result<Manager> {
    let namespace = namespace(AGENT, &settings.instance);
    Ok(build(settings, open_store(folder)?, &namespace, wake).await?)
}

/// A manager on a part of a store.
pub(crate) async fn build(
    settings: &Settings,
    store: Arc<dyn Store>,
    namespace: &str,
    wake: Wake,
) -> switchboard::Result<Manager> {
    let builder = Manager::builder(AGENT, env!("CARGO_PKG_VERSION"))
        .shared_store(store)
        .namespace(namespace)
        .environment(settings.variables.clone());
    match wake {
        Wake::Nothing => builder.start_offline().await,
        Wake::Everything => builder.start().await,
    }
}

/// The part of the store that belongs to an instance, with a daemon and without.
pub(crate) fn namespace(agent: &str, instance: &str) -> String {
    format!("{agent}/{instance}")
}

/// Opens the store in the data folder, which is made when it is not there.
pub(crate) fn open_store(folder: &Path) -> Result<Arc<dyn Store>> {
    make_folder(folder)?;
    let store = SqliteStore::open(folder.join(STORE)).map_err(switchboard::Error::from)?;
    Ok(Arc::new(store))
}

/// Makes the data folder, for its owner alone.
pub(crate) fn make_folder(folder: &Path) -> Result<(), Problem> {
    if folder.is_dir() {
        return Ok(());
    }
    if folder.exists() {
        return Err(Problem::input(format!("the data folder `{}` is a file", folder.display()))
            .hint("name a folder with --data DIR"));
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|cause| {
        Problem::new("store_failed", format!("the data folder `{}` cannot be made", folder.display()))
            .because(cause)
            .hint("name a folder that can be written with --data DIR")
    })
}

/// A manager in this process.
#[derive(Clone)]
pub(crate) struct Local {
    manager: Manager,
}

impl Local {
    /// Answers from `manager`.
    pub(crate) const fn new(manager: Manager) -> Self {
        Self { manager }
    }

    pub(super) fn servers(&self) -> Result<Json> {
        document(&self.manager.servers())
    }

    pub(super) fn overview(&self) -> Result<Json> {
        document(&self.manager.overview())
    }

    pub(super) fn list(&self, list: List, query: &Query) -> Result<Json> {
        let mut filter = Filter::all();
        filter.server_ids = query.servers.iter().map(|id| ServerId::parse(id)).collect::<Result<_, _>>()?;
        filter.states.clone_from(&query.states);
        let items = match list {
            List::Tools if query.format != ToolFormat::Mcp => {
                query.format.list(&self.manager.offer(query.format, &filter)).map_err(not_json)
            }
            List::Tools => document(&self.manager.tools(&filter)),
            List::Prompts => document(&self.manager.prompts(&filter)),
            List::Resources => document(&self.manager.resources(&filter)),
            List::ResourceTemplates => document(&self.manager.resource_templates(&filter)),
        }?;
        document(&std::collections::BTreeMap::from([(list.member(), items)]))
    }

    pub(super) async fn add(&self, document: &Value) -> Result<Json> {
        Ok(outcome(self.manager.add(spec(document)?).await?))
    }

    pub(super) async fn connect(&self, id: &str) -> Result<Json> {
        Ok(outcome(self.manager.establish(&ServerId::parse(id)?).await?))
    }

    pub(super) async fn close(&self, id: &str) -> Result<()> {
        Ok(self.manager.close(&ServerId::parse(id)?).await?)
    }

    pub(super) async fn remove(&self, id: &str) -> Result<()> {
        self.manager.remove(&ServerId::parse(id)?).await?;
        Ok(())
    }

    pub(super) fn drift(&self, id: &str) -> Result<Json> {
        document(&self.manager.drift(&ServerId::parse(id)?)?)
    }

    pub(super) async fn approve(&self, id: &str, tools: Option<&[String]>) -> Result<()> {
        Ok(self.manager.approve(&ServerId::parse(id)?, tools.map(<[String]>::to_vec)).await?)
    }

    pub(super) async fn call(&self, request: CallRequest) -> Result<CallAnswer> {
        let mut call = match request.server {
            Some(id) => ToolCall::new(ServerId::parse(&id)?, request.tool),
            None => ToolCall::by_key(request.tool),
        }
        .arguments(request.arguments)
        .limits(limits(request.time));
        call.validate = request.validate;
        let answer = self.manager.call(call).await?;
        Ok(CallAnswer { result: answer.result, is_error: answer.is_error, warnings: answer.warnings })
    }

    pub(super) async fn read(&self, server: &str, uri: &str, time: Time) -> Result<Json> {
        Ok(self.manager.read_resource(&ServerId::parse(server)?, uri, limits(time)).await?)
    }

    pub(super) async fn prompt(&self, server: &str, name: &str, arguments: Json, time: Time) -> Result<Json> {
        Ok(self.manager.get_prompt(&ServerId::parse(server)?, name, Some(arguments), limits(time)).await?)
    }

    pub(super) async fn complete(&self, server: &str, parameters: Json, time: Time) -> Result<Json> {
        Ok(self.manager.complete(&ServerId::parse(server)?, parameters, limits(time)).await?)
    }

    /// This process started the manager a moment ago, so "from now on" is from its beginning.
    pub(super) fn events(&self, after: Option<u64>) -> Feed {
        let (past, stream) = self.manager.events_since(after.unwrap_or_default());
        Feed::local(past, stream)
    }

    /// The ids among `ids` (all, when there are none) of servers that are still connecting.
    pub(crate) fn unsettled(&self, ids: &[String]) -> Vec<String> {
        let is_meant = |id: &str| ids.is_empty() || ids.iter().any(|wanted| wanted == id);
        let registrations = self.manager.registrations().into_iter().map(|(id, _)| id);
        let unsettled = registrations.filter(|id| {
            is_meant(id.as_str()) && self.manager.status(id).is_ok_and(|status| !status.state.is_settled())
        });
        unsettled.map(|id| id.to_string()).collect()
    }
}

/// The registration that a document of the API describes.
pub(crate) fn spec(document: &Value) -> Result<ServerSpec> {
    let document: SpecDocument = serde_json::from_value(document.clone())
        .map_err(|cause| Problem::input("the registration is not valid").because(cause))?;
    Ok(ServerSpec::try_from(document)?)
}

/// How an `add` or a `connect` ended, as the HTTP API says it.
fn outcome(added: Added) -> Json {
    let state = added.state();
    Json::from(match added {
        Added::Ready { id } => json!({"id": id, "state": state}),
        Added::Authenticating { id, auth_url } => json!({"id": id, "state": state, "authUrl": auth_url}),
        Added::Failed { id, error } => {
            let failure = json!({"code": error.kind().code(), "message": error.to_string(), "causes": error.causes()});
            json!({"id": id, "state": state, "error": failure})
        }
        // A way to end that this version does not know yet.
        _ => json!({"state": "connecting"}),
    })
}

fn limits(time: Time) -> CallLimits {
    CallLimits::new(time.timeout_ms.map(Duration::from_millis), time.deadline_ms.map(Duration::from_millis))
}

fn document<T: serde::Serialize>(value: &T) -> Result<Json> {
    Json::of(value).map_err(not_json)
}

fn not_json(cause: serde_json::Error) -> Failure {
    Problem::new("protocol_violation", "what the servers offer cannot be written as JSON").because(cause).into()
}
