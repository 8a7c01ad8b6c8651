//! What these tests share: managers and clients, registrations of fake peers, and answers taken apart.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard::event::{Event, EventKind, EventStream, Payload};
use switchboard::spec::{InProcessTarget, Retry};
use switchboard::store::MemoryStore;
use switchboard::wire::Json;
use switchboard::{Added, CallResult, Client, Error, Manager, ServerId, ServerSpec};
use switchboard_testing::{AnswerWith, HttpPeer, HttpReply, Peer, memory};

pub(crate) fn json(text: &str) -> Json {
    text.parse().unwrap()
}

pub(crate) async fn manager() -> Manager {
    Manager::builder("test", "1.0.0").start().await.unwrap()
}

/// A life of a manager over this store, which connects what it finds there.
pub(crate) async fn life(store: &Arc<MemoryStore>) -> Manager {
    Manager::builder("test", "1.0.0").shared_store(store.clone()).start().await.unwrap()
}

/// The next life, when all servers have settled.
pub(crate) async fn next_life(store: &Arc<MemoryStore>) -> Manager {
    let manager = life(store).await;
    assert_eq!(manager.wait_settled(Duration::from_secs(20)).await, []);
    manager
}

/// A registration of a peer in this process, whose connect is tried once.
pub(crate) fn in_process(peer: &Peer) -> ServerSpec {
    let peer = peer.clone();
    let target = InProcessTarget::new(move || memory::serve(&peer));
    ServerSpec::in_process("peer", target).unwrap().id("peer").unwrap().retry(Retry::attempts(1))
}

/// A registration of a peer over HTTP, whose connect is tried once.
pub(crate) fn over_http(server: &HttpPeer) -> ServerSpec {
    ServerSpec::http("peer", &server.url()).unwrap().id("peer").unwrap().retry(Retry::attempts(1))
}

pub(crate) async fn client(spec: ServerSpec) -> Client {
    Client::connect(spec).await.unwrap()
}

/// Why there is no client.
pub(crate) async fn refusal(spec: ServerSpec) -> Error {
    match Client::connect(spec).await {
        Ok(client) => panic!("it connected: {client:?}"),
        Err(error) => error,
    }
}

/// Adds a server to a manager and expects it to become ready.
pub(crate) async fn ready(manager: &Manager, spec: ServerSpec) -> ServerId {
    match manager.add(spec).await.unwrap() {
        Added::Ready { id } => id,
        other => panic!("{other:?}"),
    }
}

/// A server that answers calls in its own way at the level of HTTP, and a client of it. The tool is `echo`.
pub(crate) async fn answering(answer: impl Fn(&Value) -> HttpReply + Send + Sync + 'static) -> (HttpPeer, Client) {
    let server = HttpPeer::start(Peer::modern().tool("echo"))
        .await
        .on_http(move |request| request.calls("tools/call").then(|| answer(&request.id())));
    let client = client(over_http(&server)).await;
    (server, client)
}

/// A response with a tool's result that says `text`.
pub(crate) fn says(id: &Value, text: &str) -> Value {
    serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": text }] } })
}

/// The first text of a result.
pub(crate) fn text(result: &CallResult) -> String {
    result.result.to_value()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// An error and all its causes in one line.
pub(crate) fn whole(error: &Error) -> String {
    format!("{error}: {}", error.causes().join(": "))
}

/// The names of a client's tools.
pub(crate) fn names(client: &Client) -> Vec<String> {
    client.tools().iter().map(|tool| tool.name().to_owned()).collect()
}

/// The codes of a client's warnings, with the items they are about.
pub(crate) fn warnings(client: &Client) -> Vec<(String, Option<String>)> {
    client.status().warnings.into_iter().map(|warning| (warning.code, warning.item)).collect()
}

/// A client of the peer in memory, and one over HTTP for either way of answering. The servers live as long as the list.
pub(crate) async fn everywhere(peer: &Peer) -> Vec<(Option<HttpPeer>, Client)> {
    let mut clients = vec![(None, client(in_process(peer)).await)];
    for mode in [AnswerWith::Json, AnswerWith::Sse] {
        let server = HttpPeer::start(peer).await.answer_with(mode);
        let client = client(over_http(&server)).await;
        clients.push((Some(server), client));
    }
    clients
}

/// What belongs to an event, where that is a value.
pub(crate) fn payload(event: &Event) -> Value {
    match &event.payload {
        Payload::Value(value) => value.clone(),
        _ => Value::Null,
    }
}

/// Waits for an event of that kind whose payload fits.
pub(crate) async fn event(events: &mut EventStream, kind: EventKind, fits: impl Fn(&Value) -> bool) -> Value {
    let found = async {
        loop {
            let event = events.next().await.expect("somebody makes events");
            if event.kind == kind && fits(&payload(&event)) {
                return payload(&event);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), found).await.unwrap_or_else(|_| panic!("no {kind:?} came"))
}

/// Waits until changed lists have been read.
pub(crate) async fn lists_read(events: &mut EventStream) {
    event(events, EventKind::ListChanged, |payload| payload["state"] == "read").await;
}
