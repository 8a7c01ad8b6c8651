//! The settings of one server's connection, with their defaults and bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Glob, Target};
use crate::error::Problem;

/// How often, and how soon, a failing connect is tried again.
///
/// The wait before attempt `n + 1` is a random part of `min(base × 2^n, max)` ("full jitter"); a server's `Retry-After` is
/// obeyed when it is longer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retry {
    /// Connects in one go, the first included; at least 1.
    pub max_attempts: u32,
    /// The first step of the ladder.
    pub base_delay: Duration,
    /// The longest wait.
    pub max_delay: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { max_attempts: 3, base_delay: Duration::from_millis(500), max_delay: Duration::from_secs(5) }
    }
}

impl Retry {
    /// A policy of `max_attempts` connects with the default waits.
    #[must_use]
    pub fn attempts(max_attempts: u32) -> Self {
        Self { max_attempts, ..Self::default() }
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if !(1..=100).contains(&self.max_attempts) {
            problems.push(Problem::new("retry/maxAttempts", "must be from 1 to 100"));
        }
        if self.base_delay > self.max_delay {
            problems.push(Problem::new("retry/baseDelayMs", "may not be longer than `maxDelayMs`"));
        }
    }
}

/// How long each step may take.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeouts {
    /// One attempt to connect, from dialling to the end of the handshake.
    pub connect: Duration,
    /// The probe for the protocol's era, `server/discover`.
    pub probe: Duration,
    /// One request; each progress report starts it anew.
    pub request: Duration,
    /// One request in all, whatever its progress.
    pub max_request: Duration,
    /// Reading all lists after a connect.
    pub discovery: Duration,
    /// The wait that gathers a burst of change notices into one refresh.
    pub list_changed: Duration,
    /// How long after the last probe a server is asked whether it is there; zero: only when something is odd.
    pub heartbeat: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            probe: Duration::from_secs(5),
            request: Duration::from_secs(60),
            max_request: Duration::from_secs(600),
            discovery: Duration::from_secs(30),
            list_changed: Duration::from_millis(300),
            heartbeat: Duration::ZERO,
        }
    }
}

impl Timeouts {
    /// The defaults for a server of that kind. A child process may have to be installed before it answers, so its
    /// handshake has a minute.
    #[must_use]
    pub fn of(target: &Target) -> Self {
        match target {
            Target::Stdio(_) => Self { connect: Duration::from_secs(60), ..Self::default() },
            Target::Http(_) | Target::InProcess(_) => Self::default(),
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        let fields = [
            ("connectMs", self.connect),
            ("probeMs", self.probe),
            ("requestMs", self.request),
            ("maxRequestMs", self.max_request),
            ("discoveryMs", self.discovery),
        ];
        for (name, value) in fields {
            if value.is_zero() || value > Duration::from_secs(86_400) {
                problems.push(Problem::new(format!("timeouts/{name}"), "must be from 1 ms to a day"));
            }
        }
        if self.list_changed > Duration::from_secs(60) {
            problems.push(Problem::new("timeouts/listChangedMs", "must be a minute at most"));
        }
        if !self.heartbeat.is_zero()
            && !(Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&self.heartbeat)
        {
            problems.push(Problem::new("timeouts/heartbeatMs", "must be 0, or from a second to a day"));
        }
        if self.request > self.max_request {
            problems.push(Problem::new("timeouts/requestMs", "may not be longer than `maxRequestMs`"));
        }
    }
}

/// How large and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message: a body, an SSE event, a line; after decompression.
    pub message_bytes: usize,
    /// Calls under way at once.
    pub in_flight: usize,
    /// Calls that may wait for their turn; more are refused.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes: 16 << 20, in_flight: 64, waiting: 1024 }
    }
}

impl Limits {
    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        if !(1024..=1 << 30).contains(&self.message_bytes) {
            problems.push(Problem::new("limits/messageBytes", "must be from 1 KiB to 1 GiB"));
        }
        if !(1..=10_000).contains(&self.in_flight) {
            problems.push(Problem::new("limits/inFlight", "must be from 1 to 10000"));
        }
        if self.waiting > 1_000_000 {
            problems.push(Problem::new("limits/waiting", "must be 1000000 at most"));
        }
    }
}

/// How the era of the protocol is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[doc(alias = "versionNegotiation")]
pub enum EraChoice {
    /// The server is asked, and the verdict is remembered.
    #[default]
    Auto,
    /// The modern era; a server that does not speak it is refused.
    Modern,
    /// The legacy era, without asking: for servers that take a question before the handshake amiss.
    Legacy,
}

/// What happens to a result that does not fit its tool's output schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OutputSchemaPolicy {
    /// It is delivered whole, and the server gets a warning.
    #[default]
    Warn,
    /// The call fails.
    Refuse,
    /// Nothing is checked.
    Off,
}

/// What happens when a server's tools are not those that were approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DriftPolicy {
    /// Nothing; the differences can still be asked for.
    Off,
    /// The server gets a warning for each.
    #[default]
    Warn,
    /// Changed tools are withheld, too.
    RefuseChanged,
    /// Changed tools and new ones are withheld, the first ones included, until a person approves them.
    RefuseUnapproved,
}

impl DriftPolicy {
    /// Whether some tools may be withheld.
    #[must_use]
    pub const fn refuses(self) -> bool {
        matches!(self, Self::RefuseChanged | Self::RefuseUnapproved)
    }

    /// Whether what a new server offers counts as approved.
    #[must_use]
    pub const fn trusts_the_first(self) -> bool {
        !matches!(self, Self::RefuseUnapproved)
    }
}

/// Which of a server's tools are offered, and under which names. Patterns match the server's own names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolPolicy {
    /// When not empty, only tools that match one of these are offered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Glob>,
    /// Tools that match one of these are not offered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Glob>,
    /// Other names to show to models, by the server's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
}

impl ToolPolicy {
    /// Whether a tool of that name may be offered and called.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        let allowed = self.allow.is_empty() || self.allow.iter().any(|glob| glob.matches(name));
        allowed && !self.deny.iter().any(|glob| glob.matches(name))
    }

    /// The name under which models see that tool.
    #[must_use]
    pub fn shown<'a>(&'a self, name: &'a str) -> &'a str {
        self.rename.get(name).map_or(name, String::as_str)
    }
}
