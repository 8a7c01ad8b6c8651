//! `rmcp-hold ERA URL N PARALLEL [pooled]`: opens N clients, lists the tools on each, and prints how long that took and
//! how much memory a connection holds. `pooled` shares one HTTP client among them.

use std::time::Instant;

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;

/// Resident memory of this process. Linux only, as is the bench.
fn resident_kb() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS")).context("no resident size")?;
    Ok(line.split_whitespace().nth(1).context("no figure")?.parse()?)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [era, url, count, parallel, more @ ..] = arguments.as_slice() else {
        anyhow::bail!("usage: rmcp-hold modern|legacy URL N PARALLEL [pooled]");
    };
    let (count, parallel): (usize, usize) = (count.parse()?, parallel.parse()?);
    let shared = yardstick_rmcp::pooled(more.first())?;
    let before = resident_kb()?;
    let start = Instant::now();
    let held: Vec<_> = stream::iter(0..count)
        .map(|_| {
            let shared = shared.clone();
            async move {
                let client = yardstick_rmcp::connect(era, url, shared).await?;
                let tools = client.peer().list_all_tools().await?;
                anyhow::Ok((client, tools))
            }
        })
        .buffer_unordered(parallel)
        .try_collect()
        .await?;
    let seconds = start.elapsed().as_secs_f64();
    let kilobytes = (resident_kb()? - before) / count as f64;
    let tools = held.first().map_or(0, |(_, tools)| tools.len());
    let line = json!({"kind": format!("rmcp-{era}"), "pooled": shared.is_some(), "n": held.len(), "tools_each": tools,
        "ready_s": seconds, "kb_per_connection": kilobytes});
    println!("{line}");
    Ok(())
}
