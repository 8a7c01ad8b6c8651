//! What a handler knows about the request it answers, and what it can do besides answering.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::peer::{Era, Peer, answers};
use crate::reply::{Output, Outputs, Reply, Style};

/// One request in the hands of a handler. Clone it to use it in [`Reply::later`].
#[derive(Debug, Clone)]
pub struct Context {
    pub(crate) peer: Peer,
    pub(crate) request: Value,
    pub(crate) era: Era,
    pub(crate) outputs: Outputs,
}

impl Context {
    /// The peer itself.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The whole request.
    pub fn request(&self) -> &Value {
        &self.request
    }

    /// The id of the request.
    pub fn id(&self) -> &Value {
        &self.request["id"]
    }

    /// The era in which the request came.
    pub fn era(&self) -> Era {
        self.era
    }

    /// What the peer would answer if this method had not been overridden.
    pub fn usual(&self) -> Reply {
        answers::usual(self)
    }

    /// Sends a whole message on the stream of this request, before its answer.
    pub async fn send(&self, message: Value) {
        self.outputs.send(Output::message(&message, Style::default())).await;
    }

    /// A report of progress for this request, if the client gave a token for it.
    pub fn progress(&self, progress: f64, total: f64) -> Option<Value> {
        let token = self.request["params"]["_meta"].get("progressToken")?;
        Some(json!({
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": { "progressToken": token, "progress": progress, "total": total },
        }))
    }

    /// Asks the client something on the stream of this request and waits for its whole response.
    pub async fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.peer.shared.next_id.fetch_add(1, Ordering::Relaxed);
        self.ask_as(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await
    }

    /// Sends a whole request, with an id of the test's choice, and waits for the whole response.
    pub async fn ask_as(&self, request: Value) -> Value {
        let id = request["id"].clone();
        self.send(request).await;
        self.peer.shared.record.response_to(&id).await
    }

    pub(crate) fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// Adds to a result what the era asks for.
    pub(crate) fn complete(&self, result: &mut Value) {
        let Some(members) = result.as_object_mut().filter(|_| self.era == Era::Modern) else { return };
        members.entry("resultType").or_insert_with(|| "complete".into());
        let meta = members.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            let info = self.peer.script(|script| script.info.clone());
            meta.entry("io.modelcontextprotocol/serverInfo").or_insert(info);
        }
    }
}
