//! Kills a writer at random points and looks whether everything that it was promised is there.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use futures_util::future::join_all;
use switchboard::store::{Expect, Prefix, SqliteStore, Store};

use super::child::{Program, folder_of_this_child};

const KILLS: u64 = 200;
const ROUNDS_PER_FILE: u64 = 20;
const WRITERS: u64 = 4;
const KEYS: u64 = 12;
/// Set to repeat a run that failed.
const SEED: &str = "SWITCHBOARD_TEST_SEED";
const ROUND: &str = "SWITCHBOARD_TEST_ROUND";

#[expect(clippy::disallowed_methods, reason = "a failed run is repeated by naming its seed")]
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// What may be stored, by key: the number that was written, or nothing. The last acknowledged state alone, or also those
/// that were begun when the writer was killed.
#[derive(Default)]
struct Model(HashMap<String, Vec<Option<u64>>>);

impl Model {
    /// Takes in a line of the writer: `begin KEY NUMBER` or `done KEY NUMBER`, without a number for a removal.
    fn learn(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (Some(verb @ ("begin" | "done")), Some(key)) = (words.next(), words.next()) else { return };
        let state = words.next().map(|number| number.parse().unwrap());
        let states = self.0.entry(key.to_owned()).or_insert_with(|| vec![None]);
        if verb == "done" {
            states.clear();
        }
        states.push(state);
    }

    /// Compares with what is stored, which from now on is the truth.
    fn check(&mut self, stored: &BTreeMap<String, u64>, context: &str) {
        for (key, states) in &mut self.0 {
            let found = stored.get(key).copied();
            assert!(states.contains(&found), "{context}: `{key}` is {found:?} instead of one of {states:?}");
            *states = vec![found];
        }
        let unknown: Vec<_> = stored.keys().filter(|key| !self.0.contains_key(*key)).collect();
        assert!(unknown.is_empty(), "{context}: {unknown:?} were never written");
    }
}

#[tokio::test]
async fn every_acknowledged_write_survives_two_hundred_kills() {
    let seed = given(SEED).unwrap_or_else(|| fastrand::u64(..));
    let mut random = Rng::with_seed(seed);
    let mut folder = tempfile::tempdir().unwrap();
    let mut model = Model::default();
    let mut acknowledged = 0;
    for round in 0..KILLS {
        if round.is_multiple_of(ROUNDS_PER_FILE) {
            // The making of a new file is interrupted as well.
            folder = tempfile::tempdir().unwrap();
            model = Model::default();
        }
        let context = format!("{SEED}={seed}, kill {round}");
        for line in killed_writer(folder.path(), seed, round, &mut random) {
            acknowledged += usize::from(line.starts_with("done"));
            model.learn(&line);
        }
        let is_last = (round + 1).is_multiple_of(ROUNDS_PER_FILE);
        // Now and then the next writer finds the log as the killed one left it.
        if random.u8(..4) > 0 || is_last {
            model.check(&stored(folder.path(), &context).await, &context);
        }
        if is_last {
            assert_whole(folder.path(), &context);
        }
    }
    println!("{acknowledged} acknowledged writes");
    assert!(acknowledged > 1000, "{SEED}={seed}: only {acknowledged} writes");
}

/// Starts a writer, kills it at a random moment, answers what it printed.
fn killed_writer(folder: &Path, seed: u64, round: u64, random: &mut Rng) -> Vec<String> {
    let mut program = Program::of("store::crash::child_writes", folder);
    program.command().env(SEED, seed.to_string()).env(ROUND, round.to_string());
    let mut child = program.start();
    let mut lines = Vec::new();
    // One in five dies while it starts, the others somewhere in their work.
    let (acknowledgements, pause) = if round.is_multiple_of(ROUNDS_PER_FILE) || random.u8(..5) == 0 {
        (0, random.u64(..15_000))
    } else {
        (random.u64(1..60), random.u64(..1_500))
    };
    let mut seen = 0;
    while seen < acknowledgements {
        let line = child.line().unwrap_or_else(|| panic!("the writer ended by itself: {lines:?}"));
        seen += u64::from(line.starts_with("done"));
        lines.push(line);
    }
    let moment = Instant::now() + Duration::from_micros(pause);
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
    lines.extend(child.kill());
    lines
}

/// What a newly opened store holds. A value is its number over and over, so that half a value is noticed.
async fn stored(folder: &Path, context: &str) -> BTreeMap<String, u64> {
    let store = SqliteStore::open(folder.join("agent.db")).unwrap();
    let entries = store.list(&Prefix::root()).await.unwrap();
    store.close().await;
    let whole = |value: &Bytes| {
        let numbers: Vec<u64> = value.chunks(8).map(|part| u64::from_le_bytes(part.try_into().unwrap())).collect();
        assert!(numbers.iter().all(|number| *number == numbers[0]), "{context}: a value is not whole");
        numbers[0]
    };
    entries.iter().map(|entry| (entry.key.name(), whole(&entry.value))).collect()
}

fn assert_whole(folder: &Path, context: &str) {
    let connection = rusqlite::Connection::open(folder.join("agent.db")).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok", "{context}");
}

/// Writes and removes until it is killed, and says so before and after.
#[tokio::test]
#[ignore = "a child of the test above"]
async fn child_writes() {
    let (Some(folder), Some(seed), Some(round)) = (folder_of_this_child(), given(SEED), given(ROUND)) else { return };
    // libtest leaves its own line open.
    println!();
    let store = &SqliteStore::open(folder.join("agent.db")).unwrap();
    let first = round << 32;
    join_all((0..WRITERS).map(|writer| async move {
        let mut random = Rng::with_seed(seed ^ first ^ writer);
        for number in first.. {
            let name = format!("{writer}-{}", random.u64(..KEYS));
            let key = Prefix::root().join("crash").key(&name);
            if random.u8(..6) == 0 {
                println!("begin {name}");
                store.delete(&key, Expect::Any).await.unwrap();
                println!("done {name}");
            } else {
                let size = if random.u8(..20) == 0 { 4000 } else { random.usize(1..200) };
                let value = Bytes::from(number.to_le_bytes().repeat(size));
                println!("begin {name} {number}");
                store.put(&key, value, Expect::Any).await.unwrap();
                println!("done {name} {number}");
            }
        }
    }))
    .await;
}
