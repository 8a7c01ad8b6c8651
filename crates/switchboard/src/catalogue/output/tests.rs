//! Results as servers send them, and what is made of them.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn given(result: Value) -> Vec<OutputPart> {
    for_model(&Json::from(result), &OutputLimits::default()).parts
}

fn text(text: &str) -> OutputPart {
    OutputPart::Text { text: text.to_owned() }
}

fn image(data: &str) -> OutputPart {
    OutputPart::Image { data: data.to_owned(), mime_type: "image/png".to_owned() }
}

fn texts(parts: &[OutputPart]) -> String {
    let text = |part: &OutputPart| match part {
        OutputPart::Text { text } => text.clone(),
        _ => String::new(),
    };
    parts.iter().map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn b115_links_are_told_and_unknown_items_are_kept() {
    let result = json!({"content": [
        {"type": "text", "text": "see"},
        {
            "type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "size": 2048, "mimeType": "text/plain",
            "description": "The first.",
        },
        {"type": "hologram", "beam": [1, 2]},
        "loose",
    ]});
    let parts = given(result.clone());
    assert_eq!(parts[0], text("see"));
    assert_eq!(parts[1], text("[link to the resource file:///a.txt, `a.txt`, text/plain, 2.0 KiB] The first."));
    let raw = "[content of the unknown type `hologram`] {\"type\":\"hologram\",\"beam\":[1,2]}";
    assert_eq!(parts[2], text(raw));
    assert_eq!(parts[3], text("[content of an unknown shape] \"loose\""));
    let shown = text_of(&Json::from(result));
    assert!(shown.starts_with("see\n[link to the resource file:///a.txt"), "{shown}");
    assert!(shown.ends_with("[content of the unknown type `hologram`]\n[content of the unknown type `?`]"), "{shown}");
}

#[test]
fn b117_an_image_is_given_once_and_never_as_text() {
    let data = "iVBORw0KGgoA".repeat(20);
    let structured = json!({"chart": data, "address": format!("data:image/png;base64,{data}"), "points": 3});
    let parts = given(json!({
        "content": [{"type": "image", "data": data, "mimeType": "image/png"}],
        "structuredContent": structured,
    }));
    assert_eq!(parts[0], image(&data));
    let rest = json!({
        "chart": "[image 1 of this result]", "address": "data:image/png;base64,[image 1 of this result]", "points": 3,
    });
    assert_eq!(parts[1..], [text(&rest.to_string())]);
    let serialised = given(json!({
        "content": [
            {"type": "text", "text": structured.to_string()},
            {"type": "image", "data": data, "mimeType": "image/png"},
        ],
        "structuredContent": structured,
    }));
    assert_eq!(serialised, [text(&rest.to_string()), image(&data)]);
}

#[test]
fn b117_escaped_base64_is_found_as_well() {
    let (data, escaped) = ("ab/+".repeat(30), "ab\\/+".repeat(30));
    let block = format!("{{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"{escaped}\"}}");
    let result = format!("{{\"content\":[{block}],\"structuredContent\":{{\"a\":\"{escaped}\"}}}}");
    let parts = for_model(&result.parse().unwrap(), &OutputLimits::default()).parts;
    assert_eq!(parts, [image(&data), text("{\"a\":\"[image 1 of this result]\"}")]);
}

#[test]
fn b117_an_image_that_is_too_large_leaves_a_note() {
    let data = "AAAA".repeat((4 << 20) / 3 + 1);
    let result = json!({
        "content": [{"type": "image", "data": data, "mimeType": "image/png"}], "structuredContent": {"image": data},
    });
    let parts = given(result.clone());
    assert_eq!(parts[0], text("[image, image/png, 4.0 MiB, not shown: larger than 3.0 MiB]"));
    assert_eq!(parts[1], text("{\"image\":\"[image 1 of this result]\"}"));
    assert_eq!(text_of(&Json::from(result)), "[image, image/png, 4.0 MiB]");
    let limits = OutputLimits { media: 8 << 20, ..OutputLimits::default() };
    let wide =
        for_model(&Json::from(json!({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})), &limits);
    assert_eq!(wide.parts, [image(&data)]);
}

#[test]
fn the_structured_part_is_given_unless_the_text_says_the_same() {
    let block = |text: &str| json!({"type": "text", "text": text});
    let cases = [
        (json!([]), json!({"a": 1}), vec!["{\"a\":1}"]),
        (json!([block("{ \"a\": 1 }")]), json!({"a": 1}), vec!["{ \"a\": 1 }"]),
        (json!([block("one thing")]), json!({"a": 1}), vec!["one thing", "{\"a\":1}"]),
        (json!([block("hi")]), json!({"result": "hi"}), vec!["hi"]),
        (json!([block("7")]), json!({"result": 7}), vec!["7"]),
        (json!([block("1"), block("2")]), json!({"result": [1, 2]}), vec!["1", "2"]),
        (json!([block("hi")]), json!("hi"), vec!["hi"]),
        (json!([]), json!(null), vec!["[the tool answered with nothing]"]),
    ];
    for (content, structured, wanted) in cases {
        let parts = given(json!({"content": content, "structuredContent": structured}));
        assert_eq!(parts, wanted.into_iter().map(text).collect::<Vec<_>>(), "{content} {structured}");
    }
}

#[test]
fn d27_of_an_error_the_text_comes_first_then_the_structure_then_a_plain_message() {
    let failed = |content: Value, structured: Value| {
        let result = json!({"content": content, "structuredContent": structured, "isError": true});
        let output = for_model(&Json::from(result), &OutputLimits::default());
        assert!(output.is_error);
        texts(&output.parts)
    };
    let block = json!([{"type": "text", "text": "push rejected"}]);
    assert_eq!(failed(block, json!({"code": 7})), "push rejected");
    assert_eq!(failed(json!([]), json!({"code": 7})), "{\"code\":7}");
    assert_eq!(failed(json!([]), json!(null)), "[the tool failed without saying why]");
}

#[test]
fn embedded_resources_are_given_by_what_they_hold() {
    let resource = |extra: Value| {
        let mut resource = json!({"uri": "demo://r"});
        resource.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        given(json!({"content": [{"type": "resource", "resource": resource}]})).remove(0)
    };
    assert_eq!(resource(json!({"text": "inside"})), text("[resource demo://r]\ninside"));
    assert_eq!(resource(json!({"blob": "AAAA", "mimeType": "image/png"})), image("AAAA"));
    let pdf = resource(json!({"blob": "AAAAAA==", "mimeType": "application/pdf"}));
    assert_eq!(pdf, text("[resource demo://r, application/pdf, 4 bytes]"));
    let audio = given(json!({"content": [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]}));
    assert_eq!(audio, [OutputPart::Audio { data: "AAAA".into(), mime_type: "audio/wav".into() }]);
}

#[test]
fn base64_is_made_right_or_not_shown() {
    let data =
        |data: &str| given(json!({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]})).remove(0);
    assert_eq!(data("data:image/png;base64,AAAA"), image("AAAA"));
    assert_eq!(data("AA\nAA\n"), image("AAAA"));
    assert_eq!(data("AAA"), image("AAA="));
    assert_eq!(data("https://x/a.png"), text("[image, image/png, 11 bytes, not shown: its data is not base64]"));
    assert_eq!(data(""), text("[image, image/png, 0 bytes, not shown: it is empty]"));
}

#[test]
fn what_is_too_long_is_cut_with_a_visible_note() {
    let limits = OutputLimits { text: 5, total: 120, ..OutputLimits::default() };
    let block = json!({"type": "text", "text": "añb€cd"});
    let output = for_model(&Json::from(json!({"content": [block, block, block, block]})), &limits);
    let cut = text("añb\n[cut here: the first 4 bytes of 9 bytes are shown]");
    let rest = text("[parts of this result that are not shown: 2; all together exceed 120 bytes]");
    assert_eq!(output.parts, [cut.clone(), cut, rest]);
}

#[test]
fn a_terminal_gets_texts_without_control_characters() {
    let result = json!({"content": [{"type": "text", "text": "a\u{1b}[31mb\tc\nd"}, {"type": "text", "text": "e"}]});
    assert_eq!(text_of(&Json::from(result)), "a[31mb\tc\nd\ne");
    assert_eq!(text_of(&"{\"content\":[],\"structuredContent\":{ \"a\": 1 }}".parse().unwrap()), "{ \"a\": 1 }");
}

#[test]
fn results_of_an_odd_shape_still_say_what_they_can() {
    assert_eq!(given(json!({"content": "plain"})), [text("plain")]);
    assert_eq!(given(json!({"content": {"type": "text", "text": "one"}})), [text("one")]);
    assert_eq!(given(json!({"content": null})), [text("[the tool answered with nothing]")]);
    assert_eq!(given(json!([1])), [text("[a result of an unknown shape] [1]")]);
    let escaped: Json = "{\"con\\u0074ent\":[{\"t\\u0079pe\":\"text\",\"text\":\"a\\u00e9\\nb\"}]}".parse().unwrap();
    assert_eq!(for_model(&escaped, &OutputLimits::default()).parts, [text("aé\nb")]);
}

proptest! {
    #[test]
    fn whatever_result_comes_something_is_given_within_the_limits(result in result_like()) {
        let limits = OutputLimits { text: 40, media: 12, total: 300 };
        let json = Json::from(result);
        let parts = for_model(&json, &limits).parts;
        prop_assert!(!parts.is_empty());
        let length = serde_json::to_string(&parts).unwrap().len();
        prop_assert!(length < 300 * 8 + 2_000, "{length}");
        prop_assert!(!text_of(&json).contains('\r'));
    }
}

fn result_like() -> impl Strategy<Value = Value> {
    let word =
        prop::sample::select(vec!["text", "image", "audio", "resource", "resource_link", "AAAA", "image/png", "é€"]);
    let leaf = prop_oneof![
        word.prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
        any::<Option<bool>>().prop_map(Value::from),
    ];
    let key = prop::sample::select(vec!["type", "text", "data", "mimeType", "resource", "uri", "blob", "name", "size"]);
    let block = prop::collection::hash_map(key, leaf, 0..6)
        .prop_map(|map| Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()));
    (prop::collection::vec(block.clone(), 0..6), block, any::<bool>()).prop_map(|(content, structured, is_error)| {
        json!({"content": content, "structuredContent": structured, "isError": is_error})
    })
}

#[test]
fn b113_half_a_character_costs_itself_and_not_the_text() {
    let result: Json = r#"{"content":[{"type":"text","text":"a\ud83d b"}]}"#.parse().unwrap();
    assert_eq!(text_of(&result), "a\u{fffd} b");
}
