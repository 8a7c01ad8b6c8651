//! Results for people: text as text, everything else named.

use serde_json::Value;
use switchboard::wire::Json;

use crate::output::Output;
use crate::problem::Result;
use crate::views::text;

/// What there is to show of a tool's result.
pub(super) fn of_result(result: &Json) -> Vec<String> {
    let result = result.to_value();
    let blocks = result.get("content").and_then(Value::as_array);
    let mut shown: Vec<String> = blocks.into_iter().flatten().map(block).collect();
    // A server may give the structured part alone.
    if shown.is_empty()
        && let Some(structured) = result.get("structuredContent")
    {
        shown.push(format!("{structured:#}"));
    }
    shown
}

/// What there is to show of a resource's contents.
pub(super) fn of_resource(result: &Json) -> Vec<String> {
    let result = result.to_value();
    let contents = result.get("contents").and_then(Value::as_array);
    contents.into_iter().flatten().map(embedded).collect()
}

/// What there is to show of a prompt: each message under the name of who says it.
pub(super) fn of_prompt(result: &Json) -> Vec<String> {
    let result = result.to_value();
    let messages = result.get("messages").and_then(Value::as_array).into_iter().flatten();
    messages
        .map(|message| {
            let content = message.get("content");
            let said: Vec<String> = match content {
                Some(Value::Array(blocks)) => blocks.iter().map(block).collect(),
                Some(one) => vec![block(one)],
                None => Vec::new(),
            };
            format!("{}: {}", text(message, "role"), said.join("\n"))
        })
        .collect()
}

/// Prints what there is to show.
pub(super) fn print(output: &Output, shown: &[String]) -> Result<()> {
    shown.iter().try_for_each(|text| output.line(text))
}

/// One content block.
fn block(block: &Value) -> String {
    match text(block, "type") {
        "text" => text(block, "text").to_owned(),
        kind @ ("image" | "audio") => {
            format!("[{kind} {}, {}]", text(block, "mimeType"), size_of_base64(text(block, "data")))
        }
        "resource" => block.get("resource").map(embedded).unwrap_or_default(),
        "resource_link" => format!("[resource {} {}]", text(block, "uri"), text(block, "name")),
        "" => format!("[content without a type: {block}]"),
        other => format!("[{other} content]"),
    }
}

/// The contents of a resource.
fn embedded(contents: &Value) -> String {
    match (contents.get("text").and_then(Value::as_str), contents.get("blob").and_then(Value::as_str)) {
        (Some(text), _) => text.to_owned(),
        (None, Some(blob)) => {
            format!("[resource {} {}, {}]", text(contents, "uri"), text(contents, "mimeType"), size_of_base64(blob))
        }
        (None, None) => format!("[resource {}]", text(contents, "uri")),
    }
}

fn size_of_base64(data: &str) -> String {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    format!("{} bytes", (data.len() / 4 * 3).saturating_sub(padding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_and_the_rest_is_named() {
        let result: Json = r#"{"content": [{"type": "text", "text": "hi\nthere"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "uri": "a://b", "name": "n"}, {"type": "resource", "resource": {"uri": "a://c", "text": "inside"}},
            {"type": "new-kind"}]}"#
            .parse()
            .unwrap();
        assert_eq!(
            of_result(&result),
            ["hi\nthere", "[image image/png, 3 bytes]", "[resource a://b n]", "inside", "[new-kind content]"]
        );
    }

    #[test]
    fn a_structured_result_alone_is_shown() {
        let result: Json = r#"{"content": [], "structuredContent": {"sum": 3}}"#.parse().unwrap();
        assert_eq!(of_result(&result), ["{\n  \"sum\": 3\n}"]);
    }

    #[test]
    fn prompts_and_resources_are_shown() {
        let prompt: Json =
            r#"{"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}]}"#.parse().unwrap();
        assert_eq!(of_prompt(&prompt), ["user: Hello"]);
        let resource: Json = r#"{"contents": [{"uri": "a://b", "mimeType": "x/y", "blob": "AA=="}]}"#.parse().unwrap();
        assert_eq!(of_resource(&resource), ["[resource a://b x/y, 1 bytes]"]);
    }
}
