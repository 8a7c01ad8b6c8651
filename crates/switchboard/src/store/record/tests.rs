//! Records of every version, and of none.

use super::*;
use crate::store::MemoryStore;

/// The third version of a document that was first a list, then had its only member under another name.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Third {
    items: Vec<Json>,
}

impl Document for Third {
    const VERSION: u32 = 3;

    fn upgrade(from: u32, data: Json) -> Result<Json, Box<dyn StdError + Send + Sync>> {
        match from {
            1 => Ok(format!(r#"{{"list":{data}}}"#).parse()?),
            2 => {
                let mut members: std::collections::BTreeMap<String, Json> = data.read()?;
                let list = members.remove("list").ok_or("no list")?;
                Ok(format!(r#"{{"items":{list}}}"#).parse()?)
            }
            _ => Err(format!("there is no version {from}").into()),
        }
    }
}

fn decoded(text: &str) -> Result<Third, Flaw> {
    decode(&Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_document_says_its_version() {
    let document = Third { items: vec!["{ }".parse().unwrap()] };
    assert_eq!(encode(&document).unwrap(), r#"{"v":3,"data":{"items":[{ }]}}"#);
}

#[test]
fn every_older_version_is_brought_up_to_date_step_by_step_and_keeps_its_bytes() {
    let document = Third { items: vec!["{ }".parse().unwrap(), "12345678901234567890123".parse().unwrap()] };
    let list = "[{ },12345678901234567890123]";
    assert_eq!(decoded(&format!(r#"{{"v":1,"data":{list}}}"#)).unwrap(), document);
    assert_eq!(decoded(&format!(r#"{{"v":2,"data":{{"list":{list}}}}}"#)).unwrap(), document);
    assert_eq!(decoded(&format!(r#"{{"v":3,"data":{{"items":{list}}}}}"#)).unwrap(), document);
}

#[test]
fn what_cannot_be_read_says_why() {
    assert!(matches!(decoded(r#"{"v":2,"data":{}}"#), Err(Flaw::Upgrade { from: 2, .. })));
    assert!(matches!(decoded(r#"{"v":0,"data":{}}"#), Err(Flaw::Upgrade { from: 0, .. })));
    assert!(matches!(decoded(r#"{"v":4,"data":{}}"#), Err(Flaw::Newer { found: 4, known: 3 })));
    for text in ["", "[]", "{}", r#"{"v":3}"#, r#"{"v":-1,"data":{}}"#, r#"{"v":3,"data":{}}"#, r#"{"v":3,"data":{}"#] {
        assert!(matches!(decoded(text), Err(Flaw::Malformed(_))), "{text}");
    }
}

#[tokio::test]
async fn a_list_holds_documents_of_every_version_and_those_that_cannot_be_read() {
    let store = MemoryStore::new();
    let place = Prefix::root().join("p");
    for (name, text) in [("a", r#"{"v":1,"data":[1]}"#), ("b", "?"), ("c", r#"{"v":3,"data":{"items":[1]}}"#)] {
        store.put(&place.key(name), text.into(), Expect::Any).await.unwrap();
    }
    let stored = read_all::<Third>(&store, &place).await.unwrap();
    assert_eq!(stored.iter().map(|stored| stored.document.is_ok()).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(stored[1].document.as_ref().unwrap_err().key, place.key("b"));
}
