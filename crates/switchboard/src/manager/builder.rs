//! Sets up a manager: who it is, where it remembers, what its children inherit.

use std::ffi::OsString;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::Semaphore;

use super::Manager;
use crate::connection::Surroundings;
use crate::error::Result;
use crate::event::EventLog;
use crate::session::Identity;
use crate::store::Store;
use crate::tasks::Tasks;
use crate::transport::HttpClient;
use crate::transport::command::Environment;
use crate::wire::Json;

/// How many servers are connected at a time when a manager starts.
const RESTORE: usize = 32;
/// How many child processes may be starting at a time.
const STARTS: usize = 16;

/// Sets up a [`Manager`].
#[must_use]
pub struct Builder {
    name: String,
    version: String,
    store: Option<Arc<dyn Store>>,
    namespace: String,
    environment: Environment,
    restore: usize,
}

impl Builder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            name,
            version,
            store: None,
            namespace: "default".to_owned(),
            environment: Environment::default(),
            restore: RESTORE,
        }
    }

    /// Where registrations are kept; without one they are kept in memory.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Where registrations are kept, in a store that is shared.
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The part of the store that is this manager's, `default` unless set: several agents may share one store.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The environment that child processes may inherit from, and whose `PATH` finds their commands: usually
    /// `std::env::vars_os()`. The library reads none by itself; without one, children have only what their registration
    /// gives them.
    pub fn environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.environment = Environment::new(variables);
        self
    }

    /// How many servers are connected at a time when the manager starts; 32 unless set, and at least one.
    pub fn restore_concurrency(mut self, servers: usize) -> Self {
        self.restore = servers.max(1);
        self
    }

    /// Reads what is registered, and connects it in the background: every server is `connecting` when this returns.
    ///
    /// Never waits for a server. Must be called inside a tokio runtime.
    ///
    /// Cancel safety: dropping the future ends what was begun.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(self) -> Result<Manager> {
        let manager = self.start_offline().await?;
        for connection in manager.inner.registry.connections() {
            // Answered when it has begun, so that nobody sees a server that is not on its way.
            connection.connect_quietly().await;
        }
        Ok(manager)
    }

    /// Reads what is registered, and connects nothing by itself. Must be called inside a tokio runtime.
    ///
    /// Cancel safety: dropping the future starts nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start_offline(self) -> Result<Manager> {
        let surroundings = self.surroundings();
        super::restore::restore(surroundings, self.store, &self.namespace).await
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        let info = json!({ "name": self.name, "version": self.version });
        Surroundings {
            http: HttpClient::new(),
            environment: self.environment.clone(),
            identity: Identity { info: Json::from(info), capabilities: Json::empty_object() },
            events: Arc::new(EventLog::new()),
            quiet_dials: Semaphore::new(self.restore),
            process_starts: Semaphore::new(STARTS),
            endings: Tasks::new(),
        }
    }
}
