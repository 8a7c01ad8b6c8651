//! What is remembered of the tools that were approved, apart from everything else: it changes when a person says so, and
//! a status that is written never touches it.

use serde::{Deserialize, Serialize};

use super::Document;
use crate::store::Prefix;
use crate::time::Timestamp;
use crate::wire::Json;

/// The approved tools of one server, byte for byte as they came. Stored under its server id in
/// [`ApprovalRecord::place`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ApprovalRecord {
    /// When something was approved last.
    pub at: Timestamp,
    /// The definitions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Json>,
}

impl ApprovalRecord {
    /// These definitions, approved at that moment.
    #[must_use]
    pub fn new(at: Timestamp, tools: Vec<Json>) -> Self {
        Self { at, tools }
    }

    /// Where the approvals of the instance at `instance` are stored.
    #[must_use]
    pub fn place(instance: &Prefix) -> Prefix {
        instance.join("approvals")
    }
}

impl Document for ApprovalRecord {
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::record;
    use crate::store::{Expect, MemoryStore};

    #[tokio::test]
    async fn approved_definitions_keep_their_bytes() {
        let store = MemoryStore::new();
        let tool = r#"{ "name":"a", "weight":1.50, "x":12345678901234567890123 }"#;
        let written = ApprovalRecord::new(Timestamp::from_millis(1_700_000_000_000), vec![tool.parse().unwrap()]);
        let key = ApprovalRecord::place(&Prefix::root()).key("github");
        record::write(&store, &key, &written, Expect::Absent).await.unwrap();
        let read = record::read::<ApprovalRecord>(&store, &key).await.unwrap().unwrap().document.unwrap();
        assert_eq!((read.tools[0].as_str(), &read), (tool, &written));
    }
}
