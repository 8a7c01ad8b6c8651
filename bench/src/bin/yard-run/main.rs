//! Runs floor, peers and ours side by side, in rounds, and prints tables in Markdown: `yard-run [quick]`.
//!
//! It is started in the root of the repository by `bench/run.sh`, which builds what is run. What was not built or
//! installed is left out and named. Exit status: 0 when every target was met, 1 when one was missed or not measured.

mod contest;
mod plan;
mod report;

use std::process::ExitCode;

use anyhow::ensure;

use crate::contest::{Contestant, Figures, Server, version_starts};
use crate::plan::Plan;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments == ["quick"];
    ensure!(quick || arguments.is_empty(), "usage: yard-run [quick]");
    let plan = Plan::new(quick);
    let mut figures = Figures::default();

    let server = Server::start(1).await?;
    for round in 1..=plan.rounds {
        for concurrency in plan::CONCURRENCY {
            eprintln!("round {round} of {}: calls, {concurrency} at once", plan.rounds);
            run_all(&plan.callers(concurrency), &server, &mut figures).await;
        }
    }
    drop(server);

    let server = Server::start(20).await?;
    for round in 1..=plan.rounds {
        eprintln!("round {round} of {}: {} servers held", plan.rounds, plan.held);
        run_all(&plan.holders(), &server, &mut figures).await;
        run_all(&plan.catalogues(), &server, &mut figures).await;
    }
    eprintln!("{} losses, and {} s with dead servers", plan.losses, plan.dead);
    run_all(&plan.recovery(), &server, &mut figures).await;
    drop(server);

    let starts = version_starts(plan.starts).await;
    let (text, all_met) = report::markdown(&plan, &figures, starts.as_deref());
    println!("{text}");
    Ok(if all_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run_all(contestants: &[Contestant], server: &Server, figures: &mut Figures) {
    for contestant in contestants {
        match contestant.run(&server.url).await {
            Ok(line) => figures.add(&contestant.name, line),
            Err(error) => figures.miss(&contestant.name, &error),
        }
    }
}
