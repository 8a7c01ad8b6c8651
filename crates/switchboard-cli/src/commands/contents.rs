//! Results for people: text as text, everything else named.

use serde_json::{Value, json};
use switchboard::catalogue::output::text_of;
use switchboard::wire::Json;

use crate::output::Output;
use crate::problem::Result;
use crate::views::text;

/// What there is to show of a tool's result.
pub(super) fn of_result(result: &Json) -> Vec<String> {
    Some(text_of(result)).filter(|text| !text.is_empty()).into_iter().collect()
}

/// What there is to show of a resource's contents.
pub(super) fn of_resource(result: &Json) -> Vec<String> {
    let result = result.to_value();
    let contents = result.get("contents").and_then(Value::as_array).into_iter().flatten();
    let shown = contents.map(|contents| match contents.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => text_of(&Json::from(json!({"content": [{"type": "resource", "resource": contents}]}))),
    });
    shown.collect()
}

/// What there is to show of a prompt: each message under the name of who says it.
pub(super) fn of_prompt(result: &Json) -> Vec<String> {
    let result = result.to_value();
    let messages = result.get("messages").and_then(Value::as_array).into_iter().flatten();
    let shown = messages.map(|message| {
        let content = match message.get("content") {
            Some(Value::Array(blocks)) => json!(blocks),
            Some(one) => json!([one]),
            None => json!([]),
        };
        format!("{}: {}", text(message, "role"), text_of(&Json::from(json!({"content": content}))))
    });
    shown.collect()
}

/// Prints what there is to show.
pub(super) fn print(output: &Output, shown: &[String]) -> Result<()> {
    shown.iter().try_for_each(|text| output.line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(of: fn(&Json) -> Vec<String>, document: &str) -> Vec<String> {
        of(&document.parse().unwrap())
    }

    #[test]
    fn text_is_text_and_the_rest_is_named() {
        let result = r#"{"content": [{"type": "text", "text": "hi\nthere"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"}]}"#;
        assert_eq!(shown(of_result, result), ["hi\nthere\n[image, image/png, 3 bytes]"]);
        assert_eq!(shown(of_result, r#"{"content": [], "structuredContent": {"sum": 3}}"#), [r#"{"sum": 3}"#]);
        assert!(shown(of_result, r#"{"content": []}"#).is_empty());
    }

    #[test]
    fn prompts_and_resources_are_shown() {
        let prompt = r#"{"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}]}"#;
        assert_eq!(shown(of_prompt, prompt), ["user: Hello"]);
        let resource = r#"{"contents": [{"uri": "a://b", "text": "inside"}, {"uri": "a://b", "mimeType": "x/y", "blob": "AA=="}]}"#;
        assert_eq!(shown(of_resource, resource), ["inside", "[resource a://b, x/y, 1 bytes]"]);
    }
}
