//! Checks of values against the schemas of tools: arguments before a call, structured results after it.
//!
//! A schema is compiled once ([`SchemaCheck`], for the caller to keep) from its cleaned form: draft 2020-12, references
//! inside it only. One that is malformed, contradicts itself or would take too long is not enforced, with a warning; the
//! server then decides alone. Nothing is ever fetched.

mod cost;
mod nulls;

use serde_json::{Map, Value};

use self::cost::Cost;
use super::output::ResultView;
use super::schema::{self, Clean};
use super::{Warning, WarningCode};
use crate::error::Problem;
use crate::wire::Json;

/// The most problems that are reported of one value.
const MAX_PROBLEMS: usize = 32;

/// The longest text of one problem, in characters.
const MAX_MESSAGE: usize = 300;

/// The largest value that is checked, in bytes.
const MAX_VALUE_BYTES: usize = 4 << 20;

/// How often a pattern may go back to try another way.
const MAX_BACKTRACKS: usize = 100_000;

/// How large a compiled pattern may be, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A tool's schema, compiled once, to check many values against.
#[derive(Debug)]
pub struct SchemaCheck {
    enforced: Option<(jsonschema::Validator, Cost)>,
    /// The schema with its definitions, kept even where it is not enforced.
    schema: Value,
    warning: Option<Warning>,
}

impl SchemaCheck {
    /// A check of a tool's arguments. Any object fits a tool without an input schema.
    #[must_use]
    pub fn of_arguments(input_schema: Option<&Json>) -> Self {
        match input_schema.filter(|schema| !schema.is_null()) {
            Some(schema) => Self::new(schema, "input schema", Some("object")),
            None => Self { enforced: None, schema: Value::Bool(true), warning: None },
        }
    }

    /// A check of a tool's structured results.
    #[must_use]
    pub fn of_output(output_schema: &Json) -> Self {
        Self::new(output_schema, "output schema", None)
    }

    /// Why the schema is not enforced, when it is not.
    #[must_use]
    pub fn warning(&self) -> Option<&Warning> {
        self.warning.as_ref()
    }

    /// A check that allows values of type `wanted` only, as far as the schema says anything about types.
    fn new(json: &Json, what: &str, wanted: Option<&str>) -> Self {
        let not_enforced = |path: &str, why: String| {
            Warning::new(WarningCode::SchemaNotEnforced, path, format!("the {what} is not enforced: {why}"))
        };
        let Clean { root, definitions, warnings } = match schema::clean(json, what) {
            Ok(clean) => clean,
            Err(warning) => {
                let warning = not_enforced(&warning.path, warning.message);
                return Self { enforced: None, schema: Value::Bool(true), warning: Some(warning) };
            }
        };
        let schema = whole(root, definitions);
        let enforced = match warnings.into_vec().into_iter().next() {
            Some(repaired) => Err(not_enforced(&repaired.path, repaired.message)),
            None if contradicts_itself(&schema, wanted) => Err(not_enforced("", "it contradicts itself".to_owned())),
            None => match Cost::of(&schema) {
                Some(cost) => compile(&schema)
                    .map(|validator| (validator, cost))
                    .map_err(|error| not_enforced("", cut(&error.masked().to_string()))),
                None => Err(not_enforced("", "checking against it could take too long".to_owned())),
            },
        };
        match enforced {
            Ok(enforced) => Self { enforced: Some(enforced), schema, warning: None },
            Err(warning) => Self { enforced: None, schema, warning: Some(warning) },
        }
    }

    /// What is wrong with `json`; paths begin with `prefix`.
    fn problems(&self, json: &Json, prefix: &str) -> Vec<Problem> {
        let Some((validator, cost)) = &self.enforced else { return Vec::new() };
        if json.as_bytes().len() > MAX_VALUE_BYTES {
            return Vec::new();
        }
        let Ok(value) = json.read::<Value>() else { return Vec::new() };
        let work = cost.of_value(&value);
        if work > cost::MAX_WORK || validator.is_valid(&value) {
            return Vec::new();
        }
        if work > cost::MAX_WORK_OF_ERRORS {
            return vec![Problem::new(prefix, "the value does not fit the schema")];
        }
        let errors = validator.iter_errors(&value).take(MAX_PROBLEMS);
        errors.map(|error| problem(&error, prefix)).collect()
    }
}

/// What is wrong with a call's arguments; empty when they fit or the schema is not enforced.
#[must_use]
pub fn check_arguments(check: &SchemaCheck, arguments: &Json) -> Vec<Problem> {
    check.problems(arguments, "")
}

/// What is wrong with the structured part of a call's result; nothing else of it is looked at.
///
/// A result that reports an error, or that asks for input first, is not checked. Beyond 4 MiB nothing is.
#[must_use]
pub fn check_output(check: &SchemaCheck, result: &Json) -> Vec<Problem> {
    if check.enforced.is_none() {
        return Vec::new();
    }
    let Some(view) = ResultView::of(result) else { return Vec::new() };
    if view.is_error() || view.asks_for_input() {
        return Vec::new();
    }
    match view.structured {
        Some(structured) => check.problems(&Json::within(result.as_bytes(), structured), "/structuredContent"),
        None => vec![Problem::new("/structuredContent", "the tool has an output schema, and this is missing")],
    }
}

/// The arguments without those optional properties whose `null` the schema does not allow; unchanged bytes otherwise.
///
/// Models in strict modes give `null` for whatever they leave out, because they must give something.
#[must_use]
pub fn without_refused_nulls(check: &SchemaCheck, arguments: &Json) -> Json {
    if !arguments.as_str().contains("null") {
        return arguments.clone();
    }
    let Ok(mut value) = arguments.read::<Value>() else { return arguments.clone() };
    if nulls::drop_refused(&check.schema, &mut value) { value.into() } else { arguments.clone() }
}

fn whole(root: Value, definitions: Map<String, Value>) -> Value {
    match root {
        Value::Object(mut root) if !definitions.is_empty() => {
            root.insert("$defs".into(), definitions.into());
            root.into()
        }
        root => root,
    }
}

fn compile(schema: &Value) -> Result<jsonschema::Validator, jsonschema::ValidationError<'static>> {
    let patterns = jsonschema::PatternOptions::fancy_regex()
        .backtrack_limit(MAX_BACKTRACKS)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .with_pattern_options(patterns)
        .should_validate_formats(false)
        .offline()
        .build(schema)
}

fn problem(error: &jsonschema::ValidationError<'_>, prefix: &str) -> Problem {
    // Masked: the value itself may be large, or none of the reader's business.
    Problem::new(format!("{prefix}{}", error.instance_path()), cut(&error.masked().to_string()))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether no value can ever fit, as far as can be seen without solving the schema: no type is left, a required property
/// is forbidden, or a lower bound lies above the upper one.
fn contradicts_itself(schema: &Value, wanted: Option<&str>) -> bool {
    let Value::Object(map) = schema else { return schema == &Value::Bool(false) };
    let wrong_type = match (map.get("type"), wanted) {
        (Some(Value::String(name)), Some(wanted)) => name != wanted,
        (Some(Value::Array(names)), Some(wanted)) => !names.iter().any(|name| name == wanted),
        _ => false,
    };
    let bounds = [
        ("minimum", "maximum"),
        ("minLength", "maxLength"),
        ("minItems", "maxItems"),
        ("minProperties", "maxProperties"),
    ];
    let number = |keyword: &str| map.get(keyword).and_then(Value::as_f64);
    let crossed = |(low, high)| number(low).zip(number(high)).is_some_and(|(low, high)| low > high);
    let closed = map.get("additionalProperties") == Some(&Value::Bool(false)) && !map.contains_key("patternProperties");
    let properties = map.get("properties").and_then(Value::as_object);
    let impossible = |name: &Value| match properties.and_then(|properties| properties.get(name.as_str()?)) {
        Some(property) => contradicts_itself(property, None),
        None => closed,
    };
    let required = map.get("required").and_then(Value::as_array);
    wrong_type || bounds.into_iter().any(crossed) || required.is_some_and(|names| names.iter().any(impossible))
}

#[cfg(test)]
mod tests;
