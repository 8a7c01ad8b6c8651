//! The file under load, under faults, and full.

use std::fs;
use std::time::Duration;

use futures_util::FutureExt;
use rusqlite::Connection;
use tempfile::TempDir;

use super::*;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    (folder, path)
}

fn key(name: &str) -> Key {
    Prefix::root().join("a").key(name)
}

/// A store whose writing connection was changed by `edit`.
fn edited(path: &Path, edit: impl FnOnce(&Connection)) -> SqliteStore {
    let place = Place::new(path);
    let connections = open::open(path, &place).unwrap();
    edit(&connections.writer);
    SqliteStore::start(connections, place).unwrap()
}

/// The files in a folder.
fn files(folder: &TempDir) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn put(store: &SqliteStore, name: &str) -> Result<u64> {
    store.put(&key(name), name.to_owned().into(), Expect::Any).await
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening_and_versions_go_on() {
    let (_folder, path) = folder();
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "kept").await.unwrap();
    let last = put(&store, "removed").await.unwrap();
    store.delete(&key("removed"), Expect::Any).await.unwrap();
    store.close().await;
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.get(&key("kept")).await.unwrap().unwrap().value, "kept");
    assert_eq!(store.get(&key("removed")).await.unwrap(), None);
    assert!(put(&store, "removed").await.unwrap() > last);
}

#[tokio::test]
async fn a_closed_store_leaves_one_whole_file_and_refuses_further_work() {
    let (folder, path) = folder();
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "x").await.unwrap();
    assert!(files(&folder).len() > 1, "no log beside the file");
    let clone = store.clone();
    store.close().await;
    assert_eq!(files(&folder), ["agent.db"]);
    assert!(matches!(put(&clone, "x").await, Err(StoreError::Closed { .. })));
    assert!(matches!(clone.get(&key("x")).await, Err(StoreError::Closed { .. })));
    clone.close().await;
}

#[tokio::test]
async fn dropping_the_last_handle_finishes_what_was_begun_and_closes_the_file() {
    let (folder, path) = folder();
    let store = SqliteStore::open(&path).unwrap();
    let mut ended = store.0.ended.clone();
    // Polled once, so that the write is on its way, and then no longer waited for.
    assert!(put(&store, "x").now_or_never().is_none());
    drop(store.clone());
    drop(store);
    while ended.changed().await.is_ok() {}
    assert_eq!(files(&folder), ["agent.db"]);
    assert!(SqliteStore::open(&path).unwrap().get(&key("x")).await.unwrap().is_some());
}

#[cfg(unix)]
#[tokio::test]
async fn the_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = folder();
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "x").await.unwrap();
    let files = files(&folder);
    assert_eq!(files, ["agent.db", "agent.db-shm", "agent.db-wal"]);
    for file in files {
        let mode = fs::metadata(folder.path().join(&file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_write_is_flushed_before_it_is_acknowledged() {
    let (_folder, path) = folder();
    let _store = edited(&path, |writer| {
        let number = |name| writer.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        // FULL: the log is flushed at every commit.
        assert_eq!(number("synchronous"), 2);
        let journal: String = writer.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(journal, "wal");
    });
}

#[tokio::test]
async fn two_stores_on_one_file_see_each_other_at_once_and_their_expectations_hold() {
    let (_folder, path) = folder();
    let (one, other) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let first = put(&one, "x").await.unwrap();
    assert_eq!(other.get(&key("x")).await.unwrap().unwrap().version, first);
    let second = other.put(&key("x"), "2".into(), Expect::Version(first)).await.unwrap();
    assert!(one.put(&key("x"), "3".into(), Expect::Version(first)).await.unwrap_err().is_conflict());
    assert_eq!(one.get(&key("x")).await.unwrap().unwrap().version, second);
}

#[tokio::test]
async fn a_file_that_another_program_holds_is_busy_for_writers_and_open_for_readers() {
    let (_folder, path) = folder();
    let store = edited(&path, |writer| writer.busy_timeout(Duration::ZERO).unwrap());
    put(&store, "x").await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM records").unwrap();
    let results = futures_util::join!(put(&store, "y"), put(&store, "z"));
    assert!(matches!(results, (Err(StoreError::Busy { .. }), Err(StoreError::Busy { .. }))), "{results:?}");
    assert!(store.get(&key("x")).await.unwrap().is_some());
    other.execute_batch("ROLLBACK").unwrap();
    put(&store, "y").await.unwrap();
}

#[tokio::test]
async fn a_full_disk_costs_the_write_that_has_no_room_and_nothing_else() {
    let (_folder, path) = folder();
    let store = edited(&path, |writer| {
        writer.pragma_update_and_check(None, "max_page_count", 20, |_| Ok(())).unwrap();
    });
    put(&store, "before").await.unwrap();
    let too_much = Bytes::from(vec![7; 100_000]);
    let large = key("large");
    let results = futures_util::join!(put(&store, "one"), store.put(&large, too_much, Expect::Any), put(&store, "two"));
    assert!(matches!(results, (Ok(_), Err(StoreError::Full { .. }), Ok(_))), "{results:?}");
    let error = crate::Error::from(results.1.unwrap_err());
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    store.close().await;
    let store = SqliteStore::open(&path).unwrap();
    let kept = store.list(&Prefix::root()).await.unwrap();
    assert_eq!(kept.iter().map(|entry| entry.key.name()).collect::<Vec<_>>(), ["before", "one", "two"]);
}

#[tokio::test]
async fn a_damaged_file_says_so() {
    let (_folder, path) = folder();
    let store = SqliteStore::open(&path).unwrap();
    for n in 0..200 {
        put(&store, &n.to_string()).await.unwrap();
    }
    store.close().await;
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let read = match SqliteStore::open(&path) {
        Ok(store) => store.list(&Prefix::root()).await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert!(matches!(&read, Err(StoreError::Corrupt { .. })), "{read:?}");
}

#[tokio::test]
async fn a_record_whose_name_is_no_key_is_left_alone() {
    let (_folder, path) = folder();
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "x").await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute("INSERT INTO records (key, value) VALUES ('a//b', x'00')", []).unwrap();
    let listed = store.list(&Prefix::root()).await.unwrap();
    assert_eq!(listed.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["a/x"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_write_to_a_file_that_was_deleted_or_replaced_is_refused() {
    let (_folder, path) = folder();
    let store = SqliteStore::open(&path).unwrap();
    put(&store, "before").await.unwrap();
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).unwrap();
    assert!(matches!(put(&store, "lost").await, Err(StoreError::Gone { .. })));
    fs::write(&path, "").unwrap();
    let error = store.delete(&key("before"), Expect::Any).await.unwrap_err();
    assert!(error.to_string().contains("moved or deleted"), "{error}");
    fs::rename(&aside, &path).unwrap();
    put(&store, "after").await.unwrap();
}
