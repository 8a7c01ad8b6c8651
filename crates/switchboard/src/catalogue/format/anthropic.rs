//! Anthropic's `input_schema`: an object schema without alternatives at the root and with plain property names.
//!
//! References are written out where they end, because not every service of the provider takes them.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Endless, flatten, schema};
use crate::catalogue::{Warning, WarningCode, Warnings};

/// The longest property name, in characters.
const MAX_NAME: usize = 64;

pub(super) fn input_schema(schema: Map<String, Value>, lost: &mut Warnings) -> Result<Map<String, Value>, Warning> {
    let inlined = schema::inline(schema, Endless::Keep, lost);
    let mut flat = flatten::root(inlined, lost);
    let required: HashSet<String> = match flat.get("required") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => HashSet::new(),
    };
    let mut impossible = None;
    if let Some(Value::Object(properties)) = flat.get_mut("properties") {
        properties.retain(|name, _| {
            let legal = is_legal(name);
            if !legal && required.contains(name) {
                impossible.get_or_insert_with(|| name.clone());
            } else if !legal {
                let message = "left out: this provider takes names of at most 64 letters, digits, `_`, `.` and `-`";
                let mut path = "/properties".to_owned();
                schema::keyword::push(&mut path, name);
                lost.push(WarningCode::SchemaNarrowed, &path, message);
            }
            legal
        });
    }
    match impossible {
        None => Ok(flat),
        Some(name) => {
            let mut path = "/properties".to_owned();
            schema::keyword::push(&mut path, &name);
            let message = "this provider does not take the name of a required property";
            Err(Warning::new(WarningCode::BadSchema, path, message))
        }
    }
}

fn is_legal(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}
