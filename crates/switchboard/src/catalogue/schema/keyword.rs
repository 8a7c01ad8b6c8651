//! The keywords of JSON Schema and the shape of their values.

use serde_json::Value;

/// What the value of a keyword must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One schema.
    Schema,
    /// A list of schemas that is not empty.
    Schemas,
    /// Schemas by name.
    NamedSchemas,
    /// Definitions, which are reached only through references.
    Definitions,
    /// A reference to another schema.
    Reference,
    /// Says what a schema is called, or in which dialect it is written; means nothing once references are resolved.
    Identity,
    /// A text.
    Text,
    /// A number.
    Number,
    /// A whole number that is not negative.
    Count,
    /// `true` or `false`.
    Flag,
    /// A list of any values that is not empty.
    Values,
    /// Lists of names by name.
    NameLists,
    /// One value of any kind, `null` included.
    Any,
    /// `type`, `required`, `items` and those of older drafts, which need more care.
    Special,
    /// Not a keyword of JSON Schema.
    Unknown,
}

/// The shape of the value of `keyword`.
pub(crate) fn shape(keyword: &str) -> Shape {
    match keyword {
        "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Shape::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Shape::Schemas,
        "dependentSchemas" | "patternProperties" => Shape::NamedSchemas,
        "$defs" | "definitions" => Shape::Definitions,
        "$dynamicRef" | "$recursiveRef" | "$ref" => Shape::Reference,
        "$anchor" | "$comment" | "$dynamicAnchor" | "$id" | "$recursiveAnchor" | "$schema" | "$vocabulary" => {
            Shape::Identity
        }
        "contentEncoding" | "contentMediaType" | "description" | "format" | "pattern" | "title" => Shape::Text,
        "maximum" | "minimum" | "multipleOf" => Shape::Number,
        "maxContains" | "maxItems" | "maxLength" | "maxProperties" | "minContains" | "minItems" | "minLength"
        | "minProperties" => Shape::Count,
        "deprecated" | "readOnly" | "uniqueItems" | "writeOnly" => Shape::Flag,
        "enum" | "examples" => Shape::Values,
        "dependentRequired" => Shape::NameLists,
        "const" | "default" | "example" => Shape::Any,
        "additionalItems" | "dependencies" | "exclusiveMaximum" | "exclusiveMinimum" | "id" | "items"
        | "properties" | "required" | "type" => Shape::Special,
        _ => Shape::Unknown,
    }
}

/// Whether `value` has a plain shape, one that is checked without looking further.
pub(crate) fn fits(shape: Shape, value: &Value) -> bool {
    match shape {
        Shape::Text | Shape::Reference => value.is_string(),
        Shape::Number => value.is_number(),
        Shape::Count => value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0),
        Shape::Flag => value.is_boolean(),
        Shape::Values => value.as_array().is_some_and(|values| !values.is_empty()),
        Shape::NameLists => value.as_object().is_some_and(|lists| {
            lists.values().all(|list| list.as_array().is_some_and(|names| names.iter().all(Value::is_string)))
        }),
        _ => true,
    }
}

/// Whether a keyword only describes, so that leaving it out changes nothing about what is valid.
pub(crate) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "contentEncoding"
            | "contentMediaType"
            | "contentSchema"
            | "default"
            | "deprecated"
            | "description"
            | "example"
            | "examples"
            | "format"
            | "readOnly"
            | "title"
            | "writeOnly"
    ) || shape(keyword) == Shape::Unknown
}

/// The type that `name` names, in whatever case it is written.
pub(crate) fn type_name(name: &str) -> Option<&'static str> {
    const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
    TYPES.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

/// The schemas directly inside a well-formed schema, definitions left out.
pub(crate) fn children(schema: &serde_json::Map<String, Value>) -> impl Iterator<Item = &Value> {
    schema.iter().flat_map(|(keyword, value)| -> Box<dyn Iterator<Item = &Value>> {
        match (shape(keyword), value) {
            (Shape::Schema, value) => Box::new(std::iter::once(value)),
            (Shape::Schemas, Value::Array(schemas)) => Box::new(schemas.iter()),
            (Shape::NamedSchemas, Value::Object(schemas)) => Box::new(schemas.values()),
            (Shape::Special, value) if keyword == "items" => Box::new(std::iter::once(value)),
            (Shape::Special, Value::Object(schemas)) if keyword == "properties" => Box::new(schemas.values()),
            _ => Box::new(std::iter::empty()),
        }
    })
}

/// Calls `edit` with every schema directly inside a well-formed schema and its place, definitions left out.
pub(crate) fn edit_children(
    schema: &mut serde_json::Map<String, Value>,
    path: &mut String,
    edit: &mut dyn FnMut(&mut Value, &mut String),
) {
    for (keyword, value) in schema.iter_mut() {
        let start = path.len();
        push(path, keyword);
        match (shape(keyword), value) {
            (Shape::Schema, value) => edit(value, path),
            (Shape::Schemas, Value::Array(schemas)) => {
                for (index, child) in schemas.iter_mut().enumerate() {
                    let length = path.len();
                    push(path, &index.to_string());
                    edit(child, path);
                    path.truncate(length);
                }
            }
            (Shape::NamedSchemas, Value::Object(schemas)) => edit_named(schemas, path, edit),
            (Shape::Special, value) if keyword == "items" => edit(value, path),
            (Shape::Special, Value::Object(schemas)) if keyword == "properties" => edit_named(schemas, path, edit),
            _ => {}
        }
        path.truncate(start);
    }
}

fn edit_named(
    schemas: &mut serde_json::Map<String, Value>,
    path: &mut String,
    edit: &mut dyn FnMut(&mut Value, &mut String),
) {
    for (name, child) in schemas {
        let length = path.len();
        push(path, name);
        edit(child, path);
        path.truncate(length);
    }
}

/// Appends one step to a JSON pointer.
pub(crate) fn push(path: &mut String, step: &str) {
    path.push('/');
    for character in step.chars() {
        match character {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            other => path.push(other),
        }
    }
}
