//! Schemas from the field, and arbitrary ones.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn prepared(schema: Value) -> (Value, Vec<&'static str>) {
    let prepared = prepare(Some(&Json::from(schema))).unwrap();
    (prepared.schema.into(), prepared.warnings.iter().map(|warning| warning.code.code()).collect())
}

fn unchanged(schema: &Value) {
    assert_eq!(prepared(schema.clone()), (schema.clone(), vec![]));
}

#[test]
fn a_well_formed_schema_passes_unchanged() {
    unchanged(&json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "default": null, "x-mcp-header": "Name"},
            "range": {"type": "array", "prefixItems": [{"type": "integer"}], "items": false},
        },
        "required": ["name"],
        "additionalProperties": false,
    }));
}

#[test]
fn b063_a_top_level_any_of_without_a_type_is_given_one() {
    let variants = json!([
        {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    ]);
    let (schema, warnings) = prepared(json!({"anyOf": variants}));
    assert_eq!(schema, json!({"type": "object", "properties": {}, "anyOf": variants}));
    assert_eq!(warnings, ["schema_repaired"]);
}

#[test]
fn b063_a_schema_that_is_not_for_objects_costs_only_its_tool() {
    let bad = [json!({"type": "string"}), json!(false), json!("object of some kind"), json!([1]), json!(7)];
    for schema in bad {
        let warning = prepare(Some(&Json::from(schema.clone()))).unwrap_err();
        assert_eq!(warning.code, WarningCode::BadSchema, "{schema}");
    }
    assert_eq!(prepared(json!(true)).0, json!({"type": "object", "properties": {}}));
}

#[test]
fn b065_the_required_list_inside_properties_is_moved_out_visibly() {
    let (schema, warnings) = prepared(json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "required": ["city"]},
    }));
    let wanted = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    assert_eq!(schema, wanted);
    assert_eq!(warnings, ["schema_repaired"]);

    let flag = json!({"type": "object", "properties": {"city": {"type": "string", "required": true}}});
    assert_eq!(prepared(flag), (wanted, vec!["schema_repaired"]));
    unchanged(&json!({"type": "object", "properties": {"required": {"type": "array"}}}));
}

#[test]
fn b067_references_below_a_property_resolve_against_the_root() {
    unchanged(&json!({
        "type": "object",
        "properties": {"page": {"type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/Item"}}}}},
        "$defs": {"Item": {"type": "string"}},
    }));
}

#[test]
fn b069_what_goes_to_the_model_is_self_contained() {
    let (schema, warnings) = prepared(json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/tool.json",
        "type": "object",
        "properties": {
            "chain": {"$ref": "#/definitions/A", "description": "over three"},
            "own": {"$ref": "https://example.com/tool.json#/definitions/C"},
            "anchored": {"$ref": "#c"},
            "odd": {"$ref": "#/definitions/List%5BC%5D"},
            "part": {"$ref": "#/properties/chain"},
        },
        "required": ["chain"],
        "definitions": {
            "A": {"$ref": "#/definitions/B"},
            "B": {"$ref": "#/definitions/C"},
            "C": {"$anchor": "c", "type": "string"},
            "List[C]": {"type": "array", "items": {"$ref": "#/definitions/C"}},
            "Unused": {"type": "null"},
        },
    }));
    assert_eq!(warnings, [""; 0]);
    assert_eq!(schema["properties"]["chain"], json!({"$ref": "#/$defs/A", "description": "over three"}));
    assert_eq!(schema["$defs"]["B"], json!({"$ref": "#/$defs/C"}));
    assert_eq!(schema["properties"]["own"], json!({"$ref": "#/$defs/C"}));
    assert_eq!(schema["properties"]["anchored"], json!({"$ref": "#/$defs/C"}));
    assert_eq!(schema["properties"]["odd"], json!({"$ref": "#/$defs/List_5BC_5D"}));
    assert_eq!(schema["$defs"]["chain"], schema["properties"]["chain"]);
    assert!(schema["$defs"].get("Unused").is_none());
    assert!(schema.get("$schema").is_none() && schema.get("$id").is_none() && schema.get("definitions").is_none());
}

#[test]
fn b069_a_root_that_is_a_reference_is_written_out() {
    let (schema, warnings) = prepared(json!({
        "$ref": "#/definitions/Args",
        "definitions": {"Args": {"type": "object", "properties": {"next": {"$ref": "#/definitions/Args"}}}},
    }));
    assert_eq!(schema["properties"]["next"], json!({"$ref": "#/$defs/Args"}));
    assert_eq!(schema["$defs"]["Args"]["properties"]["next"], json!({"$ref": "#/$defs/Args"}));
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn b069_definitions_embedded_below_a_property_are_found() {
    let embedded = json!({"$defs": {"X": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/X"}});
    let (schema, warnings) = prepared(json!({"type": "object", "properties": {"list": embedded}}));
    assert_eq!(schema["properties"]["list"]["items"], json!({"$ref": "#/$defs/X"}));
    assert_eq!(schema["$defs"]["X"], json!({"type": "integer"}));
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn references_that_lead_outside_are_never_fetched_but_left_out_with_a_warning() {
    for target in ["https://example.com/other.json", "other.json#/a", "#/$defs/missing", "#/type", "file:///etc/passwd"]
    {
        let property = json!({"$ref": target, "description": "kept"});
        let (schema, warnings) = prepared(json!({"type": "object", "properties": {"a": property}}));
        assert_eq!(schema["properties"]["a"], json!({"description": "kept"}), "{target}");
        assert_eq!(warnings, ["reference_left_out"]);
    }
}

#[test]
fn references_that_lead_in_circles_end() {
    let (schema, warnings) = prepared(json!({
        "type": "object",
        "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/$defs/B"}},
        "$defs": {"B": {"$ref": "#/$defs/C"}, "C": {"$ref": "#/$defs/B", "title": "C"}},
    }));
    assert_eq!(schema["properties"]["a"], json!({"$ref": "#/$defs/root"}));
    assert_eq!(schema["$defs"]["root"]["properties"]["a"], json!({"$ref": "#/$defs/root"}));
    assert_eq!(schema["$defs"]["C"], json!({"title": "C"}));
    assert_eq!(warnings, ["reference_left_out"]);
}

#[test]
fn b071_unions_pass_unchanged() {
    unchanged(&json!({
        "type": "object",
        "properties": {
            "target": {"anyOf": [
                {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
                {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            ]},
            "mode": {"oneOf": [{"const": "fast", "title": "Fast"}, {"const": "slow"}]},
            "limit": {"allOf": [{"type": "integer"}, {"minimum": 1}]},
        },
    }));
}

#[test]
fn b073_an_object_without_properties_is_accepted() {
    let empty = json!({"type": "object", "properties": {}});
    let variants = [
        json!({"type": "object"}),
        json!({"type": "object", "properties": null}),
        json!({"type": "object", "properties": {}, "required": null, "additionalProperties": null}),
    ];
    for schema in variants {
        assert_eq!(prepared(schema), (empty.clone(), vec![]));
    }
    let absent = [None, Some(Json::from(Value::Null))];
    for schema in absent {
        assert_eq!(Value::Object(prepare(schema.as_ref()).unwrap().schema), empty);
    }
}

#[test]
fn b075_additional_properties_stay_a_schema_or_a_flag() {
    for extra in [json!({"type": "string"}), json!(true), json!(false), json!({})] {
        let map = json!({"type": "object", "properties": {}, "additionalProperties": extra});
        unchanged(&json!({"type": "object", "properties": {"labels": map}, "additionalProperties": extra}));
    }
}

#[test]
fn keywords_of_older_drafts_become_those_of_today() {
    let (schema, warnings) = prepared(json!({
        "type": ["object", "null"],
        "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}], "additionalItems": false},
            "above": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
        },
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
    }));
    let properties = json!({
        "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": false},
        "above": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
    });
    assert_eq!(schema["properties"], properties);
    assert_eq!(schema["dependentRequired"], json!({"a": ["b"]}));
    assert_eq!(schema["dependentSchemas"], json!({"c": {"required": ["d"]}}));
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn what_stands_beside_a_reference_counts_as_the_draft_says() {
    let schema = |draft: &str| {
        let property = json!({"$ref": "#/definitions/A", "description": "d", "minLength": 3, "required": ["x"]});
        prepared(json!({
            "$schema": draft, "type": "object", "properties": {"a": property}, "definitions": {"A": {"type": "string"}},
        }))
    };
    let (old, _) = schema("http://json-schema.org/draft-07/schema#");
    assert_eq!(old["properties"]["a"], json!({"$ref": "#/$defs/A", "description": "d"}));
    let (new, _) = schema("https://json-schema.org/draft/2020-12/schema");
    assert_eq!(new["properties"]["a"]["minLength"], 3);
}

#[test]
fn malformed_keywords_are_left_out_and_said() {
    let cases = [
        (json!({"type": "any"}), json!({})),
        (json!({"type": "STRING"}), json!({"type": "string"})),
        (json!({"type": ["string", "str"]}), json!({"type": "string"})),
        (json!("integer"), json!({"type": "integer"})),
        (json!({"enum": []}), json!({})),
        (json!({"anyOf": [], "title": "t"}), json!({"title": "t"})),
        (json!({"minLength": "3", "minimum": false, "pattern": 1}), json!({})),
        (json!({"type": "array", "items": "string?"}), json!({"type": "array"})),
        (json!({"properties": [1], "required": "a"}), json!({})),
    ];
    for (given, wanted) in cases {
        let (schema, warnings) = prepared(json!({"type": "object", "properties": {"a": given}}));
        assert_eq!(schema["properties"]["a"], wanted, "{given}");
        assert!(!warnings.is_empty() && warnings.iter().all(|code| *code == "schema_repaired"), "{given}");
    }
}

#[test]
fn a_schema_beyond_the_bounds_is_left_out() {
    let mut deep = json!({"type": "string"});
    for _ in 0..40 {
        deep = json!({"type": "array", "items": deep});
    }
    let wide: Map<String, Value> = (0..=MAX_SUBSCHEMAS).map(|index| (index.to_string(), json!({}))).collect();
    let long = json!({"type": "object", "description": "x".repeat(MAX_SCHEMA_BYTES)});
    for schema in [json!({"type": "object", "properties": {"a": deep}}), json!({"properties": wide}), long] {
        let warning = prepare(Some(&Json::from(schema))).unwrap_err();
        assert_eq!(warning.code, WarningCode::SchemaTooLarge, "{warning}");
    }
    let bottomless: Json =
        format!("{}{}", "{\"not\":".repeat(5_000), "}".repeat(5_000)).replace(":}", ":{}}").parse().unwrap();
    assert_eq!(prepare(Some(&bottomless)).unwrap_err().code, WarningCode::SchemaTooLarge);
}

/// JSON whose keys and texts are often those of schemas, so that the odd places are reached.
pub(crate) fn schema_like() -> impl Strategy<Value = Value> {
    let words = vec![
        "type",
        "object",
        "string",
        "properties",
        "required",
        "items",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "$ref",
        "$defs",
        "definitions",
        "#",
        "#/$defs/a",
        "#/properties/a",
        "#a",
        "a",
        "b",
        "enum",
        "const",
        "additionalProperties",
        "if",
        "$id",
        "$anchor",
        "null",
        "array",
        "minimum",
        "exclusiveMinimum",
        "dependencies",
        "prefixItems",
        "format",
        "if",
        "then",
        "patternProperties",
        "default",
        "description",
        "additionalItems",
        "minLength",
        "pattern",
    ];
    let word = prop::sample::select(words).prop_map(str::to_owned);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..300_i64).prop_map(Value::from),
        word.clone().prop_map(Value::from),
        "\\PC{0,4}".prop_map(Value::from),
    ];
    let raw = leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::vec((word.clone(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    });
    let wrapped = (raw.clone(), raw.clone()).prop_map(
        |(a, b)| json!({"type": "object", "properties": {"a": a, "b": {"$ref": "#/$defs/a"}}, "$defs": {"a": b}}),
    );
    prop_oneof![1 => raw, 2 => wrapped]
}

proptest! {
    #[test]
    fn whatever_json_comes_the_outcome_is_an_object_schema_or_a_warning(schema in schema_like()) {
        let Ok(prepared) = prepare(Some(&Json::from(schema))) else { return Ok(()) };
        prop_assert_eq!(&prepared.schema["type"], "object");
        prop_assert!(prepared.schema["properties"].is_object());
        let whole = Value::Object(prepared.schema.clone());
        let mut found = Vec::new();
        inline::references(&whole, &mut found);
        for definition in whole.get("$defs").and_then(Value::as_object).into_iter().flat_map(Map::values) {
            inline::references(definition, &mut found);
        }
        for name in found {
            prop_assert!(whole["$defs"].get(name).is_some(), "{name} does not resolve in {whole}");
        }
    }

    #[test]
    fn what_was_prepared_once_is_already_well_formed(schema in schema_like()) {
        let Ok(once) = prepare(Some(&Json::from(schema))) else { return Ok(()) };
        let twice = prepare(Some(&Json::from(Value::Object(once.schema.clone())))).unwrap();
        prop_assert!(twice.warnings.is_empty(), "{:?} of {}", twice.warnings, Value::Object(once.schema));
    }

    #[test]
    fn writing_references_out_ends_and_leaves_none_behind(schema in schema_like()) {
        let Ok(prepared) = prepare(Some(&Json::from(schema))) else { return Ok(()) };
        let cut = Value::Object(inline(prepared.schema.clone(), Endless::Cut, &mut Warnings::default()));
        let mut found = Vec::new();
        inline::references(&cut, &mut found);
        prop_assert!(found.is_empty(), "{found:?} in {cut}");
        let kept = Value::Object(inline(prepared.schema, Endless::Keep, &mut Warnings::default()));
        inline::references(&kept, &mut found);
        for name in found {
            prop_assert!(kept["$defs"].get(name).is_some(), "{name} does not resolve in {kept}");
        }
    }
}
