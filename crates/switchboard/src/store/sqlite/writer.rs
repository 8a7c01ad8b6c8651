//! The one thread that writes: all commands that wait, in one transaction.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::super::watch::{Change, Watchers};
use super::super::{Expect, Key, Result, StoreError};
use super::failure::Place;
use super::{Order, QUEUE, version};

/// One change of one record.
pub(super) struct Write {
    pub(super) key: Key,
    pub(super) action: Action,
    pub(super) expect: Expect,
    /// Told the new version, or that of the record that was deleted.
    pub(super) reply: oneshot::Sender<Outcome>,
}

/// What is done to a record.
pub(super) enum Action {
    Put(Bytes),
    Delete,
}

type Outcome = Result<Option<u64>>;

pub(super) struct Writer {
    connection: Connection,
    place: Place,
    /// The file that the connection is of.
    file: Option<(u64, u64)>,
    watchers: Watchers,
}

/// Why a whole group was not written.
struct Failed {
    /// Whether the transaction had begun, so that one of its writes may be to blame.
    begun: bool,
    error: rusqlite::Error,
}

impl Writer {
    pub(super) fn new(connection: Connection, place: Place, watchers: Watchers) -> Self {
        let file = place.identity();
        Self { connection, place, file, watchers }
    }

    /// Works until the store is closed or dropped and nothing waits any more.
    pub(super) fn run(mut self, mut orders: mpsc::Receiver<Order<Write>>) {
        let mut waiting = Vec::with_capacity(QUEUE);
        while orders.blocking_recv_many(&mut waiting, QUEUE) > 0 {
            let mut group = Vec::with_capacity(waiting.len());
            for order in waiting.drain(..) {
                match order {
                    Order::Do(write) => group.push(write),
                    Order::Close => orders.close(),
                }
            }
            self.write(group);
        }
    }

    /// Writes a group in one transaction. When that fails, each write gets a transaction of its own, so that one for
    /// which there is no room costs only itself.
    fn write(&mut self, group: Vec<Write>) {
        // SQLite would go on writing to a deleted file, and nobody would ever read it.
        if self.place.identity() != self.file {
            for write in group {
                let _ = write.reply.send(Err(StoreError::Gone { place: self.place.to_string() }));
            }
            return;
        }
        match self.commit(&group) {
            Ok(outcomes) => {
                for (write, outcome) in group.into_iter().zip(outcomes) {
                    self.tell(&write, &outcome);
                    // Fails only when nobody waits for the answer any more.
                    let _ = write.reply.send(outcome);
                }
            }
            Err(failed) if failed.begun && group.len() > 1 => {
                group.into_iter().for_each(|write| self.write(vec![write]));
            }
            Err(failed) => {
                let error = Arc::new(failed.error);
                for write in group {
                    let error = self.failure(&write.key, &error);
                    let _ = write.reply.send(Err(error));
                }
            }
        }
    }

    fn commit(&mut self, group: &[Write]) -> Result<Vec<Outcome>, Failed> {
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begun.map_err(|error| Failed { begun: false, error })?;
        let outcomes = group.iter().map(|write| apply(&transaction, write)).collect::<rusqlite::Result<_>>();
        let committed = outcomes.and_then(|outcomes| transaction.commit().map(|()| outcomes));
        committed.map_err(|error| Failed { begun: true, error })
    }

    fn tell(&self, write: &Write, outcome: &Outcome) {
        let key = write.key.clone();
        match (&write.action, outcome) {
            (Action::Put(_), Ok(Some(version))) => self.watchers.tell(Change::Written { key, version: *version }),
            (Action::Delete, Ok(Some(_))) => self.watchers.tell(Change::Deleted { key }),
            _ => {}
        }
    }

    fn failure(&self, key: &Key, error: &Arc<rusqlite::Error>) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => StoreError::TooLarge { key: key.clone(), source: error.clone().into() },
            _ => self.place.sqlite(error.clone()),
        }
    }
}

/// Makes one change. An expectation that is not met changes nothing and fails only this one; the outer error is the
/// database's.
fn apply(transaction: &Transaction<'_>, write: &Write) -> rusqlite::Result<Outcome> {
    let key = write.key.as_str();
    let present: Option<u64> = transaction
        .prepare_cached("SELECT version FROM records WHERE key = ?1")?
        .query_row([key], |row| version(row, 0))
        .optional()?;
    if let Err(conflict) = write.expect.check(&write.key, present) {
        return Ok(Err(conflict));
    }
    match &write.action {
        Action::Put(value) => {
            let sql = "INSERT OR REPLACE INTO records (key, value) VALUES (?1, ?2)";
            let version = transaction.prepare_cached(sql)?.insert((key, &value[..]))?;
            Ok(Ok(Some(version.cast_unsigned())))
        }
        Action::Delete => {
            transaction.prepare_cached("DELETE FROM records WHERE key = ?1")?.execute([key])?;
            Ok(Ok(present))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::ffi;

    use super::super::super::Prefix;
    use super::*;

    #[test]
    fn a_value_that_is_too_large_is_refused_under_its_name() {
        let place = Place::new(Path::new("agent.db"));
        let writer = Writer::new(Connection::open_in_memory().unwrap(), place, Watchers::new());
        let said = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_TOOBIG), None);
        let error = writer.failure(&Prefix::root().key("x"), &Arc::new(said));
        assert_eq!(error.to_string(), "record `x` is too large to be stored");
    }
}
