//! What a well-behaved server answers, in both eras.

use serde_json::{Value, json};

use crate::peer::channels::SUBSCRIPTION_ID;
use crate::peer::{Context, Era, Kind, LEGACY, LEGACY_REVISIONS, Peer, Script};
use crate::reply::Reply;

pub(crate) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// What the peer answers: the override of the method, or the usual.
pub(crate) fn reply(context: &Context) -> Reply {
    let method = context.request["method"].as_str().unwrap_or_default();
    let (handler, every) = context.peer.script(|script| (script.overrides.get(method).cloned(), script.every.clone()));
    let reply = match handler {
        Some(handler) => handler(&context.request, context),
        None => usual(context),
    };
    match every {
        Some(every) => every(reply),
        None => reply,
    }
}

/// What the peer answers when nothing is overridden.
pub(crate) fn usual(context: &Context) -> Reply {
    let method = context.request["method"].as_str().unwrap_or_default();
    let params = &context.request["params"];
    if context.era == Era::Modern
        && let Some(refusal) = refuse_modern(context, method, params)
    {
        return refusal;
    }
    match (context.era, method) {
        (Era::Modern, "server/discover") => context.peer.script(|script| discover(script)),
        (Era::Modern, "subscriptions/listen") => listen(context),
        (Era::Legacy, "initialize") => context.peer.script(|script| initialize(script, params)),
        (Era::Legacy, "ping" | "logging/setLevel") => Reply::result(json!({})),
        (Era::Legacy, "resources/subscribe" | "resources/unsubscribe") if offers(context, "resources") => {
            Reply::result(json!({}))
        }
        (_, "tools/call") if offers(context, "tools") => call(context, params),
        (_, "prompts/get") if offers(context, "prompts") => prompt(context, params),
        (_, "resources/read") if offers(context, "resources") => read(context, params),
        (_, "completion/complete") if offers(context, "completions") => complete(context, params),
        _ => list(context, method, params).unwrap_or_else(|| Reply::method_not_found(method)),
    }
}

/// The rules that every modern request must keep.
fn refuse_modern(context: &Context, method: &str, params: &Value) -> Option<Reply> {
    let supported = context.peer.script(|script| script.supported.clone());
    let meta = &params["_meta"];
    let unsupported = |requested: &Value| {
        let data = json!({ "supported": supported, "requested": requested });
        Some(Reply::error_with(-32022, "Unsupported protocol version", data))
    };
    if method == "initialize" {
        return unsupported(&params["protocolVersion"]);
    }
    let Some(requested) = meta[VERSION_KEY].as_str() else {
        return Some(Reply::error(-32602, format!("`_meta` lacks `{VERSION_KEY}`")).status(400));
    };
    if !supported.iter().any(|version| version == requested) {
        return unsupported(&meta[VERSION_KEY]);
    }
    (!meta[CAPABILITIES_KEY].is_object())
        .then(|| Reply::error(-32602, format!("`_meta` lacks `{CAPABILITIES_KEY}`")).status(400))
}

fn capabilities(script: &Script) -> Value {
    if let Some(capabilities) = &script.capabilities {
        return capabilities.clone();
    }
    let detail = |resources: bool| match (script.announces_changes, resources) {
        (false, _) => json!({}),
        (true, false) => json!({ "listChanged": true }),
        (true, true) => json!({ "listChanged": true, "subscribe": true }),
    };
    let mut capabilities = json!({});
    if !script.tools.is_empty() {
        capabilities["tools"] = detail(false);
    }
    if !script.prompts.is_empty() {
        capabilities["prompts"] = detail(false);
    }
    if !script.resources.is_empty() || !script.templates.is_empty() {
        capabilities["resources"] = detail(true);
    }
    if !script.completions.is_empty() {
        capabilities["completions"] = json!({});
    }
    capabilities
}

fn offers(context: &Context, capability: &str) -> bool {
    context.peer.script(|script| capabilities(script).get(capability).is_some())
}

fn discover(script: &Script) -> Reply {
    let mut supported = script.supported.clone();
    if script.legacy {
        supported.extend(LEGACY_REVISIONS.map(str::to_owned));
    }
    let mut result = json!({
        "supportedVersions": supported,
        "capabilities": capabilities(script),
        "ttlMs": 0,
        "cacheScope": "private",
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    Reply::result(result)
}

fn initialize(script: &Script, params: &Value) -> Reply {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let agreed = LEGACY_REVISIONS.into_iter().find(|version| *version == asked).unwrap_or(LEGACY);
    let mut result = json!({
        "protocolVersion": script.answers_version.as_deref().unwrap_or(agreed),
        "capabilities": capabilities(script),
        "serverInfo": script.info,
    });
    if let Some(instructions) = &script.instructions {
        result["instructions"] = instructions.as_str().into();
    }
    Reply::result(result)
}

/// Acknowledges a subscription and keeps it open until either side ends it.
fn listen(context: &Context) -> Reply {
    let context = context.clone();
    Reply::later(async move {
        let (id, filter) = (context.id().clone(), context.request["params"]["notifications"].clone());
        let meta = json!({ SUBSCRIPTION_ID: id });
        context
            .send(json!({
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": { "_meta": meta, "notifications": filter },
            }))
            .await;
        let hold = context.peer.open_channel(context.outputs.clone(), Kind::Subscription { id, filter });
        tokio::select! {
            () = hold.ended() => {}
            () = context.outputs.closed() => {}
        }
        Reply::result(json!({ "_meta": meta }))
    })
}

fn call(context: &Context, params: &Value) -> Reply {
    let name = params["name"].as_str().unwrap_or_default();
    let tool = context.peer.script(|script| script.tools.iter().find(|tool| tool.definition["name"] == name).cloned());
    let Some(tool) = tool else {
        return Reply::error(-32602, format!("Unknown tool: {name}"));
    };
    let none = json!({});
    let arguments = params.get("arguments").unwrap_or(&none);
    match tool.handler {
        Some(handler) => handler(arguments, context),
        None => Reply::text(arguments.to_string()),
    }
}

fn prompt(context: &Context, params: &Value) -> Reply {
    let name = params["name"].as_str().unwrap_or_default();
    let prompt =
        context.peer.script(|script| script.prompts.iter().find(|prompt| prompt.definition["name"] == name).cloned());
    let Some(prompt) = prompt else {
        return Reply::error(-32602, format!("Unknown prompt: {name}"));
    };
    let content = json!({ "type": "text", "text": prompt.fill(&params["arguments"]) });
    Reply::result(json!({ "messages": [{ "role": "user", "content": content }] }))
}

fn read(context: &Context, params: &Value) -> Reply {
    let uri = params["uri"].as_str().unwrap_or_default();
    let contents = context.peer.script(|script| {
        let listed = script.resources.iter().find(|resource| resource.definition["uri"] == uri);
        listed.map(|resource| resource.contents.clone()).or_else(|| {
            let fits = script.templates.iter().any(|template| fits_template(&template["uriTemplate"], uri));
            fits.then(|| json!({ "uri": uri, "text": uri }))
        })
    });
    match (contents, context.era) {
        (Some(contents), Era::Modern) => {
            Reply::result(json!({ "contents": [contents], "ttlMs": 0, "cacheScope": "private" }))
        }
        (Some(contents), Era::Legacy) => Reply::result(json!({ "contents": [contents] })),
        (None, era) => {
            let code = if era == Era::Modern { -32602 } else { -32002 };
            Reply::error_with(code, "Resource not found", json!({ "uri": uri }))
        }
    }
}

/// Good enough for tests: what comes before the first variable is the same.
fn fits_template(template: &Value, uri: &str) -> bool {
    let template = template.as_str().unwrap_or_default();
    template.split_once('{').is_some_and(|(start, _)| uri.starts_with(start))
}

fn complete(context: &Context, params: &Value) -> Reply {
    let typed = params["argument"]["value"].as_str().unwrap_or_default();
    let mut values = context.peer.script(|script| script.completions.clone());
    values.retain(|value| value.starts_with(typed));
    Reply::result(json!({ "completion": { "values": values, "total": values.len(), "hasMore": false } }))
}

/// A page of one of the four lists.
fn list(context: &Context, method: &str, params: &Value) -> Option<Reply> {
    let (capability, member) = match method {
        "tools/list" => ("tools", "tools"),
        "prompts/list" => ("prompts", "prompts"),
        "resources/list" => ("resources", "resources"),
        "resources/templates/list" => ("resources", "resourceTemplates"),
        _ => return None,
    };
    if !offers(context, capability) {
        return None;
    }
    let (items, size) = context.peer.script(|script| (items(script, member), script.page_size));
    let Some(start) = page_start(&params["cursor"], member) else {
        return Some(Reply::error(-32602, format!("Invalid cursor: {}", params["cursor"])));
    };
    let end = items.len().min(start.saturating_add(size.unwrap_or(usize::MAX)));
    let mut result = json!({ member: items.get(start..end).unwrap_or_default() });
    if end < items.len() {
        result["nextCursor"] = cursor(member, end).into();
    }
    if context.era == Era::Modern {
        result["ttlMs"] = 0.into();
        result["cacheScope"] = "private".into();
    }
    Some(Reply::result(result))
}

fn items(script: &Script, member: &str) -> Vec<Value> {
    match member {
        "tools" => script.tools.iter().map(|tool| tool.definition.clone()).collect(),
        "prompts" => script.prompts.iter().map(|prompt| prompt.definition.clone()).collect(),
        "resources" => script.resources.iter().map(|resource| resource.definition.clone()).collect(),
        _ => script.templates.clone(),
    }
}

/// Has every kind of character that a careless client might change.
fn cursor(member: &str, start: usize) -> String {
    format!(" {member}/+=&%20é\u{2028}\"{start}")
}

fn page_start(given: &Value, member: &str) -> Option<usize> {
    let Some(given) = given.as_str() else { return given.is_null().then_some(0) };
    let start = given.rsplit('"').next()?.parse().ok()?;
    (cursor(member, start) == given).then_some(start)
}

/// Notes what a client does against the rules, whatever the peer then answers.
pub(crate) fn inspect(peer: &Peer, message: &Value) {
    let record = &peer.shared.record;
    if message["jsonrpc"] != "2.0" {
        record.complain(format!("a message is not JSON-RPC 2.0: {message}"));
    }
    let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return };
    if !id.is_i64() && !id.is_u64() && !id.is_string() {
        record.complain(format!("`{method}` has the id {id}, neither an integer nor a string"));
    }
    if method == "tools/call" && message["params"].get("arguments").is_some_and(|given| !given.is_object()) {
        record.complain("`tools/call` has arguments that are no object".to_owned());
    }
    let meta = &message["params"]["_meta"];
    if meta.get(VERSION_KEY).is_some() && !meta[CAPABILITIES_KEY].is_object() {
        record.complain(format!("`{method}` lacks `{CAPABILITIES_KEY}` in its `_meta`"));
    }
}
