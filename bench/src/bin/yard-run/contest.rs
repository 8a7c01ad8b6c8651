//! Runs one program against the server and keeps the figures that it prints.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::plan::BUILT;

/// Nobody needs longer than this for one run.
const LIMIT: Duration = Duration::from_secs(180);

/// The program whose start is timed.
const PROGRAM: &str = "release/switchboard";

/// A program with its arguments; the word `URL` stands for the server's address.
pub struct Contestant {
    pub name: String,
    pub command: Vec<String>,
}

impl Contestant {
    pub fn new(name: String, command: &[&str]) -> Self {
        Self { name, command: command.iter().map(|word| (*word).to_owned()).collect() }
    }

    pub fn with(mut self, argument: &str) -> Self {
        self.command.push(argument.to_owned());
        self
    }

    /// The last line that the program prints, which must be JSON.
    pub async fn run(&self, url: &str) -> anyhow::Result<Value> {
        let words: Vec<&str> = self.command.iter().map(|word| if word == "URL" { url } else { word }).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(LIMIT, command.output()).await.context("took too long")??;
        if !output.status.success() {
            bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = String::from_utf8(output.stdout)?;
        Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
    }

    /// The command as a reader would type it.
    pub fn shown(&self) -> String {
        self.command.iter().map(|word| if word == "URL" { "$URL" } else { word }).collect::<Vec<_>>().join(" ")
    }
}

/// What each contestant printed, round by round.
#[derive(Default)]
pub struct Figures {
    lines: BTreeMap<String, Vec<Value>>,
}

impl Figures {
    pub fn add(&mut self, name: &str, line: Value) {
        self.lines.entry(name.to_owned()).or_default().push(line);
    }

    /// A round without figures keeps its place, so that rounds are compared with one another.
    pub fn miss(&mut self, name: &str, error: &anyhow::Error) {
        eprintln!("{name}: {error:#}");
        self.add(name, Value::Null);
    }

    /// The median of one figure; NaN when there is none.
    pub fn median(&self, name: &str, figure: &str) -> f64 {
        let all = self.rounds(name).iter().filter_map(|line| line[figure].as_f64()).collect();
        yardstick::median(all)
    }

    /// The median of the ratios of each round; NaN when there is none.
    pub fn ratio(&self, name: &str, other: &str, figure: &str) -> f64 {
        let pairs = self.rounds(name).iter().zip(self.rounds(other));
        yardstick::median(pairs.filter_map(|(a, b)| Some(a[figure].as_f64()? / b[figure].as_f64()?)).collect())
    }

    fn rounds(&self, name: &str) -> &[Value] {
        self.lines.get(name).map_or(&[], Vec::as_slice)
    }
}

/// A running `yard-server`, ended when dropped.
pub struct Server {
    pub url: String,
    _process: Child,
}

impl Server {
    pub async fn start(tools: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(format!("{BUILT}/release/yard-server"));
        command.args(["0", &tools.to_string()]).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().context("yard-server is not built: use bench/run.sh")?;
        let output = process.stdout.take().context("yard-server has no output")?;
        let line = BufReader::new(output).lines().next_line().await?.unwrap_or_default();
        let address = line.strip_prefix("listening on ").with_context(|| format!("yard-server said `{line}`"))?;
        Ok(Self { url: format!("http://{address}/mcp"), _process: process })
    }
}

/// Milliseconds of each of `count` runs of `switchboard --version`; `None` when it is not built.
pub async fn version_starts(count: usize) -> Option<Vec<f64>> {
    let program = format!("{BUILT}/{PROGRAM}");
    let mut starts = Vec::with_capacity(count);
    for _ in 0..count {
        let begun = Instant::now();
        let status = Command::new(&program).arg("--version").stdout(Stdio::null()).status().await.ok()?;
        starts.push(begun.elapsed().as_secs_f64() * 1e3);
        if !status.success() {
            return None;
        }
    }
    Some(starts)
}
