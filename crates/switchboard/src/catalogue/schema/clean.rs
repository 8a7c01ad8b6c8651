//! Reads a schema as a server wrote it and writes it well-formed: malformed keywords put right or left out, keywords of
//! older drafts as those of 2020-12, every reference as one to `#/$defs/NAME` at the root.
//!
//! Definitions are written once each and only when something refers to them, so references that lead in circles end.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::keyword::{self, Shape};
use super::resolve::{Resolver, target_name};
use super::{MAX_DEPTH, MAX_SUBSCHEMAS};
use crate::catalogue::{WarningCode, Warnings};

/// The schema is larger or deeper than the bounds allow; the text says which.
#[derive(Debug)]
pub(super) struct TooLarge(pub(super) &'static str);

type Object = Map<String, Value>;

/// A definition that something refers to and that is not written yet.
struct Waiting<'a> {
    name: String,
    schema: &'a Value,
    scopes: Vec<&'a Value>,
}

pub(super) struct Cleaner<'a> {
    root: &'a Value,
    resolver: Resolver<'a>,
    /// Whether the schema says that it is of draft-07 or older.
    old_draft: bool,
    /// The enclosing schemas that bring definitions of their own, outermost first.
    scopes: Vec<&'a Value>,
    /// The names given to the targets of references, by the place where each target lies in memory.
    names: HashMap<*const Value, String>,
    taken: HashSet<String>,
    waiting: VecDeque<Waiting<'a>>,
    subschemas: usize,
    depth: usize,
    path: String,
    pub(super) warnings: Warnings,
}

impl<'a> Cleaner<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self {
            root,
            resolver: Resolver::new(root),
            old_draft: root.get("$schema").and_then(Value::as_str).is_some_and(|uri| uri.contains("/draft-0")),
            scopes: Vec::new(),
            names: HashMap::new(),
            taken: HashSet::new(),
            waiting: VecDeque::new(),
            subschemas: 0,
            depth: 0,
            path: String::new(),
            warnings: Warnings::default(),
        }
    }

    /// The root and the definitions that it needs.
    pub(super) fn run(&mut self) -> Result<(Value, Object), TooLarge> {
        let root = self.schema(self.root)?;
        let mut definitions = Object::new();
        while let Some(next) = self.waiting.pop_front() {
            self.scopes = next.scopes;
            self.path = format!("/$defs/{}", next.name);
            let schema = self.schema(next.schema)?;
            definitions.insert(next.name, schema);
        }
        self.path.clear();
        self.cut_loops(&mut definitions);
        Ok((root, definitions))
    }

    fn repaired(&mut self, message: impl Into<String>) {
        self.warnings.push(WarningCode::SchemaRepaired, &self.path, message);
    }

    fn at<T>(&mut self, step: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        keyword::push(&mut self.path, step);
        let result = inner(self);
        self.path.truncate(length);
        result
    }

    fn schema(&mut self, value: &'a Value) -> Result<Value, TooLarge> {
        self.subschemas += 1;
        if self.subschemas > MAX_SUBSCHEMAS {
            return Err(TooLarge("has too many parts"));
        }
        if self.depth > MAX_DEPTH {
            return Err(TooLarge("is nested too deeply"));
        }
        match value {
            Value::Bool(_) => Ok(value.clone()),
            Value::Object(map) => {
                let scoped = map.contains_key("$defs") || map.contains_key("definitions") || map.contains_key("$id");
                self.scopes.extend(scoped.then_some(value));
                self.depth += 1;
                let object = self.object(map);
                self.depth -= 1;
                self.scopes.truncate(self.scopes.len() - usize::from(scoped));
                object.map(Value::Object)
            }
            Value::String(name) if keyword::type_name(name).is_some() => {
                self.repaired("the name of a type stood in the place of a schema");
                Ok(serde_json::json!({"type": keyword::type_name(name)}))
            }
            _ => {
                self.repaired("not a schema, so any value is allowed here");
                Ok(Value::Object(Object::new()))
            }
        }
    }

    fn object(&mut self, map: &'a Object) -> Result<Object, TooLarge> {
        let mut out = Object::new();
        let mut required = Vec::new();
        let alone = self.old_draft && map.get("$ref").is_some_and(Value::is_string);
        for (key, value) in map {
            let shape = keyword::shape(key);
            if alone && shape != Shape::Reference && !keyword::is_annotation(key) {
                continue; // Up to draft-07, what stands beside a reference means nothing.
            }
            if value.is_null() && !matches!(shape, Shape::Any | Shape::Unknown) {
                continue; // Some languages write an absent keyword as `null`.
            }
            self.at(key, |this| match shape {
                Shape::Definitions | Shape::Identity => Ok(()),
                Shape::Special => this.special(key, value, map, &mut out, &mut required),
                Shape::Number if is_made_exclusive(map, key) => Ok(()),
                _ => this.keyword(key, value, &mut out),
            })?;
        }
        let names = self.at("required", |this| this.required(map.get("required").filter(|_| !alone)));
        let mut seen = HashSet::new();
        let names: Vec<Value> =
            names.into_iter().chain(required).filter(|name| seen.insert(*name)).map(Value::from).collect();
        if !names.is_empty() {
            out.insert("required".into(), names.into());
        }
        Ok(out)
    }

    fn keyword(&mut self, key: &str, value: &'a Value, out: &mut Object) -> Result<(), TooLarge> {
        let shape = keyword::shape(key);
        let cleaned = match (shape, value) {
            (Shape::Schema, Value::Bool(_) | Value::Object(_)) => self.schema(value)?,
            (Shape::Schemas, Value::Array(schemas)) if !schemas.is_empty() => self.schemas(schemas)?,
            (Shape::NamedSchemas, Value::Object(schemas)) => self.named(schemas)?,
            (Shape::Reference, Value::String(reference)) => {
                if let Some(name) = self.reference(reference) {
                    out.insert("$ref".into(), format!("#/$defs/{name}").into());
                }
                return Ok(());
            }
            (Shape::Schema | Shape::Schemas | Shape::NamedSchemas | Shape::Reference, _) => {
                self.repaired(format!("`{key}` has a value that is not allowed, and was left out"));
                return Ok(());
            }
            _ if keyword::fits(shape, value) => value.clone(),
            _ => {
                self.repaired(format!("`{key}` has a value that is not allowed, and was left out"));
                return Ok(());
            }
        };
        out.insert(key.to_owned(), cleaned);
        Ok(())
    }

    fn schemas(&mut self, schemas: &'a [Value]) -> Result<Value, TooLarge> {
        let mut cleaned = Vec::with_capacity(schemas.len());
        for (index, schema) in schemas.iter().enumerate() {
            cleaned.push(self.at(&index.to_string(), |this| this.schema(schema))?);
        }
        Ok(cleaned.into())
    }

    fn named(&mut self, schemas: &'a Object) -> Result<Value, TooLarge> {
        let mut cleaned = Object::new();
        for (name, schema) in schemas {
            cleaned.insert(name.clone(), self.at(name, |this| this.schema(schema))?);
        }
        Ok(cleaned.into())
    }

    /// Keywords whose meaning depends on others, and those of older drafts.
    fn special(
        &mut self,
        key: &str,
        value: &'a Value,
        map: &'a Object,
        out: &mut Object,
        required: &mut Vec<&'a str>,
    ) -> Result<(), TooLarge> {
        match (key, value) {
            ("type", _) => out.extend(self.type_of(value).map(|value| ("type".to_owned(), value))),
            ("properties", Value::Object(properties)) => {
                let cleaned = self.properties(properties, required)?;
                out.insert("properties".into(), cleaned.into());
            }
            ("items", Value::Array(tuple)) if !tuple.is_empty() => {
                let cleaned = self.schemas(tuple)?;
                out.insert("prefixItems".into(), cleaned);
            }
            ("items", Value::Bool(_) | Value::Object(_)) => {
                let cleaned = self.schema(value)?;
                out.insert("items".into(), cleaned);
            }
            ("additionalItems", Value::Bool(_) | Value::Object(_)) => {
                // Older drafts give it a meaning beside a list of items only.
                if map.get("items").is_some_and(Value::is_array) {
                    let cleaned = self.schema(value)?;
                    out.insert("items".into(), cleaned);
                }
            }
            ("dependencies", Value::Object(dependencies)) => self.dependencies(dependencies, out)?,
            ("exclusiveMaximum" | "exclusiveMinimum", Value::Number(_)) => {
                out.insert(key.to_owned(), value.clone());
            }
            ("exclusiveMaximum" | "exclusiveMinimum", Value::Bool(exclusive)) => {
                let limit = map.get(inclusive(key)).filter(|limit| *exclusive && limit.is_number());
                out.extend(limit.map(|limit| (key.to_owned(), limit.clone())));
            }
            ("required", _) | ("id", Value::String(_)) => {}
            ("id", _) => {
                out.insert(key.to_owned(), value.clone());
            }
            _ => self.repaired(format!("`{key}` has a value that is not allowed, and was left out")),
        }
        Ok(())
    }

    fn type_of(&mut self, value: &Value) -> Option<Value> {
        let names: Vec<&str> = match value {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().map(|name| name.as_str().unwrap_or_default()).collect(),
            _ => Vec::new(),
        };
        let mut known: Vec<&str> = Vec::new();
        for name in names.iter().filter_map(|name| keyword::type_name(name)) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        if known.is_empty() || names.iter().any(|name| !known.contains(name)) {
            self.repaired("`type` names a type that JSON does not have");
        }
        match known.as_slice() {
            [] => None,
            [only] => Some((*only).into()),
            several => Some(several.into()),
        }
    }

    /// The properties; names that their parent must require are added to `required`.
    fn properties(&mut self, properties: &'a Object, required: &mut Vec<&'a str>) -> Result<Object, TooLarge> {
        let mut cleaned = Object::new();
        for (name, schema) in properties {
            if let ("required", Value::Array(names)) = (name.as_str(), schema) {
                self.at(name, |this| this.repaired("the list `required` stood among the properties"));
                required.extend(names.iter().filter_map(Value::as_str));
                continue;
            }
            if schema.get("required") == Some(&Value::Bool(true)) {
                self.at(name, |this| this.repaired("`required: true` stood inside the property"));
                required.push(name);
            }
            cleaned.insert(name.clone(), self.at(name, |this| this.schema(schema))?);
        }
        Ok(cleaned)
    }

    fn required(&mut self, value: Option<&'a Value>) -> Vec<&'a str> {
        match value {
            Some(Value::Array(names)) => {
                if !names.iter().all(Value::is_string) {
                    self.repaired("`required` lists something that is not a name");
                }
                names.iter().filter_map(Value::as_str).collect()
            }
            // As a flag it speaks of the schema's own place among its parent's properties.
            None | Some(Value::Null | Value::Bool(_)) => Vec::new(),
            Some(_) => {
                self.repaired("`required` has a value that is not allowed, and was left out");
                Vec::new()
            }
        }
    }

    /// Draft-07 has one keyword for what 2020-12 has two.
    fn dependencies(&mut self, dependencies: &'a Object, out: &mut Object) -> Result<(), TooLarge> {
        let (mut names, mut schemas) = (Object::new(), Object::new());
        for (name, value) in dependencies {
            match value {
                Value::Array(list) if list.iter().all(Value::is_string) => {
                    names.insert(name.clone(), value.clone());
                }
                Value::Bool(_) | Value::Object(_) => {
                    schemas.insert(name.clone(), self.at(name, |this| this.schema(value))?);
                }
                _ => self.at(name, |this| this.repaired("a dependency that is not allowed was left out")),
            }
        }
        for (key, map) in [("dependentRequired", names), ("dependentSchemas", schemas)] {
            if !map.is_empty() && !out.contains_key(key) {
                out.insert(key.to_owned(), map.into());
            }
        }
        Ok(())
    }

    /// The name under which the target of `reference` is written; `None` when it has none, with a warning.
    fn reference(&mut self, reference: &str) -> Option<String> {
        let Some(target) = self.resolver.resolve(reference, &self.scopes) else {
            let message =
                format!("the reference `{}` leads nowhere inside the schema, and is not fetched", cut(reference));
            self.warnings.push(WarningCode::ReferenceLeftOut, &self.path, message);
            return None;
        };
        let place = std::ptr::from_ref(target);
        if let Some(name) = self.names.get(&place) {
            return Some(name.clone());
        }
        let name = self.free_name(reference);
        self.names.insert(place, name.clone());
        self.waiting.push_back(Waiting { name: name.clone(), schema: target, scopes: self.scopes.clone() });
        Some(name)
    }

    fn free_name(&mut self, reference: &str) -> String {
        let last = reference.rsplit(['/', '#']).next().unwrap_or_default();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let base: String = last.chars().map(|c| if legal(c) { c } else { '_' }).take(48).collect();
        let base = if base.is_empty() { "root".to_owned() } else { base };
        let mut name = base.clone();
        for number in 2.. {
            if self.taken.insert(name.clone()) {
                break;
            }
            name = format!("{base}_{number}");
        }
        name
    }

    /// A definition that is nothing but a reference, over others, to itself says nothing; the reference goes.
    fn cut_loops(&mut self, definitions: &mut Object) {
        let names: Vec<String> = definitions.keys().cloned().collect();
        let mut safe: HashSet<String> = HashSet::new();
        for start in names {
            let mut seen = HashSet::new();
            let mut name = start;
            while !safe.contains(&name) && seen.insert(name.clone()) {
                match definitions.get(&name).and_then(target_name) {
                    Some(next) if seen.contains(next) => {
                        let message = format!("the reference from `{}` leads back to itself", cut(&name));
                        self.warnings.push(WarningCode::ReferenceLeftOut, "/$defs", message);
                        if let Some(Value::Object(definition)) = definitions.get_mut(&name) {
                            definition.remove("$ref");
                        }
                    }
                    Some(next) => name = next.to_owned(),
                    None => {}
                }
            }
            safe.extend(seen);
        }
    }
}

fn inclusive(key: &str) -> &'static str {
    if key == "exclusiveMaximum" { "maximum" } else { "minimum" }
}

/// Whether draft-04's `exclusiveMinimum: true` (or its counterpart) turns this limit into an exclusive one.
fn is_made_exclusive(map: &Object, key: &str) -> bool {
    let flag = match key {
        "maximum" => "exclusiveMaximum",
        "minimum" => "exclusiveMinimum",
        _ => return false,
    };
    map.get(flag) == Some(&Value::Bool(true)) && map.get(key).is_some_and(Value::is_number)
}

/// The beginning of a text of unknown length, for a message.
fn cut(text: &str) -> &str {
    text.char_indices().nth(80).map_or(text, |(end, _)| &text[..end])
}
