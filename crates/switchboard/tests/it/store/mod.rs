//! The SQLite store as other processes meet it: shared, killed, without permission, without room.
#![cfg(all(feature = "sqlite", unix))]

mod child;
mod crash;
mod speed;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use bytes::Bytes;
use switchboard::store::{Expect, Key, Prefix, SqliteStore, Store, StoreError};

use self::child::{Child, Program, folder_of_this_child};

fn key(name: &str) -> Key {
    Prefix::root().join("it").key(name)
}

fn number(value: &Bytes) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

#[tokio::test]
async fn processes_that_share_a_file_never_overwrite_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<Child> = (0..3).map(|_| Program::of("store::child_counts", folder.path()).start()).collect();
    for child in children {
        assert!(child.finish().iter().any(|line| line == "counted"));
    }
    let store = SqliteStore::open(folder.path().join("agent.db")).unwrap();
    assert_eq!(number(&store.get(&key("count")).await.unwrap().unwrap().value), 3 * COUNTS);
}

/// How far each child of the test above counts.
const COUNTS: u64 = 50;

#[tokio::test]
#[ignore = "a child of the test above"]
async fn child_counts() {
    let Some(folder) = folder_of_this_child() else { return };
    let store = SqliteStore::open(folder.join("agent.db")).unwrap();
    let mut done = 0;
    while done < COUNTS {
        let found = store.get(&key("count")).await.unwrap();
        let expect = found.as_ref().map_or(Expect::Absent, |entry| Expect::Version(entry.version));
        let next = found.map_or(0, |entry| number(&entry.value)) + 1;
        match store.put(&key("count"), next.to_string().into(), expect).await {
            Ok(_) => done += 1,
            Err(error) => assert!(error.is_conflict(), "{error}"),
        }
    }
    println!("\ncounted");
}

#[tokio::test]
async fn a_limit_of_the_disk_fails_writes_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // 512 KiB or 1 MiB, by the shell's unit. The signal would end the child, so it is ignored.
    let script = "trap '' XFSZ; ulimit -f 1024";
    let lines = Program::after(script, "store::child_fills", folder.path()).start().finish();
    let kept: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("kept ")).collect();
    assert!(!kept.is_empty() && lines.iter().any(|line| line == "refused"), "{lines:?}");
    let store = SqliteStore::open(folder.path().join("agent.db")).unwrap();
    for name in kept {
        assert!(store.get(&key(name)).await.unwrap().is_some(), "{name}");
    }
    store.put(&key("after"), Bytes::new(), Expect::Absent).await.unwrap();
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn child_fills() {
    let Some(folder) = folder_of_this_child() else { return };
    let store = SqliteStore::open(folder.join("agent.db")).unwrap();
    for n in 0..1000 {
        match store.put(&key(&n.to_string()), vec![7; 10_000].into(), Expect::Absent).await {
            Ok(_) => println!("\nkept {n}"),
            Err(StoreError::Io { .. } | StoreError::Full { .. }) => {
                assert_eq!(store.list(&Prefix::root()).await.unwrap().len(), n);
                println!("\nrefused");
                return;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// What a child without privileges says when it opens the store in `folder`.
fn opened_without_privileges(folder: &Path) -> Vec<String> {
    let mut program = Program::of("store::child_opens", folder);
    if rustix::process::geteuid().is_root() {
        // Permissions do not bind the superuser, so the child is nobody.
        program.command().uid(65534).gid(65534);
    }
    program.start().finish()
}

/// Puts a store with these permissions into `folder`.
async fn fill(folder: &Path, mode: u32) {
    let path = folder.join("agent.db");
    let store = SqliteStore::open(&path).unwrap();
    store.put(&key("x"), Bytes::new(), Expect::Any).await.unwrap();
    store.close().await;
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_place_that_may_not_be_written_is_named_with_what_to_do() {
    let [empty, filled, protected] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    fill(filled.path(), 0o666).await;
    fill(protected.path(), 0o444).await;
    for (folder, mode) in [(empty, 0o555), (filled, 0o555), (protected, 0o777)] {
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
        let said = opened_without_privileges(folder.path());
        let named = format!("read-only: `{}` cannot be written", folder.path().join("agent.db").display());
        assert!(said.contains(&named), "{said:?}");
    }
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn child_opens() {
    let Some(folder) = folder_of_this_child() else { return };
    match SqliteStore::open(folder.join("agent.db")) {
        Ok(_) => println!("\nopened"),
        Err(error @ StoreError::ReadOnly { .. }) => println!("\nread-only: {error}"),
        Err(error) => println!("\nother: {error:?}"),
    }
}
