//! Two schemas that must both hold, as one schema without `allOf`, where that is exact.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::keyword;

type Object = Map<String, Value>;

/// One schema that is valid for exactly what both are valid for; `None` when that takes an `allOf`.
///
/// Where both describe (a title, a default), the first one's description is kept.
pub(crate) fn conjunction(first: &Object, second: &Object) -> Option<Object> {
    if !is_independent(first, second) || !is_independent(second, first) {
        return None;
    }
    let mut out = first.clone();
    for (key, value) in second {
        let merged = match (out.get(key), value) {
            (None, _) => value.clone(),
            (Some(same), _) if same == value => continue,
            (Some(Value::Object(a)), Value::Object(b)) if key == "properties" => merge_properties(a, b)?.into(),
            (Some(Value::Array(a)), Value::Array(b)) if key == "required" => {
                let known: HashSet<Option<&str>> = a.iter().map(Value::as_str).collect();
                a.iter().chain(b.iter().filter(|name| !known.contains(&name.as_str()))).cloned().collect()
            }
            (Some(Value::Array(a)), Value::Array(b)) if key == "allOf" => a.iter().chain(b).cloned().collect(),
            (Some(a), b) if key == "type" => common_types(a, b)?,
            (Some(_), _) if keyword::is_annotation(key) => continue,
            _ => return None,
        };
        out.insert(key.clone(), merged);
    }
    Some(out)
}

/// The conjunction, with an `allOf` where it takes one.
pub(crate) fn both(first: Object, second: Object) -> Object {
    if let Some(merged) = conjunction(&first, &second) {
        return merged;
    }
    let mut out = first;
    match out.get_mut("allOf") {
        Some(Value::Array(all)) => all.push(second.into()),
        _ => {
            out.insert("allOf".into(), Value::Array(vec![second.into()]));
        }
    }
    out
}

/// Whether no keyword of `one` looks at the keywords beside it in a way that those of `other` would change.
fn is_independent(one: &Object, other: &Object) -> bool {
    let has = |key: &str| other.contains_key(key) && one.get(key) != other.get(key);
    let closed = one.get("additionalProperties").is_some_and(|extra| *extra != Value::Bool(true));
    let known = one.get("properties").and_then(Value::as_object);
    let opened = other
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|more| more.keys().any(|name| !known.is_some_and(|known| known.contains_key(name))));
    let unevaluated = one.contains_key("unevaluatedProperties") || one.contains_key("unevaluatedItems");
    !(closed && (opened || has("patternProperties"))
        || unevaluated && !other.keys().all(|key| keyword::is_annotation(key))
        || one.contains_key("items") && has("prefixItems")
        || one.contains_key("contains") && (has("minContains") || has("maxContains"))
        || one.contains_key("if") && (has("then") || has("else"))
        || one.contains_key("$ref") && has("$ref"))
}

fn merge_properties(first: &Object, second: &Object) -> Option<Object> {
    let mut out = first.clone();
    for (name, schema) in second {
        let merged = match (out.get(name), schema) {
            (None, _) => schema.clone(),
            (Some(same), _) if same == schema => continue,
            (Some(Value::Object(a)), Value::Object(b)) => conjunction(a, b)?.into(),
            _ => return None,
        };
        out.insert(name.clone(), merged);
    }
    Some(out)
}

fn common_types(first: &Value, second: &Value) -> Option<Value> {
    let list = |value: &Value| -> Vec<String> {
        match value {
            Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            other => other.as_str().map(str::to_owned).into_iter().collect(),
        }
    };
    let (first, second) = (list(first), list(second));
    let holds = |names: &[String], name: &str| names.iter().any(|known| known == name);
    let mut common: Vec<String> = first.iter().filter(|name| holds(&second, name)).cloned().collect();
    for (one, other) in [(&first, &second), (&second, &first)] {
        if holds(one, "integer") && holds(other, "number") && !holds(&common, "number") && !holds(&common, "integer") {
            common.push("integer".to_owned());
        }
    }
    match common.as_slice() {
        [] => None,
        [only] => Some(only.clone().into()),
        _ => Some(common.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(first: &Value, second: &Value) -> Option<Value> {
        conjunction(first.as_object().unwrap(), second.as_object().unwrap()).map(Value::Object)
    }

    #[test]
    fn independent_keywords_stand_side_by_side() {
        let (a, b) = (json!({"type": "string", "title": "A"}), json!({"minLength": 2, "title": "B"}));
        assert_eq!(merged(&a, &b), Some(json!({"type": "string", "title": "A", "minLength": 2})));
        let (a, b) = (json!({"type": ["string", "null"]}), json!({"type": "string"}));
        assert_eq!(merged(&a, &b), Some(json!({"type": "string"})));
        let (a, b) = (json!({"type": "number"}), json!({"type": "integer"}));
        assert_eq!(merged(&a, &b), Some(json!({"type": "integer"})));
    }

    #[test]
    fn a_merge_that_would_change_the_meaning_is_refused() {
        let closed = json!({"properties": {"a": {}}, "additionalProperties": false});
        assert_eq!(merged(&closed, &json!({"properties": {"b": {}}})), None);
        assert_eq!(merged(&json!({"properties": {"b": {}}}), &closed), None);
        assert_eq!(merged(&json!({"type": "string"}), &json!({"type": "object"})), None);
        assert_eq!(merged(&json!({"minimum": 1}), &json!({"minimum": 2})), None);
    }
}
