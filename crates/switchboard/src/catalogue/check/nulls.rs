//! Leaves out optional properties that are `null` where the schema does not allow it.

use std::cell::Cell;

use serde_json::{Map, Value};

use crate::catalogue::schema::target_name;

/// How many references and alternatives are followed before a `null` counts as allowed.
const MAX_STEPS: usize = 16;

/// How many comparisons of values with alternatives are made in all.
const MAX_COMPARISONS: usize = 20_000;

/// Leaves them out of `value`, and says whether there were any.
pub(super) fn drop_refused(schema: &Value, value: &mut Value) -> bool {
    let none = Map::new();
    let definitions = schema.get("$defs").and_then(Value::as_object).unwrap_or(&none);
    Nulls { definitions, left: Cell::new(MAX_COMPARISONS) }.drop_in(schema, value, 0)
}

struct Nulls<'a> {
    definitions: &'a Map<String, Value>,
    left: Cell<usize>,
}

impl<'a> Nulls<'a> {
    /// The schema, with a reference followed to its end.
    fn resolved(&self, mut schema: &'a Value) -> Option<&'a Value> {
        for _ in 0..MAX_STEPS {
            match target_name(schema) {
                None => return Some(schema),
                Some(name) => schema = self.definitions.get(name)?,
            }
        }
        None
    }

    fn drop_in(&self, schema: &'a Value, value: &mut Value, depth: usize) -> bool {
        if depth > MAX_STEPS * 4 {
            return false;
        }
        let Some(Value::Object(schema)) = self.resolved(schema) else { return false };
        let mut dropped = false;
        for branch in self.branches(schema, value) {
            dropped |= self.drop_in(branch, value, depth + 1);
        }
        match value {
            Value::Object(members) => {
                let before = members.len();
                members.retain(|name, member| {
                    !member.is_null()
                        || is_required(schema, name)
                        || property(schema, name).is_none_or(|property| self.allows_null(property, 0))
                });
                dropped |= members.len() < before;
                for (name, member) in members.iter_mut() {
                    if let Some(inner) = property(schema, name).or(schema.get("additionalProperties")) {
                        dropped |= self.drop_in(inner, member, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                let first = schema.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(inner) = first.get(index).or(schema.get("items")) {
                        dropped |= self.drop_in(inner, item, depth + 1);
                    }
                }
            }
            _ => {}
        }
        dropped
    }

    /// The branches that this value is meant for: all of `allOf`, and the first of other alternatives that it may fit.
    fn branches(&self, schema: &'a Map<String, Value>, value: &Value) -> Vec<&'a Value> {
        let mut branches: Vec<&Value> = list(schema, "allOf").iter().collect();
        for keyword in ["anyOf", "oneOf"] {
            branches.extend(list(schema, keyword).iter().find(|branch| self.may_fit(branch, value, 0)));
        }
        branches
    }

    /// Whether a value fits once its refused nulls are gone, going by types, listed values and the names of properties.
    fn may_fit(&self, schema: &'a Value, value: &Value, depth: usize) -> bool {
        let left = self.left.get();
        if left == 0 || depth > MAX_STEPS * 4 {
            return false;
        }
        self.left.set(left - 1);
        let Some(schema) = self.resolved(schema) else { return false };
        let Value::Object(map) = schema else { return schema != &Value::Bool(false) };
        let inner = |schema: &'a Value, value: &Value| self.may_fit(schema, value, depth + 1);
        allows_type(map, value)
            && map.get("const").is_none_or(|only| only == value)
            && map.get("enum").and_then(Value::as_array).is_none_or(|values| values.contains(value))
            && list(map, "allOf").iter().all(|branch| inner(branch, value))
            && ["anyOf", "oneOf"].iter().all(|keyword| {
                let branches = list(map, keyword);
                branches.is_empty() || branches.iter().any(|branch| inner(branch, value))
            })
            && match value {
                Value::Object(members) => {
                    let has = |name: &Value| name.as_str().is_some_and(|name| members.contains_key(name));
                    list(map, "required").iter().all(has)
                        && members.iter().all(|(name, member)| match property(map, name) {
                            Some(_) if member.is_null() && !is_required(map, name) => true,
                            Some(property) => inner(property, member),
                            None => map.get("additionalProperties").is_none_or(|extra| inner(extra, member)),
                        })
                }
                Value::Array(items) => {
                    items.iter().all(|item| map.get("items").is_none_or(|schema| inner(schema, item)))
                }
                _ => true,
            }
    }

    fn allows_null(&self, schema: &'a Value, steps: usize) -> bool {
        if steps > MAX_STEPS {
            return true;
        }
        let Value::Object(map) = schema else { return schema != &Value::Bool(false) };
        let list = |keyword: &str| map.get(keyword).and_then(Value::as_array);
        let allowed = |branch: &'a Value| self.allows_null(branch, steps + 1);
        let by_type = match map.get("type") {
            Some(Value::String(name)) => name == "null",
            Some(Value::Array(names)) => names.iter().any(|name| name == "null"),
            _ => true,
        };
        let by_reference = target_name(schema).and_then(|name| self.definitions.get(name)).is_none_or(allowed);
        by_type
            && by_reference
            && map.get("const").is_none_or(Value::is_null)
            && list("enum").is_none_or(|values| values.contains(&Value::Null))
            && list("allOf").is_none_or(|all| all.iter().all(allowed))
            && ["anyOf", "oneOf"].iter().all(|keyword| list(keyword).is_none_or(|any| any.iter().any(allowed)))
    }
}

fn list<'a>(schema: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn property<'a>(schema: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    schema.get("properties")?.as_object()?.get(name)
}

fn allows_type(schema: &Map<String, Value>, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => value.is_null(),
    };
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().any(is),
        Some(name) => is(name),
        None => true,
    }
}

fn is_required(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|required| required == name))
}
