//! What changed between two definitions of a tool, and how much that matters.
//!
//! New wording is what every release brings. A changed hint, an argument that must now be given and an address in the text
//! that was not there before are how a tool that was approved is turned into another one; they rank above it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::fingerprint::{Definition, canonical};
use super::schema::keyword::{Shape, shape};
use crate::wire::{Json, Tool};

/// The most changes that are told of one tool; the weightiest stay.
const MOST: usize = 32;

/// How much a change matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Other words for the same.
    Low,
    /// The tool takes other arguments.
    Medium,
    /// The tool does, asks for or points to something else than was approved.
    High,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// What kind of thing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ChangeKind {
    /// A hint about what the tool does, such as `destructiveHint`.
    Hint,
    /// An argument must be given that need not be given before.
    Required,
    /// An address stands in a text that stood in none before.
    Address,
    /// Arguments are new, gone, or of another shape.
    Arguments,
    /// Something that the other kinds do not name.
    Definition,
    /// A title, a description or an example.
    Wording,
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hint => "hint",
            Self::Required => "required",
            Self::Address => "address",
            Self::Arguments => "arguments",
            Self::Definition => "definition",
            Self::Wording => "wording",
        })
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// What kind of thing changed.
    pub kind: ChangeKind,
    /// How much that matters.
    pub severity: Severity,
    /// Where in the definition, by names with slashes between them; empty for the whole.
    pub path: String,
    /// What stood there; `null` when nothing did.
    pub before: Option<Json>,
    /// What stands there now; `null` when nothing does.
    pub after: Option<Json>,
}

/// Everything that changed, the weightiest first; empty exactly when both have the same
/// [`Fingerprint`](super::Fingerprint).
#[must_use]
pub fn changes(before: &Tool, after: &Tool) -> Vec<Change> {
    if before.json() == after.json() {
        return Vec::new();
    }
    let (Some(old), Some(new)) = (Definition::of(before), Definition::of(after)) else {
        return vec![whole(before, after)];
    };
    if old.canonical() == new.canonical() {
        return Vec::new();
    }
    let mut found = Found::default();
    found.hints(&old.annotations, &new.annotations);
    found.required(&old.input_schema, &new.input_schema);
    found.addresses(&old, &new);
    found.arguments(&old.input_schema, &new.input_schema);
    found.wording(&old, &new);
    let mut changes = found.0;
    if changes.is_empty() {
        return vec![whole(before, after)];
    }
    changes.sort_by_key(|change| (Reverse(change.severity), change.kind));
    changes.truncate(MOST);
    changes
}

/// A change that can only be shown whole.
fn whole(before: &Tool, after: &Tool) -> Change {
    Change {
        kind: ChangeKind::Definition,
        severity: Severity::Medium,
        path: String::new(),
        before: Some(before.json().clone()),
        after: Some(after.json().clone()),
    }
}

/// The changes that were found.
#[derive(Default)]
struct Found(Vec<Change>);

impl Found {
    fn push(
        &mut self,
        (kind, severity): (ChangeKind, Severity),
        path: impl Into<String>,
        (before, after): (Option<&Value>, Option<&Value>),
    ) {
        let json = |value: &Value| Json::from(value.clone());
        let (before, after) = (before.map(json), after.map(json));
        self.0.push(Change { kind, severity, path: path.into(), before, after });
    }

    fn hints(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        for name in names(old, new).into_iter().filter(|name| *name != "title") {
            let (before, after) = (old.get(name), new.get(name));
            if is_same(before, after) {
                continue;
            }
            // A hint that is left out means its default; saying so changes nothing.
            let means_the_same = default_of(name).is_some_and(|default| {
                let meaning = |hint: Option<&Value>| hint.and_then(Value::as_bool).unwrap_or(default);
                meaning(before) == meaning(after)
            });
            let severity = if means_the_same { Severity::Low } else { Severity::High };
            self.push((ChangeKind::Hint, severity), format!("annotations/{name}"), (before, after));
        }
    }

    fn required(&mut self, old: &Value, new: &Value) {
        let (old, new) = (required(old), required(new));
        for (path, name) in new.iter().filter(|(path, _)| !old.contains_key(*path)) {
            self.push((ChangeKind::Required, Severity::High), path, (None, Some(name)));
        }
        for (path, name) in old.iter().filter(|(path, _)| !new.contains_key(*path)) {
            self.push((ChangeKind::Arguments, Severity::Medium), path, (Some(name), None));
        }
    }

    fn addresses(&mut self, old: &Definition, new: &Definition) {
        let mut known: BTreeSet<String> = BTreeSet::new();
        strings(old, &mut |_, text| known.extend(addresses(text)));
        strings(new, &mut |path, text| {
            for address in addresses(text) {
                if known.insert(address.clone()) {
                    self.push((ChangeKind::Address, Severity::High), path, (None, Some(&address.into())));
                }
            }
        });
    }

    fn arguments(&mut self, old: &Value, new: &Value) {
        let (old, new) = (structure(old), structure(new));
        let none = Map::new();
        let properties = |schema: &Value| schema.get("properties").and_then(Value::as_object).unwrap_or(&none).clone();
        let (old_properties, new_properties) = (properties(&old), properties(&new));
        for name in names(&old_properties, &new_properties) {
            let (before, after) = (old_properties.get(name), new_properties.get(name));
            if !is_same(before, after) {
                let path = format!("inputSchema/properties/{name}");
                self.push((ChangeKind::Arguments, Severity::Medium), path, (before, after));
            }
        }
        let rest = |schema: &Value| match schema {
            Value::Object(members) => {
                let is_rest = |name: &str| !matches!(name, "properties" | "required");
                let rest = members.iter().filter(|(name, _)| is_rest(name));
                Value::Object(rest.map(|(name, member)| (name.clone(), member.clone())).collect())
            }
            other => other.clone(),
        };
        let (before, after) = (rest(&old), rest(&new));
        if !is_same(Some(&before), Some(&after)) {
            self.push((ChangeKind::Arguments, Severity::Medium), "inputSchema", (Some(&before), Some(&after)));
        }
    }

    fn wording(&mut self, old: &Definition, new: &Definition) {
        // The words of an argument that is new or gone went with it.
        let moved = self.0.iter().filter(|change| change.kind == ChangeKind::Arguments);
        let moved = moved.filter(|change| change.before.is_none() || change.after.is_none());
        let moved: BTreeSet<String> = moved.map(|change| format!("{}/", change.path)).collect();
        let is_below = |path: &String| moved.range(..path.clone()).next_back().is_some_and(|at| path.starts_with(at));
        let (old, new) = (wording(old), wording(new));
        let paths: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for path in paths {
            let (before, after) = (old.get(path), new.get(path));
            if !is_same(before, after) && !is_below(path) {
                self.push((ChangeKind::Wording, Severity::Low), path, (before, after));
            }
        }
    }
}

/// What the specification takes a hint for that is not there.
fn default_of(hint: &str) -> Option<bool> {
    match hint {
        "readOnlyHint" | "idempotentHint" => Some(false),
        "destructiveHint" | "openWorldHint" => Some(true),
        _ => None,
    }
}

/// The names of both, each once, in order.
fn names<'a>(one: &'a Map<String, Value>, other: &'a Map<String, Value>) -> BTreeSet<&'a str> {
    one.keys().chain(other.keys()).map(String::as_str).collect()
}

fn is_same(one: Option<&Value>, other: Option<&Value>) -> bool {
    one == other || one.map(canonical) == other.map(canonical)
}

/// Visits every schema of a schema with its path.
fn each_schema(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Map<String, Value>)) {
    match schema {
        Value::Object(members) => {
            visit(path, members);
            for (name, member) in members {
                let path = format!("{path}/{name}");
                match (holds(name), member) {
                    (Holds::Data, _) => {}
                    (Holds::Named, Value::Object(named)) => {
                        named.iter().for_each(|(name, inner)| each_schema(inner, &format!("{path}/{name}"), visit));
                    }
                    _ => each_schema(member, &path, visit),
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_schema(item, &format!("{path}/{index}"), visit);
            }
        }
        _ => {}
    }
}

/// What the member of a schema holds.
enum Holds {
    /// Values, which are no schemas.
    Data,
    /// Schemas by name.
    Named,
    /// Schemas, or nothing of the kind.
    Schemas,
}

fn holds(keyword: &str) -> Holds {
    match shape(keyword) {
        Shape::Values | Shape::Any => Holds::Data,
        Shape::NamedSchemas | Shape::Definitions => Holds::Named,
        _ if keyword == "properties" => Holds::Named,
        _ => Holds::Schemas,
    }
}

/// The arguments that must be given, at any depth: their names by their paths.
fn required(schema: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    each_schema(schema, "inputSchema", &mut |path, schema| {
        let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in names.filter(|name| name.is_string()) {
            let at = format!("{path}/required/{}", name.as_str().unwrap_or_default());
            found.insert(at, name.clone());
        }
    });
    found
}

/// Whether a member of a schema says something to a reader and nothing about what is valid.
fn is_wording(keyword: &str, value: &Value) -> bool {
    match keyword {
        "title" | "description" | "$comment" => value.is_string(),
        "examples" | "example" => !value.is_object(),
        _ => false,
    }
}

/// A schema without its words.
fn structure(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, member)| !is_wording(name, member));
            let kept = kept.map(|(name, member)| {
                let inner = match (holds(name), member) {
                    (Holds::Data, _) => member.clone(),
                    (Holds::Named, Value::Object(named)) => {
                        Value::Object(named.iter().map(|(name, inner)| (name.clone(), structure(inner))).collect())
                    }
                    _ => structure(member),
                };
                (name.clone(), inner)
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => items.iter().map(structure).collect(),
        other => other.clone(),
    }
}

/// The words of a definition by their paths.
fn wording(definition: &Definition) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let annotations_title = definition.annotations.get("title").unwrap_or(&Value::Null);
    let own = [
        ("title", &definition.title),
        ("description", &definition.description),
        ("annotations/title", annotations_title),
    ];
    let own = own.into_iter().filter(|(_, text)| !text.is_null() && **text != "");
    found.extend(own.map(|(path, text)| (path.to_owned(), text.clone())));
    each_schema(&definition.input_schema, "inputSchema", &mut |path, schema| {
        let words = schema.iter().filter(|(name, value)| is_wording(name, value));
        found.extend(words.map(|(name, value)| (format!("{path}/{name}"), value.clone())));
    });
    found
}

/// Visits every string of a definition that may reach a model, with its path.
fn strings(definition: &Definition, visit: &mut impl FnMut(&str, &str)) {
    each_string(&definition.title, "title", visit);
    each_string(&definition.description, "description", visit);
    for (name, value) in &definition.annotations {
        each_string(value, &format!("annotations/{name}"), visit);
    }
    each_string(&definition.input_schema, "inputSchema", visit);
}

fn each_string(value: &Value, path: &str, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(path, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_string(item, &format!("{path}/{index}"), visit);
            }
        }
        Value::Object(members) => {
            // The addresses of dialects and of references name schemas; nobody is sent there.
            let told =
                members.iter().filter(|(name, _)| !name.starts_with('$') || matches!(&***name, "$comment" | "$defs"));
            told.for_each(|(name, member)| each_string(member, &format!("{path}/{name}"), visit));
        }
        _ => {}
    }
}

/// The addresses in a text: URLs of any scheme, hosts that begin with `www.`, and mail addresses.
fn addresses(text: &str) -> impl Iterator<Item = String> {
    let is_end = |c: char| c.is_whitespace() || c.is_control() || "\"'`<>()[]{}|\\^,;".contains(c);
    text.split(is_end).filter_map(|word| {
        let word = word.trim_matches(|c: char| ".:!?*_".contains(c));
        let begin = match word.find("://") {
            Some(colon) => {
                let scheme = word[..colon]
                    .bytes()
                    .rev()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
                let begin = colon - scheme.count();
                (begin < colon && word.len() > colon + 3).then_some(begin)?
            }
            None => is_host_or_mail(word).then_some(0)?,
        };
        Some(word[begin..].to_owned())
    })
}

fn is_host_or_mail(word: &str) -> bool {
    let is_host = word.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www.")) && word.len() > 4;
    let is_mail = word.split_once('@').is_some_and(|(person, host)| {
        !person.is_empty() && host.split_once('.').is_some_and(|(name, end)| !name.is_empty() && !end.is_empty())
    });
    is_host || is_mail
}

#[cfg(test)]
mod tests;
