//! Kinds and ranks of changes.

use proptest::prelude::*;
use serde_json::json;

use super::super::Fingerprint;
use super::*;
use crate::wire::model::tools_page;

fn tool(value: &Value) -> Tool {
    tools_page(&json!({ "tools": [value] }).into()).unwrap().items.remove(0)
}

fn base() -> Value {
    json!({
        "name": "send", "description": "Sends a message.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "description": "What to say"}, "to": {"type": "string"}},
            "required": ["text"],
        },
        "annotations": {"destructiveHint": true, "title": "Send"},
    })
}

/// What is found when `edit` changes the definition: kind, rank and place.
fn found(edit: impl FnOnce(&mut Value)) -> Vec<(ChangeKind, Severity, String)> {
    let mut after = base();
    edit(&mut after);
    let changes = changes(&tool(&base()), &tool(&after));
    changes.into_iter().map(|change| (change.kind, change.severity, change.path)).collect()
}

#[test]
fn b189_a_changed_hint_a_required_argument_and_a_new_address_rank_above_new_wording() {
    use ChangeKind::{Address, Arguments, Hint, Required, Wording};
    use Severity::{High, Low, Medium};
    let wording = found(|tool| tool["description"] = "Sends one message.".into());
    assert_eq!(wording, [(Wording, Low, "description".into())]);
    let hint = found(|tool| tool["annotations"]["destructiveHint"] = false.into());
    assert_eq!(hint, [(Hint, High, "annotations/destructiveHint".into())]);
    let required = found(|tool| {
        tool["inputSchema"]["properties"]["key"] = json!({"type": "string", "description": "Your key"});
        tool["inputSchema"]["required"] = json!(["text", "key"]);
    });
    let expected =
        [(Required, High, "inputSchema/required/key".into()), (Arguments, Medium, "inputSchema/properties/key".into())];
    assert_eq!(required, expected);
    let address = found(|tool| tool["description"] = "Sends a message. See https://evil.example/x.".into());
    assert_eq!(address, [(Address, High, "description".into()), (Wording, Low, "description".into())]);
}

#[test]
fn the_old_and_the_new_are_told() {
    let mut after = base();
    after["annotations"]["destructiveHint"] = false.into();
    after["description"] = "Mail it to a@b.example".into();
    let told: Vec<_> = changes(&tool(&base()), &tool(&after))
        .into_iter()
        .map(|change| {
            (change.kind, change.before.map(|json| json.to_value()), change.after.map(|json| json.to_value()))
        })
        .collect();
    let expected = [
        (ChangeKind::Hint, Some(json!(true)), Some(json!(false))),
        (ChangeKind::Address, None, Some(json!("a@b.example"))),
        (ChangeKind::Wording, Some(json!("Sends a message.")), Some(json!("Mail it to a@b.example"))),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_hint_that_says_what_was_meant_anyway_ranks_low() {
    let said = found(|tool| tool["annotations"]["readOnlyHint"] = false.into());
    assert_eq!(said, [(ChangeKind::Hint, Severity::Low, "annotations/readOnlyHint".into())]);
    let dropped = found(|tool| drop(tool["annotations"].as_object_mut().unwrap().remove("destructiveHint")));
    assert_eq!(dropped, [(ChangeKind::Hint, Severity::Low, "annotations/destructiveHint".into())]);
    let unknown = found(|tool| tool["annotations"]["x"] = 1.into());
    assert_eq!(unknown, [(ChangeKind::Hint, Severity::High, "annotations/x".into())]);
}

#[test]
fn words_inside_the_schema_are_wording_and_its_shape_is_not() {
    use ChangeKind::{Arguments, Wording};
    let words = found(|tool| tool["inputSchema"]["properties"]["text"]["description"] = "The text".into());
    assert_eq!(words, [(Wording, Severity::Low, "inputSchema/properties/text/description".into())]);
    let shape = found(|tool| tool["inputSchema"]["properties"]["to"] = json!({"type": "array"}));
    assert_eq!(shape, [(Arguments, Severity::Medium, "inputSchema/properties/to".into())]);
    // An argument may be called like a keyword.
    let named = found(|tool| tool["inputSchema"]["properties"]["description"] = json!({"type": "string"}));
    assert_eq!(named, [(Arguments, Severity::Medium, "inputSchema/properties/description".into())]);
    let freed = found(|tool| tool["inputSchema"]["required"] = json!([]));
    assert_eq!(freed, [(Arguments, Severity::Medium, "inputSchema/required/text".into())]);
    let closed = found(|tool| tool["inputSchema"]["additionalProperties"] = false.into());
    assert_eq!(closed, [(Arguments, Severity::Medium, "inputSchema".into())]);
    let inner = found(|tool| {
        tool["inputSchema"]["properties"]["to"] = json!({"type": "object", "properties": {"a": {}}, "required": ["a"]});
    });
    assert_eq!(inner[0], (ChangeKind::Required, Severity::High, "inputSchema/properties/to/required/a".into()));
}

#[test]
fn addresses_are_seen_wherever_they_stand_and_only_when_they_are_new() {
    let places: [fn(&mut Value); 5] = [
        |tool| tool["title"] = "see www.evil.example".into(),
        |tool| tool["annotations"]["title"] = "ftp://evil.example".into(),
        |tool| tool["inputSchema"]["properties"]["to"]["default"] = "me@evil.example".into(),
        |tool| tool["inputSchema"]["properties"]["to"]["enum"] = json!(["(HTTPS://evil.example)"]),
        |tool| tool["inputSchema"]["$defs"] = json!({"x": {"description": "[here](https://evil.example)"}}),
    ];
    for (index, place) in places.into_iter().enumerate() {
        assert_eq!((found(place)[0].0, found(place)[0].1), (ChangeKind::Address, Severity::High), "{index}");
    }
    let dialect = found(|tool| tool["inputSchema"]["$schema"] = "https://json-schema.org/draft/2020-12/schema".into());
    assert_eq!(dialect, [(ChangeKind::Arguments, Severity::Medium, "inputSchema".into())]);
    let mut old = base();
    old["description"] = "See https://a.example/x".into();
    let mut new = base();
    new["description"] = "Now at <https://a.example/x>!".into();
    let kinds: Vec<_> = changes(&tool(&old), &tool(&new)).into_iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Wording]);
    for plain in ["and://", "a@b", "://x", "e.g. this", "@ x.y", "src/main.rs"] {
        assert_eq!(addresses(plain).collect::<Vec<_>>(), Vec::<String>::new(), "{plain}");
    }
}

#[test]
fn what_cannot_be_told_apart_is_told_whole() {
    let texts = [r#"{"name":"t","title":"a","title":"b"}"#, r#"{"name":"t","title":"a","title":"c"}"#];
    let [before, after] =
        texts.map(|text| tools_page(&format!(r#"{{"tools":[{text}]}}"#).parse().unwrap()).unwrap().items.remove(0));
    let changes = changes(&before, &after);
    assert_eq!((changes.len(), changes[0].kind), (1, ChangeKind::Definition));
    assert_eq!(changes[0].after.as_ref().unwrap().as_str(), texts[1]);
    let turned = found(|tool| tool["inputSchema"]["properties"]["to"]["enum"] = json!([]));
    assert_eq!(turned[0].0, ChangeKind::Arguments);
    let reordered = super::changes(
        &tool(&json!({"name": "t", "inputSchema": {"type": "object", "required": ["a", "b"]}})),
        &tool(&json!({"name": "t", "inputSchema": {"type": "object", "required": ["b", "a"]}})),
    );
    assert_eq!(reordered[0].kind, ChangeKind::Definition);
}

#[test]
fn a_tool_that_changes_everywhere_does_not_flood_its_report() {
    let mut after = base();
    for index in 0..1000 {
        after["inputSchema"]["properties"][format!("p{index}")] = json!({"description": "x"});
    }
    after["annotations"]["destructiveHint"] = false.into();
    let changes = changes(&tool(&base()), &tool(&after));
    assert_eq!((changes.len(), changes[0].kind), (MOST, ChangeKind::Hint));
}

fn any_tool() -> impl Strategy<Value = Value> {
    let word = || prop_oneof![Just(Value::Null), "[ab]{0,2}".prop_map(Value::from)];
    let hint = || prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from)];
    let property = (word(), word()).prop_map(|(kind, text)| json!({"type": kind, "description": text, "title": {}}));
    let schema = (proptest::collection::vec(("[ab]|title", property), 0..3), proptest::collection::vec("[ab]", 0..3));
    (word(), word(), hint(), schema).prop_map(|(title, description, hint, (properties, required))| {
        let properties: Map<String, Value> = properties.into_iter().collect();
        json!({
            "name": "t", "title": title, "description": description, "annotations": {"readOnlyHint": hint},
            "inputSchema": {"type": "object", "properties": properties, "required": required},
        })
    })
}

proptest! {
    #[test]
    fn something_is_told_exactly_when_the_fingerprints_differ(before in any_tool(), after in any_tool()) {
        let (before, after) = (tool(&before), tool(&after));
        let differ = Fingerprint::of(&before) != Fingerprint::of(&after);
        prop_assert_eq!(!changes(&before, &after).is_empty(), differ);
    }
}

#[test]
fn a_schema_of_very_many_new_arguments_is_compared_in_no_time() {
    let mut after = base();
    for index in 0..20_000 {
        after["inputSchema"]["properties"][format!("p{index}")] = json!({"description": "see http://x.example"});
    }
    let kinds: BTreeSet<_> = changes(&tool(&base()), &tool(&after)).into_iter().map(|change| change.kind).collect();
    assert_eq!(kinds, BTreeSet::from([ChangeKind::Address, ChangeKind::Arguments]));
}
