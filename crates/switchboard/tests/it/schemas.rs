//! Schemas of tools, as servers write them: the server is ready, all tools are there, and a model gets what it can use.

use serde_json::{Value, json};
use switchboard::catalogue::ToolFormat;
use switchboard::{Filter, Manager, State, ToolCall};
use switchboard_testing::{HttpPeer, Peer, Reply, Tool};

use crate::fixture::{in_process, manager, ready, text};

/// Formats of providers that take any well-formed schema.
const FAITHFUL: [ToolFormat; 3] = [ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Mistral];
/// All formats of providers.
const PROVIDERS: [ToolFormat; 5] =
    [ToolFormat::OpenAi, ToolFormat::OpenAiStrict, ToolFormat::Anthropic, ToolFormat::Gemini, ToolFormat::Mistral];

/// A manager of one server with these tools.
async fn offering(tools: impl IntoIterator<Item = Tool>) -> (Peer, Manager) {
    let peer = tools.into_iter().fold(Peer::both(), Peer::tool);
    let manager = manager().await;
    let id = ready(&manager, in_process(&peer)).await;
    assert_eq!(manager.status(&id).unwrap().state, State::Ready);
    (peer, manager)
}

/// A manager of one server whose one tool `t` has this input schema.
async fn with_schema(schema: Value) -> (Peer, Manager) {
    offering([Tool::raw(json!({ "name": "t", "description": "does it", "inputSchema": schema }))]).await
}

/// What a model gets: the schema of the one tool in that format.
fn offered(manager: &Manager, format: ToolFormat) -> Value {
    let offer = manager.offer(format, &Filter::all());
    assert_eq!(offer.len(), 1, "the tool is offered in {format}");
    let tool = offer[0].to_value();
    let place = match format {
        ToolFormat::Mcp => &tool["inputSchema"],
        ToolFormat::Anthropic => &tool["input_schema"],
        ToolFormat::Gemini => &tool["parametersJsonSchema"],
        _ => &tool["function"]["parameters"],
    };
    place.clone()
}

/// The codes of what was noticed for models.
fn noticed(manager: &Manager) -> Vec<String> {
    let status = manager.servers().servers.remove(0).1;
    status.warnings.into_iter().map(|warning| warning.code).collect()
}

fn is_valid(schema: &Value, value: &Value) -> bool {
    jsonschema::validator_for(schema).unwrap().is_valid(value)
}

/// Every reference inside, which must lead to a definition at the root.
fn expect_self_contained(schema: &Value) {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(schema, &mut found);
    for reference in found {
        let place = reference.strip_prefix('#').unwrap_or_else(|| panic!("`{reference}` leads outside"));
        assert!(schema.pointer(place).is_some(), "`{reference}` leads nowhere in {schema}");
    }
}

#[tokio::test]
async fn b067_an_output_schema_with_definitions_at_its_root_is_resolved() {
    let schema = json!({
        "type": "object",
        "properties": { "page": { "type": "object", "properties": { "rows": { "type": "array", "items": { "$ref": "#/$defs/Row" } } } } },
        "$defs": { "Row": { "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] } },
    });
    let answer = |structured: Value| {
        move |_: &Value, _: &switchboard_testing::Context| {
            Reply::result(json!({ "content": [], "structuredContent": structured }))
        }
    };
    let (_peer, manager) = offering([
        Tool::new("good").output_schema(schema.clone()).answers(answer(json!({ "page": { "rows": [{ "id": 1 }] } }))),
        Tool::new("bad").output_schema(schema).answers(answer(json!({ "page": { "rows": [{}] } }))),
    ])
    .await;
    let call = |tool: &'static str| manager.call(ToolCall::new("peer".parse().unwrap(), tool));
    assert_eq!(call("good").await.unwrap().warnings, Vec::<String>::new());
    let bad = call("bad").await.unwrap();
    assert!(bad.warnings[0].contains("id"), "{:?}", bad.warnings);
}

#[tokio::test]
async fn b067_an_output_schema_that_cannot_be_compiled_is_not_enforced() {
    let odd = [
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/Missing" } } }),
        json!({ "$ref": "http://127.0.0.1:1/schema" }),
        json!({ "type": "object", "properties": { "a": { "type": "no-such-type" } } }),
        json!({ "type": "object", "properties": { "a": { "pattern": "(" } } }),
        json!({ "$ref": "#" }),
    ];
    let tools = odd.into_iter().enumerate().map(|(number, schema)| {
        Tool::new(&format!("t{number}"))
            .output_schema(schema)
            .answers(|_, _| Reply::result(json!({ "content": [], "structuredContent": { "a": 1 } })))
    });
    let (_peer, manager) = offering(tools).await;
    assert_eq!(manager.tools(&Filter::all()).len(), 5);
    for number in 0..5 {
        let result = manager.call(ToolCall::new("peer".parse().unwrap(), format!("t{number}"))).await.unwrap();
        assert!(result.result.as_str().contains("structuredContent"), "t{number}");
        assert_eq!(result.warnings, Vec::<String>::new(), "t{number}");
    }
}

#[tokio::test]
async fn b069_what_goes_to_a_model_is_self_contained() {
    let (peer, manager) = with_schema(json!({
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/A", "description": "the first of the chain" } },
        "required": ["a"],
        "$defs": {
            "A": { "type": "object", "properties": { "b": { "$ref": "#/$defs/B" } }, "required": ["b"] },
            "B": { "type": "object", "properties": { "c": { "$ref": "#/$defs/C" } }, "required": ["c"], "description": "the second" },
            "C": { "type": "string", "enum": ["x", "y"], "description": "the third" },
        },
    }))
    .await;
    for format in PROVIDERS {
        let schema = offered(&manager, format);
        expect_self_contained(&schema);
        for text in ["the first of the chain", "the second", "the third"] {
            assert!(schema.to_string().contains(text), "{format}: {schema}");
        }
        assert!(is_valid(&schema, &json!({ "a": { "b": { "c": "x" } } })), "{format}: {schema}");
        for wrong in [json!({}), json!({ "a": {} }), json!({ "a": { "b": { "c": "z" } } }), json!({ "a": "text" })] {
            assert!(!is_valid(&schema, &wrong), "{format} allows {wrong}: {schema}");
        }
    }
    let arguments = json!({ "a": { "b": { "c": "x" } } });
    let call = ToolCall::by_key("tool_peer_t").arguments(arguments.clone()).validated();
    manager.call(call).await.unwrap();
    assert_eq!(peer.received_of("tools/call")[0]["params"]["arguments"], arguments);
}

#[tokio::test]
async fn b069_references_of_every_kind_resolve_or_are_left_out_with_a_warning() {
    let inside = [
        json!({ "definitions": { "A": { "type": "string" } }, "properties": { "a": { "$ref": "#/definitions/A" } } }),
        json!({ "properties": { "a": { "type": "string" }, "b": { "$ref": "#/properties/a" } } }),
        json!({ "$defs": { "a/b~c": { "type": "string" } }, "properties": { "a": { "$ref": "#/$defs/a~1b~0c" } } }),
        json!({ "properties": { "a": { "$ref": "#/$defs/Node" } },
                "$defs": { "Node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/Node" } } } } }),
        json!({ "$ref": "#/$defs/Root", "$defs": { "Root": { "type": "object", "properties": { "a": {} } } } }),
    ];
    let outside = [
        json!({ "properties": { "a": { "$ref": "#/$defs/Missing" } } }),
        json!({ "properties": { "a": { "$ref": "https://h.example/schema.json" } } }),
        json!({ "properties": { "a": { "$ref": "file:///etc/passwd" } } }),
        json!({ "properties": { "a": { "$ref": 5 } } }),
    ];
    for (schema, leads_outside) in
        inside.into_iter().map(|it| (it, false)).chain(outside.into_iter().map(|it| (it, true)))
    {
        let mut schema = schema;
        schema["type"] = "object".into();
        let (_peer, manager) = with_schema(schema.clone()).await;
        for format in PROVIDERS {
            let model = offered(&manager, format);
            expect_self_contained(&model);
            assert!(model.to_string().contains("\"a\""), "{format}: the property stays: {model}");
        }
        if leads_outside {
            let noticed = noticed(&manager);
            assert!(
                noticed.iter().any(|code| code == "reference_left_out" || code == "schema_repaired"),
                "{schema}: {noticed:?}"
            );
        }
    }
}

#[tokio::test]
async fn b069_references_to_the_network_are_never_fetched() {
    let web = HttpPeer::start(Peer::modern()).await;
    let (address, other) = (web.url_at("/schema.json"), web.url_at("/other.json"));
    let schema =
        json!({ "type": "object", "$schema": address, "$id": address, "properties": { "a": { "$ref": other } } });
    let (_peer, manager) = offering([Tool::new("t").schema(schema.clone()).output_schema(schema)]).await;
    for format in ToolFormat::ALL {
        offered(&manager, format);
    }
    let call = ToolCall::by_key("tool_peer_t").arguments(json!({ "a": 1 })).validated();
    manager.call(call).await.unwrap();
    assert_eq!(web.accepted(), 0);
}

#[tokio::test]
async fn b071_unions_are_neither_widened_nor_narrowed() {
    let (_peer, manager) = with_schema(json!({
        "type": "object",
        "properties": {
            "shape": { "anyOf": [
                { "type": "object", "properties": { "radius": { "type": "number" } }, "required": ["radius"], "additionalProperties": false },
                { "type": "object", "properties": { "side": { "type": "number" } }, "required": ["side"], "additionalProperties": false },
            ] },
            "mode": { "oneOf": [{ "const": "fast", "title": "Fast" }, { "const": "slow" }] },
            "both": { "allOf": [{ "type": "string", "minLength": 2 }, { "maxLength": 4 }] },
        },
        "required": ["shape", "mode", "both"],
        "additionalProperties": false,
    }))
    .await;
    let right = [
        json!({ "shape": { "radius": 1 }, "mode": "fast", "both": "abc" }),
        json!({ "shape": { "side": 2.5 }, "mode": "slow", "both": "ab" }),
    ];
    let wrong = [
        json!({ "shape": "circle", "mode": "fast", "both": "abc" }),
        json!({ "shape": { "radius": 1, "side": 2 }, "mode": "fast", "both": "abc" }),
        json!({ "shape": { "radius": 1 }, "mode": "medium", "both": "abc" }),
        json!({ "shape": { "radius": 1 }, "mode": "fast", "both": 7 }),
    ];
    for format in PROVIDERS {
        let schema = offered(&manager, format);
        for value in &right {
            assert!(is_valid(&schema, value), "{format} refuses {value}: {schema}");
        }
        for value in &wrong {
            assert!(!is_valid(&schema, value), "{format} allows {value}: {schema}");
        }
    }
    for format in FAITHFUL {
        let schema = offered(&manager, format);
        for both in ["a", "abcde"] {
            let value = json!({ "shape": { "radius": 1 }, "mode": "fast", "both": both });
            assert!(!is_valid(&schema, &value), "{format} allows {value}: {schema}");
        }
    }
}

#[tokio::test]
async fn b071_a_union_at_the_root_stays_callable_for_every_model() {
    let (peer, manager) = with_schema(json!({
        "anyOf": [
            { "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"] },
            { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] },
        ],
    }))
    .await;
    for format in PROVIDERS {
        let schema = offered(&manager, format);
        assert_eq!(schema["type"], "object", "{format}");
        assert!(schema.to_string().contains("\"id\"") && schema.to_string().contains("\"name\""), "{format}: {schema}");
    }
    for format in [ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Gemini, ToolFormat::Mistral] {
        let schema = offered(&manager, format);
        assert!(
            is_valid(&schema, &json!({ "id": 1 })) && is_valid(&schema, &json!({ "name": "a" })),
            "{format}: {schema}"
        );
    }
    let call = |arguments: Value| manager.call(ToolCall::by_key("tool_peer_t").arguments(arguments).validated());
    call(json!({ "name": "a" })).await.unwrap();
    assert_eq!(call(json!({ "id": "text" })).await.unwrap_err().kind(), switchboard::ErrorKind::InvalidArguments);
    assert_eq!(peer.count("tools/call"), 1, "what does not fit is not sent");
}

#[tokio::test]
async fn b073_an_object_without_properties_is_accepted_without_a_warning() {
    for schema in [
        json!({ "type": "object" }),
        json!({ "type": "object", "properties": {} }),
        json!({ "type": "object", "properties": null }),
    ] {
        let (peer, manager) = with_schema(schema.clone()).await;
        for format in [ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Mistral] {
            let model = offered(&manager, format);
            assert_eq!((&model["type"], &model["properties"]), (&json!("object"), &json!({})), "{format}");
            assert!(is_valid(&model, &json!({ "anything": 1 })) && is_valid(&model, &json!({})), "{format}: {model}");
        }
        if !schema["properties"].is_null() || schema.as_object().unwrap().len() == 1 {
            assert_eq!(noticed(&manager), Vec::<String>::new(), "{schema}");
        }
        for arguments in [json!({}), json!({ "anything": 1 })] {
            let call = ToolCall::by_key("tool_peer_t").arguments(arguments.clone()).validated();
            assert_eq!(text(&manager.call(call).await.unwrap()), arguments.to_string());
        }
        assert_eq!(peer.count("tools/call"), 2);
    }
}

#[tokio::test]
async fn b073_a_missing_schema_is_an_object_with_anything_in_it() {
    for tool in
        [json!({ "name": "t" }), json!({ "name": "t", "inputSchema": null }), json!({ "name": "t", "inputSchema": {} })]
    {
        let (_peer, manager) = offering([Tool::raw(tool)]).await;
        for format in [ToolFormat::Mcp, ToolFormat::OpenAi, ToolFormat::Anthropic, ToolFormat::Mistral] {
            assert!(is_valid(&offered(&manager, format), &json!({ "anything": 1 })), "{format}");
        }
        manager.call(ToolCall::by_key("tool_peer_t").arguments(json!({ "x": 1 })).validated()).await.unwrap();
    }
}

#[tokio::test]
async fn b075_additional_properties_with_a_schema_allow_more_keys() {
    let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let (peer, manager) =
        with_schema(json!({ "type": "object", "properties": { "labels": map }, "required": ["labels"] })).await;
    let arguments = json!({ "labels": { "colour": "blue", "size": "large" } });
    for format in
        [ToolFormat::OpenAi, ToolFormat::OpenAiStrict, ToolFormat::Anthropic, ToolFormat::Gemini, ToolFormat::Mistral]
    {
        let schema = offered(&manager, format);
        assert!(is_valid(&schema, &arguments), "{format}: {schema}");
    }
    for format in FAITHFUL {
        assert!(!is_valid(&offered(&manager, format), &json!({ "labels": { "size": 5 } })), "{format}");
    }
    manager.call(ToolCall::by_key("tool_peer_t").arguments(arguments.clone()).validated()).await.unwrap();
    assert_eq!(peer.received_of("tools/call")[0]["params"]["arguments"], arguments);
}

#[tokio::test]
async fn b075_boolean_schemas_mean_what_they_say() {
    let (_peer, manager) = with_schema(json!({
        "type": "object",
        "properties": { "any": true, "map": { "type": "object", "additionalProperties": true }, "closed": { "type": "object", "additionalProperties": false } },
        "additionalProperties": {},
    }))
    .await;
    for format in FAITHFUL {
        let schema = offered(&manager, format);
        assert!(
            is_valid(&schema, &json!({ "any": [1], "map": { "k": 1 }, "closed": {}, "more": 1 })),
            "{format}: {schema}"
        );
        assert!(!is_valid(&schema, &json!({ "closed": { "k": 1 } })), "{format}: {schema}");
    }
}

#[tokio::test]
async fn b065_required_inside_properties_is_repaired_and_visible() {
    let (_peer, manager) = with_schema(json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "required": ["path"] },
    }))
    .await;
    for format in PROVIDERS {
        let schema = offered(&manager, format);
        assert!(jsonschema::meta::is_valid(&schema), "{format}: {schema}");
        assert!(
            is_valid(&schema, &json!({ "path": "/a" })) || format == ToolFormat::OpenAiStrict,
            "{format}: {schema}"
        );
    }
    assert!(noticed(&manager).iter().any(|code| code == "schema_repaired"), "{:?}", noticed(&manager));
    let call = ToolCall::by_key("tool_peer_t").arguments(json!({ "path": "/a" })).validated();
    manager.call(call).await.unwrap();
}

#[tokio::test]
async fn b065_one_malformed_schema_costs_no_other_tool_its_place_in_the_request() {
    let malformed = [
        json!({ "type": "string" }),
        json!({ "type": "objekt" }),
        json!({ "type": 5 }),
        json!({ "type": "object", "properties": ["a"] }),
        json!({ "type": "object", "properties": { "a": "string" } }),
        json!({ "type": "object", "properties": { "a": { "type": ["string", "nil"] } } }),
        json!({ "type": "object", "properties": { "a": { "enum": [] } } }),
        json!({ "type": "object", "properties": { "a": { "enum": "x" } } }),
        json!({ "type": "object", "required": "a" }),
        json!({ "type": "object", "required": true, "properties": { "a": { "required": true } } }),
        json!({ "type": "object", "properties": { "a": { "pattern": "(" } } }),
        json!({ "type": "object", "properties": { "a": { "minimum": "1" } } }),
        json!({ "type": "object", "properties": { "a": { "anyOf": [] } } }),
        json!({ "type": "object", "properties": { "a": { "items": null, "type": "array" } } }),
        json!({ "not": {} }),
        json!({ "properties": { "": {}, "$odd name": {} } }),
    ];
    let count = malformed.len();
    let tools =
        malformed.into_iter().enumerate().map(|(number, schema)| Tool::new(&format!("odd-{number}")).schema(schema));
    let (_peer, manager) = offering(tools.chain([Tool::new("good")])).await;
    assert_eq!(manager.tools(&Filter::all()).len(), count + 1);
    for format in PROVIDERS {
        let offer = manager.offer(format, &Filter::all());
        let good = offer.iter().any(|tool| tool.as_str().contains("tool_peer_good"));
        assert!(good && offer.len() > count / 2, "{format}: {} of {count}", offer.len());
        for tool in &offer {
            let tool = tool.to_value();
            let schema = [&tool["input_schema"], &tool["parametersJsonSchema"], &tool["function"]["parameters"]];
            for schema in schema.into_iter().filter(|schema| schema.is_object()) {
                assert!(jsonschema::meta::is_valid(schema), "{format}: {tool}");
            }
        }
    }
    let warned = manager.servers().servers.remove(0).1.warnings;
    let is_named = |name: &str| warned.iter().any(|warning| warning.item.as_deref() == Some(name));
    assert!(is_named("odd-0") && is_named("odd-3") && is_named("odd-14"), "{warned:?}");
}

#[tokio::test]
async fn a_schema_200_deep_costs_models_that_tool_and_nobody_else_anything() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..200 {
        deep = json!({ "type": "object", "properties": { "a": deep } });
    }
    let text_of = serde_json::to_string(&deep).unwrap();
    let list = format!(
        r#"{{"tools":[{{"name":"deep","description":"very deep","title":"Deep","inputSchema":{text_of}}},{{"name":"flat","inputSchema":{{"type":"object"}}}}]}}"#
    );
    let peer = Peer::both()
        .capabilities(json!({ "tools": {} }))
        .on("tools/list", move |_, _| Reply::result_text(list.clone()))
        .on("tools/call", |_, _| Reply::text("hi"));
    let manager = manager().await;
    let id = ready(&manager, in_process(&peer)).await;
    let tools = manager.tools(&Filter::all());
    assert_eq!(tools.len(), 2);
    assert_eq!(tools[0].tool.description().as_deref(), Some("very deep"));
    assert_eq!(tools[0].tool.title().as_deref(), Some("Deep"));
    assert_eq!(tools[0].tool.input_schema().unwrap().as_str(), text_of, "byte for byte");
    for format in PROVIDERS {
        assert_eq!(manager.offer(format, &Filter::all()).len(), 1, "{format}");
    }
    let mut warnings = manager.status(&id).unwrap().warnings;
    warnings.retain(|warning| warning.item.as_deref() == Some("deep"));
    assert_eq!(warnings.len(), PROVIDERS.len());
    assert!(warnings.iter().all(|warning| warning.code == "schema_too_large"), "{warnings:?}");
    let result = manager.call(ToolCall::new(id, "deep").arguments(json!({ "a": {} })).validated()).await.unwrap();
    assert_eq!(text(&result), "hi");
    serde_json::to_string(&manager.servers()).unwrap();
}

#[tokio::test]
async fn in_the_format_of_mcp_a_schema_stays_as_the_server_sent_it() {
    let schema = json!({ "anyOf": [{ "$ref": "#/$defs/A" }], "$defs": { "A": { "type": "object" } }, "x-own": 1 });
    let (_peer, manager) = with_schema(schema.clone()).await;
    assert_eq!(offered(&manager, ToolFormat::Mcp), schema);
}
