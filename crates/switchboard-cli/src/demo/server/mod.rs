//! A small MCP server of both eras: three tools, a prompt, a resource. Written by hand, so that it is a peer of its own and
//! shares no code with the client that it is shown to.
//!
//! What a message is answered is decided here, without I/O ([`answer`]); `stdio.rs` and `http.rs` carry it.

mod http;
mod offers;
mod stdio;

use serde_json::{Value, json};

use crate::args::{DemoServer, Eras};
use crate::problem::{Exit, Result};
use crate::session::Session;

/// The modern revision that is spoken.
pub(super) const MODERN: &str = "2026-07-28";

/// The legacy revisions that are spoken, newest first.
pub(super) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const INSTRUCTIONS: &str =
    "A small server to try Switchboard with. `echo` says what it is told, `add` and `roll` count.";

/// Runs the server until its client goes.
pub(crate) async fn run(server: &DemoServer, session: &Session) -> Result<Exit> {
    if server.stdio {
        stdio::serve(tokio::io::stdin(), tokio::io::stdout(), server.era).await?;
    } else {
        http::serve(server.listen, server.era, &session.output).await?;
    }
    Ok(Exit::Done)
}

/// Whom a request comes from, in the terms of its era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// It carries its version and its capabilities itself.
    Modern,
    /// It belongs to a session.
    Legacy,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    pub(super) code: i64,
    message: String,
    data: Option<Value>,
}

impl Fault {
    pub(super) const METHOD_NOT_FOUND: i64 = -32601;
    pub(super) const HEADER_MISMATCH: i64 = -32020;

    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }

    fn no_method(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("there is no method `{method}` here"))
    }

    fn version(requested: &str) -> Self {
        let data = json!({"supported": [MODERN], "requested": requested});
        Self { code: -32022, message: "Unsupported protocol version".to_owned(), data: Some(data) }
    }
}

/// The message that carries an answer back.
pub(super) fn response(id: &Value, answer: Result<Value, Fault>) -> Value {
    match answer {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(fault) => {
            let mut error = json!({"code": fault.code, "message": fault.message});
            if let Some(data) = fault.data {
                error["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    }
}

/// Which era a request belongs to: modern ones say their version themselves.
pub(super) fn era_of(request: &Value) -> Client {
    let version = request.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
    if version.is_some() { Client::Modern } else { Client::Legacy }
}

/// The answer to a request.
pub(super) fn answer(request: &Value, eras: Eras) -> Result<Value, Fault> {
    let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
    let empty = json!({});
    let params = request.get("params").unwrap_or(&empty);
    match era_of(request) {
        Client::Modern if eras != Eras::Legacy => modern(method, params),
        // A server from before that revision knows neither the method nor the metadata.
        Client::Modern if method == "server/discover" => Err(Fault::no_method(method)),
        Client::Legacy if eras == Eras::Modern => {
            let said = params.get("protocolVersion").and_then(Value::as_str).unwrap_or("none");
            Err(Fault::version(said))
        }
        _ => legacy(method, params),
    }
}

fn modern(method: &str, params: &Value) -> Result<Value, Fault> {
    let meta = |name: &str| params.get("_meta").and_then(|meta| meta.get(format!("io.modelcontextprotocol/{name}")));
    let version = meta("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    if version != MODERN {
        return Err(Fault::version(version));
    }
    if !meta("clientCapabilities").is_some_and(Value::is_object) {
        return Err(Fault::invalid("`_meta` lacks the client's capabilities"));
    }
    let mut result = match method {
        "server/discover" => json!({
            "supportedVersions": [MODERN],
            "capabilities": offers::capabilities(),
            "instructions": INSTRUCTIONS,
            "_meta": {"io.modelcontextprotocol/serverInfo": info()},
        }),
        _ => shared(method, params)?,
    };
    result["resultType"] = "complete".into();
    if !matches!(method, "tools/call" | "prompts/get") {
        result["ttlMs"] = 60_000.into();
        result["cacheScope"] = "public".into();
    }
    Ok(result)
}

fn legacy(method: &str, params: &Value) -> Result<Value, Fault> {
    match method {
        "initialize" => {
            let asked = params.get("protocolVersion").and_then(Value::as_str);
            let asked = asked.ok_or_else(|| Fault::invalid("`protocolVersion` is missing"))?;
            let version = LEGACY.into_iter().find(|version| *version == asked).unwrap_or(LEGACY[0]);
            Ok(json!({
                "protocolVersion": version,
                "capabilities": offers::capabilities(),
                "serverInfo": info(),
                "instructions": INSTRUCTIONS,
            }))
        }
        "ping" => Ok(json!({})),
        _ => shared(method, params),
    }
}

/// What both eras have.
fn shared(method: &str, params: &Value) -> Result<Value, Fault> {
    match method {
        "tools/list" => Ok(json!({"tools": offers::tools()})),
        "tools/call" => offers::call(params),
        "prompts/list" => Ok(json!({"prompts": offers::prompts()})),
        "prompts/get" => offers::prompt(params),
        "resources/list" => Ok(json!({"resources": offers::resources()})),
        "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
        "resources/read" => offers::read(params),
        _ => Err(Fault::no_method(method)),
    }
}

fn info() -> Value {
    json!({"name": "switchboard-demo", "title": "Switchboard's demo server", "version": env!("CARGO_PKG_VERSION")})
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn modern_request(method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": {}});
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    fn legacy_request(method: &str, params: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    #[test]
    fn a_modern_client_discovers_and_calls_without_a_handshake() {
        let found = answer(&modern_request("server/discover", json!({})), Eras::Both).unwrap();
        assert_eq!(found["supportedVersions"], json!([MODERN]));
        assert_eq!(found["resultType"], "complete");
        assert!(found["ttlMs"].is_u64());
        let call = json!({"name": "add", "arguments": {"a": 2, "b": 40}});
        let result = answer(&modern_request("tools/call", call), Eras::Modern).unwrap();
        assert_eq!(result["content"][0]["text"], "42");
        assert_eq!(result["structuredContent"], json!({"sum": 42}));
    }

    #[test]
    fn modern_metadata_is_checked() {
        let mut request = modern_request("tools/list", json!({}));
        request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "1900-01-01".into();
        let fault = answer(&request, Eras::Both).unwrap_err();
        assert_eq!(fault.code, -32022);
        assert_eq!(fault.data.unwrap()["supported"], json!([MODERN]));
        let mut request = modern_request("tools/list", json!({}));
        request["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
        assert_eq!(answer(&request, Eras::Both).unwrap_err().code, -32602);
    }

    #[test]
    fn a_legacy_client_shakes_hands_at_the_version_that_it_asks_for() {
        for (asked, agreed) in [("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")] {
            let result = answer(&legacy_request("initialize", json!({"protocolVersion": asked})), Eras::Both).unwrap();
            assert_eq!(result["protocolVersion"], agreed);
        }
        let result = answer(&legacy_request("tools/list", json!({})), Eras::Legacy).unwrap();
        assert_eq!(result["tools"].as_array().unwrap().len(), 3);
        assert!(result.get("resultType").is_none());
    }

    #[test]
    fn a_server_of_one_era_does_not_understand_the_other() {
        let fault = answer(&modern_request("server/discover", json!({})), Eras::Legacy).unwrap_err();
        assert_eq!(fault.code, Fault::METHOD_NOT_FOUND);
        let fault = answer(&legacy_request("initialize", json!({"protocolVersion": "2025-11-25"})), Eras::Modern);
        assert_eq!(fault.unwrap_err().code, -32022);
    }

    #[test]
    fn unknown_methods_are_said_to_be_unknown() {
        let fault = answer(&modern_request("no/such", json!({})), Eras::Both).unwrap_err();
        assert_eq!(response(&json!("x"), Err(fault))["error"]["code"], -32601);
    }
}
