//! What a schema can no longer say in keywords, said to the model in the description.

use serde_json::{Map, Value};

/// The longest value that is written into a description, in bytes.
const MAX_VALUE: usize = 200;

/// The longest description that still grows, in bytes.
const MAX_DESCRIPTION: usize = 2_000;

/// Adds `what: value` to the schema's description, when the value is short enough to help.
pub(super) fn value(schema: &mut Map<String, Value>, what: &str, value: &Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.len() <= MAX_VALUE {
        sentence(schema, &format!("({what}: {text})"));
    }
}

/// Adds a sentence to the schema's description.
pub(super) fn sentence(schema: &mut Map<String, Value>, text: &str) {
    let before = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    if before.len() > MAX_DESCRIPTION {
        return;
    }
    let after = if before.is_empty() { text.to_owned() } else { format!("{before} {text}") };
    schema.insert("description".into(), after.into());
}
