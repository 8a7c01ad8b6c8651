//! What the yardstick programs share: the answers of the server that everything is measured against.

use serde_json::{Value, json};

/// Tools on one page of `tools/list`.
pub const PAGE: usize = 500;

/// The answer to one message, or `None` for a notification. The server has `tools` tools.
pub fn answer(request: &Value, tools: usize) -> Option<Value> {
    let id = request.get("id")?.clone();
    let capabilities = json!({"tools": {"listChanged": true}});
    let info = json!({"name": "yardstick", "version": "1.0.0"});
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}),
        "server/discover" => json!({"resultType": "complete", "supportedVersions": ["2026-07-28", "2025-11-25"],
            "capabilities": capabilities, "serverInfo": info, "ttlMs": 60000, "cacheScope": "public",
            "_meta": {"io.modelcontextprotocol/serverInfo": info}}),
        "tools/list" => page(request["params"]["cursor"].as_str(), tools),
        "tools/call" => json!({"resultType": "complete", "isError": false,
            "content": [{"type": "text", "text": request["params"]["arguments"]["text"]}]}),
        "ping" => json!({}),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// All answers to `tools/list` of a server with `tools` tools, as they travel.
pub fn pages(tools: usize) -> Vec<String> {
    let request = |from: usize| {
        let params = if from == 0 { json!({}) } else { json!({"cursor": from.to_string()}) };
        json!({"jsonrpc": "2.0", "id": from / PAGE, "method": "tools/list", "params": params})
    };
    (0..tools).step_by(PAGE).filter_map(|from| answer(&request(from), tools)).map(|page| page.to_string()).collect()
}

fn page(cursor: Option<&str>, tools: usize) -> Value {
    let from: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let to = (from + PAGE).min(tools);
    let page: Vec<Value> = (from..to).map(tool).collect();
    let mut result = json!({"resultType": "complete", "tools": page, "ttlMs": 0, "cacheScope": "public"});
    if to < tools {
        result["nextCursor"] = json!(to.to_string());
    }
    result
}

fn tool(number: usize) -> Value {
    let name = if number == 0 { "echo".to_owned() } else { format!("tool_{number:05}") };
    json!({"name": name, "description": "Returns the text it is given, unchanged, for measuring.",
        "inputSchema": {"type": "object", "required": ["text"], "properties": {
            "text": {"type": "string", "description": "what to return"},
            "limit": {"type": "integer", "minimum": 0, "maximum": 100}}}})
}

/// The middle of some figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => figures[count / 2],
        count => f64::midpoint(figures[count / 2 - 1], figures[count / 2]),
    }
}
