//! Leaves out optional properties that are `null` where the schema does not allow it.

use serde_json::{Map, Value};

use crate::catalogue::schema::target_name;

/// How many references and alternatives are followed before a `null` counts as allowed.
const MAX_STEPS: usize = 16;

/// Leaves them out of `value`, and says whether there were any.
pub(super) fn drop_refused(schema: &Value, value: &mut Value) -> bool {
    let none = Map::new();
    let definitions = schema.get("$defs").and_then(Value::as_object).unwrap_or(&none);
    Nulls { definitions }.drop_in(schema, value, 0)
}

struct Nulls<'a> {
    definitions: &'a Map<String, Value>,
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
        for branch in self.certain_branches(schema) {
            dropped |= self.drop_in(branch, value, depth + 1);
        }
        match value {
            Value::Object(members) => {
                let property = |name: &str| schema.get("properties")?.as_object()?.get(name);
                let before = members.len();
                members.retain(|name, member| {
                    !member.is_null()
                        || is_required(schema, name)
                        || property(name).is_none_or(|property| self.allows_null(property, 0))
                });
                dropped |= members.len() < before;
                for (name, member) in members.iter_mut() {
                    if let Some(inner) = property(name).or(schema.get("additionalProperties")) {
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

    /// The branches that hold for any value that is not `null`: all of `allOf`, and the only other one beside `null`.
    fn certain_branches(&self, schema: &'a Map<String, Value>) -> Vec<&'a Value> {
        let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut certain: Vec<&Value> = list("allOf").iter().collect();
        for keyword in ["anyOf", "oneOf"] {
            let not_null = |branch: &&Value| branch.get("type").is_none_or(|name| name != "null");
            let others: Vec<&Value> = list(keyword).iter().filter(not_null).collect();
            if let [only] = others.as_slice() {
                certain.push(only);
            }
        }
        certain
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

fn is_required(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|required| required == name))
}
