//! What is wanted of a server besides answers: resources to hear of, and a log level. It outlives the connection's losses.

use std::collections::BTreeSet;
use std::time::Duration;

use super::listen::Standing;
use super::{Connection, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::event::{LogEntry, LogLevel};
use crate::session::Session;
use crate::session::request::{Request, RequestError};
use crate::wire::message::Params;

/// How many resources of one server may be subscribed to.
const SUBSCRIPTIONS: usize = 1_000;
/// The longest URI that may be subscribed to, in bytes.
const URI_BYTES: usize = 8 << 10;

/// What is wanted of a server besides answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// The resources whose updates are wanted, by URI.
    pub(crate) resources: BTreeSet<Box<str>>,
    /// The least severe log entries that are wanted.
    pub(crate) log_level: Option<LogLevel>,
}

impl Connection {
    /// Wants updates of a resource from now on, over all lives of the connection; whether that is new.
    ///
    /// # Errors
    /// When there are too many, or the URI is too long.
    pub(crate) fn want_resource(&self, uri: &str) -> Result<bool> {
        if uri.is_empty() || uri.len() > URI_BYTES {
            return Err(Error::invalid("uri", format!("must have 1 to {URI_BYTES} bytes")));
        }
        let mut is_full = false;
        let is_new = self.shared.wishes.send_if_modified(|wishes| {
            is_full = wishes.resources.len() >= SUBSCRIPTIONS && !wishes.resources.contains(uri);
            !is_full && wishes.resources.insert(uri.into())
        });
        if is_full {
            let text = format!("{SUBSCRIPTIONS} resources of this server are subscribed to, which is the most");
            return Err(Error::invalid("uri", text).of(&self.shared.id));
        }
        Ok(is_new)
    }

    /// Wants no updates of a resource any more; whether any were wanted.
    pub(crate) fn unwant_resource(&self, uri: &str) -> bool {
        self.shared.wishes.send_if_modified(|wishes| wishes.resources.remove(uri))
    }

    /// The resources whose updates are wanted.
    pub(crate) fn wanted_resources(&self) -> Vec<String> {
        self.shared.wishes.borrow().resources.iter().map(|uri| uri.to_string()).collect()
    }

    /// Wants log entries of that level and above from now on, over all lives of the connection.
    pub(crate) fn want_logs(&self, level: LogLevel) {
        self.shared.wishes.send_modify(|wishes| wishes.log_level = Some(level));
        if let Some(live) = self.live() {
            live.session.ask_for_logs(level);
        }
    }

    /// The last log entries of the server.
    pub(crate) fn logs(&self) -> Vec<LogEntry> {
        self.shared.logs.entries()
    }

    /// Waits until the stream of notices of a modern server brings updates of that resource.
    ///
    /// Cancel safety: dropping the future stops waiting; the wish stands.
    ///
    /// # Errors
    /// When the server does not bring them, or the stream is not open in time.
    pub(crate) async fn listened(&self, uri: &str, patience: Duration) -> Result<()> {
        let mut standing = self.shared.standing.subscribe();
        let refused = |text: &str| Err(Error::new(ErrorKind::Unsupported, text).of(&self.shared.id));
        let settled = standing.wait_for(|standing| match standing {
            Standing::Pending => false,
            Standing::Open { asked, .. } => asked.resources().contains(uri),
            Standing::Absent => true,
        });
        match tokio::time::timeout(patience, settled).await {
            Ok(Ok(standing)) => match &*standing {
                Standing::Open { refused: part, .. } if part.resources().contains(uri) => {
                    refused("the server does not tell of updates of this resource")
                }
                Standing::Absent => refused("the server has no stream of notices"),
                _ => Ok(()),
            },
            // The sender lives in `shared`, so only the time can have run out.
            _ => {
                let text = "the stream of notices was not open in time";
                Err(Error::new(ErrorKind::Timeout, text).of(&self.shared.id).with(|data| data.after = Some(patience)))
            }
        }
    }
}

/// Asks a legacy server again for what was wanted before the connection was opened. What was missed meanwhile cannot be
/// known, so each resource counts as updated.
pub(super) async fn restore(shared: &Shared, session: &Session) {
    let Wishes { resources, log_level } = shared.wishes.borrow().clone();
    let limit = shared.spec.timeouts.request;
    if let Some(level) = log_level.filter(|_| session.facts.offers("logging")) {
        let asked = session.request(Request::new("logging/setLevel", level_params(level), limit)).await;
        told(shared, asked, "the log level");
    }
    if !session.facts.promises("resources", "subscribe") {
        return;
    }
    for uri in resources {
        // It may have been given up while the others were asked for.
        if shared.wishes.borrow().resources.contains(&uri) {
            let params = Params::new().text("uri", &uri);
            told(shared, session.request(Request::new("resources/subscribe", params, limit)).await, &uri);
            session.inbox.update(&uri);
        }
    }
}

/// The parameters of `logging/setLevel`.
pub(crate) fn level_params(level: LogLevel) -> Params {
    Params::new().text("level", level.as_str())
}

fn told(shared: &Shared, outcome: Result<crate::wire::Json, RequestError>, what: &str) {
    if let Err(error) = outcome {
        tracing::warn!(server = %shared.id, what, error = %crate::error::chain(&error), "a wish could not be restored");
    }
}
