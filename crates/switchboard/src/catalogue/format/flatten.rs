//! A root without alternatives, for providers that refuse `anyOf`, `oneOf`, `allOf`, `enum`, `const` and `not` there.
//!
//! `allOf` is merged, which is exact. Alternatives become one object with the properties of all of them, of which those
//! are required that every alternative requires; which combinations are valid is told in the description.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::note;
use crate::catalogue::schema::{both, conjunction, target_name};
use crate::catalogue::{WarningCode, Warnings};

type Object = Map<String, Value>;

/// How deep alternatives inside alternatives are followed.
const MAX_DEPTH: usize = 4;

/// How many branches are followed in all; the rest counts as branches that allow anything.
const MAX_BRANCHES: usize = 256;

/// The root of a clean schema without the keywords that providers refuse there.
pub(super) fn root(mut schema: Object, warnings: &mut Warnings) -> Object {
    let definitions = schema.shift_remove("$defs");
    let mut flattener = Flattener { definitions: definitions.as_ref(), left: MAX_BRANCHES, warnings };
    let mut flat = flattener.flat(schema, 0);
    flat.insert("type".into(), "object".into());
    flat.extend(definitions.map(|definitions| ("$defs".to_owned(), definitions)));
    flat
}

struct Flattener<'a> {
    definitions: Option<&'a Value>,
    left: usize,
    warnings: &'a mut Warnings,
}

impl Flattener<'_> {
    fn flat(&mut self, mut schema: Object, depth: usize) -> Object {
        while let Some(Value::Array(all)) = schema.shift_remove("allOf") {
            schema = self.merged(schema, all);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = schema.shift_remove(keyword) {
                let branches: Vec<Object> = branches.into_iter().map(|branch| self.branch(branch, depth)).collect();
                self.lost(&format!("/{keyword}"), &format!("`{keyword}`"));
                describe(&mut schema, keyword, &branches);
                add_alternatives(&mut schema, &branches);
            }
        }
        for keyword in ["const", "enum", "not"] {
            if schema.shift_remove(keyword).is_some() {
                self.lost(&format!("/{keyword}"), &format!("`{keyword}`"));
            }
        }
        schema
    }

    fn merged(&mut self, mut schema: Object, all: Vec<Value>) -> Object {
        for (index, branch) in all.into_iter().enumerate() {
            let branch = self.resolved(branch);
            schema = conjunction(&schema, &branch).unwrap_or_else(|| {
                self.lost(&format!("/allOf/{index}"), "a part of `allOf` that cannot be merged");
                add_properties(&mut schema, &branch);
                schema
            });
        }
        schema
    }

    fn branch(&mut self, branch: Value, depth: usize) -> Object {
        let branch = self.resolved(branch);
        if depth < MAX_DEPTH { self.flat(branch, depth + 1) } else { Object::new() }
    }

    fn lost(&mut self, path: &str, what: &str) {
        let message = format!("this provider refuses {what} at the top level");
        self.warnings.push(WarningCode::SchemaWidened, path, message);
    }

    /// A branch with the definition that it refers to in the place of the reference.
    fn resolved(&mut self, mut branch: Value) -> Object {
        loop {
            if self.left == 0 {
                return Object::new();
            }
            self.left -= 1;
            let target = target_name(&branch).and_then(|name| self.definitions?.get(name)?.as_object());
            let (Some(target), Value::Object(map)) = (target, &mut branch) else { break };
            map.shift_remove("$ref");
            branch = both(std::mem::take(map), target.clone()).into();
        }
        match branch {
            Value::Object(branch) => branch,
            _ => Object::new(),
        }
    }
}

fn object<'a>(schema: &'a Object, keyword: &str) -> Option<&'a Object> {
    schema.get(keyword).and_then(Value::as_object)
}

fn required(schema: &Object) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Adds the properties of `branch` that `schema` lacks, unless it is closed to them, and what the branch requires.
fn add_properties(schema: &mut Object, branch: &Object) {
    let closed = schema.get("additionalProperties").is_some_and(|extra| *extra != Value::Bool(true));
    let mut properties = object(schema, "properties").cloned().unwrap_or_default();
    for (name, property) in object(branch, "properties").into_iter().flatten() {
        if !closed && !properties.contains_key(name) {
            properties.insert(name.clone(), property.clone());
        }
    }
    schema.insert("properties".into(), properties.into());
    require(schema, required(branch).map(str::to_owned).collect());
}

fn require(schema: &mut Object, more: Vec<String>) {
    let mut seen = HashSet::new();
    let known: Vec<String> = required(schema).map(str::to_owned).collect();
    let names: Vec<String> = known.into_iter().chain(more).filter(|name| seen.insert(name.clone())).collect();
    if !names.is_empty() {
        schema.insert("required".into(), names.into());
    }
}

/// Adds to `schema` what all alternatives together allow.
fn add_alternatives(schema: &mut Object, branches: &[Object]) {
    let closed = schema.get("additionalProperties").is_some_and(|extra| *extra != Value::Bool(true));
    let mut properties = object(schema, "properties").cloned().unwrap_or_default();
    let mut variants: Object = Object::new();
    for (name, property) in branches.iter().filter_map(|branch| object(branch, "properties")).flatten() {
        let known = variants.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(known) = known
            && !known.contains(property)
        {
            known.push(property.clone());
        }
    }
    for (name, variants) in variants {
        let everywhere = branches.iter().all(|b| object(b, "properties").is_some_and(|p| p.contains_key(&name)));
        let union = any_of(variants);
        match (properties.get(&name), union) {
            (None, union) if !closed => {
                properties.insert(name, union);
            }
            (Some(Value::Object(own)), Value::Object(union)) if everywhere => {
                let merged = both(own.clone(), union);
                properties.insert(name, merged.into());
            }
            _ => {}
        }
    }
    schema.insert("properties".into(), properties.into());
    if let [first, others @ ..] = branches {
        let mut common: Vec<String> = required(first).map(str::to_owned).collect();
        for other in others {
            let names: HashSet<&str> = required(other).collect();
            common.retain(|name| names.contains(name.as_str()));
        }
        require(schema, common);
    }
    let shut = |branch: &Object| branch.get("additionalProperties") == Some(&Value::Bool(false));
    if !branches.is_empty() && branches.iter().all(shut) && !schema.contains_key("additionalProperties") {
        schema.insert("additionalProperties".into(), false.into());
    }
}

fn any_of(variants: Value) -> Value {
    match variants {
        Value::Array(mut only) if only.len() == 1 => only.remove(0),
        several => Value::Object(Object::from_iter([("anyOf".to_owned(), several)])),
    }
}

/// Tells the model which combinations of arguments the server takes.
fn describe(schema: &mut Object, keyword: &str, branches: &[Object]) {
    let sets: Vec<String> = branches
        .iter()
        .map(|branch| required(branch).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" + "))
        .collect();
    if sets.len() <= 8 && sets.iter().all(|set| !set.is_empty() && set.len() <= 120) {
        let count = if keyword == "oneOf" { "Exactly" } else { "At least" };
        note::sentence(schema, &format!("{count} one of these combinations is required: {}.", sets.join("; ")));
    }
}
