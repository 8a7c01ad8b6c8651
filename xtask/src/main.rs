//! Repository chores: `cargo xtask tidy` keeps the map of the repository true, `cargo xtask generate` writes the
//! references that are made from code, `cargo xtask readme` prints the commands of the README that a test runs.

mod finding;
mod generated;
mod readme;
mod rust;
mod tidy;
mod tree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::generated::Cargo;
use crate::tree::Tree;

const USAGE: &str = "usage: cargo xtask tidy | generate | readme";

#[expect(
    clippy::disallowed_methods,
    reason = "a program of the repository's own reads its arguments here and only here"
)]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match arguments.as_slice() {
        [command] => command.as_str(),
        _ => "",
    };
    match run(command) {
        Ok(code) => code,
        Err(error) => {
            // Nothing is left to do when even this cannot be printed.
            let _ = writeln!(io::stderr(), "xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str) -> io::Result<ExitCode> {
    let root = root();
    let mut out = io::stdout().lock();
    match command {
        "tidy" => {
            let report = tidy::run(&Tree::open(&root)?, &Cargo::new(&root));
            write!(out, "{report}")?;
            Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        "generate" => {
            for line in generated::write_all(&root, &Cargo::new(&root))? {
                writeln!(out, "{line}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        "readme" => {
            let page = std::fs::read_to_string(root.join("README.md"))
                .map_err(|error| io::Error::other(format!("README.md cannot be read: {error}")))?;
            for block in readme::tested_blocks(&page) {
                writeln!(out, "{block}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(io::Error::other(USAGE)),
    }
}

/// The root of the repository: this crate lies one folder below it.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
