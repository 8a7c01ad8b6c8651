//! Whether the branches of a `oneOf` exclude each other, so that it says the same as `anyOf`.

use serde_json::Value;

/// Whether no value can fit two of the branches, as far as can be told from constants and types.
pub(super) fn is_disjoint(branches: &[Value]) -> bool {
    let discriminated = |name: &String| all_distinct(branches, |branch| discriminator(branch, name));
    let names = branches.first().and_then(|first| first.get("properties")).and_then(Value::as_object);
    all_distinct(branches, values)
        || all_distinct(branches, types)
        || names.is_some_and(|names| names.keys().any(discriminated))
}

/// The values of a property that every object of this branch has.
fn discriminator<'a>(branch: &'a Value, name: &str) -> Option<Vec<&'a Value>> {
    let required = branch.get("required")?.as_array()?.iter().any(|required| required == name);
    let listed = values(branch.get("properties")?.get(name)?)?;
    (required && types(branch) == Some(vec!["object"])).then_some(listed)
}

/// Whether `parts` gives something for each branch, and nothing twice.
fn all_distinct<'a, T: PartialEq>(branches: &'a [Value], parts: impl Fn(&'a Value) -> Option<Vec<T>>) -> bool {
    let mut seen: Vec<T> = Vec::new();
    for branch in branches {
        match parts(branch) {
            Some(parts) if seen.len() < 256 && !parts.iter().any(|part| seen.contains(part)) => seen.extend(parts),
            _ => return false,
        }
    }
    true
}

/// The only values that a schema allows, where it lists them.
pub(super) fn values(schema: &Value) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => Some(vec![only]),
        (None, Some(Value::Array(values))) => Some(values.iter().collect()),
        _ => None,
    }
}

/// The types that a schema allows; `integer` counts as `number`, which it overlaps.
fn types(schema: &Value) -> Option<Vec<&str>> {
    let plain = |name| if name == "integer" { "number" } else { name };
    match schema.get("type")? {
        Value::String(name) => Some(vec![plain(name)]),
        Value::Array(names) => {
            let mut found: Vec<&str> = Vec::new();
            for name in names.iter().filter_map(Value::as_str).map(plain) {
                if !found.contains(&name) {
                    found.push(name);
                }
            }
            Some(found)
        }
        _ => None,
    }
}

/// The type of a value in the words of JSON Schema.
pub(super) fn type_of(value: &Value) -> &'static str {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn branches_are_told_apart_by_constants_types_and_discriminators() {
        let tagged =
            |tag: &str| json!({"type": "object", "properties": {"kind": {"const": tag}}, "required": ["kind"]});
        let disjoint = [
            json!([{"const": "a"}, {"enum": ["b", "c"]}]),
            json!([{"type": "string"}, {"type": ["null", "integer"]}]),
            json!([tagged("a"), tagged("b")]),
        ];
        for branches in disjoint {
            assert!(is_disjoint(branches.as_array().unwrap()), "{branches}");
        }
        let overlapping = [
            json!([{"const": "a"}, {"enum": ["b", "a"]}]),
            json!([{"type": "number"}, {"type": "integer"}]),
            json!([tagged("a"), tagged("a")]),
            json!([tagged("a"), {"type": "object", "properties": {"kind": {"const": "b"}}}]),
            json!([{"minimum": 1}, {"type": "string"}]),
        ];
        for branches in overlapping {
            assert!(!is_disjoint(branches.as_array().unwrap()), "{branches}");
        }
    }
}
