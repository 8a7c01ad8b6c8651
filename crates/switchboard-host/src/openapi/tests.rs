//! The description is whole, valid, and what `docs/` holds.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::code;

fn described() -> Value {
    serde_json::from_str(&openapi_json()).unwrap()
}

/// Every value in a tree, itself included.
fn walk<'a>(value: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    visit(value);
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        Value::Object(members) => members.values().for_each(|member| walk(member, visit)),
        _ => {}
    }
}

/// Methods and paths of the document.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().unwrap().iter().map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
        })
        .collect()
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let document = described();
    let described: BTreeSet<(&str, &str)> =
        operations(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
    let instance = "/agents/{agent}/{instance}";
    let routes = [
        ("get", "/"),
        ("get", "/healthz"),
        ("get", "/readyz"),
        ("get", "/metrics"),
        ("get", "/openapi.json"),
        ("get", "~/servers"),
        ("post", "~/servers"),
        ("patch", "~/servers/{id}"),
        ("delete", "~/servers/{id}"),
        ("post", "~/servers/{id}/connect"),
        ("post", "~/servers/{id}/discover"),
        ("post", "~/servers/{id}/close"),
        ("get", "~/tools"),
        ("get", "~/prompts"),
        ("get", "~/resources"),
        ("get", "~/resource-templates"),
        ("get", "~/servers/{id}/drift"),
        ("post", "~/servers/{id}/approve"),
        ("get", "~/events"),
        ("post", "~/resources/subscribe"),
        ("post", "~/resources/unsubscribe"),
        ("post", "~/servers/{id}/log-level"),
        ("post", "~/tools/call"),
        ("post", "~/resources/read"),
        ("post", "~/prompts/get"),
        ("post", "~/complete"),
        ("get", "~/calls"),
        ("get", "~/calls/{id}"),
        ("post", "~/calls/{id}/cancel"),
    ];
    let routes: Vec<(&str, String)> = routes.map(|(method, path)| (method, path.replace('~', instance))).to_vec();
    let routes: BTreeSet<(&str, &str)> = routes.iter().map(|(method, path)| (*method, path.as_str())).collect();
    assert_eq!(described, routes);
}

#[test]
fn the_document_is_openapi_3_1_and_every_reference_leads_somewhere() {
    let document = described();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut references = 0;
    walk(&document, &mut |value| {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
            references += 1;
        }
    });
    assert!(references > 50, "{references} references are few");
}

#[test]
fn every_operation_is_whole() {
    let document = described();
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{method} {path} has an id of its own");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path} can succeed");
        assert!(responses.values().all(|response| response["description"].is_string()), "{method} {path}");
        let problem = &responses["default"]["content"]["application/problem+json"]["schema"]["$ref"];
        assert_eq!(problem, "#/components/schemas/Problem", "{method} {path}");
        let named: BTreeSet<&str> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let in_path: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        assert_eq!(named, in_path, "{method} {path}");
    }
}

#[test]
fn every_code_of_a_problem_is_described() {
    let document = described();
    let listed: BTreeSet<&str> = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| code.as_str().unwrap())
        .collect();
    assert_eq!(listed, code::ALL.iter().map(|code| code.text()).collect());
}

#[test]
fn the_copy_in_docs_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept.trim_end() == openapi_json().trim_end(),
        "docs/openapi.json is old: cargo run -p switchboard-host --example openapi > docs/openapi.json"
    );
}
