//! Gemini's `parametersJsonSchema`: a small part of JSON Schema, references written out.
//!
//! The documented part has types, descriptions, enumerations of texts and numbers, bounds of numbers and lists, objects
//! and `anyOf`. The rest is translated where that is exact, and else moves into the description with a warning.

use serde_json::{Map, Value, json};

use super::union::{is_disjoint, type_of};
use super::{Endless, flatten, note, schema};
use crate::catalogue::schema::{conjunction, keyword};
use crate::catalogue::{WarningCode, Warnings};

type Object = Map<String, Value>;

/// How many parts of an `allOf` are merged.
const MAX_MERGES: usize = 64;

/// The parameters of a function; `None` for one without, as the provider asks.
pub(super) fn parameters(schema: Object, lost: &mut Warnings) -> Option<Object> {
    let inlined = schema::inline(schema, Endless::Cut, lost);
    let mut root = Value::Object(flatten::root(inlined, lost));
    simplify(&mut root, &mut String::new(), lost);
    let Value::Object(root) = root else { return None };
    let none = root.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty);
    let map_like = root.get("additionalProperties").is_some_and(Value::is_object);
    (!none || map_like).then_some(root)
}

fn simplify(value: &mut Value, path: &mut String, lost: &mut Warnings) {
    match value {
        Value::Object(map) => {
            merge_all(map, path, lost);
            exact(map);
            listed(map, path, lost);
            alternatives(map, path, lost);
            drop_rest(map, path, lost);
            complete(map);
            keyword::edit_children(map, path, &mut |child, path| match child {
                // Closed or open to further properties: the one place where a flag is taken.
                Value::Bool(_) if path.ends_with("/additionalProperties") => {}
                child => simplify(child, path, lost),
            });
        }
        other => {
            if *other == Value::Bool(false) {
                widened(path, "`false` as a schema", lost);
            }
            *other = json!({});
        }
    }
}

fn widened(path: &str, what: &str, lost: &mut Warnings) {
    lost.push(WarningCode::SchemaWidened, path, format!("this provider cannot express {what}"));
}

fn merge_all(map: &mut Object, path: &str, lost: &mut Warnings) {
    // Merging can bring up an inner `allOf`; each round takes one level of a schema whose depth is bounded.
    let mut left = MAX_MERGES;
    while let Some(Value::Array(all)) = map.shift_remove("allOf") {
        for part in all {
            left = left.saturating_sub(1);
            let merged = match &part {
                Value::Bool(true) => continue,
                _ if left == 0 => None,
                Value::Object(part) => conjunction(map, part),
                _ => None,
            };
            match merged {
                Some(merged) => *map = merged,
                None => widened(path, "a part of `allOf` that cannot be merged", lost),
            }
        }
    }
}

/// Keywords that can be said exactly with others.
fn exact(map: &mut Object) {
    let integer = map.get("type").is_some_and(|name| name == "integer");
    for (exclusive, inclusive, step) in [("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)] {
        let limit = map.get(exclusive).and_then(Value::as_i64).and_then(|limit| limit.checked_add(step));
        if let Some(limit) = limit.filter(|_| integer && !map.contains_key(inclusive)) {
            map.shift_remove(exclusive);
            map.insert(inclusive.into(), limit.into());
        }
    }
    let tuple = map.get("prefixItems").and_then(Value::as_array).map(Vec::len);
    if let (Some(length), Some(Value::Bool(false))) = (tuple, map.get("items")) {
        map.shift_remove("items");
        let most = map.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX).min(length as u64);
        map.insert("maxItems".into(), most.into());
    }
}

/// `enum` and `const`: lists of texts or of numbers are taken, `null` is a type, the rest is told.
fn listed(map: &mut Object, path: &str, lost: &mut Warnings) {
    let values = match (map.shift_remove("const"), map.shift_remove("enum")) {
        (Some(only), _) => vec![only],
        (None, Some(Value::Array(values))) => values,
        _ => return,
    };
    let (nulls, mut plain): (Vec<Value>, Vec<Value>) = values.into_iter().partition(Value::is_null);
    if plain.iter().any(|value| !value.is_string() && !value.is_number()) {
        let types: Vec<&str> = plain.iter().map(type_of).collect();
        if !map.contains_key("type") && types.iter().all(|name| *name == types[0]) && nulls.is_empty() {
            map.insert("type".into(), types[0].into());
        }
        let both = plain.contains(&Value::Bool(true)) && plain.contains(&Value::Bool(false)) && plain.len() == 2;
        if !both {
            widened(path, "listed values that are neither texts nor numbers", lost);
            note::value(map, "one of", &plain.into());
        }
        return;
    }
    let before = plain.len();
    plain.retain(|value| value != "");
    if plain.len() < before {
        lost.push(WarningCode::SchemaNarrowed, path, "this provider does not take an empty text among listed values");
    }
    if plain.is_empty() {
        if !nulls.is_empty() {
            map.insert("type".into(), "null".into());
        }
        return;
    }
    let nullable = !nulls.is_empty() && map.get("type").is_none_or(|types| allows(types, "null"));
    match (nullable, map.contains_key("anyOf")) {
        (true, true) => {
            widened(path, "listed values beside `anyOf`", lost);
            note::value(map, "one of", &plain.into());
        }
        (true, false) => {
            let listed = json!({"type": types_of(&plain), "enum": plain});
            map.shift_remove("type");
            map.insert("anyOf".into(), json!([listed, {"type": "null"}]));
        }
        (false, _) => {
            map.entry("type").or_insert_with(|| types_of(&plain));
            map.insert("enum".into(), plain.into());
        }
    }
}

fn allows(types: &Value, name: &str) -> bool {
    types == name || types.as_array().is_some_and(|types| types.iter().any(|known| known == name))
}

/// The types of listed texts and numbers.
fn types_of(values: &[Value]) -> Value {
    match (values.iter().any(Value::is_string), values.iter().any(Value::is_number)) {
        (true, false) => "string".into(),
        (false, _) => "number".into(),
        (true, true) => json!(["string", "number"]),
    }
}

fn alternatives(map: &mut Object, path: &str, lost: &mut Warnings) {
    let Some(branches) = map.shift_remove("oneOf") else { return };
    if map.contains_key("anyOf") {
        return widened(path, "`oneOf` beside `anyOf`", lost);
    }
    if !branches.as_array().is_some_and(|branches| is_disjoint(branches)) {
        widened(path, "`oneOf` other than as `anyOf`", lost);
    }
    map.insert("anyOf".into(), branches);
}

/// Leaves out what the provider does not know, and tells the model what can be told.
fn drop_rest(map: &mut Object, path: &str, lost: &mut Warnings) {
    const KNOWN: [&str; 15] = [
        "additionalProperties",
        "anyOf",
        "description",
        "enum",
        "items",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "prefixItems",
        "properties",
        "required",
        "title",
        "type",
        "format",
    ];
    const FORMATS: [&str; 7] = ["date", "date-time", "double", "float", "int32", "int64", "time"];
    let format = |value: &Value| value.as_str().is_some_and(|format| FORMATS.contains(&format));
    let rest: Vec<String> = map
        .iter()
        .filter(|(keyword, value)| !KNOWN.contains(&keyword.as_str()) || *keyword == "format" && !format(value))
        .map(|(keyword, _)| keyword.clone())
        .collect();
    for name in rest {
        let Some(value) = map.shift_remove(&name) else { continue };
        let told = matches!(name.as_str(), "format" | "default" | "example" | "examples") && !value.is_null();
        if !keyword::is_annotation(&name) {
            widened(path, &format!("`{name}`"), lost);
        }
        if told || !keyword::is_annotation(&name) && !value.is_object() && !value.is_array() {
            note::value(map, &name, &value);
        }
    }
}

/// What the provider wants to see said even where JSON Schema does not need it.
fn complete(map: &mut Object) {
    if map.get("type").is_some_and(|name| name == "array") && !map.contains_key("prefixItems") {
        map.entry("items").or_insert_with(|| json!({}));
    }
    let names: Vec<Value> = map.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    if names.is_empty() {
        return;
    }
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    for name in names.iter().filter_map(Value::as_str) {
        if let Value::Object(properties) = properties {
            properties.entry(name).or_insert_with(|| json!({}));
        }
    }
}
