//! The headers that a modern server checks against the body.

use base64::Engine as _;
use serde_json::Value;

use crate::http::exchange::HttpRequest;
use crate::peer::{Peer, VERSION_KEY};

/// Why the headers of a modern request do not fit its body, if they do not.
pub(crate) fn mismatch(peer: &Peer, request: &HttpRequest, message: &Value) -> Option<String> {
    let params = &message["params"];
    let method = message["method"].as_str()?;
    // There are no rules for the headers of notifications.
    message.get("id")?;
    let version = &params["_meta"][VERSION_KEY];
    differs(request, "mcp-protocol-version", version)
        .or_else(|| differs(request, "mcp-method", &message["method"]))
        .or_else(|| match method {
            "tools/call" | "prompts/get" => differs(request, "mcp-name", &params["name"]),
            "resources/read" => differs(request, "mcp-name", &params["uri"]),
            _ => None,
        })
        .or_else(|| (method == "tools/call").then(|| arguments_mismatch(peer, request, params)).flatten())
}

fn arguments_mismatch(peer: &Peer, request: &HttpRequest, params: &Value) -> Option<String> {
    let schema = peer.script(|script| {
        let tool = script.tools.iter().find(|tool| tool.definition["name"] == params["name"]);
        tool.map(|tool| tool.definition["inputSchema"].clone())
    })?;
    let mut declared = Vec::new();
    collect_declared(&schema, &params["arguments"], &mut declared);
    declared.into_iter().find_map(|(name, value)| differs(request, &format!("mcp-param-{name}"), &value))
}

/// The values of all arguments that the schema mirrors into headers.
fn collect_declared(schema: &Value, arguments: &Value, declared: &mut Vec<(String, Value)>) {
    for (property, schema) in schema["properties"].as_object().into_iter().flatten() {
        let value = &arguments[property];
        if let Some(name) = schema["x-mcp-header"].as_str()
            && !value.is_null()
        {
            declared.push((name.to_owned(), value.clone()));
        }
        collect_declared(schema, value, declared);
    }
}

fn differs(request: &HttpRequest, header: &str, expected: &Value) -> Option<String> {
    let Some(given) = request.header(header) else {
        return Some(format!("the header `{header}` is missing"));
    };
    let given = decoded(given);
    let same = match expected {
        Value::String(text) => given == *text,
        Value::Number(number) => given.parse::<f64>().ok() == number.as_f64(),
        other => serde_json::from_str(&given).is_ok_and(|given: Value| given == *other),
    };
    (!same).then(|| format!("the header `{header}` is `{given}`, but the body has {expected}"))
}

/// Undoes `=?base64?…?=`.
fn decoded(value: &str) -> String {
    let coded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let bytes = coded.and_then(|coded| base64::engine::general_purpose::STANDARD.decode(coded).ok());
    bytes.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_else(|| value.to_owned())
}
