//! What is remembered of a server, written and read back.

use super::*;
use crate::store::record::{self, Flaw};
use crate::store::{Entry, Expect, MemoryStore};

const SPEC: &str = r#"{"name":"github","url":"https://h.example/mcp","headers":[["x-key","secret-1"]]}"#;

fn instance() -> Prefix {
    Prefix::root().join("agents").join("helper").join("a/b")
}

fn server(position: u64) -> ServerRecord {
    ServerRecord::new(position, serde_json::from_str(SPEC).unwrap())
}

async fn put(store: &MemoryStore, id: &str, text: &str) {
    let key = ServerRecord::place(&instance()).key(id);
    store.put(&key, text.to_owned().into(), Expect::Any).await.unwrap();
}

#[tokio::test]
async fn everything_known_of_a_server_is_read_as_it_was_written() {
    let store = MemoryStore::new();
    let at = Timestamp::from_millis(1_700_000_000_000);
    let error = crate::Error::new(crate::ErrorKind::ConnectFailed, "no route").because(std::io::Error::other("down"));
    let mut written = server(3);
    written.era = Some(EraVerdict { era: Era::Legacy, protocol_version: "2025-11-25".into(), at });
    written.discover_result = Some(r#"{ "big":12345678901234567890123 }"#.parse().unwrap());
    written.session = Some(SessionRecord { id: "s-1".to_owned().into(), protocol_version: "2025-11-25".into() });
    written.transport = Some(TransportKind::StreamableHttp);
    written.auth_url = Some("https://h.example/authorize?state=1".to_owned().into());
    written.last_error = Some(Failure::of(&error));
    written.cache_key = Some("k".into());
    let key = ServerRecord::place(&instance()).key("github");
    let version = record::write(&store, &key, &written, Expect::Absent).await.unwrap();
    let stored = record::read::<ServerRecord>(&store, &key).await.unwrap().unwrap();
    assert_eq!(stored.version, version);
    assert_eq!(stored.document.unwrap(), written);
}

#[tokio::test]
async fn a_catalogue_keeps_the_bytes_of_its_items() {
    let store = MemoryStore::new();
    let tool = r#"{ "name":"a", "weight":1.50, "x":12345678901234567890123, "name":"b" }"#;
    let mut written = CatalogueRecord::new("k", Timestamp::from_millis(0));
    written.tools = vec![tool.parse().unwrap(), "{}".parse().unwrap()];
    written.lists.prompts = crate::status::ListState::Partial;
    written.capabilities = Some("{ }".parse().unwrap());
    let key = CatalogueRecord::place(&instance()).key("github");
    record::write(&store, &key, &written, Expect::Any).await.unwrap();
    let read = record::read::<CatalogueRecord>(&store, &key).await.unwrap().unwrap().document.unwrap();
    assert_eq!(read.tools[0].as_str(), tool);
    assert_eq!(read, written);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_costs_only_its_own_server() {
    let store = MemoryStore::new();
    let good = |position| format!(r#"{{"v":1,"data":{{"position":{position},"spec":{SPEC}}}}}"#);
    put(&store, "later", &good(2)).await;
    put(&store, "cut", r#"{"v":1,"data":{"posi"#).await;
    put(&store, "newer", r#"{"v":9,"data":[]}"#).await;
    put(&store, "bad-url", r#"{"v":1,"data":{"position":1,"spec":{"name":"x","url":"ftp://h/"}}}"#).await;
    put(&store, "empty", "").await;
    put(&store, "sooner", &good(1)).await;
    let servers = read_servers(&store, &instance()).await.unwrap();
    let state: Vec<_> = servers.iter().map(|(id, stored)| (id.as_str(), stored.document.is_ok())).collect();
    let expected =
        [("sooner", true), ("later", true), ("bad-url", false), ("cut", false), ("empty", false), ("newer", false)];
    assert_eq!(state, expected);
    let flaw = |id: &str| {
        let (_, stored) = servers.iter().find(|(found, _)| found.as_str() == id).unwrap();
        &stored.document.as_ref().unwrap_err().flaw
    };
    assert!(matches!(flaw("newer"), Flaw::Newer { found: 9, known: 1 }));
    assert!(matches!(flaw("cut"), Flaw::Malformed(_)));
}

#[tokio::test]
async fn servers_of_equal_position_stay_in_the_order_of_their_ids() {
    let store = MemoryStore::new();
    for id in ["c", "a", "b"] {
        let key = ServerRecord::place(&instance()).key(id);
        record::write(&store, &key, &server(1), Expect::Any).await.unwrap();
    }
    let ids = read_servers(&store, &instance()).await.unwrap();
    assert_eq!(ids.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_server_in_this_process_is_refused_rather_than_lost() {
    let target = crate::spec::InProcessTarget::new(|| tokio::io::duplex(64).0);
    let written = ServerRecord::new(1, ServerSpec::in_process("x", target).unwrap());
    let store = MemoryStore::new();
    let key = ServerRecord::place(&instance()).key("x");
    assert!(record::write(&store, &key, &written, Expect::Any).await.is_err());
    assert_eq!(store.list(&Prefix::root()).await.unwrap(), []);
}

#[test]
fn why_a_record_cannot_be_read_never_quotes_what_it_holds() {
    let texts = [
        r#"{"v":1,"data":{"position":"secret-1","spec":{}}}"#,
        r#"{"v":1,"data":{"position":1,"spec":{"name":"x","url":"http://h/","secret-1":1}}}"#,
        r#"{"v":1,"data":{"position":1,"spec":{"name":"x","url":"http://h/","transport":"secret-1"}}}"#,
        r#"{"v":1,"data":"secret-1"}"#,
        r#"{"v":1,"data":{"position":1,"spec":"secret-1" x}}"#,
    ];
    for text in texts {
        let entry = Entry::new(ServerRecord::place(&instance()).key("x"), 1, text.into());
        let error = crate::Error::from(Stored::<ServerRecord>::read(&entry).document.unwrap_err());
        let told = format!("{error} {:?} {error:?}", error.causes());
        assert!(told.contains("column"), "{told}");
        assert!(!told.contains("secret-1"), "{told}");
    }
    let debug = format!("{:?}", server(1));
    assert!(!debug.contains("secret-1"), "{debug}");
}
