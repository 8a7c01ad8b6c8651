//! What servers log: the levels of the protocol, and the last entries of one server.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::Error;
use crate::status::{Warning, clean};
use crate::time::Timestamp;
use crate::wire::Json;

/// How many log entries of a server are kept.
pub const KEPT_LOGS: usize = 200;
/// The most of one entry's data that is kept, in bytes.
const DATA_BYTES: usize = 8 << 10;
/// How many entries of one server become events in a second. The others are counted.
const EVENTS_A_SECOND: u32 = 50;

/// How severe a log entry is, from the least to the most (RFC 5424).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "the eight levels of RFC 5424, which will not change")]
pub enum LogLevel {
    /// Detailed debugging information.
    Debug,
    /// How an operation goes on.
    Info,
    /// Normal but significant events.
    Notice,
    /// Warning conditions.
    Warning,
    /// Operations that failed.
    Error,
    /// Components that failed.
    Critical,
    /// Action must be taken at once.
    Alert,
    /// The server cannot be used.
    Emergency,
}

impl LogLevel {
    /// Every level, the least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level as the protocol writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LogLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|level| level.as_str() == text).ok_or_else(|| {
            let text = text.escape_debug();
            Error::invalid("level", format!("`{text}` is not a level: {}", Self::ALL.map(Self::as_str).join(", ")))
        })
    }
}

/// One thing that a server logged.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LogEntry {
    /// When it came.
    pub at: Timestamp,
    /// How severe it is; `None` when the server names no level of the protocol.
    pub level: Option<LogLevel>,
    /// The part of the server that it comes from.
    pub logger: Option<String>,
    /// What was logged. Of more than 8 KiB it is the beginning of the JSON text, as a string.
    pub data: Json,
    /// Whether the data was cut.
    pub is_cut: bool,
}

impl LogEntry {
    /// An entry that came now.
    pub(crate) fn new(level: Option<LogLevel>, logger: Option<&str>, data: Option<&Json>) -> Self {
        let (data, is_cut) = match data {
            None => (Json::trusted("null"), false),
            Some(data) if data.as_bytes().len() <= DATA_BYTES => (data.detached(), false),
            Some(data) => (beginning(data.as_str()), true),
        };
        Self { at: Timestamp::now(), level, logger: logger.map(clean), data, is_cut }
    }
}

/// The beginning of a JSON text, as a JSON string.
fn beginning(text: &str) -> Json {
    let text = &text[..text.floor_char_boundary(DATA_BYTES)];
    // A string can always be written.
    Json::of(text).unwrap_or_else(|_| Json::trusted("null"))
}

/// The last log entries of one server, over all lives of its connection.
#[derive(Debug, Default)]
pub(crate) struct LogBook(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    entries: VecDeque<LogEntry>,
    /// When the present second began, and how many events it has had.
    second: Option<(Instant, u32)>,
    untold: u64,
}

impl LogBook {
    /// Keeps an entry; whether it may become an event.
    pub(crate) fn note(&self, entry: LogEntry) -> bool {
        let mut pages = self.pages();
        if pages.entries.len() == KEPT_LOGS {
            pages.entries.pop_front();
        }
        pages.entries.push_back(entry);
        let now = Instant::now();
        let (began, told) = match pages.second {
            Some((began, told)) if now < began + Duration::from_secs(1) => (began, told),
            _ => (now, 0),
        };
        let may_be_told = told < EVENTS_A_SECOND;
        pages.second = Some((began, told + u32::from(may_be_told)));
        pages.untold += u64::from(!may_be_told);
        may_be_told
    }

    /// The entries that are kept, the oldest first.
    pub(crate) fn entries(&self) -> Vec<LogEntry> {
        self.pages().entries.iter().cloned().collect()
    }

    /// How many entries became no event, if any.
    pub(crate) fn warning(&self) -> Option<Warning> {
        let untold = self.pages().untold;
        (untold > 0).then(|| {
            let text = format!(
                "the server logs more than {EVENTS_A_SECOND} entries a second; those beyond that became no events"
            );
            Warning { count: untold, ..Warning::new("log_flood", text, None) }
        })
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32) -> LogEntry {
        LogEntry::new(Some(LogLevel::Info), None, Some(&Json::trusted(number.to_string())))
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_entries_becomes_few_events_and_the_rest_is_counted() {
        let book = LogBook::default();
        let told = (0..1_000).filter(|number| book.note(entry(*number))).count();
        assert_eq!(told, 50);
        assert_eq!(book.warning().map(|warning| warning.count), Some(950));
        let kept: Vec<String> = book.entries().iter().map(|entry| entry.data.to_string()).collect();
        assert_eq!((kept.len(), &*kept[0], &*kept[199]), (KEPT_LOGS, "800", "999"));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(book.note(entry(1_000)), "the next second has events of its own");
    }

    #[test]
    fn long_data_is_cut_and_says_so() {
        let long = Json::of(&"é".repeat(DATA_BYTES)).unwrap();
        let entry = LogEntry::new(None, Some("db\u{7}"), Some(&long));
        assert!(entry.is_cut);
        assert_eq!(entry.logger.as_deref(), Some("db"));
        let kept: String = entry.data.read().unwrap();
        assert!(kept.starts_with("\"éé") && kept.len() <= DATA_BYTES, "{}", kept.len());
    }

    #[test]
    fn levels_read_back_as_they_print() {
        for level in LogLevel::ALL {
            assert_eq!(level.to_string().parse::<LogLevel>().unwrap(), level);
            assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
        }
        assert!("warn".parse::<LogLevel>().unwrap_err().to_string().contains("notice"));
    }
}
