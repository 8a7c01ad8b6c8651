//! Tests of how requests to servers are read.

use super::*;
use crate::body::parse;

fn call(text: &str) -> Result<ToolCall, String> {
    let request: ToolRequest = parse(text.as_bytes()).map_err(|problem| path(&problem))?;
    request.call().map_err(|problem| path(&problem))
}

fn path(problem: &Problem) -> String {
    let document = serde_json::to_value(problem).unwrap();
    assert_eq!(document["status"], 422);
    document["errors"][0]["path"].as_str().unwrap().to_owned()
}

#[test]
fn a_tool_is_named_by_server_and_name_or_by_key() {
    let by_name = call(r#"{"serverId":"a.b","name":"search"}"#).unwrap();
    assert_eq!((by_name.server.unwrap().as_str(), &*by_name.tool), ("a-b", "search"));
    let by_key = call(r#"{"tool":"tool_a_search"}"#).unwrap();
    assert_eq!((by_key.server, &*by_key.tool), (None, "tool_a_search"));
    for (text, path) in [
        (r#"{}"#, "tool"),
        (r#"{"serverId":"a"}"#, "name"),
        (r#"{"name":"search"}"#, "serverId"),
        (r#"{"serverId":"a","name":"search","tool":"k"}"#, "tool"),
        (r#"{"serverId":"","name":"search"}"#, "serverId"),
    ] {
        assert_eq!(call(text).unwrap_err(), path, "{text}");
    }
}

#[test]
fn arguments_are_sent_as_given_and_must_be_an_object() {
    let given = call(r#"{"tool":"k","arguments":{ "n": 1.0, "id": 12345678901234567890123 }}"#).unwrap();
    assert_eq!(given.arguments.unwrap().as_str(), r#"{ "n": 1.0, "id": 12345678901234567890123 }"#);
    for absent in [r#"{"tool":"k"}"#, r#"{"tool":"k","arguments":null}"#] {
        assert!(call(absent).unwrap().arguments.is_none());
    }
    for wrong in [r#"{"tool":"k","arguments":[]}"#, r#"{"tool":"k","arguments":"{}"}"#, r#"{"tool":"k","arguments":1}"#]
    {
        assert_eq!(call(wrong).unwrap_err(), "arguments", "{wrong}");
    }
}

#[test]
fn times_are_bounded() {
    let given = call(r#"{"tool":"k","timeoutMs":1500,"deadlineMs":2000,"validate":true}"#).unwrap();
    assert_eq!(given.limits.timeout, Some(Duration::from_millis(1500)));
    assert_eq!(given.limits.deadline, Some(Duration::from_secs(2)));
    assert!(given.validate);
    assert_eq!(call(r#"{"tool":"k","timeoutMs":0}"#).unwrap_err(), "timeoutMs");
    assert_eq!(call(r#"{"tool":"k","deadlineMs":86400001}"#).unwrap_err(), "deadlineMs");
    assert_eq!(call(r#"{"tool":"k","timeoutMs":"1s"}"#).unwrap_err(), "timeoutMs");
}

#[test]
fn headers_are_given_by_name_and_never_printed() {
    let text = r#"{"tool":"k","headers":{"X-Tenant":"s3cret"},"retryIfSafe":true}"#;
    let given = call(text).unwrap();
    assert!(given.retry_if_safe && !format!("{given:?}").contains("s3cret"));
    let request: ToolRequest = parse(text.as_bytes()).unwrap();
    assert!(!format!("{request:?}").contains("s3cret"));
    assert_eq!(call(r#"{"tool":"k","headers":{"content-language":"de"}}"#).unwrap_err(), "headers");
    for wrong in [r#"{"tool":"k","headers":{"Host":"x"}}"#, r#"{"tool":"k","headers":"x"}"#] {
        assert!(call(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_idempotency_key_stands_for_one_call() {
    let key = |text: &str| {
        let request: ToolRequest = parse(text.as_bytes()).unwrap();
        request.key(&request.call().unwrap()).map_err(|problem| path(&problem))
    };
    let first = key(r#"{"tool":"k","arguments":{"a":1},"idempotencyKey":"x"}"#).unwrap();
    assert_eq!(key(r#"{"idempotencyKey":"x","tool":"k","arguments":{"a":1}}"#).unwrap(), first);
    assert_ne!(key(r#"{"tool":"k","arguments":{"a":2},"idempotencyKey":"x"}"#).unwrap(), first);
    assert_eq!(key(r#"{"tool":"k"}"#).unwrap(), None);
    assert_eq!(key(r#"{"tool":"k","idempotencyKey":""}"#).unwrap_err(), "idempotencyKey");
}

#[test]
fn a_completion_is_passed_on_as_given() {
    let request: CompleteRequest = parse(
        br#"{"serverId":"a","ref":{"type":"ref/prompt", "name":"p"},"argument":{"name":"x","value":"1"},"timeoutMs":5}"#,
    )
    .unwrap();
    assert_eq!(
        request.parameters().unwrap().as_str(),
        r#"{"ref":{"type":"ref/prompt", "name":"p"},"argument":{"name":"x","value":"1"}}"#
    );
}
