//! `rmcp-calls ERA URL CALLS CONCURRENCY [pooled]`: calls the echo tool and prints one JSON line of figures. ERA is
//! `legacy` or `modern`; `pooled` replaces the SDK's default HTTP client, which keeps no connection open.

use std::time::Instant;

use anyhow::{Context, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use rmcp::model::{CallToolRequestParams, JsonObject};
use serde_json::json;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [era, url, calls, concurrency, more @ ..] = arguments.as_slice() else {
        anyhow::bail!("usage: rmcp-calls modern|legacy URL CALLS CONCURRENCY [pooled]");
    };
    let (calls, concurrency): (usize, usize) = (calls.parse()?, concurrency.parse()?);
    let http = yardstick_rmcp::pooled(more.first())?;
    let kind = format!("rmcp-{era}{}", if http.is_some() { "-pooled" } else { "" });
    let client = yardstick_rmcp::connect(era, url, http).await?;
    let arguments: JsonObject = serde_json::from_value(json!({"text": "hello"}))?;
    let start = Instant::now();
    let mut micros: Vec<u128> = stream::iter(0..calls)
        .map(|_| {
            let (peer, arguments) = (client.peer().clone(), arguments.clone());
            async move {
                let begun = Instant::now();
                let result = peer.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await?;
                ensure!(!result.content.is_empty(), "an empty answer");
                Ok(begun.elapsed().as_micros())
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
    let line = json!({"kind": kind, "concurrency": concurrency, "calls": calls, "per_s": per_s,
        "p50_us": at(50)?, "p99_us": at(99)?});
    println!("{line}");
    Ok(())
}
