//! A store in one SQLite file, for one process or several.
//!
//! Two threads of the store's own do the blocking work. The *writer* takes all commands that wait, applies them in one
//! transaction and answers when the disk has it, so that many writers share one flush. The *reader* has a connection of
//! its own; the write-ahead log lets it read while the writer flushes.

mod failure;
mod open;
mod reader;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tokio::sync::{mpsc, oneshot, watch};

use self::failure::Place;
use self::open::Connections;
use self::reader::Read;
use self::writer::{Action, Write};
use super::watch::{Change, Watchers};
use super::{Entry, Expect, Key, Prefix, Result, Store, StoreError};

/// How many commands may wait for each of the two threads; who comes later waits for a place.
const QUEUE: usize = 256;

/// Keeps records in one SQLite file. Clones share it.
///
/// A write is acknowledged when the disk has it: it survives the end of the process and the loss of power. Several
/// processes may have the same file open; their expectations hold against each other, and each sees at once
/// what another wrote. [`Store::watch`] tells of this store's own changes only.
///
/// When the last clone is dropped, its threads finish what was begun and close the file by themselves.
/// [`SqliteStore::close`] waits for that.
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

struct Inner {
    place: Place,
    writes: mpsc::Sender<Order<Write>>,
    reads: mpsc::Sender<Order<Read>>,
    watchers: Watchers,
    /// Closed when both threads have ended.
    ended: watch::Receiver<()>,
}

/// What a thread is sent.
enum Order<Command> {
    Do(Command),
    /// Take no more commands, finish those that wait, and end.
    Close,
}

impl SqliteStore {
    /// Opens the store in the file `path`, which is made, for its owner alone, when it is not there. Its folder must be.
    ///
    /// An older layout is brought up to date. This blocks for as long as the disk needs, and up to five seconds
    /// while another program holds the file.
    ///
    /// # Errors
    /// When the file cannot be made, read or written, is no store, or was written by a newer version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = absolute(path.as_ref())?;
        let place = Place::new(&path);
        let connections = open::open(&path, &place)?;
        Self::start(connections, place)
    }

    fn start(connections: Connections, place: Place) -> Result<Self> {
        let (writes, waiting_writes) = mpsc::channel(QUEUE);
        let (reads, waiting_reads) = mpsc::channel(QUEUE);
        let (running, ended) = watch::channel(());
        let watchers = Watchers::new();
        let writer = writer::Writer::new(connections.writer, place.clone(), watchers.clone());
        let reader = reader::Reader::new(connections.reader, place.clone());
        spawn("store-writer", &place, running.clone(), move || writer.run(waiting_writes))?;
        spawn("store-reader", &place, running, move || reader.run(waiting_reads))?;
        Ok(Self(Arc::new(Inner { place, writes, reads, watchers, ended })))
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.place.path()
    }

    /// Finishes what was begun and closes the file, for all clones. What comes later fails with
    /// [`StoreError::Closed`].
    ///
    /// Cancel safety: a dropped future leaves open whether the store closes. It may be called again.
    pub async fn close(&self) {
        // Fails only when the thread has ended already.
        let _ = self.0.writes.send(Order::Close).await;
        let _ = self.0.reads.send(Order::Close).await;
        let mut ended = self.0.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    async fn write(&self, key: &Key, action: Action, expect: Expect) -> Result<Option<u64>> {
        let (reply, answer) = oneshot::channel();
        let write = Write { key: key.clone(), action, expect, reply };
        self.ask(&self.0.writes, write, answer).await
    }

    /// Sends a command to its thread and waits for the answer.
    async fn ask<Command, Answer>(
        &self,
        thread: &mpsc::Sender<Order<Command>>,
        command: Command,
        answer: oneshot::Receiver<Result<Answer>>,
    ) -> Result<Answer> {
        let closed = || StoreError::Closed { place: self.0.place.to_string() };
        thread.send(Order::Do(command)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.path()).finish()
    }
}

impl Store for SqliteStore {
    fn get<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entry>>> {
        Box::pin(async {
            let (reply, answer) = oneshot::channel();
            self.ask(&self.0.reads, Read::Get { key: key.clone(), reply }, answer).await
        })
    }

    fn put<'a>(&'a self, key: &'a Key, value: Bytes, expect: Expect) -> BoxFuture<'a, Result<u64>> {
        Box::pin(async move {
            // A put that succeeds always answers a version.
            let version = self.write(key, Action::Put(value), expect).await?;
            Ok(version.unwrap_or_default())
        })
    }

    fn delete<'a>(&'a self, key: &'a Key, expect: Expect) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { Ok(self.write(key, Action::Delete, expect).await?.is_some()) })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Entry>>> {
        Box::pin(async {
            let (reply, answer) = oneshot::channel();
            self.ask(&self.0.reads, Read::List { prefix: prefix.clone(), reply }, answer).await
        })
    }

    fn watch(&self, prefix: &Prefix) -> BoxStream<'static, Change> {
        self.0.watchers.watch(prefix)
    }
}

/// An absolute path stays the same file when the process changes its folder, and is never mistaken for one of
/// SQLite's special names.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|source| Place::new(path).io(source))
}

/// Starts a thread of the store; `running` is dropped when it has ended.
fn spawn(name: &str, place: &Place, running: watch::Sender<()>, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let work = move || {
        work();
        drop(running);
    };
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|source| place.io(source))?;
    Ok(())
}

/// The version in `column`; row ids are never negative here.
fn version(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(i64::cast_unsigned)
}

#[cfg(test)]
mod tests;
