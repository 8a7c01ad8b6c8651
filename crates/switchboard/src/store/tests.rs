//! What every store must do, run against each of them.

use std::sync::Arc;

use futures_util::StreamExt;

use super::*;

/// A store, with the folder that it needs.
type Tested = (Arc<dyn Store>, Option<tempfile::TempDir>);

/// Each store there is.
fn stores() -> Vec<Tested> {
    Vec::from([
        memory(),
        #[cfg(feature = "sqlite")]
        sqlite(),
    ])
}

fn memory() -> Tested {
    (Arc::new(MemoryStore::new()), None)
}

#[cfg(feature = "sqlite")]
fn sqlite() -> Tested {
    let folder = tempfile::tempdir().unwrap();
    (Arc::new(SqliteStore::open(folder.path().join("a.db")).unwrap()), Some(folder))
}

fn key(name: &str) -> Key {
    Prefix::root().join("a").key(name)
}

fn names(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

#[tokio::test]
async fn a_record_is_read_as_it_was_written() {
    for (store, _folder) in stores() {
        assert_eq!(store.get(&key("x")).await.unwrap(), None);
        for value in [&b"one"[..], b"", b"\0\xff"] {
            let version = store.put(&key("x"), Bytes::from_static(value), Expect::Any).await.unwrap();
            assert_eq!(store.get(&key("x")).await.unwrap(), Some(Entry::new(key("x"), version, value.into())));
        }
        assert!(store.delete(&key("x"), Expect::Any).await.unwrap());
        assert!(!store.delete(&key("x"), Expect::Any).await.unwrap());
        assert_eq!(store.get(&key("x")).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_write_that_expects_another_version_changes_nothing_and_is_told_the_present_one() {
    for (store, _folder) in stores() {
        let present = |error: StoreError| match error {
            StoreError::Conflict { key: conflicting, present } => {
                assert_eq!(conflicting, key("x"));
                present
            }
            other => panic!("{other:?}"),
        };
        let x = key("x");
        let put = |expect| store.put(&x, "v".into(), expect);
        assert_eq!(present(put(Expect::Version(1)).await.unwrap_err()), None);
        let first = put(Expect::Absent).await.unwrap();
        assert_eq!(present(put(Expect::Absent).await.unwrap_err()), Some(first));
        let second = put(Expect::Version(first)).await.unwrap();
        assert_eq!(present(put(Expect::Version(first)).await.unwrap_err()), Some(second));
        assert_eq!(present(store.delete(&key("x"), Expect::Version(first)).await.unwrap_err()), Some(second));
        assert_eq!(present(store.delete(&key("x"), Expect::Absent).await.unwrap_err()), Some(second));
        assert_eq!(store.get(&key("x")).await.unwrap().unwrap().version, second);
        assert!(store.delete(&key("x"), Expect::Version(second)).await.unwrap());
        assert_eq!(present(store.delete(&key("x"), Expect::Version(second)).await.unwrap_err()), None);
    }
}

#[tokio::test]
async fn a_record_made_anew_never_repeats_a_version() {
    for (store, _folder) in stores() {
        let first = store.put(&key("x"), "1".into(), Expect::Any).await.unwrap();
        store.delete(&key("x"), Expect::Any).await.unwrap();
        let second = store.put(&key("x"), "2".into(), Expect::Any).await.unwrap();
        assert!(second > first, "{second} after {first}");
    }
}

#[tokio::test]
async fn of_many_writers_that_expect_the_same_version_one_wins() {
    for (store, _folder) in stores() {
        let key = &key("x");
        let store = &store;
        let writes = (0..64).map(|n| async move { store.put(key, n.to_string().into(), Expect::Absent).await });
        let results = futures_util::future::join_all(writes).await;
        let versions: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).collect();
        assert_eq!(versions.len(), 1);
        assert!(results.iter().filter_map(|result| result.as_ref().err()).all(
            |error| matches!(error, StoreError::Conflict { present: Some(present), .. } if present == versions[0])
        ));
    }
}

#[tokio::test]
async fn a_conflict_costs_no_write_that_is_made_at_the_same_time() {
    for (store, _folder) in stores() {
        let store = &store;
        let writes = (0..64).map(|n| async move {
            let expect = if n % 2 == 0 { Expect::Absent } else { Expect::Version(u64::MAX) };
            store.put(&key(&n.to_string()), "v".into(), expect).await.is_ok()
        });
        let results = futures_util::future::join_all(writes).await;
        assert!(results.iter().enumerate().all(|(n, is_ok)| *is_ok == (n % 2 == 0)), "{results:?}");
        assert_eq!(store.list(&Prefix::root()).await.unwrap().len(), 32);
    }
}

#[tokio::test]
async fn a_list_holds_what_is_below_its_prefix_in_the_order_of_keys() {
    for (store, _folder) in stores() {
        let root = Prefix::root();
        let keys = [
            root.join("b").key("2"),
            root.join("a").key("x/y"),
            root.join("b").join("1").key("z"),
            root.join("b").key(""),
            root.key("b"),
            root.join("b0").key("1"),
            root.join("b-").key("1"),
            root.join("b").key("~é"),
            root.join("b").key("a"),
        ];
        for key in &keys {
            store.put(key, "v".into(), Expect::Any).await.unwrap();
        }
        let listed = store.list(&root.join("b")).await.unwrap();
        assert_eq!(names(&listed), ["b/%", "b/%7E%C3%A9", "b/1/z", "b/2", "b/a"]);
        assert_eq!(store.list(&root.join("nothing")).await.unwrap(), []);
        let all = store.list(&root).await.unwrap();
        assert_eq!(all.len(), keys.len());
        assert!(all.is_sorted_by_key(|entry| entry.key.clone()));
    }
}

#[tokio::test]
async fn a_watcher_hears_of_changes_below_its_prefix_in_their_order() {
    for (store, _folder) in stores() {
        let mut changes = store.watch(&Prefix::root().join("a"));
        let elsewhere = Prefix::root().join("b").key("x");
        let first = store.put(&key("x"), "1".into(), Expect::Any).await.unwrap();
        store.put(&elsewhere, "1".into(), Expect::Any).await.unwrap();
        store.put(&key("x"), "1".into(), Expect::Absent).await.unwrap_err();
        let second = store.put(&key("y"), "2".into(), Expect::Any).await.unwrap();
        store.delete(&key("x"), Expect::Any).await.unwrap();
        store.delete(&key("x"), Expect::Any).await.unwrap();
        drop(store);
        assert_eq!(changes.next().await, Some(Change::Written { key: key("x"), version: first }));
        assert_eq!(changes.next().await, Some(Change::Written { key: key("y"), version: second }));
        assert_eq!(changes.next().await, Some(Change::Deleted { key: key("x") }));
        assert_eq!(changes.next().await, None);
    }
}

#[tokio::test]
async fn a_watcher_that_falls_behind_is_told_so_and_goes_on() {
    for (store, _folder) in stores() {
        let mut changes = store.watch(&Prefix::root().join("a"));
        let elsewhere = Prefix::root().key("b");
        let (store, elsewhere) = (&store, &elsewhere);
        let writes = (0..WATCH_CAPACITY + 1).map(|_| store.put(elsewhere, "1".into(), Expect::Any));
        futures_util::future::try_join_all(writes).await.unwrap();
        let version = store.put(&key("x"), "1".into(), Expect::Any).await.unwrap();
        assert_eq!(changes.next().await, Some(Change::Missed(2)));
        assert_eq!(changes.next().await, Some(Change::Written { key: key("x"), version }));
    }
}

#[test]
fn what_is_stored_is_never_printed() {
    let entry = Entry::new(key("x"), 1, "token-1".into());
    assert_eq!(format!("{entry:?}"), "Entry(a/x, version 1, 7 bytes)");
}
