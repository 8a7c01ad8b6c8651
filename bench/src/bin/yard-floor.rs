//! The floor and the limit under every MCP client: `yard-floor reqwest|hyper URL CALLS CONCURRENCY` posts tools/call with
//! a bare HTTP client, checks each answer, and prints one JSON line of figures.
//!
//! `reqwest` (the floor) builds and parses with `serde_json::Value`, as a user would by hand; `hyper` (the limit) writes
//! the request as bytes and parses only the envelope.

use std::time::Instant;

use anyhow::{Context, ensure};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

const HEADERS: [(&str, &str); 5] = [
    ("content-type", "application/json"),
    ("accept", "application/json, text/event-stream"),
    ("mcp-protocol-version", "2026-07-28"),
    ("mcp-method", "tools/call"),
    ("mcp-name", "echo"),
];

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
}

#[derive(Clone)]
enum Bare {
    Reqwest(reqwest::Client),
    Hyper(Client<HttpConnector, Full<Bytes>>),
}

impl Bare {
    fn new(kind: &str) -> anyhow::Result<Self> {
        match kind {
            "hyper" => {
                let mut connector = HttpConnector::new();
                connector.set_nodelay(true);
                Ok(Self::Hyper(Client::builder(hyper_util::rt::TokioExecutor::new()).build(connector)))
            }
            "reqwest" => Ok(Self::Reqwest(reqwest::Client::builder().tcp_nodelay(true).build()?)),
            other => anyhow::bail!("`{other}` is neither hyper nor reqwest"),
        }
    }

    async fn call(&self, url: &str, id: usize) -> anyhow::Result<()> {
        match self {
            Self::Reqwest(client) => by_hand(client, url, id).await,
            Self::Hyper(client) => raw(client, url, id).await,
        }
    }
}

async fn by_hand(client: &reqwest::Client, url: &str, id: usize) -> anyhow::Result<()> {
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"text": "hello"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}});
    let mut request = client.post(url).json(&body);
    for (name, value) in &HEADERS[1..] {
        request = request.header(*name, *value);
    }
    let answer: Value = request.send().await?.json().await?;
    ensure!(answer["id"] == id && answer["result"]["content"][0]["text"] == "hello", "not our answer: {answer}");
    Ok(())
}

async fn raw(client: &Client<HttpConnector, Full<Bytes>>, url: &str, id: usize) -> anyhow::Result<()> {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hello"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let mut request = hyper::Request::post(url);
    for (name, value) in HEADERS {
        request = request.header(name, value);
    }
    let answer = client.request(request.body(Full::from(body))?).await?;
    let bytes = answer.into_body().collect().await?.to_bytes();
    let envelope: Envelope<'_> = serde_json::from_slice(&bytes)?;
    ensure!(envelope.id.get() == id.to_string() && envelope.result.get().contains("hello"), "not our answer");
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, url, calls, concurrency] = arguments.as_slice() else {
        anyhow::bail!("usage: yard-floor reqwest|hyper URL CALLS CONCURRENCY");
    };
    let (calls, concurrency): (usize, usize) = (calls.parse()?, concurrency.parse()?);
    let bare = Bare::new(kind)?;
    let start = Instant::now();
    let mut micros: Vec<u128> = stream::iter(0..calls)
        .map(|id| {
            let (bare, url) = (bare.clone(), url.clone());
            async move {
                let begun = Instant::now();
                bare.call(&url, id).await?;
                anyhow::Ok(begun.elapsed().as_micros())
            }
        })
        .buffer_unordered(concurrency)
        .try_collect()
        .await?;
    let seconds = start.elapsed().as_secs_f64();
    micros.sort_unstable();
    let at =
        |percent: usize| micros.get((micros.len().saturating_sub(1)) * percent / 100).context("no calls were made");
    let per_s = (calls as f64 / seconds) as u64;
    let line = json!({"kind": format!("bare-{kind}"), "concurrency": concurrency, "calls": calls, "per_s": per_s,
        "p50_us": at(50)?, "p99_us": at(99)?});
    println!("{line}");
    Ok(())
}
