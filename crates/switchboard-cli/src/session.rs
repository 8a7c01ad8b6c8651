//! One run of the program: its settings, its output, and what must be ended before it goes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use switchboard::Manager;
use tempfile::TempDir;

use crate::backend::{Backend, Wake, local};
use crate::output::Output;
use crate::problem::{Problem, Result};
use crate::settings::Settings;

/// One run of the program.
#[derive(Debug)]
pub(crate) struct Session {
    /// What will happen.
    pub(crate) settings: Settings,
    /// Where words go.
    pub(crate) output: Output,
    to_end: Mutex<ToEnd>,
}

/// What must be ended: the managers first, then the folders that they wrote to.
#[derive(Default)]
struct ToEnd {
    managers: Vec<Manager>,
    folders: Vec<TempDir>,
}

impl std::fmt::Debug for ToEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} managers, {} folders", self.managers.len(), self.folders.len())
    }
}

impl Session {
    /// A run with these settings.
    pub(crate) fn new(settings: Settings) -> Self {
        let output = Output::new(&settings);
        Self { settings, output, to_end: Mutex::default() }
    }

    /// What answers the commands: a running daemon on the same data folder, else a manager in this process.
    pub(crate) async fn backend(&self, wake: Wake) -> Result<Backend> {
        Backend::open(self, wake).await
    }

    /// A manager on the data in `folder`, ended with this run.
    pub(crate) async fn manager(&self, folder: &Path, wake: Wake) -> Result<Manager> {
        let manager = local::start(&self.settings, folder, wake).await?;
        self.to_end().managers.push(manager.clone());
        Ok(manager)
    }

    /// A temporary folder, removed with this run.
    pub(crate) fn temporary_folder(&self) -> Result<PathBuf> {
        let folder = tempfile::Builder::new().prefix("switchboard-").tempdir();
        let folder = folder.map_err(|cause| Problem::new("store_failed", "no temporary folder").because(cause))?;
        let path = folder.path().to_path_buf();
        self.to_end().folders.push(folder);
        Ok(path)
    }

    /// Ends everything that was started: child processes and connections first, then the folders.
    pub(crate) async fn finish(&self, grace: Duration) {
        let ToEnd { managers, folders } = std::mem::take(&mut *self.to_end());
        join_all(managers.iter().map(|manager| manager.shutdown(grace))).await;
        drop(managers);
        drop(folders);
    }

    fn to_end(&self) -> std::sync::MutexGuard<'_, ToEnd> {
        self.to_end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
