//! Request metadata of revision 2026-07-28: the `_meta` envelope, and the HTTP headers that mirror the body.
//!
//! Source: specification 2026-07-28, "Streamable HTTP", sections "Request Metadata" and "Custom Headers from Tool
//! Parameters".

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Json;

/// The `_meta` key of the revision that a request is written in.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The `_meta` key of the client's name and version.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The `_meta` key of the client's capabilities.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The `_meta` key of the server's name and version, on results.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The `_meta` key that ties a notification to its subscription.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The `_meta` key of the least severe log entries that a request asks for.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The inside of the `_meta` object that each modern request carries, without braces.
#[must_use]
pub fn envelope(version: &str, client_info: &Json, capabilities: &Json) -> String {
    format!(
        "\"{PROTOCOL_VERSION}\":\"{version}\",\"{CLIENT_INFO}\":{client_info},\"{CLIENT_CAPABILITIES}\":{capabilities}"
    )
}

/// The inside of a `_meta` object with that log level as its last member, in place of one that stands there.
#[must_use]
pub fn with_log_level(members: &str, level: &str) -> String {
    let name = format!(",\"{LOG_LEVEL}\":");
    let rest = members.rfind(&name).map_or(members, |at| &members[..at]);
    format!("{rest}{name}\"{level}\"")
}

/// A value as it may stand in a header: as it is, or in the base64 form when it could not be told apart or carried.
#[must_use]
pub fn header_value(value: &str) -> Cow<'_, str> {
    let is_plain = value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let has_edges = value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']);
    let looks_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if is_plain && !has_edges && !looks_encoded {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("=?base64?{}?=", STANDARD.encode(value)))
}

/// The body member that `Mcp-Name` mirrors, by method.
#[must_use]
pub fn name_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    }
}

/// A tool parameter that is mirrored into the header `Mcp-Param-{name}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The whole header name, in lower case.
    pub header: Box<str>,
    /// The names of properties that lead to the value in the arguments.
    pub path: Box<[Box<str>]>,
}

const ANNOTATION: &str = "x-mcp-header";

/// The parameters of an input schema that are mirrored into headers.
///
/// # Errors
/// Why a declaration is bad; the tool may then not be offered over HTTP.
pub fn param_headers(input_schema: &Json) -> Result<Vec<ParamHeader>, String> {
    if memchr::memmem::find(input_schema.as_bytes(), ANNOTATION.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let schema = input_schema.to_value();
    let mut found = Vec::new();
    if let Value::Object(root) = &schema {
        collect(root, &mut Vec::new(), &mut found)?;
    }
    // Every declaration must have been reached through `properties` alone.
    let declared = count_declarations(&schema);
    if declared != found.len() {
        return Err(format!("`{ANNOTATION}` stands where it is not reachable through `properties` alone"));
    }
    for (index, one) in found.iter().enumerate() {
        if found[..index].iter().any(|other| other.header == one.header) {
            return Err(format!("the header `{}` is declared twice", one.header));
        }
    }
    Ok(found)
}

fn collect(schema: &Map<String, Value>, path: &mut Vec<Box<str>>, found: &mut Vec<ParamHeader>) -> Result<(), String> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
    for (name, property) in properties {
        let Value::Object(property) = property else { continue };
        path.push(name.as_str().into());
        if let Some(declared) = property.get(ANNOTATION) {
            found.push(ParamHeader { header: header_name(declared, property, name)?, path: path.clone().into() });
        }
        collect(property, path, found)?;
        path.pop();
    }
    Ok(())
}

fn header_name(declared: &Value, property: &Map<String, Value>, parameter: &str) -> Result<Box<str>, String> {
    let Value::String(name) = declared else {
        return Err(format!("`{ANNOTATION}` of `{parameter}` is not a string"));
    };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("`{ANNOTATION}` of `{parameter}` is not a header name: `{}`", name.escape_debug()));
    }
    if !matches!(property.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err(format!("`{ANNOTATION}` of `{parameter}` needs the type string, integer or boolean"));
    }
    Ok(format!("mcp-param-{}", name.to_ascii_lowercase()).into())
}

/// How often the annotation stands in the places where a schema keyword may stand, wherever that is.
fn count_declarations(value: &Value) -> usize {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| match name.as_str() {
                ANNOTATION => 1,
                // Names of properties are names, not keywords; data is data.
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => match member {
                    Value::Object(schemas) => schemas.values().map(count_declarations).sum(),
                    _ => 0,
                },
                "default" | "const" | "enum" | "examples" => 0,
                _ => count_declarations(member),
            })
            .sum(),
        Value::Array(elements) => elements.iter().map(count_declarations).sum(),
        _ => 0,
    }
}

/// The largest integer that all sides read alike (IEEE 754 double precision).
const SAFE_INTEGER: i64 = (1 << 53) - 1;

/// The header's value for these arguments; `None` when the parameter is absent, null, or no value of its kind.
#[must_use]
pub fn param_value(header: &ParamHeader, arguments: &Value) -> Option<String> {
    let value = header.path.iter().try_fold(arguments, |value, name| value.get(&**name))?;
    match value {
        Value::String(text) => Some(header_value(text).into_owned()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => (-SAFE_INTEGER..=SAFE_INTEGER).contains(&integer).then(|| integer.to_string()),
            None => Some(number.to_string()),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_a_header_cannot_carry_are_encoded() {
        let table = [
            ("us-west1", "us-west1"),
            ("", ""),
            ("a b", "a b"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ];
        for (value, header) in table {
            assert_eq!(header_value(value), header, "{value:?}");
        }
    }

    fn headers(schema: Value) -> Result<Vec<ParamHeader>, String> {
        param_headers(&schema.into())
    }

    #[test]
    fn declared_parameters_are_found_at_any_depth_of_properties() {
        let found = headers(json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "x-mcp-header": {"type": "string"},
        }}))
        .unwrap();
        let arguments = json!({"region": "ü", "deep": {"n": 42}});
        let values: Vec<_> = found.iter().map(|header| (&*header.header, param_value(header, &arguments))).collect();
        let expected =
            [("mcp-param-region", Some("=?base64?w7w=?=".to_owned())), ("mcp-param-n", Some("42".to_owned()))];
        assert_eq!(values, expected);
        assert_eq!(param_value(&found[0], &json!({"region": null})), None);
        assert_eq!(param_value(&found[0], &json!({})), None);
    }

    #[test]
    fn bad_declarations_are_refused() {
        let property = |property: Value| json!({"type": "object", "properties": {"a": property}});
        let table = [
            property(json!({"type": "string", "x-mcp-header": ""})),
            property(json!({"type": "string", "x-mcp-header": "a b"})),
            property(json!({"type": "string", "x-mcp-header": "a\nb"})),
            property(json!({"type": "string", "x-mcp-header": 5})),
            property(json!({"type": "number", "x-mcp-header": "A"})),
            property(json!({"type": "object", "x-mcp-header": "A"})),
            property(json!({"x-mcp-header": "A"})),
            property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
            property(json!({"anyOf": [{"type": "string", "x-mcp-header": "A"}]})),
            json!({"type": "object", "$defs": {"d": {"type": "string", "x-mcp-header": "A"}}}),
            json!({"type": "object", "properties": {
                "a": {"type": "string", "x-mcp-header": "Same"}, "b": {"type": "string", "x-mcp-header": "same"}}}),
        ];
        for schema in table {
            assert!(headers(schema.clone()).is_err(), "{schema}");
        }
    }
}
