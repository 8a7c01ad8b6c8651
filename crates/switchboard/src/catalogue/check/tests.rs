//! Values against schemas, and what becomes of schemas that are no good.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalogue::schema::tests::schema_like;

fn input(schema: &Value) -> SchemaCheck {
    SchemaCheck::of_arguments(Some(&Json::from(schema.clone())))
}

fn output(schema: Value) -> SchemaCheck {
    SchemaCheck::of_output(&Json::from(schema))
}

fn paths(problems: &[Problem]) -> Vec<&str> {
    problems.iter().map(|problem| problem.path.as_str()).collect()
}

#[test]
fn problems_say_where_and_what_but_not_the_value() {
    let check = input(&json!({
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"type": "integer"}}, "a/b": {"maxLength": 1}},
        "required": ["list"],
    }));
    let problems = check_arguments(&check, &Json::from(json!({"list": [1, "secret"], "a/b": "secret"})));
    assert_eq!(paths(&problems), ["/list/1", "/a~1b"]);
    assert!(problems.iter().all(|problem| !problem.message.contains("secret")), "{problems:?}");
    assert_eq!(problems[0].message, "value is not of type \"integer\"");
    let missing = check_arguments(&check, &Json::empty_object());
    assert_eq!(paths(&missing), [""]);
    assert!(check_arguments(&check, &Json::from(json!({"list": []}))).is_empty());
}

#[test]
fn the_number_of_problems_is_bounded() {
    let check = input(&json!({"type": "object", "properties": {"l": {"items": {"type": "null"}}}}));
    let problems = check_arguments(&check, &Json::from(json!({"l": vec![1; 1_000]})));
    assert_eq!(problems.len(), MAX_PROBLEMS);
}

#[test]
fn b075_arguments_with_further_keys_fit_an_open_map() {
    let map =
        json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "string"}}}});
    let check = input(&map);
    assert!(check_arguments(&check, &Json::from(json!({"m": {"any": "text", "more": "text"}}))).is_empty());
    assert_eq!(paths(&check_arguments(&check, &Json::from(json!({"m": {"any": 1}})))), ["/m/any"]);
}

#[test]
fn b077_a_result_that_reports_an_error_is_not_checked() {
    let check = output(json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}));
    let text = json!([{"type": "text", "text": "push rejected"}]);
    let rejected = json!({"content": text, "structuredContent": {"code": 7}, "isError": true});
    assert!(check_output(&check, &Json::from(rejected)).is_empty());
    let wrong = json!({"content": text, "structuredContent": {"code": 7}, "isError": false});
    assert_eq!(paths(&check_output(&check, &Json::from(wrong))), ["/structuredContent"]);
    let asking = json!({"resultType": "input_required", "inputRequests": {}});
    assert!(check_output(&check, &Json::from(asking)).is_empty());
}

#[test]
fn b079_only_the_structured_part_is_checked() {
    let check =
        output(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false}));
    let result = json!({"content": [{"type": "text", "text": "1"}], "structuredContent": {"n": 1}, "_meta": {}});
    assert!(check_output(&check, &Json::from(result)).is_empty());
    let missing = json!({"content": []});
    assert_eq!(paths(&check_output(&check, &Json::from(missing))), ["/structuredContent"]);
    let list = output(json!({"type": "array"}));
    assert!(check_output(&list, &Json::from(json!({"structuredContent": []}))).is_empty());
}

#[test]
fn b067_references_of_an_output_schema_resolve_against_its_root() {
    let check = output(json!({
        "type": "object",
        "properties": {"page": {"type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/Item"}}}}},
        "$defs": {"Item": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Item"}}, "required": ["id"]}},
    }));
    assert_eq!(check.warning(), None);
    let good = json!({"structuredContent": {"page": {"items": [{"id": 1, "next": {"id": 2}}]}}});
    assert!(check_output(&check, &Json::from(good)).is_empty());
    let bad = json!({"structuredContent": {"page": {"items": [{"id": 1, "next": {}}]}}});
    assert_eq!(paths(&check_output(&check, &Json::from(bad))), ["/structuredContent/page/items/0/next"]);
}

#[test]
fn drafts_are_honoured() {
    let tuple =
        json!({"type": "object", "properties": {"pair": {"items": [{"type": "string"}], "additionalItems": false}}});
    let mut old = tuple.clone();
    old["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    for schema in [tuple, old] {
        let check = input(&schema);
        assert_eq!(check.warning(), None);
        assert_eq!(check_arguments(&check, &Json::from(json!({"pair": ["a", "b"]}))).len(), 1);
    }
    let today = input(&json!({"properties": {"pair": {"prefixItems": [{"type": "string"}], "items": false}}}));
    assert_eq!(check_arguments(&today, &Json::from(json!({"pair": [1]}))).len(), 1);
}

#[test]
fn a_schema_that_is_no_good_is_not_enforced_and_says_so() {
    let nested = (0..40).fold(json!({}), |inner, _| json!({"not": inner}));
    let cases = [
        json!("text"),
        json!({"type": "any"}),
        json!({"properties": {"a": {}, "required": ["a"]}}),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"properties": {"a": {"pattern": "("}}}),
        json!({"type": "string"}),
        json!(false),
        json!({"required": ["a"], "additionalProperties": false}),
        json!({"properties": {"a": {"minimum": 2, "maximum": 1}}, "required": ["a"]}),
        nested,
    ];
    for schema in cases {
        let check = input(&schema);
        assert_eq!(check.warning().map(|warning| warning.code), Some(WarningCode::SchemaNotEnforced), "{schema}");
        assert!(check_arguments(&check, &Json::from(json!({"a": 1}))).is_empty());
    }
    assert_eq!(SchemaCheck::of_arguments(None).warning(), None);
}

#[test]
fn schemas_that_would_take_for_ever_are_not_enforced() {
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/L{}", level + 1)});
        definitions.insert(format!("L{level}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("L40".into(), json!({"type": "object"}));
    let bomb = input(&json!({"$ref": "#/$defs/L0", "$defs": definitions}));
    assert!(bomb.warning().is_some());

    let branch = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/A"}}});
    let tree = json!({"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [branch, branch, branch]}}});
    let check = input(&tree);
    assert_eq!(check.warning(), None);
    let deep = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!({"x": inner}));
    assert_eq!(check_arguments(&check, &Json::from(deep(3))).len(), 1);
    assert!(check_arguments(&check, &Json::from(deep(40))).is_empty(), "too costly to check");
}

#[test]
fn a_pattern_that_goes_back_and_forth_ends() {
    let check = input(&json!({"properties": {"a": {"pattern": "^(?=a)(a|aa)+$"}}}));
    let problems = check_arguments(&check, &Json::from(json!({"a": format!("{}b", "a".repeat(60))})));
    assert!(problems.len() <= 1);
}

#[test]
fn optional_nulls_that_the_schema_refuses_are_dropped() {
    let check = input(&json!({
        "type": "object",
        "properties": {
            "must": {"type": "string"},
            "may": {"type": "string"},
            "nullable": {"type": ["string", "null"]},
            "either": {"anyOf": [{"$ref": "#/$defs/In"}, {"type": "null"}]},
            "listed": {"enum": ["a", null]},
            "fixed": {"const": 1},
            "in": {"$ref": "#/$defs/In"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/In"}},
            "any": {},
        },
        "required": ["must"],
        "$defs": {"In": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {}}}},
    }));
    let given = json!({
        "must": null, "may": null, "nullable": null, "either": {"x": null}, "listed": null, "fixed": null,
        "in": {"x": null, "y": null}, "list": [{"x": null}, null], "any": null, "unknown": null,
    });
    let wanted = json!({
        "must": null, "nullable": null, "either": {}, "listed": null,
        "in": {"y": null}, "list": [{}, null], "any": null, "unknown": null,
    });
    assert_eq!(without_refused_nulls(&check, &Json::from(given)).to_value(), wanted);
    let untouched: Json = "{ \"nullable\" : null, \"n\": 12345678901234567890123 }".parse().unwrap();
    assert_eq!(without_refused_nulls(&check, &untouched), untouched);
}

proptest! {
    #[test]
    fn whatever_schema_and_value_come_a_check_ends(schema in schema_like(), value in schema_like()) {
        let (schema, value) = (Json::from(schema), Json::from(value));
        let check = SchemaCheck::of_arguments(Some(&schema));
        prop_assert!(check_arguments(&check, &value).len() <= MAX_PROBLEMS);
        prop_assert!(check_output(&SchemaCheck::of_output(&schema), &value).len() <= MAX_PROBLEMS);
        prop_assert!(without_refused_nulls(&check, &value).as_str().len() <= value.as_str().len());
    }

    #[test]
    fn dropping_nulls_never_makes_arguments_worse(schema in schema_like(), value in schema_like()) {
        let check = input(&schema);
        let value = Json::from(value);
        let dropped = without_refused_nulls(&check, &value);
        if check_arguments(&check, &value).is_empty() {
            prop_assert!(check_arguments(&check, &dropped).is_empty(), "{dropped} no longer fits {schema}");
        }
    }
}
