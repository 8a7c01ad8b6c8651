//! Definitions written out where they are referred to, for providers that do not take references.
//!
//! Chains of references that double at each step, and references that lead in circles, would grow without end. Both are
//! bounded: past the bound a reference is kept, or cut to the bare type with a warning.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::resolve::target_name;
use super::{keyword, merge};
use crate::catalogue::{WarningCode, Warnings};

type Object = Map<String, Value>;

/// How deep below the root a reference is still written out, in schemas. With the definition's own depth the result stays
/// below the depth that JSON readers commonly accept.
const MAX_DEPTH: usize = 24;

/// How many bytes of definitions are written out.
const MAX_BYTES: usize = 1 << 20;

/// The longest description that a cut reference keeps, in bytes.
const MAX_STUB_TEXT: usize = 300;

/// What becomes of a reference that cannot be written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endless {
    /// It stays a reference, and its definition stays in `$defs`.
    Keep,
    /// It becomes the bare type of its target, with a warning.
    Cut,
}

/// A clean schema with its references written out.
pub(crate) fn inline(mut schema: Object, endless: Endless, warnings: &mut Warnings) -> Object {
    let Some(Value::Object(definitions)) = schema.remove("$defs") else { return schema };
    let mut inliner = Inliner {
        circular: circular(&definitions),
        definitions: &definitions,
        endless,
        stack: Vec::new(),
        kept: Vec::new(),
        left: MAX_BYTES,
        sizes: definitions.iter().map(|(name, schema)| (name.as_str(), schema.to_string().len())).collect(),
        warnings,
    };
    let mut root = Value::Object(schema);
    inliner.expand(&mut root, 0, &mut String::new());
    let mut kept = Object::new();
    while let Some(name) = inliner.kept.pop() {
        if !kept.contains_key(name) {
            let mut definition = definitions[name].clone();
            inliner.expand(&mut definition, 0, &mut format!("/$defs/{name}"));
            kept.insert(name.to_owned(), definition);
        }
    }
    let mut out = match root {
        Value::Object(out) => out,
        _ => Object::new(),
    };
    if !kept.is_empty() {
        out.insert("$defs".into(), kept.into());
    }
    out
}

struct Inliner<'a> {
    definitions: &'a Object,
    circular: HashSet<&'a str>,
    endless: Endless,
    /// The definitions that are being written out right now.
    stack: Vec<&'a str>,
    kept: Vec<&'a str>,
    /// How many more bytes may be written out, and how many each definition has.
    left: usize,
    sizes: HashMap<&'a str, usize>,
    warnings: &'a mut Warnings,
}

impl<'a> Inliner<'a> {
    fn expand(&mut self, schema: &mut Value, depth: usize, path: &mut String) {
        let target = target_name(schema).and_then(|name| self.definitions.get_key_value(name));
        let mut entered = false;
        if let (Some((name, definition)), Value::Object(map)) = (target, &mut *schema) {
            let size = self.sizes.get(name.as_str()).copied().unwrap_or(0);
            let spent = size > self.left || depth > MAX_DEPTH;
            match self.endless {
                Endless::Keep if spent || self.circular.contains(name.as_str()) => self.kept.push(name),
                Endless::Cut if spent || self.stack.contains(&name.as_str()) => {
                    let message = format!("`{name}` contains itself or is too large to be written out; cut here");
                    self.warnings.push(WarningCode::SchemaWidened, path, message);
                    map.remove("$ref");
                    let stub = stub(definition);
                    *map = merge::both(std::mem::take(map), stub);
                }
                _ => {
                    self.left -= size;
                    map.remove("$ref");
                    let beside = std::mem::take(map);
                    self.stack.push(name);
                    entered = true;
                    *schema = written_out(beside, definition);
                }
            }
        }
        if entered && target_name(schema).is_some() {
            self.expand(schema, depth + 1, path);
        } else if let Value::Object(map) = schema {
            keyword::edit_children(map, path, &mut |child, path| self.expand(child, depth + 1, path));
        }
        if entered {
            self.stack.pop();
        }
    }
}

/// A definition in the place of a reference, together with what stood beside the reference.
fn written_out(beside: Object, definition: &Value) -> Value {
    match definition {
        Value::Object(definition) if beside.is_empty() => definition.clone().into(),
        Value::Object(definition) => merge::both(beside, definition.clone()).into(),
        Value::Bool(true) => beside.into(),
        other => other.clone(),
    }
}

/// What is left of a definition that is cut: its type and its description.
fn stub(definition: &Value) -> Object {
    let kept = ["type", "title", "description"];
    let short = |value: &&Value| value.as_str().is_none_or(|text| text.len() <= MAX_STUB_TEXT);
    let part = |key: &str| definition.get(key).filter(short).map(|value| (key.to_owned(), value.clone()));
    kept.into_iter().filter_map(part).collect()
}

/// The definitions that contain themselves, directly or over others.
///
/// Taking away, again and again, what refers to nothing that is left, and then what nothing that is left refers to,
/// leaves the circles (and the ways from one circle to another).
fn circular(definitions: &Object) -> HashSet<&str> {
    let mut forward: HashMap<&str, Vec<&str>> = HashMap::new();
    let mut backward: HashMap<&str, Vec<&str>> = HashMap::new();
    for (name, definition) in definitions {
        let mut targets = Vec::new();
        references(definition, &mut targets);
        for target in targets.into_iter().filter_map(|target| definitions.get_key_value(target)) {
            forward.entry(name).or_default().push(target.0);
            backward.entry(target.0).or_default().push(name);
        }
    }
    let mut left: HashSet<&str> = definitions.keys().map(String::as_str).collect();
    for (outgoing, incoming) in [(&forward, &backward), (&backward, &forward)] {
        let edges = |name: &str| outgoing.get(name).map_or(0, |to| to.iter().filter(|to| left.contains(*to)).count());
        let mut degree: HashMap<&str, usize> = left.iter().map(|name| (*name, edges(name))).collect();
        let mut free: Vec<&str> = degree.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
        while let Some(name) = free.pop() {
            left.remove(name);
            for from in incoming.get(name).into_iter().flatten() {
                if let Some(count) = degree.get_mut(from).filter(|count| **count > 0) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(from);
                    }
                }
            }
        }
    }
    left
}

/// The definitions that a clean schema refers to, anywhere inside.
pub(super) fn references<'a>(schema: &'a Value, found: &mut Vec<&'a str>) {
    found.extend(target_name(schema));
    if let Value::Object(map) = schema {
        for child in keyword::children(map) {
            references(child, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inlined(schema: Value, endless: Endless) -> (Value, Vec<crate::catalogue::Warning>) {
        let mut warnings = Warnings::default();
        let Value::Object(schema) = schema else { panic!("not an object") };
        (inline(schema, endless, &mut warnings).into(), warnings.into_vec())
    }

    #[test]
    fn a_chain_of_references_is_written_out_with_the_descriptions_beside_it() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}},
            "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/C"}, "C": {"type": "string"}},
        });
        for endless in [Endless::Keep, Endless::Cut] {
            let (schema, warnings) = inlined(schema.clone(), endless);
            let wanted = json!({"type": "object", "properties": {"a": {"description": "mine", "type": "string"}}});
            assert_eq!(schema, wanted);
            assert!(warnings.is_empty());
        }
    }

    fn tree() -> Value {
        json!({
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/Node"}, "leaf": {"$ref": "#/$defs/Leaf"}},
            "$defs": {
                "Node": {"type": "object", "properties": {
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                    "leaf": {"$ref": "#/$defs/Leaf"},
                }},
                "Leaf": {"type": "integer"},
            },
        })
    }

    #[test]
    fn a_circle_stays_a_reference_where_references_are_allowed() {
        let (schema, warnings) = inlined(tree(), Endless::Keep);
        assert_eq!(schema["properties"]["tree"], json!({"$ref": "#/$defs/Node"}));
        assert_eq!(schema["properties"]["leaf"], json!({"type": "integer"}));
        assert_eq!(schema["$defs"]["Node"]["properties"]["leaf"], json!({"type": "integer"}));
        assert!(schema["$defs"].get("Leaf").is_none());
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_circle_is_cut_with_a_warning_where_they_are_not() {
        let (schema, warnings) = inlined(tree(), Endless::Cut);
        assert_eq!(schema["properties"]["tree"]["properties"]["children"]["items"], json!({"type": "object"}));
        assert!(!schema.to_string().contains("$ref"), "{schema}");
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].path, "/properties/tree/properties/children/items");
    }

    #[test]
    fn references_that_double_at_each_step_stay_within_the_bound() {
        let mut definitions = Object::new();
        for level in 0..40 {
            let next = format!("#/$defs/L{}", level + 1);
            let both = json!({"type": "object", "properties": {"a": {"$ref": next}, "b": {"$ref": next}}});
            definitions.insert(format!("L{level}"), both);
        }
        definitions.insert("L40".into(), json!({"type": "string"}));
        let schema = json!({"properties": {"x": {"$ref": "#/$defs/L0"}}, "$defs": definitions});
        let (cut, warnings) = inlined(schema.clone(), Endless::Cut);
        assert!(cut.to_string().len() < 2_000_000 && !cut.to_string().contains("$ref"));
        assert!(!warnings.is_empty());
        let (kept, _) = inlined(schema, Endless::Keep);
        assert!(kept.to_string().len() < 2_000_000);
        let mut found = Vec::new();
        references(&kept, &mut found);
        assert!(found.iter().all(|name| kept["$defs"].get(name).is_some()), "every reference resolves");
    }
}
