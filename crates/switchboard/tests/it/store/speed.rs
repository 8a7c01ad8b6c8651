//! How many writes the store acknowledges in a second. Measures, holds nothing: run by name.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use switchboard::store::{Expect, Prefix, SqliteStore, Store};

#[tokio::test]
#[ignore = "a measurement"]
async fn writes_per_second() {
    for writers in [1_u64, 64] {
        let folder = tempfile::tempdir().unwrap();
        let store = &SqliteStore::open(folder.path().join("agent.db")).unwrap();
        let start = Instant::now();
        let counts = join_all((0..writers).map(|writer| async move {
            let key = Prefix::root().join("speed").key(&writer.to_string());
            let mut count = 0_u64;
            while start.elapsed() < Duration::from_secs(2) {
                store.put(&key, Bytes::from_static(&[b'x'; 1000]), Expect::Any).await.unwrap();
                count += 1;
            }
            count
        }))
        .await;
        let seconds = start.elapsed().as_secs_f64();
        println!("{writers} writers: {:.0} writes/s", counts.iter().sum::<u64>() as f64 / seconds);
    }
}
