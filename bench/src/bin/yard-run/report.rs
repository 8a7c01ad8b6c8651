//! The tables, and whether each target was met.

use std::fmt::Write;
use std::thread::available_parallelism;

use crate::contest::{Contestant, Figures};
use crate::plan::{BUILT, CONCURRENCY, ERAS, Plan, RECOVERY};

/// One promise with what was measured.
struct Target {
    what: String,
    wanted: String,
    measured: f64,
    met: bool,
}

impl Target {
    fn at_least(what: String, wanted: f64, measured: f64) -> Self {
        Self { what, wanted: format!("≥ {wanted}"), measured, met: measured >= wanted }
    }

    fn at_most(what: String, wanted: f64, measured: f64) -> Self {
        Self { what, wanted: format!("≤ {wanted}"), measured, met: measured <= wanted }
    }
}

/// The whole report, and whether every target was met.
pub fn markdown(plan: &Plan, figures: &Figures, starts: Option<&[f64]>) -> (String, bool) {
    let cores = available_parallelism().map_or(1, usize::from);
    let mut text = format!(
        "# Bench\n\n{cores} cores, medians of {} rounds; ratios are medians of the rounds' own ratios.\n",
        plan.rounds
    );
    text +=
        "Figures move from machine to machine and hour to hour: quote ratios of one run. `$URL` is the address that\n";
    text +=
        "`target/bench/release/yard-server 0` prints (with `0 20`, 20 tools, for held servers), followed by `/mcp`.\n";
    for concurrency in CONCURRENCY {
        calls(&mut text, &plan.callers(concurrency), concurrency, figures);
    }
    held(&mut text, plan, figures);
    catalogue(&mut text, plan, figures);
    recovery(&mut text, plan, figures);
    let start = starts.map_or(f64::NAN, |starts| yardstick::median(starts.to_vec()));
    let command = format!("{BUILT}/release/switchboard --version");
    let _ = writeln!(
        text,
        "\n## Start-up\n\n| median of {} | command |\n|---|---|\n| {} ms | `{command}` |",
        plan.starts,
        shown(start, 1)
    );

    let targets = targets(figures, start);
    text += "\n## Targets\n\n| target | wanted | measured | met |\n|---|---|---|---|\n";
    for Target { what, wanted, measured, met } in &targets {
        let verdict = if measured.is_nan() {
            "not measured"
        } else if *met {
            "yes"
        } else {
            "**no**"
        };
        let _ = writeln!(text, "| {what} | {wanted} | {} | {verdict} |", shown(*measured, 2));
    }
    (text, targets.iter().all(|target| target.met))
}

fn calls(text: &mut String, callers: &[Contestant], concurrency: usize, figures: &Figures) {
    let _ = writeln!(text, "\n## Calls, {concurrency} at once\n");
    *text += "| client | calls/s | × hyper | × reqwest | p50 µs | p99 µs | command |\n|---|---|---|---|---|---|---|\n";
    for caller in callers {
        let name = caller.name.as_str();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | `{}` |",
            name.split(" @").next().unwrap_or(name),
            shown(figures.median(name, "per_s"), 0),
            shown(figures.ratio(name, &format!("bare hyper @{concurrency}"), "per_s"), 2),
            shown(figures.ratio(name, &format!("bare reqwest @{concurrency}"), "per_s"), 2),
            shown(figures.median(name, "p50_us"), 0),
            shown(figures.median(name, "p99_us"), 0),
            caller.shown()
        );
    }
}

fn held(text: &mut String, plan: &Plan, figures: &Figures) {
    let _ = writeln!(text, "\n## {} servers × 20 tools\n", plan.held);
    *text += "| client | all ready after s | × rmcp pooled | KB each | command |\n|---|---|---|---|---|\n";
    for holder in plan.holders() {
        let era = ERAS.into_iter().find(|era| holder.name.contains(era)).unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | `{}` |",
            holder.name.trim_end_matches(" held"),
            shown(figures.median(&holder.name, "ready_s"), 2),
            shown(figures.ratio(&holder.name, &format!("rmcp pooled {era} held"), "ready_s"), 2),
            shown(figures.median(&holder.name, "kb_per_connection"), 1),
            holder.shown()
        );
    }
}

fn catalogue(text: &mut String, plan: &Plan, figures: &Figures) {
    *text += "\n## A list of 10,000 tools\n\n| what | median µs | × floor | command |\n|---|---|---|---|\n";
    for contestant in plan.catalogues() {
        let _ = writeln!(
            text,
            "| {} | {} | {} | `{}` |",
            contestant.name,
            shown(figures.median(&contestant.name, "median_us"), 0),
            shown(figures.ratio(&contestant.name, "catalogue floor", "median_us"), 2),
            contestant.shown()
        );
    }
}

fn recovery(text: &mut String, plan: &Plan, figures: &Figures) {
    let _ = writeln!(text, "\n## {} losses, and {} s with servers that stay dead\n", plan.losses, plan.dead);
    *text += "| back after s, p50 | p99 | dials of a dead one | the same, called all the time | command |\n";
    *text += "|---|---|---|---|---|\n";
    for contestant in plan.recovery() {
        let figure = |name: &str, decimals: usize| shown(figures.median(RECOVERY, name), decimals);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | `{}` |",
            figure("back_p50_s", 2),
            figure("back_p99_s", 2),
            figure("dials_left_alone", 0),
            figure("dials_when_called", 0),
            contestant.shown()
        );
    }
}

fn targets(figures: &Figures, start: f64) -> Vec<Target> {
    let mut targets = Vec::new();
    for era in ERAS {
        for c in CONCURRENCY {
            let ours = format!("switchboard {era} @{c}");
            let ratio = |floor: &str| figures.ratio(&ours, &format!("bare {floor} @{c}"), "per_s");
            targets.push(Target::at_least(format!("{era}, {c} at once: calls/s × hyper"), 0.85, ratio("hyper")));
            targets.push(Target::at_least(format!("{era}, {c} at once: calls/s × reqwest"), 1.0, ratio("reqwest")));
        }
        let ours = format!("switchboard {era} held");
        let ready = figures.ratio(&ours, &format!("rmcp pooled {era} held"), "ready_s");
        targets.push(Target::at_most(format!("{era}: all servers ready, × rmcp pooled"), 0.9, ready));
        let kilobytes = figures.median(&ours, "kb_per_connection");
        targets.push(Target::at_most(format!("{era}: KB per connection"), 30.0, kilobytes));
    }
    let list = figures.ratio("switchboard catalogue", "catalogue floor", "median_us");
    targets.push(Target::at_most("10,000 tools into the catalogue, × raw parse".to_owned(), 2.0, list));
    for (what, figure, most) in [
        ("a server that is back is ready, p99 s", "back_p99_s", 2.6),
        ("dials of a dead server in its first minute", "dials_left_alone", 6.0),
        ("the same, called all the time", "dials_when_called", 65.0),
    ] {
        targets.push(Target::at_most(what.to_owned(), most, figures.median(RECOVERY, figure)));
    }
    targets.push(Target::at_most("`switchboard --version`, ms".to_owned(), 15.0, start));
    targets
}

fn shown(figure: f64, decimals: usize) -> String {
    if figure.is_nan() { "–".to_owned() } else { format!("{figure:.decimals$}") }
}
