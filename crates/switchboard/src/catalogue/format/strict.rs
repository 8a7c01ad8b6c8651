//! OpenAI's strict mode: the model's arguments are held to the schema while they are written.
//!
//! It takes objects that are closed and require every property, so an optional property becomes one that may be `null`
//! (which a checked call drops again) and an object that says nothing about further properties is closed, since a model
//! knows of no others. Whatever else strict mode lacks is an obstacle: the tool is then offered without it.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::union::{is_disjoint, type_of, values};
use super::{Endless, note, schema};
use crate::catalogue::Warnings;
use crate::catalogue::schema::{conjunction, keyword};

type Object = Map<String, Value>;

/// The provider's limits on one schema.
const MAX_NESTING: usize = 10;
const MAX_PROPERTIES: usize = 5_000;
const MAX_ENUM_VALUES: usize = 1_000;
const MAX_TEXT: usize = 120_000;
const LONG_ENUM: usize = 250;
const MAX_LONG_ENUM_TEXT: usize = 15_000;

/// Why a schema cannot be strict.
#[derive(Debug)]
pub(super) struct Obstacle {
    pub(super) path: String,
    pub(super) what: String,
}

/// The schema as strict mode takes it.
pub(super) fn parameters(schema: Object) -> Result<Object, Obstacle> {
    let mut root = schema::inline(schema, Endless::Keep, &mut Warnings::default());
    let definitions = root.shift_remove("$defs");
    let open = root.get("additionalProperties") != Some(&Value::Bool(false));
    let mut strict = Strict::default();
    if open && root.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty) {
        return Err(strict.obstacle("arguments of any name"));
    }
    let mut root = Value::Object(root);
    strict.schema(&mut root, 1)?;
    let mut cleaned = Object::new();
    if let Some(Value::Object(definitions)) = definitions {
        for (name, mut definition) in definitions {
            strict.path = format!("/$defs/{name}");
            strict.schema(&mut definition, 1)?;
            strict.text += name.len();
            cleaned.insert(name, definition);
        }
    }
    strict.path.clear();
    strict.check_limits()?;
    let Value::Object(mut root) = root else { return Err(strict.obstacle("a schema that is not an object")) };
    if let Some(keyword) = ["anyOf", "const", "enum"].into_iter().find(|keyword| root.contains_key(*keyword)) {
        return Err(strict.obstacle(format!("`{keyword}` at the top level")));
    }
    if !cleaned.is_empty() {
        root.insert("$defs".into(), cleaned.into());
    }
    Ok(root)
}

/// Counts what the provider limits, on the way through a schema.
#[derive(Default)]
struct Strict {
    path: String,
    properties: usize,
    enum_values: usize,
    text: usize,
}

impl Strict {
    fn obstacle(&self, what: impl Into<String>) -> Obstacle {
        Obstacle { path: self.path.clone(), what: what.into() }
    }

    fn check_limits(&self) -> Result<(), Obstacle> {
        let limits = [
            (self.properties, MAX_PROPERTIES, "properties"),
            (self.enum_values, MAX_ENUM_VALUES, "values of enumerations"),
            (self.text, MAX_TEXT, "characters in names and values"),
        ];
        match limits.into_iter().find(|(count, most, _)| count > most) {
            None => Ok(()),
            Some((_, most, what)) => Err(self.obstacle(format!("more than {most} {what}"))),
        }
    }

    fn at<T>(&mut self, step: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        keyword::push(&mut self.path, step);
        let result = inner(self);
        self.path.truncate(length);
        result
    }

    fn schema(&mut self, schema: &mut Value, nesting: usize) -> Result<(), Obstacle> {
        let Value::Object(map) = schema else { return Err(self.obstacle("a schema that is only `true` or `false`")) };
        describe_annotations(map);
        unwrap_combinations(map);
        add_type(map);
        drop_idle(map);
        if let Some(keyword) = map.keys().find(|keyword| !is_supported(keyword)) {
            return Err(self.obstacle(format!("`{keyword}`")));
        }
        if map.get("pattern").and_then(Value::as_str).is_some_and(looks_around) {
            return Err(self.obstacle("a `pattern` that looks around or back"));
        }
        if map.contains_key("$ref") || map.contains_key("anyOf") {
            return self.alternatives(map, nesting);
        }
        self.count_values(map)?;
        let names = types(map);
        if names.is_empty() {
            return Err(self.obstacle("a value of any type"));
        }
        let (is_object, is_array) = (names.contains(&"object"), names.contains(&"array"));
        if is_object {
            self.object(map, nesting)?;
        }
        if is_array {
            match map.get_mut("items") {
                Some(items) => self.at("items", |this| this.schema(items, nesting))?,
                None => return Err(self.obstacle("a list of anything")),
            }
        }
        Ok(())
    }

    fn alternatives(&mut self, map: &mut Object, nesting: usize) -> Result<(), Obstacle> {
        let main = if map.contains_key("$ref") { "$ref" } else { "anyOf" };
        if let Some(other) = map.keys().find(|key| *key != main && *key != "description" && *key != "title") {
            return Err(self.obstacle(format!("`{other}` beside `{main}`")));
        }
        if let Some(Value::Array(branches)) = map.get_mut("anyOf") {
            for (index, branch) in branches.iter_mut().enumerate() {
                self.at("anyOf", |this| this.at(&index.to_string(), |this| this.schema(branch, nesting)))?;
            }
        } else if map.len() > 1
            && let Some(reference) = map.shift_remove("$ref")
        {
            // Nothing may stand beside a reference.
            map.insert("anyOf".into(), json!([{"$ref": reference}]));
        }
        Ok(())
    }

    fn object(&mut self, map: &mut Object, nesting: usize) -> Result<(), Obstacle> {
        if nesting > MAX_NESTING {
            return Err(self.obstacle(format!("more than {MAX_NESTING} levels of objects")));
        }
        match map.get("additionalProperties") {
            None | Some(Value::Bool(false)) => {}
            Some(_) => return Err(self.obstacle("further properties of any name")),
        }
        let required = match map.shift_remove("required") {
            Some(Value::Array(names)) => names,
            _ => Vec::new(),
        };
        let required: HashSet<&str> = required.iter().filter_map(Value::as_str).collect();
        let Some(Value::Object(properties)) = map.get_mut("properties") else {
            return Err(self.obstacle("an object with properties of any name"));
        };
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return Err(self.obstacle("a required property that is not described"));
        }
        self.properties += properties.len();
        for (name, property) in properties.iter_mut() {
            self.text += name.len();
            self.at("properties", |this| this.at(name, |this| this.schema(property, nesting + 1)))?;
            if !required.contains(name.as_str()) {
                make_nullable(property);
            }
        }
        let all: Vec<Value> = properties.keys().map(|name| name.as_str().into()).collect();
        map.insert("required".into(), all.into());
        map.insert("additionalProperties".into(), false.into());
        Ok(())
    }

    fn count_values(&mut self, map: &Object) -> Result<(), Obstacle> {
        let listed = map.get("enum").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let length = |value: &Value| value.as_str().map_or(0, str::len);
        let text: usize = listed.iter().chain(map.get("const")).map(length).sum();
        self.enum_values += listed.len();
        self.text += text;
        if listed.len() > LONG_ENUM && text > MAX_LONG_ENUM_TEXT {
            return Err(self.obstacle(format!("an enumeration with more than {MAX_LONG_ENUM_TEXT} characters")));
        }
        Ok(())
    }
}

fn is_supported(keyword: &str) -> bool {
    matches!(
        keyword,
        "$ref"
            | "additionalProperties"
            | "anyOf"
            | "const"
            | "description"
            | "enum"
            | "exclusiveMaximum"
            | "exclusiveMinimum"
            | "format"
            | "items"
            | "maxItems"
            | "maximum"
            | "minItems"
            | "minimum"
            | "multipleOf"
            | "pattern"
            | "properties"
            | "required"
            | "title"
            | "type"
    )
}

/// Annotations change nothing about what is valid, so those that strict mode lacks move into the description.
fn describe_annotations(map: &mut Object) {
    const FORMATS: [&str; 9] = ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];
    let known = |format: &Value| format.as_str().is_some_and(|format| FORMATS.contains(&format));
    for keyword in ["format", "default", "examples", "example"] {
        if map.get(keyword).is_some_and(|value| keyword != "format" || !known(value))
            && let Some(value) = map.shift_remove(keyword)
            && !value.is_null()
        {
            note::value(map, keyword, &value);
        }
    }
    map.retain(|keyword, _| !keyword::is_annotation(keyword) || is_supported(keyword));
}

/// `allOf` of one schema, and `oneOf` whose branches exclude each other, say the same as what strict mode has.
fn unwrap_combinations(map: &mut Object) {
    if let Some(Value::Array(all)) = map.get("allOf")
        && let [Value::Object(only)] = all.as_slice()
    {
        let only = only.clone();
        let mut rest = map.clone();
        rest.shift_remove("allOf");
        if let Some(merged) = conjunction(&rest, &only) {
            *map = merged;
            describe_annotations(map);
        }
    }
    if !map.contains_key("anyOf")
        && map.get("oneOf").and_then(Value::as_array).is_some_and(|branches| is_disjoint(branches))
        && let Some(branches) = map.shift_remove("oneOf")
    {
        map.insert("anyOf".into(), branches);
    }
}

/// Listed values without a type are given theirs.
fn add_type(map: &mut Object) {
    if map.contains_key("type") || map.contains_key("anyOf") {
        return;
    }
    let listed = Value::Object(map.clone());
    let mut names: Vec<&str> = Vec::new();
    for name in values(&listed).into_iter().flatten().map(type_of) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.as_slice() {
        [] => {}
        [only] => {
            map.insert("type".into(), (*only).into());
        }
        several => {
            map.insert("type".into(), several.into());
        }
    }
}

/// Leaves out what speaks of values of a type that is not allowed here anyway.
fn drop_idle(map: &mut Object) {
    let names = types(map);
    if names.is_empty() {
        return;
    }
    let (object, array) = (names.contains(&"object"), names.contains(&"array"));
    map.retain(|keyword, _| match keyword.as_str() {
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "dependentRequired"
        | "dependentSchemas"
        | "unevaluatedProperties" => object,
        "items" | "prefixItems" | "contains" | "minItems" | "maxItems" | "uniqueItems" | "unevaluatedItems" => array,
        _ => true,
    });
}

fn types(map: &Object) -> Vec<&str> {
    match map.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Whether a pattern uses what the provider's engine lacks: groups that look around, and references back.
fn looks_around(pattern: &str) -> bool {
    let back = pattern.as_bytes().windows(2).any(|pair| pair[0] == b'\\' && matches!(pair[1], b'1'..=b'9' | b'k'));
    back || ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|group| pattern.contains(group))
}

/// Allows `null` beside what a strict schema allows already.
fn make_nullable(property: &mut Value) {
    let Value::Object(map) = property else { return };
    if types(map).contains(&"null")
        && values(&Value::Object(map.clone())).is_none_or(|list| list.contains(&&Value::Null))
    {
        return;
    }
    if let Some(Value::Array(branches)) = map.get_mut("anyOf") {
        if !branches.iter().any(|branch| branch.get("type").is_some_and(|name| name == "null")) {
            branches.push(json!({"type": "null"}));
        }
    } else if map.contains_key("$ref") || map.contains_key("const") {
        let mut own = std::mem::take(map);
        let described = own.shift_remove("description");
        map.insert("anyOf".into(), json!([own, {"type": "null"}]));
        map.extend(described.map(|text| ("description".to_owned(), text)));
    } else {
        let mut names: Vec<Value> = types(map).into_iter().map(Value::from).collect();
        if !names.iter().any(|name| name == "null") {
            names.push("null".into());
        }
        map.insert("type".into(), names.into());
        if let Some(Value::Array(values)) = map.get_mut("enum") {
            values.push(Value::Null);
        }
    }
}
