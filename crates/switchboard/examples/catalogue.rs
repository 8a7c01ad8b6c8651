//! `catalogue FILE`: makes the catalogue from the answers to `tools/list` in FILE, one a line, as a connection does: the
//! envelope, the page, the list by name, and the keys for models. Prints the median time of many runs.

use std::time::Instant;

use bytes::Bytes;
use serde_json::json;
use switchboard::ServerId;
use switchboard::catalogue::{Listing, ServerCatalogue, naming};
use switchboard::status::ListState;
use switchboard::wire::model::tools_page;
use switchboard::wire::{Message, Tool};

/// How often the catalogue is made.
const RUNS: usize = 51;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[expect(clippy::disallowed_methods, reason = "a program of its own")]
    let file = std::env::args().nth(1).ok_or("usage: catalogue FILE")?;
    let answers: Vec<Bytes> = std::fs::read_to_string(file)?.lines().map(|line| Bytes::from(line.to_owned())).collect();
    let server = ServerId::parse("yard")?;
    let mut times = Vec::with_capacity(RUNS);
    let mut tools = 0;
    for _ in 0..RUNS {
        let began = Instant::now();
        let (catalogue, keys) = make(&answers, &server)?;
        times.push(began.elapsed().as_micros());
        tools = catalogue.tools().len();
        if keys != tools {
            return Err("a tool has no key".into());
        }
    }
    times.sort_unstable();
    print(&json!({ "kind": "switchboard-catalogue", "tools": tools, "median_us": times[RUNS / 2] }).to_string());
    Ok(())
}

fn make(answers: &[Bytes], server: &ServerId) -> Result<(ServerCatalogue, usize), Box<dyn std::error::Error>> {
    let mut items = Vec::new();
    for answer in answers {
        let Message::Response { outcome, .. } = Message::parse(answer)? else { return Err("no answer".into()) };
        let result = outcome?.detached();
        items.extend(tools_page(&result)?.items);
    }
    let mut catalogue = ServerCatalogue::default();
    catalogue.set_tools(Listing { items, state: ListState::Ok }, Vec::new());
    let keys = naming::assign(catalogue.tools().iter().map(|tool: &Tool| (server, tool.name()))).len();
    Ok((catalogue, keys))
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print(line: &str) {
    println!("{line}");
}
