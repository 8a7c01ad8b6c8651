//! `hold ERA URL N PARALLEL`: registers N servers (one URL with N queries), waits until all are ready with their tools
//! listed, and prints how long that took and how much memory each connection holds.

use std::time::Instant;

use futures_util::stream::{self, StreamExt as _};
use serde_json::json;
use switchboard::spec::EraChoice;
use switchboard::{Added, Filter, Manager, ServerSpec};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[expect(clippy::disallowed_methods, reason = "a program of its own")]
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [era, url, count, parallel] = &given[..] else { return Err("usage: hold ERA URL N PARALLEL".into()) };
    let (count, parallel): (usize, usize) = (count.parse()?, parallel.parse()?);
    let choice = match era.as_str() {
        "modern" => EraChoice::Modern,
        "legacy" => EraChoice::Legacy,
        _ => EraChoice::Auto,
    };
    let manager = Manager::builder("yard", "1.0.0").start().await?;
    let before = resident_kb()?;
    let began = Instant::now();
    let ended: Vec<switchboard::Result<Added>> = stream::iter(0..count)
        .map(|index| {
            let manager = &manager;
            let url = format!("{url}?n={index}");
            async move { manager.add(ServerSpec::http(format!("yard-{index}"), &url)?.era(choice)).await }
        })
        .buffer_unordered(parallel)
        .collect()
        .await;
    let seconds = began.elapsed().as_secs_f64();
    let ready = ended.iter().filter(|added| matches!(added, Ok(Added::Ready { .. }))).count();
    if ready < count {
        let failed = ended.iter().find(|added| !matches!(added, Ok(Added::Ready { .. })));
        return Err(format!("{ready} of {count} are ready; {failed:?}").into());
    }
    #[expect(clippy::cast_precision_loss, reason = "kilobytes")]
    let each = (resident_kb()?.saturating_sub(before)) as f64 / count as f64;
    let tools = manager.tools(&Filter::all()).len();
    let line = json!({
        "kind": format!("switchboard-{era}"), "n": count, "tools_each": tools / count, "ready_s": seconds,
        "kb_per_connection": each,
    });
    print(&line.to_string());
    Ok(())
}

/// The resident memory of this process, in kilobytes.
fn resident_kb() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS")).ok_or("no VmRSS")?;
    Ok(line.split_whitespace().nth(1).ok_or("no value")?.parse()?)
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print(line: &str) {
    println!("{line}");
}
