//! Tools that are not what was approved: shown, and approved by a person.

use serde::Serialize;

use super::Manager;
use super::registry::nearest;
use crate::catalogue::drift::{Approval, kinds, severity};
use crate::catalogue::{Change, Fingerprint, Severity};
use crate::connection::Connection;
use crate::error::{Error, ErrorKind, Result};
use crate::id::ServerId;
use crate::spec::DriftPolicy;
use crate::status::ListState;
use crate::time::Timestamp;
use crate::wire::{Json, Tool};

/// How the tools of a server differ from those that were approved.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
#[doc(alias = "detectToolDrift")]
pub struct Drift {
    /// What happens to tools that differ.
    pub policy: DriftPolicy,
    /// When something was approved last; `None` while nothing was.
    pub approved_at: Option<Timestamp>,
    /// Of all tools as they are: one comparison says whether anything changed.
    pub fingerprint: Fingerprint,
    /// Names of tools that were not there.
    pub added: Vec<String>,
    /// Names of tools that are gone.
    pub removed: Vec<String>,
    /// Tools with another definition.
    pub changed: Vec<ChangedTool>,
}

impl Drift {
    /// Whether every tool is what was approved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }
}

/// A tool that is not what was approved.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangedTool {
    /// The server's own name of it.
    pub name: String,
    /// The weight of its weightiest change.
    pub severity: Severity,
    /// The kinds of its changes, the weightiest first.
    pub kinds: Vec<String>,
    /// Each change, the weightiest first.
    pub changes: Vec<Change>,
    /// The definition that was approved, as the server sent it.
    pub before: Json,
    /// The definition as it is, as the server sent it.
    pub after: Json,
}

impl Manager {
    /// How the tools of a server differ from those that were approved, as far as they are known.
    ///
    /// # Errors
    /// When the id is unknown.
    #[doc(alias = "detectToolDrift")]
    pub fn drift(&self, id: &ServerId) -> Result<Drift> {
        Ok(drift_of(&self.inner.connection(id)?))
    }

    /// Approves tools of a server as they are known now: those named, or all. A tool that is gone is not approved any more.
    ///
    /// Cancel safety: the approval is written or not.
    ///
    /// # Errors
    /// When the id or a name is unknown, the tools are not known yet, or the store cannot be written; nothing is approved
    /// then.
    pub async fn approve(&self, id: &ServerId, tools: Option<Vec<String>>) -> Result<()> {
        self.inner.check_open()?;
        let _one_at_a_time = self.inner.registering.lock().await;
        let entry = self.inner.entry(id)?;
        let approval = approving(&entry.connection, tools.as_deref())?;
        self.inner.write_approval(&entry, &approval).await?;
        entry.connection.approve(&approval);
        Ok(())
    }
}

/// How the tools differ from those that were approved.
pub(crate) fn drift_of(connection: &Connection) -> Drift {
    let catalogue = connection.catalogue();
    let comparison = catalogue.comparison();
    let approval = comparison.approval();
    let changed = comparison.changed().into_iter().filter_map(|(name, changes)| {
        Some(ChangedTool {
            name: name.to_owned(),
            severity: severity(changes),
            kinds: kinds(changes),
            changes: changes.to_vec(),
            before: approval?.tools.get(name)?.json().clone(),
            after: catalogue.tool(name)?.json().clone(),
        })
    });
    Drift {
        policy: connection.spec().drift,
        approved_at: approval.and_then(|approval| approval.at),
        fingerprint: Fingerprint::combined(catalogue.tools()),
        added: comparison.added().into_iter().map(str::to_owned).collect(),
        removed: comparison.removed().iter().map(ToString::to_string).collect(),
        changed: changed.collect(),
    }
}

/// What is approved once `names`, or all, are.
pub(crate) fn approving(connection: &Connection, names: Option<&[String]>) -> Result<Approval> {
    let catalogue = connection.catalogue();
    if catalogue.states().tools == ListState::Pending {
        let error = Error::new(ErrorKind::NotReady, "its tools are not known yet").of(connection.id());
        return Err(error.hint("connect to it first").with(|data| data.state = Some(connection.state().as_str())));
    }
    catalogue.approving(names, Timestamp::now()).map_err(|unknown| {
        let near = nearest(unknown, catalogue.tools().iter().map(Tool::name));
        let text = format!("has no tool `{}` to approve", unknown.escape_debug());
        Error::new(ErrorKind::UnknownTool, text).of(connection.id()).with(|data| data.nearest = near)
    })
}
