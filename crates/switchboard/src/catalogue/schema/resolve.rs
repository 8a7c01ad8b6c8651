//! Where a reference leads inside a schema as a server wrote it. Nothing is ever fetched.

use serde_json::Value;

/// How often the whole schema is searched for an anchor or an identifier, before such references lead nowhere.
const MAX_SEARCHES: usize = 256;

/// The name of the definition that a clean schema refers to.
pub(crate) fn target_name(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// Finds the targets of references in one schema.
pub(super) struct Resolver<'a> {
    root: &'a Value,
    searches: usize,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, searches: 0 }
    }

    /// Finds the target from the root, or else from the nearest enclosing schema with definitions: some servers embed
    /// whole schemas, references and all, below a property.
    pub(super) fn resolve(&mut self, reference: &str, scopes: &[&'a Value]) -> Option<&'a Value> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let fragment = percent_decoded(fragment);
        let is_pointer = fragment.is_empty() || fragment.starts_with('/');
        self.searches += usize::from(!base.is_empty() || !is_pointer);
        if self.searches > MAX_SEARCHES {
            return None;
        }
        let found = if base.is_empty() {
            let mut scopes = std::iter::once(self.root).chain(scopes.iter().rev().copied());
            scopes.find_map(|scope| within(scope, &fragment))
        } else {
            let resource = find(self.root, &|schema| {
                schema.get("$id").and_then(Value::as_str).is_some_and(|id| id.trim_end_matches('#') == base)
            });
            resource.and_then(|resource| within(resource, &fragment))
        };
        found.filter(|target| target.is_object() || target.is_boolean())
    }
}

/// What a fragment points to inside a resource: the whole, a JSON pointer, or an anchor.
fn within<'a>(resource: &'a Value, fragment: &str) -> Option<&'a Value> {
    if fragment.is_empty() || fragment.starts_with('/') {
        return resource.pointer(fragment);
    }
    find(resource, &|schema| {
        let named = |key| schema.get(key).and_then(Value::as_str);
        named("$anchor") == Some(fragment)
            || named("$dynamicAnchor") == Some(fragment)
            || named("$id").is_some_and(|id| id.strip_prefix('#') == Some(fragment))
    })
}

/// The first value inside `value`, itself included, that `wanted` accepts.
fn find<'a>(value: &'a Value, wanted: &dyn Fn(&Value) -> bool) -> Option<&'a Value> {
    match value {
        Value::Object(_) if wanted(value) => Some(value),
        Value::Object(map) => map.values().find_map(|child| find(child, wanted)),
        Value::Array(values) => values.iter().find_map(|child| find(child, wanted)),
        _ => None,
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match hex.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
