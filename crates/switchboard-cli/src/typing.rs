//! Turns `KEY=VALUE` into JSON, typed by the tool's input schema.
//!
//! The schema decides what `5` is: a number where the schema wants one, text where it wants text. Where it says nothing, a
//! value that reads as JSON other than text is taken as that. Numbers keep their digits.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard::wire::Json;

use crate::problem::Problem;

/// Arguments in the order in which they were given.
#[derive(Debug, Default)]
pub(crate) struct TypedArguments(Vec<(String, Box<RawValue>)>);

impl Serialize for TypedArguments {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl TypedArguments {
    /// The members of a JSON object, each as it stands there.
    pub(crate) fn of_object(object: &Json) -> Result<Self, Problem> {
        struct Members(Vec<(String, Box<RawValue>)>);
        impl<'de> serde::Deserialize<'de> for Members {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl<'de> serde::de::Visitor<'de> for Visitor {
                    type Value = Members;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a JSON object")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                        let mut members = Vec::new();
                        while let Some(entry) = map.next_entry()? {
                            members.push(entry);
                        }
                        Ok(Members(members))
                    }
                }
                deserializer.deserialize_map(Visitor)
            }
        }
        let members: Members = object.read().map_err(|_| Problem::input("the arguments must be a JSON object"))?;
        Ok(Self(members.0))
    }

    /// Sets one argument, in the place where it was before.
    fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Adds what was typed as `KEY=VALUE`, typed by `schema`. Reports all mistakes at once.
    pub(crate) fn add_pairs(&mut self, pairs: &[(String, String)], schema: Option<&Value>) -> Result<(), Problem> {
        let mut mistakes = Vec::new();
        let mut seen = BTreeSet::new();
        for (key, _) in pairs {
            if !seen.insert(key) {
                continue;
            }
            let values: Vec<&str> =
                pairs.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).collect();
            match typed(key, &values, schema) {
                Ok(value) => self.set(key, value),
                Err(mistake) => mistakes.push((key, mistake)),
            }
        }
        let Some((_, first)) = mistakes.first() else { return Ok(()) };
        let errors: Vec<_> = mistakes
            .iter()
            .map(|(key, mistake)| serde_json::json!({"path": format!("/{key}"), "message": mistake}))
            .collect();
        Err(Problem::new("invalid_arguments", first.clone()).with("errors", errors))
    }

    /// The arguments as JSON.
    pub(crate) fn into_json(self) -> Result<Json, Problem> {
        Json::of(&self).map_err(|cause| Problem::input("the arguments cannot be written as JSON").because(cause))
    }
}

/// The value of one argument.
fn typed(key: &str, values: &[&str], schema: Option<&Value>) -> Result<Box<RawValue>, String> {
    let Some(schema) = schema else { return one_or_list(key, values, &Types::default(), None, None) };
    let property = match property(schema, key) {
        Property::Known(property) => Some(property),
        Property::Free => None,
        Property::Refused(near) => {
            let near = if near.is_empty() { String::new() } else { format!("; did you mean `{}`?", near.join("`, `")) };
            return Err(format!("the tool takes no argument `{key}`{near}"));
        }
    };
    let types = property.map(|property| Types::of(property, schema, 0)).unwrap_or_default();
    one_or_list(key, values, &types, property, Some(schema))
}

enum Property<'a> {
    Known(&'a Value),
    Free,
    Refused(Vec<String>),
}

/// The schema of one argument.
fn property<'a>(schema: &'a Value, key: &str) -> Property<'a> {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(found) = properties.and_then(|properties| properties.get(key)) {
        return Property::Known(found);
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) if !composed(schema) => {
            let names = properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str));
            Property::Refused(crate::names::nearest(key, names))
        }
        Some(other @ Value::Object(_)) => Property::Known(other),
        _ => Property::Free,
    }
}

/// Whether arguments may be described in places that are not looked into here.
fn composed(schema: &Value) -> bool {
    ["anyOf", "oneOf", "allOf", "patternProperties", "$ref", "if"].iter().any(|word| schema.get(word).is_some())
}

/// The JSON types that a schema allows. None: it does not say.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Types(BTreeSet<String>);

impl Types {
    /// What `schema` allows, references and alternatives followed.
    fn of(schema: &Value, root: &Value, depth: u8) -> Self {
        let mut types = BTreeSet::new();
        if depth > 16 {
            return Self(types);
        }
        match schema.get("type") {
            Some(Value::String(one)) => drop(types.insert(one.clone())),
            Some(Value::Array(some)) => types.extend(some.iter().filter_map(Value::as_str).map(str::to_owned)),
            _ => {}
        }
        if types.is_empty() {
            let constants = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
            types.extend(constants.chain(schema.get("const")).map(|value| type_name(value).to_owned()));
        }
        if types.is_empty() {
            let alternatives = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|word| schema.get(word)?.as_array());
            for one in alternatives.flatten() {
                types.extend(Self::of(one, root, depth + 1).0);
            }
        }
        if let Some(target) = types.is_empty().then(|| referred(schema, root)).flatten() {
            return Self::of(target, root, depth + 1);
        }
        Self(types)
    }

    fn allow(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.contains(name)
    }

    fn is_said(&self) -> bool {
        !self.0.is_empty()
    }

    fn names(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join(" or ")
    }
}

/// Where a local reference leads.
fn referred<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    root.pointer(schema.get("$ref")?.as_str()?.strip_prefix('#')?)
}

/// The schema behind a chain of references.
fn resolved<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..16 {
        match referred(schema, root) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A single value, or a list where the schema wants one or the key was given more than once.
fn one_or_list(
    key: &str,
    values: &[&str],
    types: &Types,
    property: Option<&Value>,
    root: Option<&Value>,
) -> Result<Box<RawValue>, String> {
    if let [only] = values {
        match scalar(key, only, types) {
            Err(_) if types.0.contains("array") && !only.trim_start().starts_with('[') => {}
            other => return other,
        }
    } else if !types.allow("array") {
        return Err(format!("`{key}` was given {} times, but takes one value", values.len()));
    }
    let items = match (property, root) {
        (Some(property), Some(root)) => {
            let items = resolved(property, root).get("items");
            items.map(|items| Types::of(items, root, 0)).unwrap_or_default()
        }
        _ => Types::default(),
    };
    let list = values.iter().map(|value| scalar(key, value, &items)).collect::<Result<Vec<_>, _>>()?;
    serde_json::value::to_raw_value(&list).map_err(|cause| cause.to_string())
}

/// One value by the types that are allowed: what reads as a narrower type is one, text is the widest.
fn scalar(key: &str, value: &str, types: &Types) -> Result<Box<RawValue>, String> {
    let text = || serde_json::value::to_raw_value(value).map_err(|cause| cause.to_string());
    let read = serde_json::from_str::<Box<RawValue>>(value);
    let kind = read.as_ref().map_or("string", |raw| raw_type(raw.get()));
    let fits = match kind {
        // A quoted text stands for itself: quotes belong to the value.
        "string" => false,
        "integer" => types.allow("integer") || types.allow("number"),
        other => types.allow(other),
    };
    match read {
        Ok(raw) if fits => Ok(raw),
        _ if types.allow("string") => text(),
        Err(cause) if value.trim_start().starts_with(['{', '[']) => Err(format!("`{key}` is not valid JSON: {cause}")),
        _ if types.is_said() => Err(format!("`{key}` must be of type {}, not `{value}`", types.names())),
        _ => text(),
    }
}

/// The type of a JSON text, without losing the digits of a number.
fn raw_type(text: &str) -> &'static str {
    match text.trim_start().bytes().next() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ if text.contains(['.', 'e', 'E']) => "number",
        _ => "integer",
    }
}

/// Reads JSON that a person gave, and says where it breaks.
pub(crate) fn parse_json(text: &str, what: &str) -> Result<Json, Problem> {
    text.parse::<Json>().map_err(|cause| {
        let at = |line: usize| text.split('\n').nth(line.saturating_sub(1)).unwrap_or_default();
        let (mut line, mut column) = (cause.line(), cause.column());
        // The parser counts a line's end to the next line; people do not.
        if column == 0 && line > 1 {
            line -= 1;
            column = at(line).len();
        }
        let shown: String = at(line).trim().chars().take(80).collect();
        let cause = cause.to_string();
        let cause = cause.split(" at line ").next().unwrap_or_default().to_owned();
        Problem::new("invalid_input", format!("{what} is not valid JSON at line {line}, column {column}"))
            .because(cause)
            .because(format!("the line reads `{shown}`"))
            .with("line", line)
            .with("column", column)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn typed_as(schema: Value, pairs: &[&str]) -> Result<String, String> {
        let pairs: Vec<_> = pairs.iter().map(|pair| pair.split_once('=').unwrap()).collect();
        let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut arguments = TypedArguments::default();
        let schema = json!({"type": "object", "properties": schema, "$defs": {"n": {"type": "integer"}}});
        arguments.add_pairs(&pairs, Some(&schema)).map_err(|problem| problem.text())?;
        Ok(arguments.into_json().unwrap().to_string())
    }

    #[test]
    fn the_schema_decides_what_a_value_is() {
        let table = [
            (json!({"type": "string"}), "5", r#"{"a":"5"}"#),
            (json!({"type": "string"}), r#""q""#, r#"{"a":"\"q\""}"#),
            (json!({"type": "integer"}), "5", r#"{"a":5}"#),
            (json!({"type": "number"}), "5", r#"{"a":5}"#),
            (json!({"type": "number"}), "1.50", r#"{"a":1.50}"#),
            (json!({"type": "boolean"}), "true", r#"{"a":true}"#),
            (json!({"type": "object"}), r#"{"x": 1}"#, r#"{"a":{"x": 1}}"#),
            (json!({"type": "array"}), "[1, 2]", r#"{"a":[1, 2]}"#),
            (json!({"type": ["string", "null"]}), "null", r#"{"a":null}"#),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "12x", r#"{"a":"12x"}"#),
            (json!({"anyOf": [{"type": "integer"}, {"type": "string"}]}), "12", r#"{"a":12}"#),
            (json!({"enum": ["1", "2"]}), "1", r#"{"a":"1"}"#),
            (json!({"enum": [1, 2]}), "1", r#"{"a":1}"#),
            (json!({"$ref": "#/$defs/n"}), "7", r#"{"a":7}"#),
            (json!({"type": "integer"}), "12345678901234567890123", r#"{"a":12345678901234567890123}"#),
            (json!({}), "true", r#"{"a":true}"#),
            (json!({}), "hello", r#"{"a":"hello"}"#),
            (json!({"type": "string"}), "", r#"{"a":""}"#),
        ];
        for (schema, value, expected) in table {
            let shown = schema.to_string();
            assert_eq!(typed_as(json!({"a": schema}), &[&format!("a={value}")]).unwrap(), expected, "{shown}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_by_name() {
        for (schema, value) in [
            (json!({"type": "integer"}), "five"),
            (json!({"type": "integer"}), "1.5"),
            (json!({"type": "boolean"}), "yes"),
            (json!({"type": "object"}), "x"),
        ] {
            let text = typed_as(json!({"count": schema}), &[&format!("count={value}")]).unwrap_err();
            assert!(text.contains("`count` must be of type") && text.contains(value), "{text}");
        }
        let text = typed_as(json!({"o": {"type": "object"}}), &["o={\"a\": }"]).unwrap_err();
        assert!(text.contains("`o` is not valid JSON") && text.contains("column"), "{text}");
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let schema = json!({"a": {"type": "integer"}, "b": {"type": "boolean"}});
        let text = typed_as(schema, &["a=x", "b=y"]).unwrap_err();
        assert!(text.contains("`a`") && text.contains("`b`"), "{text}");
    }

    #[test]
    fn a_repeated_key_becomes_a_list_where_one_is_wanted() {
        let numbers = json!({"n": {"type": "array", "items": {"type": "integer"}}});
        assert_eq!(typed_as(numbers.clone(), &["n=1", "n=2"]).unwrap(), r#"{"n":[1,2]}"#);
        assert_eq!(typed_as(numbers.clone(), &["n=1"]).unwrap(), r#"{"n":[1]}"#);
        assert!(typed_as(numbers, &["n=x"]).unwrap_err().contains("integer"));
        let text = typed_as(json!({"s": {"type": "string"}}), &["s=a", "s=b"]).unwrap_err();
        assert!(text.contains("2 times"), "{text}");
    }

    #[test]
    fn a_closed_schema_names_the_argument_that_was_meant() {
        let schema = json!({"properties": {"message": {"type": "string"}}, "additionalProperties": false});
        let mut arguments = TypedArguments::default();
        let pairs = [("mesage".to_owned(), "x".to_owned())];
        let text = arguments.add_pairs(&pairs, Some(&schema)).unwrap_err().text();
        assert!(text.contains("did you mean `message`"), "{text}");
    }

    #[test]
    fn pairs_win_over_the_object_and_the_rest_keeps_its_bytes() {
        let object: Json = r#"{"a": 1.00, "b": "x"}"#.parse().unwrap();
        let mut arguments = TypedArguments::of_object(&object).unwrap();
        arguments.add_pairs(&[("b".to_owned(), "y".to_owned())], None).unwrap();
        assert_eq!(arguments.into_json().unwrap().as_str(), r#"{"a":1.00,"b":"y"}"#);
        assert!(TypedArguments::of_object(&"[]".parse().unwrap()).is_err());
    }

    #[test]
    fn broken_json_is_shown_with_its_place() {
        let text = parse_json("{\n  \"a\": tru\n}", "`--args`").unwrap_err().text();
        assert!(text.contains("line 2") && text.contains("\"a\": tru"), "{text}");
    }
}
