//! The one thread that reads. Its connection sees what is committed, by whomever, and never waits for a flush.

use rusqlite::{Connection, OptionalExtension, Row};
use tokio::sync::{mpsc, oneshot};

use super::super::{Entry, Key, Prefix, Result};
use super::failure::Place;
use super::{Order, version};

/// A question.
pub(super) enum Read {
    Get { key: Key, reply: oneshot::Sender<Result<Option<Entry>>> },
    List { prefix: Prefix, reply: oneshot::Sender<Result<Vec<Entry>>> },
}

pub(super) struct Reader {
    connection: Connection,
    place: Place,
}

impl Reader {
    pub(super) fn new(connection: Connection, place: Place) -> Self {
        Self { connection, place }
    }

    /// Works until the store is closed or dropped and nothing waits any more.
    pub(super) fn run(self, mut orders: mpsc::Receiver<Order<Read>>) {
        while let Some(order) = orders.blocking_recv() {
            match order {
                Order::Do(read) => self.answer(read),
                Order::Close => orders.close(),
            }
        }
    }

    /// Answers, unless nobody waits for it any more.
    fn answer(&self, read: Read) {
        match read {
            Read::Get { key, reply } if !reply.is_closed() => {
                let _ = reply.send(self.get(key).map_err(|error| self.place.sqlite(error)));
            }
            Read::List { prefix, reply } if !reply.is_closed() => {
                let _ = reply.send(self.list(&prefix).map_err(|error| self.place.sqlite(error)));
            }
            _ => {}
        }
    }

    fn get(&self, key: Key) -> rusqlite::Result<Option<Entry>> {
        let mut statement = self.connection.prepare_cached("SELECT version, value FROM records WHERE key = ?1")?;
        let found = statement.query_row([key.as_str()], |row| Ok((version(row, 0)?, row.get::<_, Vec<u8>>(1)?)));
        Ok(found.optional()?.map(|(version, value)| Entry::new(key, version, value.into())))
    }

    fn list(&self, prefix: &Prefix) -> rusqlite::Result<Vec<Entry>> {
        let sql = "SELECT key, version, value FROM records WHERE key >= ?1 AND key < ?2 ORDER BY key";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([prefix.as_str(), &end(prefix)], entry)?;
        rows.filter_map(Result::transpose).collect()
    }
}

/// The row as a record; nothing for a row that another program put there under a name that is no key.
fn entry(row: &Row<'_>) -> rusqlite::Result<Option<Entry>> {
    let text: String = row.get(0)?;
    match text.parse::<Key>() {
        Ok(key) => Ok(Some(Entry::new(key, version(row, 1)?, row.get::<_, Vec<u8>>(2)?.into()))),
        Err(_) => {
            tracing::warn!(key = text, "the store holds a record whose name is no key, it is left alone");
            Ok(None)
        }
    }
}

/// The first text after all keys below `prefix`.
fn end(prefix: &Prefix) -> String {
    match prefix.as_str().strip_suffix('/') {
        // `0` follows `/`.
        Some(place) => format!("{place}0"),
        // Keys are ASCII.
        None => "\u{7f}".to_owned(),
    }
}
