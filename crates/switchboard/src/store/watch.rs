//! Tells watchers what was changed, without ever waiting for one of them.

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast::{self, error::RecvError};

use super::{Key, Prefix};

/// How many changes a watcher may fall behind before it misses some.
pub const WATCH_CAPACITY: usize = 1024;

/// Something that happened to a record.
///
/// The new value is not carried along: a watcher reads what it needs, and a slow one holds no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A record was written.
    Written {
        /// Which one.
        key: Key,
        /// The version that it has now.
        version: u64,
    },
    /// A record was removed.
    Deleted {
        /// Which one.
        key: Key,
    },
    /// The watcher was too slow and missed this many changes, which may concern any record. It should list again.
    Missed(u64),
}

impl Change {
    fn concerns(&self, prefix: &Prefix) -> bool {
        match self {
            Self::Written { key, .. } | Self::Deleted { key } => prefix.contains(key),
            Self::Missed(_) => true,
        }
    }
}

/// All watchers of one store. The streams end when the last clone of this is gone.
#[derive(Debug, Clone)]
pub(super) struct Watchers(broadcast::Sender<Change>);

impl Watchers {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(WATCH_CAPACITY))
    }

    pub(super) fn tell(&self, change: Change) {
        // Fails only when nobody watches.
        let _ = self.0.send(change);
    }

    pub(super) fn watch(&self, prefix: &Prefix) -> BoxStream<'static, Change> {
        let prefix = prefix.clone();
        let changes = stream::unfold(self.0.subscribe(), async |mut receiver| match receiver.recv().await {
            Ok(change) => Some((change, receiver)),
            Err(RecvError::Lagged(count)) => Some((Change::Missed(count), receiver)),
            Err(RecvError::Closed) => None,
        });
        changes.filter(move |change| std::future::ready(change.concerns(&prefix))).boxed()
    }
}
