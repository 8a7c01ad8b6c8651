//! Each provider's shape, and what becomes of schemas that it does not take.

use proptest::prelude::*;

use super::*;
use crate::catalogue::check::{SchemaCheck, check_arguments, without_refused_nulls};
use crate::catalogue::naming;
use crate::catalogue::schema::tests::schema_like;
use crate::id::ServerId;

fn key() -> ToolKey {
    naming::assign([(&ServerId::parse("s").unwrap(), "t")].into_iter()).remove(0)
}

/// The tool `t` of server `s` in a format, and the codes of its warnings.
fn offered(format: ToolFormat, schema: Value) -> (Value, Vec<&'static str>) {
    let (key, schema) = (key(), Json::from(schema));
    let tool = OfferedTool {
        key: &key,
        title: Some("T"),
        description: Some("Does it."),
        input_schema: Some(&schema),
        annotations: None,
    };
    let offer = format.offer(&tool).unwrap();
    (offer.json.to_value(), offer.warnings.iter().map(|warning| warning.code.code()).collect())
}

/// Only the schema of the tool in a format.
fn schema_in(format: ToolFormat, schema: Value) -> (Value, Vec<&'static str>) {
    let (mut tool, warnings) = offered(format, schema);
    let place = match format {
        ToolFormat::Mcp => "/inputSchema",
        ToolFormat::Anthropic => "/input_schema",
        ToolFormat::Gemini => "/parametersJsonSchema",
        _ => "/function/parameters",
    };
    (tool.pointer_mut(place).map(Value::take).unwrap_or_default(), warnings)
}

/// A property `a` with this schema, required.
fn property_in(format: ToolFormat, schema: &Value) -> (Value, Vec<&'static str>) {
    let whole = json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
    let (mut schema, warnings) = schema_in(format, whole);
    (schema["properties"]["a"].take(), warnings)
}

#[test]
fn formats_are_named_as_on_the_command_line() {
    for format in ToolFormat::ALL {
        assert_eq!(format.to_string().parse::<ToolFormat>().unwrap(), format);
    }
    let error = "openai_strict".parse::<ToolFormat>().unwrap_err();
    assert!(error.is_invalid_input() && error.data().hint.as_deref().unwrap().contains("openai-strict"));
}

#[test]
fn each_provider_gets_its_own_shape() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let function = json!({"name": "tool_s_t", "description": "Does it.", "parameters": schema});
    let closed = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false,
    });
    let strict = json!({"name": "tool_s_t", "description": "Does it.", "parameters": closed, "strict": true});
    let wanted = [
        (ToolFormat::Mcp, json!({"name": "tool_s_t", "title": "T", "description": "Does it.", "inputSchema": schema})),
        (ToolFormat::OpenAi, json!({"type": "function", "function": function})),
        (ToolFormat::OpenAiStrict, json!({"type": "function", "function": strict})),
        (ToolFormat::Anthropic, json!({"name": "tool_s_t", "description": "Does it.", "input_schema": schema})),
        (ToolFormat::Gemini, json!({"name": "tool_s_t", "description": "Does it.", "parametersJsonSchema": schema})),
        (ToolFormat::Mistral, json!({"type": "function", "function": function})),
    ];
    for (format, wanted) in wanted {
        assert_eq!(offered(format, schema.clone()), (wanted, vec![]), "{format}");
    }
}

#[test]
fn lists_have_the_shape_of_the_request() {
    let tools: Vec<Json> = vec!["{\"name\":\"a\"}".parse().unwrap(), "{ \"name\": \"b\" }".parse().unwrap()];
    assert_eq!(ToolFormat::OpenAi.list(&tools).unwrap().as_str(), "[{\"name\":\"a\"},{ \"name\": \"b\" }]");
    let gemini = "[{\"functionDeclarations\":[{\"name\":\"a\"},{ \"name\": \"b\" }]}]";
    assert_eq!(ToolFormat::Gemini.list(&tools).unwrap().as_str(), gemini);
    assert_eq!(ToolFormat::Gemini.list(&[]).unwrap().as_str(), "[]");
}

#[test]
fn mcp_keeps_the_schema_byte_for_byte() {
    let key = key();
    let schema: Json = "{ \"type\" : \"object\", \"big\": 12345678901234567890123 }".parse().unwrap();
    let annotations: Json = "{ \"readOnlyHint\": true }".parse().unwrap();
    let tool = OfferedTool {
        key: &key,
        title: None,
        description: None,
        input_schema: Some(&schema),
        annotations: Some(&annotations),
    };
    let text = ToolFormat::Mcp.offer(&tool).unwrap().json;
    let wanted = format!("{{\"name\":\"tool_s_t\",\"inputSchema\":{schema},\"annotations\":{annotations}}}");
    assert_eq!(text.as_str(), wanted);
}

#[test]
fn the_title_stands_in_for_a_missing_description() {
    let key = key();
    let tool =
        OfferedTool { key: &key, title: Some("T"), description: Some(" "), input_schema: None, annotations: None };
    let json = ToolFormat::OpenAi.offer(&tool).unwrap().json.to_value();
    assert_eq!(json["function"]["description"], "T");
    let untitled = OfferedTool { title: None, description: None, ..tool };
    let json = ToolFormat::OpenAi.offer(&untitled).unwrap().json.to_value();
    assert!(json["function"].get("description").is_none());
    let gemini = ToolFormat::Gemini.offer(&untitled).unwrap().json.to_value();
    assert_eq!(
        gemini,
        json!({"name": "tool_s_t", "description": "tool_s_t"}),
        "no parameters, and a description always"
    );
}

const FLATTENING: [ToolFormat; 3] = [ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Gemini];

#[test]
fn b063_alternatives_at_the_root_become_one_object_where_a_provider_refuses_them() {
    let schema = json!({
        "type": "object",
        "properties": {"note": {"type": "string"}},
        "required": ["note"],
        "oneOf": [
            {"properties": {"id": {"type": "integer"}, "x": {"type": "string"}}, "required": ["id", "x"]},
            {"properties": {"url": {"type": "string"}, "x": {"type": "number"}}, "required": ["url", "x"]},
        ],
    });
    let wanted = json!({
        "type": "object",
        "properties": {
            "note": {"type": "string"},
            "id": {"type": "integer"},
            "x": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            "url": {"type": "string"},
        },
        "required": ["note", "x"],
        "description": "Exactly one of these combinations is required: `id` + `x`; `url` + `x`.",
    });
    for format in FLATTENING {
        assert_eq!(schema_in(format, schema.clone()), (wanted.clone(), vec!["schema_widened"]), "{format}");
    }
    assert_eq!(schema_in(ToolFormat::Mistral, schema.clone()), (schema, vec![]));
}

#[test]
fn all_of_at_the_root_is_merged_without_loss() {
    let schema = json!({
        "type": "object",
        "allOf": [
            {"$ref": "#/$defs/Paging"},
            {"properties": {"query": {"type": "string"}}, "required": ["query"]},
        ],
        "$defs": {"Paging": {"type": "object", "properties": {"page": {"type": "integer"}}}},
    });
    for format in FLATTENING {
        let (mut schema, warnings) = schema_in(format, schema.clone());
        schema.as_object_mut().unwrap().remove("$defs");
        let properties = json!({"page": {"type": "integer"}, "query": {"type": "string"}});
        let wanted = json!({"type": "object", "properties": properties, "required": ["query"]});
        assert_eq!((schema, warnings), (wanted, vec![]), "{format}");
    }
}

#[test]
fn a_closed_root_is_not_opened_by_its_alternatives() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "additionalProperties": false,
        "anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"c": {}}}],
    });
    let (schema, _) = schema_in(ToolFormat::Anthropic, schema);
    assert_eq!(schema["properties"], json!({"a": {"type": "string"}, "b": {"type": "string"}}));
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["description"], "At least one of these combinations is required: `a`; `b`.");
}

#[test]
fn b069_references_are_written_out_where_a_provider_does_not_take_them() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "mine"}, "tree": {"$ref": "#/$defs/Tree"}},
        "$defs": {
            "A": {"$ref": "#/$defs/B"},
            "B": {"type": "string"},
            "Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}},
        },
    });
    let (openai, warnings) = schema_in(ToolFormat::OpenAi, schema.clone());
    assert_eq!((&openai, warnings), (&schema, vec![]));
    let (anthropic, warnings) = schema_in(ToolFormat::Anthropic, schema.clone());
    assert_eq!(anthropic["properties"]["a"], json!({"description": "mine", "type": "string"}));
    assert_eq!(anthropic["properties"]["tree"], json!({"$ref": "#/$defs/Tree"}));
    assert_eq!(anthropic["$defs"].as_object().unwrap().len(), 1);
    assert_eq!(warnings, [""; 0]);
    let (gemini, warnings) = schema_in(ToolFormat::Gemini, schema);
    assert_eq!(gemini["properties"]["a"], json!({"description": "mine", "type": "string"}));
    assert_eq!(gemini["properties"]["tree"]["properties"]["next"], json!({"type": "object"}));
    assert!(!gemini.to_string().contains("$"), "{gemini}");
    assert_eq!(warnings, ["schema_widened"]);
}

#[test]
fn b071_unions_below_the_root_keep_their_meaning_everywhere() {
    let objects = json!({"anyOf": [
        {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"], "additionalProperties": false},
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], "additionalProperties": false},
    ]});
    for format in ToolFormat::ALL {
        assert_eq!(property_in(format, &objects), (objects.clone(), vec![]), "{format}");
    }
    let constants = json!({"oneOf": [{"const": "fast", "title": "Fast"}, {"const": "slow"}]});
    for format in [ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Mistral] {
        assert_eq!(property_in(format, &constants), (constants.clone(), vec![]), "{format}");
    }
    let strict = json!({"anyOf": [
        {"const": "fast", "title": "Fast", "type": "string"}, {"const": "slow", "type": "string"},
    ]});
    assert_eq!(property_in(ToolFormat::OpenAiStrict, &constants), (strict, vec![]));
    let gemini = json!({"anyOf": [
        {"title": "Fast", "type": "string", "enum": ["fast"]}, {"type": "string", "enum": ["slow"]},
    ]});
    assert_eq!(property_in(ToolFormat::Gemini, &constants), (gemini, vec![]));
    let all = json!({"allOf": [{"type": "integer"}, {"minimum": 1}]});
    assert_eq!(property_in(ToolFormat::Gemini, &all), (json!({"type": "integer", "minimum": 1}), vec![]));
}

#[test]
fn b073_an_object_without_properties_is_offered_everywhere() {
    for schema in [json!({"type": "object"}), json!({"type": "object", "properties": null})] {
        let any = json!({"type": "object", "properties": {}});
        for format in [ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Mistral] {
            assert_eq!(schema_in(format, schema.clone()), (any.clone(), vec![]), "{format}");
        }
        let (strict, warnings) = offered(ToolFormat::OpenAiStrict, schema.clone());
        assert_eq!(strict["function"]["strict"], false, "it takes arguments of any name");
        assert_eq!(warnings, ["not_strict"]);
        assert!(offered(ToolFormat::Gemini, schema).0.get("parametersJsonSchema").is_none());
    }
}

#[test]
fn b075_maps_still_take_further_keys() {
    let map = json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}});
    for format in [ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Gemini, ToolFormat::Mistral] {
        assert_eq!(property_in(format, &map), (map.clone(), vec![]), "{format}");
        assert_eq!(schema_in(format, map.clone()), (map.clone(), vec![]), "{format}");
    }
    let (strict, warnings) = property_in(ToolFormat::OpenAiStrict, &map);
    assert_eq!((strict, warnings), (map, vec!["not_strict"]));
}

#[test]
fn strict_mode_requires_all_and_makes_the_optional_nullable() {
    let (schema, warnings) = schema_in(
        ToolFormat::OpenAiStrict,
        json!({
            "type": "object",
            "properties": {
                "must": {"type": "string", "format": "uri", "default": "x"},
                "may": {"type": "integer", "minimum": 1},
                "pick": {"enum": ["a", "b"]},
                "either": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "fixed": {"const": 7, "description": "seven"},
                "null": {"type": ["string", "null"]},
                "deep": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "boolean"}}}},
                "tree": {"$ref": "#/$defs/Tree", "description": "grows"},
            },
            "required": ["must"],
            "$defs": {"Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}, "required": ["next"]}},
        }),
    );
    let inner = json!({
        "type": "object", "properties": {"x": {"type": ["boolean", "null"]}}, "required": ["x"], "additionalProperties": false,
    });
    let properties = json!({
        "must": {"type": "string", "description": "(format: uri) (default: x)"},
        "may": {"type": ["integer", "null"], "minimum": 1},
        "pick": {"enum": ["a", "b", null], "type": ["string", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        "fixed": {"anyOf": [{"const": 7, "type": "integer"}, {"type": "null"}], "description": "seven"},
        "null": {"type": ["string", "null"]},
        "deep": {"type": ["array", "null"], "items": inner},
        "tree": {"description": "grows", "anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
    });
    assert_eq!(schema["properties"], properties);
    assert_eq!(schema["required"].as_array().unwrap().len(), 8);
    assert_eq!(schema["additionalProperties"], false);
    let tree = json!({
        "type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}, "required": ["next"],
        "additionalProperties": false,
    });
    assert_eq!(schema["$defs"], json!({"Tree": tree}));
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn what_strict_mode_cannot_say_is_offered_without_it_and_unchanged() {
    let cases = [
        json!({"type": "string", "minLength": 1}),
        json!({"type": "string", "pattern": "^(?!x)"}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": true}),
        json!({"type": "object", "properties": {}, "patternProperties": {"^x": {"type": "string"}}}),
        json!({"type": "array"}),
        json!({"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "string"}}),
        json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}),
        json!({"allOf": [{"type": "number"}, {"minimum": 1}]}),
        json!({"not": {"type": "null"}}),
        json!({}),
        json!(true),
    ];
    for schema in cases {
        let whole = json!({"type": "object", "properties": {"a": schema}, "required": ["a"]});
        let (tool, warnings) = offered(ToolFormat::OpenAiStrict, whole.clone());
        assert_eq!(tool["function"]["strict"], false, "{schema}");
        assert_eq!(tool["function"]["parameters"], whole);
        assert_eq!(warnings, ["not_strict"]);
    }
}

#[test]
fn the_limits_of_strict_mode_are_kept() {
    let strict = |properties: Value| {
        let (tool, _) = offered(ToolFormat::OpenAiStrict, json!({"type": "object", "properties": properties}));
        tool["function"]["strict"].clone()
    };
    let values = |count: usize, length: usize| -> Value {
        (0..count).map(|index| json!(format!("{index:0length$}"))).collect::<Vec<_>>().into()
    };
    assert_eq!(strict(json!({"a": {"enum": values(250, 100)}})), true);
    assert_eq!(strict(json!({"a": {"enum": values(251, 100)}})), false);
    assert_eq!(strict(json!({"a": {"enum": values(600, 3)}, "b": {"enum": values(600, 3)}})), false);
    let mut nested = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    for _ in 0..8 {
        nested = json!({"type": "object", "properties": {"x": nested}});
    }
    assert_eq!(strict(json!({"x": nested.clone()})), true);
    assert_eq!(strict(json!({"x": {"type": "object", "properties": {"x": nested}}})), false);
}

#[test]
fn anthropic_takes_plain_property_names_only() {
    let schema = json!({"type": "object", "properties": {"filter[id]": {}, "ok.name-1": {"type": "string"}}});
    let (narrowed, warnings) = schema_in(ToolFormat::Anthropic, schema);
    assert_eq!(narrowed["properties"], json!({"ok.name-1": {"type": "string"}}));
    assert_eq!(warnings, ["schema_narrowed"]);
    let key = key();
    let schema = Json::from(json!({"type": "object", "properties": {"$top": {}}, "required": ["$top"]}));
    let tool =
        OfferedTool { key: &key, title: None, description: None, input_schema: Some(&schema), annotations: None };
    let warning = ToolFormat::Anthropic.offer(&tool).unwrap_err();
    assert_eq!((warning.code, warning.path.as_str()), (WarningCode::BadSchema, "/properties/$top"));
}

#[test]
fn gemini_gets_its_part_of_json_schema_and_is_told_the_rest() {
    let exact = [
        (json!({"const": "x"}), json!({"type": "string", "enum": ["x"]})),
        (json!({"type": "integer", "exclusiveMinimum": 0}), json!({"type": "integer", "minimum": 1})),
        (
            json!({"enum": ["a", null], "title": "t"}),
            json!({"title": "t", "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ),
        (json!({"type": "string", "enum": ["a", null]}), json!({"type": "string", "enum": ["a"]})),
        (json!({"enum": ["a", 1]}), json!({"type": ["string", "number"], "enum": ["a", 1]})),
        (json!({"const": null}), json!({"type": "null"})),
        (json!({"enum": [true, false]}), json!({"type": "boolean"})),
        (json!({"type": "array"}), json!({"type": "array", "items": {}})),
        (json!({"type": "string", "format": "uri"}), json!({"type": "string", "description": "(format: uri)"})),
        (json!({"type": "string", "format": "date-time"}), json!({"type": "string", "format": "date-time"})),
        (json!({"type": "string", "default": "x"}), json!({"type": "string", "description": "(default: x)"})),
        (json!(true), json!({})),
        (
            json!({"type": "array", "prefixItems": [{"type": "string"}], "items": false}),
            json!({"type": "array", "prefixItems": [{"type": "string"}], "maxItems": 1}),
        ),
        (
            json!({"type": "object", "required": ["k"], "additionalProperties": false}),
            json!({"type": "object", "required": ["k"], "additionalProperties": false, "properties": {"k": {}}}),
        ),
    ];
    for (schema, wanted) in exact {
        assert_eq!(property_in(ToolFormat::Gemini, &schema), (wanted, vec![]), "{schema}");
    }
    let widened = [
        (json!({"type": "string", "pattern": "^a"}), json!({"type": "string", "description": "(pattern: ^a)"})),
        (
            json!({"type": "number", "exclusiveMinimum": 0}),
            json!({"type": "number", "description": "(exclusiveMinimum: 0)"}),
        ),
        (json!({"not": {"type": "null"}}), json!({})),
        (json!({"oneOf": [{"minimum": 1}, {"maximum": 3}]}), json!({"anyOf": [{"minimum": 1}, {"maximum": 3}]})),
        (json!({"const": true}), json!({"type": "boolean", "description": "(one of: [true])"})),
    ];
    for (schema, wanted) in widened {
        assert_eq!(property_in(ToolFormat::Gemini, &schema), (wanted, vec!["schema_widened"]), "{schema}");
    }
}

/// Whether `schema` uses one of `keywords` as a keyword, anywhere.
fn uses(schema: &Value, keywords: &[&str]) -> bool {
    let Value::Object(map) = schema else { return false };
    map.keys().any(|key| keywords.contains(&key.as_str()))
        || schema::keyword::children(map).any(|child| uses(child, keywords))
}

proptest! {
    #[test]
    fn whatever_schema_comes_each_provider_gets_one_that_it_takes(schema in schema_like()) {
        let (key, schema) = (key(), Json::from(schema));
        let tool = OfferedTool { key: &key, title: None, description: None, input_schema: Some(&schema), annotations: None };
        for format in [ToolFormat::OpenAi, ToolFormat::OpenAiStrict, ToolFormat::Anthropic, ToolFormat::Gemini] {
            let Ok(offer) = format.offer(&tool) else { continue };
            let offer = offer.json.to_value();
            let parameters = match format {
                ToolFormat::Anthropic => &offer["input_schema"],
                ToolFormat::Gemini => &offer["parametersJsonSchema"],
                _ => &offer["function"]["parameters"],
            };
            let at_root = ["anyOf", "oneOf", "allOf", "enum", "not"];
            prop_assert!(at_root.iter().all(|keyword| parameters.get(keyword).is_none()), "{format}: {parameters}");
            prop_assert!(parameters.is_null() || parameters["type"] == "object", "{format}: {parameters}");
            if format == ToolFormat::Gemini {
                let refused = ["$ref", "allOf", "oneOf", "const", "not", "if", "pattern", "default", "minLength"];
                prop_assert!(!uses(parameters, &refused) && parameters.get("$defs").is_none(), "{parameters}");
            }
            if offer.pointer("/function/strict") == Some(&Value::Bool(true)) {
                prop_assert!(!uses(parameters, &["allOf", "oneOf", "not", "if", "default", "minLength"]), "{parameters}");
            }
        }
    }
}

#[test]
fn alternatives_that_multiply_stay_within_the_bound() {
    let again: Vec<Value> = (0..10).map(|_| json!({"$ref": "#/$defs/A"})).collect();
    for keyword in ["anyOf", "allOf", "oneOf"] {
        let schema = json!({keyword: again, "$defs": {"A": {"properties": {"x": {}}, keyword: again}}});
        for format in [ToolFormat::OpenAi, ToolFormat::OpenAiStrict, ToolFormat::Anthropic, ToolFormat::Gemini] {
            let (schema, _) = schema_in(format, schema.clone());
            assert!(schema.to_string().len() < 4_000_000, "{format} {keyword}");
        }
    }
}

/// Whether `value` fits `schema`; `None` when the schema cannot be compiled.
fn fits(schema: &Value, value: &Value) -> Option<bool> {
    Some(jsonschema::options().offline().build(schema).ok()?.is_valid(value))
}

/// Small values that often fit the schemas of [`sound_schema`].
fn small_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1..4_i64).prop_map(Value::from),
        Just(json!(1.5)),
        prop::sample::select(vec!["", "a", "b", "ab"]).prop_map(Value::from),
    ];
    let key = prop::sample::select(vec!["a", "b", "c"]);
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            3 => prop::collection::hash_map(key.clone(), inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// Schemas as sensible servers write them, with everything that a provider may not take.
fn sound_schema() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop::sample::select(vec![
        json!({}),
        json!(true),
        json!({"type": "string"}),
        json!({"type": "integer"}),
        json!({"type": "null"}),
        json!({"type": ["string", "null"]}),
        json!({"type": "boolean", "default": true}),
        json!({"$ref": "#/$defs/T"}),
        json!({"$ref": "#/$defs/T", "description": "d"}),
        json!({"type": "string", "minLength": 1}),
        json!({"type": "string", "pattern": "^a"}),
        json!({"type": "integer", "exclusiveMinimum": 0}),
        json!({"type": "number", "exclusiveMaximum": 2}),
        json!({"enum": ["a", "b", null]}),
        json!({"const": 1}),
        json!({"enum": [true, 1]}),
        json!({"const": null}),
        json!({"type": "array"}),
        json!({"type": "object"}),
        json!({"not": {"type": "string"}}),
        json!({"type": "string", "enum": ["a", "b"]}),
        json!({"type": "string", "format": "uri"}),
    ]);
    combined(
        leaf,
        vec!["anyOf", "oneOf", "allOf"],
        vec![None, None, Some(json!(false)), Some(json!({"type": "integer"}))],
    )
}

/// Schemas that strict mode can often express.
fn strict_schema() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop::sample::select(vec![
        json!({"type": "string"}),
        json!({"type": "integer", "minimum": 0}),
        json!({"type": "boolean", "default": true}),
        json!({"type": ["string", "null"]}),
        json!({"$ref": "#/$defs/T"}),
        json!({"$ref": "#/$defs/T", "title": "t"}),
        json!({"enum": ["a", "b", null]}),
        json!({"const": 1}),
        json!({"enum": ["a", 1]}),
        json!({"const": null}),
        json!({"type": "string", "enum": ["a"]}),
        json!({"type": ["integer", "null"], "enum": [1, null]}),
    ]);
    combined(leaf, vec!["anyOf"], vec![None, Some(json!(false))])
}

/// Objects, lists and combinations of schemas.
fn combined(
    leaf: impl Strategy<Value = Value> + 'static,
    keywords: Vec<&'static str>,
    extra: Vec<Option<Value>>,
) -> impl Strategy<Value = Value> + Clone {
    leaf.prop_recursive(3, 16, 3, move |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        let extra = prop::sample::select(extra.clone());
        let keyword = prop::sample::select(keywords.clone());
        let names = prop::sample::subsequence(vec!["a", "b", "c"], 0..3);
        let object =
            (prop::collection::hash_map(prop::sample::select(vec!["a", "b", "c"]), inner.clone(), 0..3), names, extra);
        prop_oneof![
            4 => object.prop_map(|(properties, required, extra)| {
                let mut schema = json!({"type": "object", "properties": properties, "required": required});
                if let Some(extra) = extra {
                    schema["additionalProperties"] = extra;
                }
                schema
            }),
            2 => (keyword, list.clone()).prop_map(|(keyword, list)| json!({keyword: list})),
            1 => inner.prop_map(|items| json!({"type": "array", "items": items, "minItems": 1})),
            1 => list.prop_map(|list| json!({"type": "array", "prefixItems": list, "items": false})),
        ]
    })
}

/// An object schema with a definition that may contain itself, and an object that may fit it.
fn with_arguments(part: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = (Value, Value)> {
    let rest =
        prop::sample::select(vec![json!({}), json!({"additionalProperties": false}), json!({"required": ["a"]})]);
    let schema = (part.clone(), part.clone(), part, rest).prop_map(|(a, b, definition, rest)| {
        let mut schema = json!({"type": "object", "properties": {"a": a, "b": b}, "$defs": {"T": definition}});
        schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        schema
    });
    let arguments = prop::collection::hash_map(prop::sample::select(vec!["a", "b"]), small_value(), 0..3);
    (schema, arguments.prop_map(|map| json!(map)))
}

proptest! {
    #[test]
    fn no_provider_is_told_less_than_is_valid((schema, arguments) in with_arguments(sound_schema())) {
        let Ok(prepared) = schema::prepare(Some(&Json::from(schema.clone()))) else { return Ok(()) };
        if fits(&prepared.schema.into(), &arguments) != Some(true) {
            return Ok(());
        }
        for format in [ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Gemini, ToolFormat::Mistral] {
            let (told, warnings) = schema_in(format, schema.clone());
            if !told.is_null() && !warnings.contains(&"schema_narrowed") {
                prop_assert!(fits(&told, &arguments) != Some(false), "{format}: {arguments} no longer fits {told}");
            }
        }
    }

    #[test]
    fn what_strict_mode_lets_through_is_valid_without_its_nulls(
        (schema, _) in with_arguments(strict_schema()),
        picks in prop::collection::vec(0..12_usize, 1..40),
    ) {
        let whole = Json::from(schema.clone());
        let (tool, _) = offered(ToolFormat::OpenAiStrict, schema.clone());
        if tool["function"]["strict"] != true {
            return Ok(());
        }
        let parameters = &tool["function"]["parameters"];
        let arguments = sample(parameters, parameters, &mut picks.into_iter().cycle(), 0);
        prop_assume!(fits(parameters, &arguments) == Some(true));
        let check = SchemaCheck::of_arguments(Some(&whole));
        let sent = without_refused_nulls(&check, &arguments.into());
        prop_assert_eq!(check_arguments(&check, &sent), vec![], "{} of {}", sent, schema);
    }
}

/// What a model in strict mode could give: a value that fits the schema, each choice taken from `picks`.
fn sample(schema: &Value, root: &Value, picks: &mut impl Iterator<Item = usize>, depth: usize) -> Value {
    let mut pick = |count: usize| picks.next().unwrap_or(0) % count.max(1);
    if let Some(name) = schema::target_name(schema).filter(|_| depth < 8) {
        return sample(&root["$defs"][name], root, picks, depth + 1);
    }
    if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
        return sample(&branches[pick(branches.len())], root, picks, depth + 1);
    }
    if let Some(values) = union::values(schema) {
        return values[pick(values.len())].clone();
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    };
    match types.get(pick(types.len())).copied().unwrap_or("null") {
        "string" => ["", "a", "ab"][pick(3)].into(),
        "integer" | "number" => pick(3).into(),
        "boolean" => (pick(2) == 0).into(),
        "array" => (0..=pick(2)).map(|_| sample(&schema["items"], root, picks, depth + 1)).collect(),
        "object" => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties.map(|(name, inner)| (name.clone(), sample(inner, root, picks, depth + 1))).collect()
        }
        _ => Value::Null,
    }
}
