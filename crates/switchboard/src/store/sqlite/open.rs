//! Opens the file: makes it, refuses what is not ours, brings an older layout up to date.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::super::{Result, StoreError};
use super::failure::Place;

/// How long to wait for another program that holds the file.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Marks a SQLite file as a store of ours: `SWBD`.
const APPLICATION_ID: i64 = 0x5357_4244;

/// The layouts of the file, each as the step from the one before. A step, once released, never changes.
///
/// Versions come from the row id, which `AUTOINCREMENT` never gives twice, so they grow over all keys and also when a
/// record was deleted in between.
const STEPS: &[&str] = &["CREATE TABLE records (
        version INTEGER PRIMARY KEY AUTOINCREMENT,
        key     TEXT NOT NULL UNIQUE,
        value   BLOB NOT NULL
    ) STRICT"];

/// One connection for each thread.
pub(super) struct Connections {
    pub(super) writer: Connection,
    pub(super) reader: Connection,
}

pub(super) fn open(path: &Path, place: &Place) -> Result<Connections> {
    // Closing any handle of a file drops all locks that this process has on it, so the handle that makes the file must
    // be closed before anyone here opens it again.
    static OPENING: Mutex<()> = Mutex::new(());
    let _opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    create(path).map_err(|error| place.io(error))?;
    let mut writer = connect(path).map_err(|error| place.sqlite(error))?;
    prepare(&mut writer, place, STEPS)?;
    let reader = connect(path).and_then(|reader| {
        reader.pragma_update(None, "query_only", true)?;
        Ok(reader)
    });
    Ok(Connections { writer, reader: reader.map_err(|error| place.sqlite(error))? })
}

/// Makes the file, readable by its owner alone. SQLite gives the files beside it the same permissions.
fn create(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Checks whose file this is before anything in it is changed, then brings it to the layout after all `steps`.
fn prepare(connection: &mut Connection, place: &Place, steps: &[&str]) -> Result<()> {
    layout(connection, place, steps.len())?;
    if connection.is_readonly("main").map_err(|error| place.sqlite(error))? {
        return Err(place.io(io::ErrorKind::PermissionDenied.into()));
    }
    set_up(connection).map_err(|error| place.sqlite(error))?;
    migrate(connection, place, steps)
}

/// The version of the layout that the file has: how many of the steps were made.
fn layout(connection: &Connection, place: &Place, known: usize) -> Result<usize> {
    let number = |query: &str| -> Result<i64> {
        connection.query_row(query, [], |row| row.get(0)).map_err(|error| place.sqlite(error))
    };
    let found = number("PRAGMA user_version")?;
    let owner = number("PRAGMA application_id")?;
    let is_new = owner == 0 && found == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0;
    if owner != APPLICATION_ID && !is_new {
        let reason = "it is a database of another program".to_owned();
        return Err(StoreError::Corrupt { place: place.to_string(), reason, source: None });
    }
    match usize::try_from(found) {
        Ok(found) if found <= known => Ok(found),
        _ => {
            let (found, known) = (found.unsigned_abs(), u64::try_from(known).unwrap_or(u64::MAX));
            Err(StoreError::Newer { place: place.to_string(), found, known })
        }
    }
}

fn set_up(connection: &Connection) -> rusqlite::Result<()> {
    let journal = use_write_ahead_log(connection)?;
    if journal != "wal" {
        // Happens on file systems without shared memory. Nothing is lost, but readers wait for writers.
        tracing::warn!(journal, "the store has no write-ahead log, it will be slow");
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Without these, a flush on macOS ends in the disk's own memory.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // A log that once grew large gives its space back. The answer is the limit.
    connection.pragma_update_and_check(None, "journal_size_limit", 16 << 20, |_| Ok(()))
}

/// Switches the journal. SQLite does not wait here for another process that does the same, so we do.
fn use_write_ahead_log(connection: &Connection) -> rusqlite::Result<String> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)) {
            Err(error) if is_busy(&error) && Instant::now() < deadline => pause(),
            result => return result,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "opening blocks its thread and belongs to no runtime")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked))
}

/// Makes the missing steps, all or none.
fn migrate(connection: &mut Connection, place: &Place, steps: &[&str]) -> Result<()> {
    if layout(connection, place, steps.len())? == steps.len() {
        return Ok(());
    }
    let failed = |error| place.sqlite(error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Asked again, for another process may have been faster.
    let done = layout(&transaction, place, steps.len())?;
    for step in &steps[done..] {
        transaction.execute_batch(step).map_err(failed)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
    transaction.pragma_update(None, "user_version", i64::try_from(steps.len()).unwrap_or(i64::MAX)).map_err(failed)?;
    transaction.commit().map_err(failed)
}

#[cfg(test)]
mod tests;
