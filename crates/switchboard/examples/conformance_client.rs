//! The client that the official MCP conformance suite runs: `conformance_client URL`, told by its environment what to do.
//!
//! The contract is in `conformance/README.md`.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use switchboard::spec::EraChoice;
use switchboard::wire::{Json, Tool, version};
use switchboard::{Client, ServerSpec};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let url = given().ok_or("usage: conformance_client URL")?;
    let scenario = variable("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context: Value = match variable("MCP_CONFORMANCE_CONTEXT") {
        Some(text) => serde_json::from_str(&text)?,
        None => Value::Null,
    };
    let client = Client::connect(spec(&url)?).await?;
    let outcome = run(&client, &scenario, &context).await;
    client.close().await;
    outcome
}

#[expect(clippy::disallowed_methods, reason = "a program of its own")]
fn given() -> Option<String> {
    std::env::args().nth(1)
}

#[expect(clippy::disallowed_methods, reason = "a program of its own")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The suite's server, in the era of this run when it names one.
fn spec(url: &str) -> Result<ServerSpec, switchboard::Error> {
    let era = variable("MCP_CONFORMANCE_PROTOCOL_VERSION").and_then(|text| version::known(&text));
    let choice = match era {
        Some((_, version::Era::Modern)) => EraChoice::Modern,
        _ => EraChoice::Auto,
    };
    Ok(ServerSpec::http("conformance", url)?.era(choice))
}

async fn run(client: &Client, scenario: &str, context: &Value) -> Outcome {
    match scenario {
        "http-custom-headers" => custom_headers(client, context).await,
        // The lists are read by the connect, and nothing else is asked for.
        "json-schema-ref-no-deref" => Ok(()),
        "json-schema-2020-12-preservation" => schema_echo(client).await,
        _ if scenario.starts_with("sep-2640-client") => skills(client, scenario).await,
        _ => everything(client).await,
    }
}

/// Uses all that the server offers.
async fn everything(client: &Client) -> Outcome {
    for tool in client.tools() {
        client.call(tool.name(), Some(arguments(&tool))).await?;
    }
    for resource in client.resources() {
        client.read_resource(resource.key()).await?;
    }
    for prompt in client.prompts() {
        client.get_prompt(prompt.key(), None).await?;
    }
    Ok(())
}

/// Arguments that fit a tool's input schema, as far as its required properties go.
fn arguments(tool: &Tool) -> Json {
    let schema = tool.input_schema().map(Json::to_value).unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("text"),
    };
    let members = required.iter().filter_map(Value::as_str).map(|name| (name.to_owned(), value(name)));
    Value::Object(members.collect()).into()
}

async fn custom_headers(client: &Client, context: &Value) -> Outcome {
    for call in context["toolCalls"].as_array().ok_or("the context has no `toolCalls`")? {
        let name = call["name"].as_str().ok_or("a call has no name")?;
        client.call(name, Some(call["arguments"].clone().into())).await?;
    }
    Ok(())
}

async fn schema_echo(client: &Client) -> Outcome {
    let tools = client.tools();
    let tool = tools.iter().find(|tool| tool.name() == "json_schema_2020_12_tool").ok_or("no such tool")?;
    let schema = tool.input_schema().ok_or("the tool has no schema")?;
    let arguments: Json = format!("{{\"schema\":{schema}}}").parse()?;
    client.call("json_schema_echo", Some(arguments)).await?;
    Ok(())
}

/// Loads the first skill: reads its SKILL.md and goes on to its other files only when it is what the list says.
async fn skills(client: &Client, scenario: &str) -> Outcome {
    let list = client.request("skills/list", Json::empty_object()).await?.to_value();
    if scenario.ends_with("no-prefetch") {
        return Ok(());
    }
    let skill = &list["skills"][0];
    let resources = skill["resources"].as_array().ok_or("the skill has no resources")?;
    for resource in resources {
        let uri = resource["uri"].as_str().ok_or("a resource has no URI")?;
        let read = client.read_resource(uri).await?.to_value();
        let text = read["contents"][0]["text"].as_str().ok_or("a resource has no text")?;
        verify(text, resource)?;
        if skill["uri"] == resource["uri"] {
            same_frontmatter(text, &skill["frontmatter"])?;
        }
    }
    Ok(())
}

fn verify(text: &str, resource: &Value) -> Outcome {
    if resource["size"].as_u64() != u64::try_from(text.len()).ok() {
        return Err("the file does not have the size that was listed".into());
    }
    let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    if resource["digest"].as_str() != Some(&format!("sha256:{digest}")) {
        return Err("the file does not have the digest that was listed".into());
    }
    Ok(())
}

fn same_frontmatter(text: &str, listed: &Value) -> Outcome {
    let inside = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---")).ok_or("no frontmatter")?.0;
    let fields = inside.lines().filter_map(|line| line.split_once(": "));
    let found: Value =
        fields.map(|(name, value)| (name.to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into();
    if found == *listed { Ok(()) } else { Err("the frontmatter is not the one that was listed".into()) }
}
