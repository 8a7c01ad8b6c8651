//! Results of calls and arguments on their way to the server: what passes, and what a model is given of it.

use base64::Engine as _;
use serde_json::{Value, json};
use switchboard::catalogue::output::{ModelOutput, OutputLimits, OutputPart, for_model};
use switchboard::manager::CallLimits;
use switchboard::spec::OutputSchemaPolicy;
use switchboard::wire::Json;
use switchboard::{CallResult, ErrorKind};
use switchboard_testing::{HttpPeer, Peer, Prompt, Reply, Tool};

use crate::fixture::{client, everywhere, in_process, json as parsed, manager, over_http, ready, text, whole};

fn answers(result: Value) -> Peer {
    Peer::both().tool(Tool::new("t").answers(move |_, _| Reply::result(result.clone())))
}

fn given(result: &CallResult) -> ModelOutput {
    for_model(&result.result, &OutputLimits::default())
}

fn as_text(part: &OutputPart) -> &str {
    match part {
        OutputPart::Text { text } => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn b115_known_items_are_delivered_links_keep_their_fields_and_unknown_ones_stay_raw() {
    let content = json!([
        { "type": "text", "text": "see" },
        { "type": "resource_link", "uri": "file:///report.pdf", "name": "report", "size": 1234, "description": "of May" },
        { "type": "hologram", "depth": 3 },
        { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
    ]);
    let peer = answers(json!({ "content": content }));
    for (_server, client) in everywhere(&peer).await {
        let result = client.call("t", None).await.unwrap();
        assert_eq!(result.result.to_value()["content"], content);
        let parts = given(&result).parts;
        let texts: Vec<&str> = parts.iter().map(as_text).collect();
        assert_eq!((texts.len(), texts[0]), (4, "see"));
        for field in ["file:///report.pdf", "report", "of May"] {
            assert!(texts[1].contains(field), "{}", texts[1]);
        }
        assert!(texts[2].contains("hologram") && texts[2].contains("\"depth\":3"), "{}", texts[2]);
        assert!(texts[3].contains("inside"));
    }
    assert_eq!(peer.count("resources/read"), 0, "nothing is fetched by itself");
}

#[tokio::test]
async fn b115_content_of_any_shape_is_delivered_as_it_came() {
    let odd = [
        json!({ "content": [] }),
        json!({ "content": null }),
        json!({}),
        json!({ "content": "text" }),
        json!({ "content": { "type": "text", "text": "one" } }),
        json!({ "content": [null, 5, "x", [], {}] }),
        json!({ "content": [{ "type": "text" }, { "type": 5 }, { "type": "text", "text": 5 }] }),
        json!({ "content": [{ "type": "image" }, { "type": "image", "data": "!!!", "mimeType": "image/png" }] }),
        json!({ "content": [{ "type": "resource_link" }, { "type": "resource" }, { "type": "resource", "resource": {} }] }),
        json!({ "structuredContent": [1, 2] }),
        json!({ "content": [], "isError": "yes", "_meta": 7 }),
        json!({ "toolResult": "of an older revision" }),
    ];
    for result in odd {
        let peer = Peer::legacy().tool(Tool::new("t").answers({
            let result = result.clone();
            move |_, _| Reply::bare_result(result.clone())
        }));
        let client = client(in_process(&peer)).await;
        let delivered = client.call("t", None).await.unwrap();
        assert_eq!(delivered.result.to_value(), result);
        assert!(!given(&delivered).parts.is_empty(), "a model is told something: {result}");
    }
}

#[tokio::test]
async fn b117_an_image_reaches_a_model_once_and_never_as_text() {
    let data = base64::engine::general_purpose::STANDARD.encode([7; 6000]);
    let peer = answers(json!({
        "content": [{ "type": "text", "text": "a chart" }, { "type": "image", "data": data, "mimeType": "image/png" }],
        "structuredContent": { "title": "chart", "image": data, "nested": [{ "data": format!("data:image/png;base64,{data}") }] },
    }));
    for (_server, client) in everywhere(&peer).await {
        let result = client.call("t", None).await.unwrap();
        assert_eq!(result.result.as_str().matches(&data).count(), 3, "the caller gets the result whole");
        let parts = given(&result).parts;
        let images: Vec<_> = parts.iter().filter(|part| matches!(part, OutputPart::Image { .. })).collect();
        assert_eq!(images.len(), 1);
        for part in &parts {
            if let OutputPart::Text { text } = part {
                assert!(!text.contains(&data[..100]), "base64 as text");
            }
        }
        assert!(parts.iter().any(|part| matches!(part, OutputPart::Text { text } if text.contains("\"chart\""))));
    }
}

#[tokio::test]
async fn b117_an_image_that_is_too_large_becomes_a_visible_note() {
    let data = base64::engine::general_purpose::STANDARD.encode(vec![7; 4 << 20]);
    let peer = answers(json!({ "content": [{ "type": "image", "data": data, "mimeType": "image/png" }] }));
    let client = client(in_process(&peer)).await;
    let result = client.call("t", None).await.unwrap();
    let parts = given(&result).parts;
    let [OutputPart::Text { text }] = &parts[..] else { panic!("one note") };
    assert!(text.contains("4.0 MiB") && text.len() < 300, "{text}");
    let mut limits = OutputLimits::default();
    limits.media = 5 << 20;
    assert!(matches!(for_model(&result.result, &limits).parts[..], [OutputPart::Image { .. }]));
}

#[tokio::test]
async fn b081_arguments_are_always_an_object_on_the_wire() {
    let strict = || {
        Peer::both().tool(Tool::new("t")).on("tools/call", |request, context| {
            match request["params"].get("arguments") {
                Some(Value::Object(_)) => context.usual(),
                other => Reply::error(-32602, format!("arguments must be an object, not {other:?}")),
            }
        })
    };
    let none: Vec<Option<Json>> =
        vec![None, Some(parsed("null")), Some(parsed("\"\"")), Some(parsed("{}")), Some(parsed(" { } "))];
    let peer = strict();
    for (_server, client) in everywhere(&peer).await {
        for arguments in none.clone() {
            client.call("t", arguments).await.unwrap();
        }
    }
    assert!(peer.received_of("tools/call").iter().all(|call| call["params"]["arguments"] == json!({})));
}

#[tokio::test]
async fn b081_arguments_that_are_no_object_are_refused_before_they_leave() {
    let peer = Peer::both().tool("t");
    let client = client(in_process(&peer)).await;
    for arguments in ["[]", "5", "true", "\"text\"", "\"{}\""] {
        let error = client.call("t", Some(parsed(arguments))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArguments, "{arguments}");
        assert_eq!(error.data().problems[0].path, "arguments");
    }
    assert_eq!(peer.count("tools/call"), 0);
}

#[tokio::test]
async fn b081_arguments_reach_the_server_byte_for_byte() {
    let arguments = r#"{ "n":12345678901234567890123,"f":1.0,"e":1E3,"s":"\u0041","dup":1,"dup":2 }"#;
    let server = HttpPeer::start(Peer::both().on("tools/call", |_, _| Reply::text("hi")).tool("t")).await;
    let client = client(over_http(&server)).await;
    client.call("t", Some(parsed(arguments))).await.unwrap();
    let body = server.requests_of("tools/call").pop().unwrap().body;
    assert!(std::str::from_utf8(&body).unwrap().contains(arguments), "{body:?}");
}

#[tokio::test]
async fn prompts_get_their_arguments_as_given() {
    let peer = Peer::both().prompt(Prompt::new("greet").argument("who", true).text("hello {who}")).prompt("plain");
    for (_server, client) in everywhere(&peer).await {
        let filled = client.get_prompt("greet", Some(parsed(r#"{"who":"é"}"#))).await.unwrap();
        assert!(filled.as_str().contains("hello é"));
        for none in [None, Some(parsed("null")), Some(parsed("{}"))] {
            assert!(client.get_prompt("plain", none).await.unwrap().as_str().contains("plain"));
        }
        let error = client.get_prompt("greet", Some(parsed("[1]"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArguments);
    }
}

#[tokio::test]
async fn a_result_keeps_its_bytes_and_its_large_numbers() {
    let result = r#"{"content":[{"type":"text","text":"\u00e9\/"} ],"structuredContent":{"id":9007199254740993,"big":123456789012345678901234567890,"f":1.10,"x":1e999},"_meta":{"own": [ ]}}"#;
    let peer = Peer::both().tool("t").on("tools/call", move |_, _| Reply::result_text(result));
    for (_server, client) in everywhere(&peer).await {
        assert_eq!(client.call("t", None).await.unwrap().result.as_str(), result);
    }
    let peer = Peer::both().tool("t").on("prompts/get", move |_, _| Reply::result_text(result)).prompt("p");
    let client = client(in_process(&peer)).await;
    assert_eq!(client.get_prompt("p", None).await.unwrap().as_str(), result);
}

#[tokio::test]
async fn a_result_200_deep_is_delivered_whole() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let result = format!(r#"{{"content":[{{"type":"text","text":"hi"}}],"structuredContent":{{"deep":{deep}}}}}"#);
    let expected = result.clone();
    let peer = Peer::both().tool("t").on("tools/call", move |_, _| Reply::result_text(result.clone()));
    for (_server, client) in everywhere(&peer).await {
        let delivered = client.call("t", None).await.unwrap();
        assert_eq!(delivered.result.as_str(), expected);
        assert_eq!(as_text(&given(&delivered).parts[0]), "hi");
    }
}

#[tokio::test]
async fn half_a_surrogate_pair_does_not_cost_the_result() {
    let result = r#"{"content":[{"type":"text","text":"a\ud83eb"}]}"#;
    let peer = Peer::both().tool("t").on("tools/call", move |_, _| Reply::result_text(result));
    for (_server, client) in everywhere(&peer).await {
        let delivered = client.call("t", None).await.unwrap();
        assert_eq!(delivered.result.as_str(), result);
        assert!(!given(&delivered).parts.is_empty());
    }
}

#[tokio::test]
async fn b077_an_error_of_a_tool_is_not_checked_against_its_output_schema() {
    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"], "additionalProperties": false });
    let tool = Tool::new("t").output_schema(schema).answers(|_, _| {
        Reply::result(json!({
            "isError": true, "content": [{ "type": "text", "text": "push rejected" }], "structuredContent": { "code": 7 },
        }))
    });
    let mut spec = in_process(&Peer::both().tool(tool));
    spec.output_schema = OutputSchemaPolicy::Refuse;
    let client = client(spec).await;
    let result = client.call("t", None).await.unwrap();
    assert!(result.is_error && text(&result) == "push rejected");
    let output = given(&result);
    assert!(output.is_error && as_text(&output.parts[0]) == "push rejected");
}

#[tokio::test]
async fn b079_only_the_structured_part_is_checked_against_the_output_schema() {
    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"], "additionalProperties": false });
    let answering = |structured: Value| {
        Peer::both().tool(Tool::new("t").output_schema(schema.clone()).answers(move |_, _| {
            Reply::result(json!({ "content": [{ "type": "text", "text": "x" }], "structuredContent": structured }))
        }))
    };
    let mut spec = in_process(&answering(json!({ "ok": true })));
    spec.output_schema = OutputSchemaPolicy::Refuse;
    assert_eq!(client(spec).await.call("t", None).await.unwrap().warnings, Vec::<String>::new());
    let mut spec = in_process(&answering(json!({ "ok": "yes" })));
    let lenient = client(spec.clone()).await.call("t", None).await.unwrap();
    assert_eq!(lenient.warnings.len(), 1);
    spec.output_schema = OutputSchemaPolicy::Refuse;
    assert_eq!(client(spec).await.call("t", None).await.unwrap_err().kind(), ErrorKind::ProtocolViolation);
}

#[tokio::test]
async fn a_servers_error_keeps_its_code_text_and_data() {
    let data = json!({ "n": 1, "why": ["a"] });
    let peer = Peer::both()
        .tool("t")
        .on("tools/call", move |_, _| Reply::error_with(-32050, "no \u{1b}[31mway", data.clone()));
    for (_server, client) in everywhere(&peer).await {
        let error = client.call("t", None).await.unwrap_err();
        let rpc = error.data().rpc.as_ref().unwrap();
        assert_eq!(
            (error.kind(), rpc.code, rpc.message.as_str()),
            (ErrorKind::ServerError, -32050, "no \u{1b}[31mway")
        );
        assert_eq!(rpc.data.as_ref().unwrap().to_value(), json!({ "n": 1, "why": ["a"] }));
    }
}

#[tokio::test]
async fn b003_an_error_whose_code_looks_like_a_status_is_an_ordinary_error() {
    for code in [401, 403, 404, 429, 500, 503] {
        let peer = Peer::legacy().tool("t").on("tools/call", move |_, _| Reply::error(code, "not what it seems"));
        for (_server, client) in everywhere(&peer).await {
            let error = client.call("t", None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ServerError, "{}", whole(&error));
            assert_eq!(client.state(), switchboard::State::Ready);
            client.close().await;
        }
        assert_eq!(peer.count("initialize"), 3);
    }
}

#[tokio::test]
async fn other_results_are_passed_on_as_they_came() {
    let peer = Peer::both()
        .capabilities(json!({ "resources": {}, "prompts": {}, "completions": {} }))
        .on("resources/read", |_, _| Reply::bare_result(json!({ "contents": [{ "uri": "x", "odd": 1 }], "own": 2 })))
        .on("completion/complete", |_, _| {
            Reply::bare_result(json!({ "completion": { "values": ["a"], "total": 1e3 } }))
        });
    let manager = manager().await;
    let id = ready(&manager, in_process(&peer)).await;
    let read = manager.read_resource(&id, "not listed", CallLimits::default()).await.unwrap();
    assert_eq!(read.to_value(), json!({ "contents": [{ "uri": "x", "odd": 1 }], "own": 2 }));
    let params = parsed(r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}"#);
    let completed = manager.complete(&id, params, CallLimits::default()).await.unwrap();
    assert_eq!(completed.to_value()["completion"]["total"], json!(1e3));
}
