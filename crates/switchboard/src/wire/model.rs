//! Typed views of what a server lists. Each keeps the item's own bytes, unknown members included.

use serde::{Serialize, Serializer};

use super::Json;

/// A tool, as the server listed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    json: Json,
    name: Box<str>,
}

impl Tool {
    /// The whole item, byte for byte.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The server's own name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}
impl Serialize for Tool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}
