//! What goes to a model of a tool's input schema: one self-contained, well-formed JSON Schema object.
//!
//! Servers send schemas of every draft and some of none. Providers refuse a whole request for one bad schema, so each is
//! read keyword by keyword and written anew ([`prepare`]): what is malformed is put right or left out with a warning,
//! what is merely unusual passes unchanged. A tool that cannot be repaired is left out, alone.

mod clean;
mod inline;
pub(crate) mod keyword;
mod merge;
mod resolve;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

pub(crate) use inline::{Endless, inline};
pub(crate) use merge::{both, conjunction};
pub(crate) use resolve::target_name;

use super::{Warning, WarningCode, Warnings};
use crate::wire::Json;
use clean::{Cleaner, TooLarge};

/// The largest schema that is read, in bytes.
pub const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// The deepest schema that is read, in schemas inside each other.
pub(crate) const MAX_DEPTH: usize = 32;

/// The most schemas that one schema may consist of.
pub(crate) const MAX_SUBSCHEMAS: usize = 10_000;

/// A tool's input schema, ready for a model: an object schema of draft 2020-12 whose references all resolve inside it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Prepared {
    /// The schema. `type` is `object`, `properties` is there, and each `$ref` is `#/$defs/NAME` of the root's `$defs`.
    pub schema: Map<String, Value>,
    /// What was repaired or left out.
    pub warnings: Vec<Warning>,
}

/// Makes of a tool's `inputSchema` what a model can be given.
///
/// # Errors
/// When no model could call the tool: the schema is no object schema, allows nothing, or is larger than the bounds.
pub fn prepare(input_schema: Option<&Json>) -> Result<Prepared, Warning> {
    let Some(json) = input_schema.filter(|json| !json.is_null()) else {
        let mut warnings = Warnings::default();
        warnings.push(WarningCode::SchemaRepaired, "", "the tool has no input schema; any object is offered");
        return Ok(Prepared { schema: finished(Map::new()), warnings: warnings.into_vec() });
    };
    let Clean { root, definitions, mut warnings } = clean(json, "input schema")?;
    let root = match root {
        Value::Object(root) => root,
        Value::Bool(true) => Map::new(),
        _ => return Err(bad("the input schema allows nothing")),
    };
    let root = object_schema(written_out(root, &definitions), &mut warnings)?;
    Ok(Prepared { schema: with_definitions(finished(root), definitions), warnings: warnings.into_vec() })
}

/// A schema of any kind, well-formed; its references are `#/$defs/NAME` of its definitions.
pub(crate) struct Clean {
    pub(crate) root: Value,
    pub(crate) definitions: Map<String, Value>,
    pub(crate) warnings: Warnings,
}

/// Reads a schema; `what` names it in warnings.
pub(crate) fn clean(json: &Json, what: &str) -> Result<Clean, Warning> {
    let too_large = |why: String| Warning::new(WarningCode::SchemaTooLarge, "", format!("the {what} {why}"));
    if json.as_bytes().len() > MAX_SCHEMA_BYTES {
        return Err(too_large(format!("has more than {} KiB", MAX_SCHEMA_BYTES / 1024)));
    }
    let source: Value = json.read().map_err(|error| too_large(format!("cannot be read: {error}")))?;
    if !source.is_object() && !source.is_boolean() {
        return Err(Warning::new(WarningCode::BadSchema, "", format!("the {what} is not a JSON Schema")));
    }
    let mut cleaner = Cleaner::new(&source);
    let (root, definitions) = cleaner.run().map_err(|TooLarge(why)| too_large(why.to_owned()))?;
    Ok(Clean { root, definitions, warnings: cleaner.warnings })
}

fn bad(message: &str) -> Warning {
    Warning::new(WarningCode::BadSchema, "", message)
}

/// A root that is a reference, with its target in its place: providers look for `type` and `properties` at the root.
fn written_out(mut root: Map<String, Value>, definitions: &Map<String, Value>) -> Map<String, Value> {
    let mut seen = HashSet::new();
    while let Some(Value::String(reference)) = root.remove("$ref") {
        let target = reference.strip_prefix("#/$defs/").and_then(|name| definitions.get(name));
        if let Some(Value::Object(target)) = target
            && seen.insert(reference)
        {
            root = both(root, target.clone());
        }
    }
    root
}

/// Arguments are always an object, so saying so changes nothing about which of them are valid.
fn object_schema(mut root: Map<String, Value>, warnings: &mut Warnings) -> Result<Map<String, Value>, Warning> {
    match root.get("type") {
        None => {
            warnings.push(WarningCode::SchemaRepaired, "", "the input schema names no type; `object` was added");
        }
        Some(Value::String(name)) if name == "object" => {}
        Some(Value::Array(names)) if names.iter().any(|name| name == "object") => {}
        Some(other) => return Err(bad(&format!("the input schema is for {other}, and arguments are an object"))),
    }
    root.insert("type".into(), "object".into());
    Ok(root)
}

/// `type` and `properties` are always there and come first, as people write them.
fn finished(mut root: Map<String, Value>) -> Map<String, Value> {
    let properties = root.shift_remove("properties").unwrap_or_else(|| json!({}));
    root.shift_insert(0, "type".into(), "object".into());
    root.shift_insert(1, "properties".into(), properties);
    root
}

/// The root with those definitions that it refers to, directly or over others.
fn with_definitions(mut root: Map<String, Value>, definitions: Map<String, Value>) -> Map<String, Value> {
    let mut needed: HashSet<String> = HashSet::new();
    let whole = Value::Object(root);
    let mut found = Vec::new();
    inline::references(&whole, &mut found);
    while let Some(name) = found.pop() {
        if needed.insert(name.to_owned())
            && let Some(definition) = definitions.get(name)
        {
            inline::references(definition, &mut found);
        }
    }
    root = match whole {
        Value::Object(root) => root,
        _ => Map::new(),
    };
    let kept: Map<String, Value> = definitions.into_iter().filter(|(name, _)| needed.contains(name)).collect();
    if !kept.is_empty() {
        root.insert("$defs".into(), kept.into());
    }
    root
}

#[cfg(test)]
pub(crate) mod tests;
