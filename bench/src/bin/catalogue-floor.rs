//! The floor under every catalogue: `catalogue-floor [TOOLS] [RUNS]` parses the answers to `tools/list` of a server with
//! TOOLS tools into raw values, and prints the median time of RUNS runs as one JSON line.
//!
//! Raw values are the least that one must do: the envelope with its result borrowed, then each tool borrowed. With
//! `--write FILE` the answers are written instead, one a line, for others to parse the same bytes.

use std::hint::black_box;
use std::time::Instant;

use anyhow::ensure;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

fn parse(pages: &[String]) -> anyhow::Result<usize> {
    let mut count = 0;
    for page in pages {
        // From bytes, as they come from the network: that they are UTF-8 must be checked as well.
        let envelope: Envelope<'_> = serde_json::from_slice(black_box(page.as_bytes()))?;
        let page: Page<'_> = serde_json::from_str(envelope.result.get())?;
        count += black_box(page.tools).len();
    }
    Ok(count)
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, file] = arguments.as_slice()
        && flag == "--write"
    {
        std::fs::write(file, yardstick::pages(10_000).join("\n") + "\n")?;
        return Ok(());
    }
    let tools: usize = arguments.first().map_or(Ok(10_000), |tools| tools.parse())?;
    let runs: usize = arguments.get(1).map_or(Ok(101), |runs| runs.parse())?;
    let pages = yardstick::pages(tools);
    let mut micros = Vec::with_capacity(runs);
    for _ in 0..runs {
        let begun = Instant::now();
        let count = parse(&pages)?;
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
        ensure!(count == tools, "{count} tools of {tools} were found");
    }
    let bytes: usize = pages.iter().map(String::len).sum();
    let median = yardstick::median(micros).round() as u64;
    println!("{}", json!({"kind": "catalogue-floor", "tools": tools, "bytes": bytes, "median_us": median}));
    Ok(())
}
