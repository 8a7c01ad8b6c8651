//! Files that are older, newer, foreign, damaged or locked.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;

const ONE: &str = "CREATE TABLE one (a INTEGER)";
const TWO: &str = "CREATE TABLE two (b INTEGER); INSERT INTO two SELECT a FROM one";

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.db");
    (folder, path)
}

/// The file at `path` after `steps`.
fn prepared(path: &Path, steps: &[&str]) -> Result<Connection> {
    create(path).unwrap();
    let mut connection = connect(path).unwrap();
    prepare(&mut connection, &Place::new(path), steps).map(|()| connection)
}

fn number(connection: &Connection, query: &str) -> i64 {
    connection.query_row(query, [], |row| row.get(0)).unwrap()
}

#[test]
fn an_older_file_is_brought_up_to_date_and_keeps_what_it_holds() {
    let (_folder, path) = folder();
    prepared(&path, &[ONE]).unwrap().execute("INSERT INTO one VALUES (7)", []).unwrap();
    let connection = prepared(&path, &[ONE, TWO]).unwrap();
    assert_eq!(number(&connection, "SELECT b FROM two"), 7);
    assert_eq!(number(&connection, "PRAGMA user_version"), 2);
    let again = prepared(&path, &[ONE, TWO]).unwrap();
    assert_eq!(number(&again, "SELECT count(*) FROM two"), 1);
}

#[test]
fn a_step_that_fails_leaves_the_file_as_it_was() {
    let (_folder, path) = folder();
    drop(prepared(&path, &[ONE]).unwrap());
    prepared(&path, &[ONE, TWO, "CREATE TABLE broken ("]).unwrap_err();
    let connection = prepared(&path, &[ONE]).unwrap();
    assert_eq!(number(&connection, "PRAGMA user_version"), 1);
    assert_eq!(number(&connection, "SELECT count(*) FROM sqlite_schema"), 1);
}

#[test]
fn a_file_of_a_newer_version_is_refused_untouched() {
    let (_folder, path) = folder();
    drop(prepared(&path, &[ONE, TWO]).unwrap());
    let before = fs::read(&path).unwrap();
    let error = prepared(&path, &[ONE]).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("newer version"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_database_of_another_program_is_refused_untouched() {
    for sql in ["CREATE TABLE theirs (a)", "PRAGMA user_version = 1", "PRAGMA application_id = 7"] {
        let (_folder, path) = folder();
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(&path).unwrap();
        let error = prepared(&path, STEPS).unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { .. }), "{sql}: {error:?}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_untouched() {
    let (_folder, path) = folder();
    let text = "name = \"not a database\"\n".repeat(100);
    fs::write(&path, &text).unwrap();
    let Err(error) = open(&path, &Place::new(&path)) else { panic!("opened") };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_file_that_was_made_but_never_filled_is_a_new_store() {
    let (_folder, path) = folder();
    fs::write(&path, "").unwrap();
    let connections = open(&path, &Place::new(&path)).unwrap();
    assert_eq!(number(&connections.reader, "SELECT count(*) FROM records"), 0);
}

#[test]
fn a_missing_folder_is_named_and_not_made() {
    let (folder, _) = folder();
    let path = folder.path().join("nowhere").join("agent.db");
    let Err(error) = open(&path, &Place::new(&path)) else { panic!("opened") };
    assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
    assert!(error.to_string().contains("nowhere/agent.db"), "{error}");
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn a_folder_in_place_of_the_file_is_an_error() {
    let (folder, _) = folder();
    let Err(error) = open(folder.path(), &Place::new(folder.path())) else { panic!("opened") };
    assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
}

#[test]
fn many_may_open_a_new_file_at_the_same_time() {
    for _ in 0..10 {
        let (_folder, path) = folder();
        std::thread::scope(|scope| {
            let opened: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&path, &Place::new(&path)).map(|_| ()))).collect();
            for result in opened {
                result.join().unwrap().unwrap();
            }
        });
    }
}
