//! The probe for the protocol's era, as text, and what an answer to it means.

use serde_json::{Value, json};

use super::steps::Finding;

/// The modern revision that is asked for.
pub(super) const MODERN: &str = "2026-07-28";

/// The legacy revision that is offered.
const LEGACY: &str = "2025-11-25";

fn client() -> Value {
    json!({"name": "switchboard-doctor", "version": env!("CARGO_PKG_VERSION")})
}

/// `server/discover`, the first question to a modern server.
pub(super) fn discover() -> Value {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientInfo": client(),
        "io.modelcontextprotocol/clientCapabilities": {}});
    json!({"jsonrpc": "2.0", "id": "doctor-1", "method": "server/discover", "params": {"_meta": meta}})
}

/// `initialize`, the first question to a legacy server.
pub(super) fn initialize() -> Value {
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client()});
    json!({"jsonrpc": "2.0", "id": "doctor-1", "method": "initialize", "params": params})
}

/// What the answer to `server/discover` says about the server's era.
pub(super) fn era(answer: &Value) -> Finding {
    let versions = answer.pointer("/result/supportedVersions").or_else(|| answer.pointer("/error/data/supported"));
    let versions: Vec<&str> =
        versions.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let code = answer.pointer("/error/code").and_then(Value::as_i64);
    match code {
        None if versions.is_empty() => Finding::ok("legacy: the answer to `server/discover` is of no use"),
        None => Finding::ok(format!("modern: {}", versions.join(", "))),
        Some(-32022) => Finding::ok(format!("modern, but not {MODERN}: {}", versions.join(", "))),
        Some(-32021 | -32020) => Finding::ok("modern: it asks for more than a probe carries"),
        Some(code) => Finding::ok(format!("legacy: `server/discover` is answered with error {code}")),
    }
}

/// The first JSON-RPC message of a body that is JSON or an event stream.
pub(super) fn message(body: &str) -> Option<Value> {
    let is_message = |value: &Value| value.get("jsonrpc").is_some();
    if let Ok(value) = serde_json::from_str::<Value>(body) {
        return Some(value).filter(is_message);
    }
    let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data).ok()).find(is_message)
}

/// Where messages go, by the `endpoint` event of an event stream.
pub(super) fn endpoint(body: &str) -> Option<&str> {
    // A line without its end may go on.
    let lines = body.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::trim_end);
    let mut lines = lines.skip_while(|line| line.replace(' ', "") != "event:endpoint");
    let data = lines.find_map(|line| line.strip_prefix("data:"))?;
    Some(data.trim()).filter(|data| !data.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_tell_the_era() {
        let table = [
            (json!({"result": {"supportedVersions": [MODERN]}}), "modern: 2026-07-28"),
            (json!({"result": {}}), "legacy"),
            (json!({"error": {"code": -32601}}), "legacy"),
            (json!({"error": {"code": -32022, "data": {"supported": ["2027-01-01"]}}}), "2027-01-01"),
            (json!({"error": {"code": -32020}}), "modern"),
        ];
        for (answer, expected) in table {
            assert!(era(&answer).found.contains(expected), "{answer}");
        }
    }

    #[test]
    fn the_endpoint_of_an_event_stream_is_found() {
        let body = "data: hello\n\nevent: endpoint\r\ndata: /messages?session=1\r\n\r\n";
        assert_eq!(endpoint(body), Some("/messages?session=1"));
        assert_eq!(endpoint("event: message\ndata: /messages\n\n"), None);
        assert_eq!(endpoint("event: endpoint\ndata:\n\n"), None);
    }

    #[test]
    fn messages_are_found_in_json_and_in_event_streams() {
        assert!(message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_some());
        assert!(message("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n").is_some());
        assert!(message("<html>").is_none());
        assert!(message("{}").is_none());
    }
}
