//! What the demo server offers: its tools, its prompt, its resource. Everything is the same at every call.

use serde_json::{Value, json};

use super::Fault;
use crate::problem::Result;

const RESOURCE: &str = "demo://welcome";
const WELCOME: &str = "Welcome to Switchboard. This text is a resource of the demo server.";

pub(super) fn capabilities() -> Value {
    json!({"tools": {}, "prompts": {}, "resources": {}})
}

pub(super) fn tools() -> Value {
    let number = |about: &str| json!({"type": "number", "description": about});
    let count =
        |about: &str, most: u64| json!({"type": "integer", "description": about, "minimum": 1, "maximum": most});
    let harmless = json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false});
    json!([
        {
            "name": "echo",
            "title": "Echo",
            "description": "Says what it is told.",
            "inputSchema": object(json!({"message": {"type": "string", "description": "What to say"}}), &["message"]),
            "annotations": harmless,
        },
        {
            "name": "add",
            "title": "Add",
            "description": "Adds two numbers.",
            "inputSchema": object(json!({"a": number("The first number"), "b": number("The second number")}), &["a", "b"]),
            "outputSchema": object(json!({"sum": number("The sum")}), &["sum"]),
            "annotations": harmless,
        },
        {
            "name": "roll",
            "title": "Roll dice",
            "description": "Rolls dice that are the same every time, and adds them up.",
            "inputSchema": object(json!({"dice": count("How many dice", 100), "sides": count("Sides of a die, 6 unless given", 1000)}), &["dice"]),
            "annotations": harmless,
        },
    ])
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

pub(super) fn call(params: &Value) -> Result<Value, Fault> {
    let empty = json!({});
    let arguments = params.get("arguments").unwrap_or(&empty);
    match params.get("name").and_then(Value::as_str) {
        Some("echo") => Ok(arguments.get("message").and_then(Value::as_str).map_or_else(
            || failed("`message` must be a text"),
            |message| json!({"content": [{"type": "text", "text": message}]}),
        )),
        Some("add") => Ok(sum(arguments)),
        Some("roll") => Ok(roll(arguments)),
        name => Err(Fault::invalid(format!("there is no tool `{}`", name.unwrap_or_default()))),
    }
}

fn sum(arguments: &Value) -> Value {
    let number = |name: &str| arguments.get(name).and_then(Value::as_f64);
    let (Some(a), Some(b)) = (number("a"), number("b")) else { return failed("`a` and `b` must be numbers") };
    let sum = a + b;
    // Whole numbers are written as such.
    let sum = if sum.fract() == 0.0 && sum.abs() < 9e15 { json!(sum as i64) } else { json!(sum) };
    json!({"content": [{"type": "text", "text": sum.to_string()}], "structuredContent": {"sum": sum}})
}

fn roll(arguments: &Value) -> Value {
    let count = |name: &str, default: Option<u64>, most: u64| {
        let given = arguments.get(name).map_or(default, Value::as_u64);
        given.filter(|count| (1..=most).contains(count))
    };
    let (Some(dice), Some(sides)) = (count("dice", None, 100), count("sides", Some(6), 1000)) else {
        return failed("`dice` must be from 1 to 100, `sides` from 1 to 1000");
    };
    let rolled: Vec<u64> = (0..dice).map(|die| die * 5 % sides + 1).collect();
    let sum: u64 = rolled.iter().sum();
    let shown: Vec<String> = rolled.iter().map(u64::to_string).collect();
    json!({"content": [{"type": "text", "text": format!("{} = {sum}", shown.join(" + "))}]})
}

/// What the model is told when a tool could not do its work.
fn failed(why: &str) -> Value {
    json!({"content": [{"type": "text", "text": why}], "isError": true})
}

pub(super) fn prompts() -> Value {
    let name = json!({"name": "name", "description": "Whom to greet", "required": true});
    json!([{"name": "greet", "title": "Greeting", "description": "Asks for a greeting.", "arguments": [name]}])
}

pub(super) fn prompt(params: &Value) -> Result<Value, Fault> {
    if params.get("name").and_then(Value::as_str) != Some("greet") {
        return Err(Fault::invalid("there is no such prompt"));
    }
    let name = params.pointer("/arguments/name").and_then(Value::as_str);
    let name = name.ok_or_else(|| Fault::invalid("the argument `name` is missing"))?;
    let text = format!("Greet {name} in one friendly sentence.");
    Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}))
}

pub(super) fn resources() -> Value {
    json!([{"uri": RESOURCE, "name": "welcome", "description": "A word of welcome.", "mimeType": "text/plain"}])
}

pub(super) fn read(params: &Value) -> Result<Value, Fault> {
    match params.get("uri").and_then(Value::as_str) {
        Some(RESOURCE) => Ok(json!({"contents": [{"uri": RESOURCE, "mimeType": "text/plain", "text": WELCOME}]})),
        uri => Err(Fault::invalid(format!("there is no resource `{}`", uri.unwrap_or_default()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, arguments: Value) -> (String, bool) {
        let result = call(&json!({"name": name, "arguments": arguments})).unwrap();
        let is_error = result.get("isError") == Some(&Value::Bool(true));
        (result["content"][0]["text"].as_str().unwrap().to_owned(), is_error)
    }

    #[test]
    fn tools_do_what_they_say() {
        assert_eq!(said("echo", json!({"message": "hi"})), ("hi".to_owned(), false));
        assert_eq!(said("add", json!({"a": 0.5, "b": 0.25})), ("0.75".to_owned(), false));
        assert_eq!(said("roll", json!({"dice": 3})), ("1 + 6 + 5 = 12".to_owned(), false));
    }

    #[test]
    fn arguments_that_do_not_fit_are_an_error_of_the_tool() {
        for (name, arguments) in [
            ("echo", json!({})),
            ("add", json!({"a": 1})),
            ("roll", json!({"dice": 0})),
            ("roll", json!({"dice": 101})),
        ] {
            assert!(said(name, arguments).1, "{name}");
        }
        assert!(call(&json!({"name": "none"})).is_err());
    }

    #[test]
    fn the_prompt_and_the_resource_are_there() {
        let prompt = prompt(&json!({"name": "greet", "arguments": {"name": "Ada"}})).unwrap();
        assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("Ada"));
        assert_eq!(read(&json!({"uri": RESOURCE})).unwrap()["contents"][0]["text"], WELCOME);
        assert!(read(&json!({"uri": "demo://other"})).is_err());
    }
}
