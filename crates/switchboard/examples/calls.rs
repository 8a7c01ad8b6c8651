//! `calls ERA URL CALLS CONCURRENCY`: calls the tool `echo` through `Manager::call` with all its checks on, and prints one
//! JSON line of figures. ERA is `modern` or `legacy`.

use std::time::Instant;

use futures_util::stream::{self, StreamExt as _};
use serde_json::json;
use switchboard::spec::EraChoice;
use switchboard::wire::Json;
use switchboard::{Added, Manager, ServerSpec, ToolCall};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[expect(clippy::disallowed_methods, reason = "a program of its own")]
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [era_name, url, calls, concurrency] = &given[..] else {
        return Err("usage: calls ERA URL CALLS CONCURRENCY".into());
    };
    let (calls, concurrency): (usize, usize) = (calls.parse()?, concurrency.parse()?);
    let manager = Manager::builder("yard", "1.0.0").start().await?;
    let mut spec = ServerSpec::http("yard", url)?.id("yard")?.era(era(era_name)?);
    spec.limits.in_flight = spec.limits.in_flight.max(concurrency);
    let id = match manager.add(spec).await? {
        Added::Ready { id } => id,
        other => return Err(format!("{other:?}").into()),
    };
    let version = manager.status(&id)?.protocol_version.unwrap_or_default();
    let arguments: Json = r#"{"text":"hello"}"#.parse()?;
    let began = Instant::now();
    let mut latencies: Vec<u128> = stream::iter(0..calls)
        .map(|_| {
            let call = ToolCall::new(id.clone(), "echo").arguments(arguments.clone());
            let manager = &manager;
            async move {
                let began = Instant::now();
                let result = manager.call(call).await?;
                if !result.result.as_str().contains("hello") {
                    return Err(switchboard::Error::new(switchboard::ErrorKind::ProtocolViolation, "a wrong echo"));
                }
                Ok(began.elapsed().as_micros())
            }
        })
        .buffer_unordered(concurrency)
        .collect::<Vec<switchboard::Result<u128>>>()
        .await
        .into_iter()
        .collect::<switchboard::Result<_>>()?;
    let wall = began.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let quantile = |part: usize| latencies[(latencies.len() - 1) * part / 100];
    #[expect(clippy::cast_precision_loss, reason = "a count of calls")]
    let per_second = (calls as f64 / wall).round();
    let line = json!({
        "kind": format!("switchboard-{era_name}"), "version": version, "concurrency": concurrency, "calls": calls,
        "per_s": per_second, "p50_us": quantile(50), "p99_us": quantile(99),
    });
    print(&line.to_string());
    manager.shutdown(std::time::Duration::from_secs(1)).await;
    Ok(())
}

fn era(name: &str) -> Result<EraChoice, String> {
    match name {
        "modern" => Ok(EraChoice::Modern),
        "legacy" => Ok(EraChoice::Legacy),
        _ => Err(format!("`{name}` is no era: modern, legacy")),
    }
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn print(line: &str) {
    println!("{line}");
}
