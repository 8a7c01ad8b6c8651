//! What is known of a server at one moment, in the words that users of this kind of software know.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::time::Timestamp;
use crate::wire::Json;

/// The state of a server, as the world sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// Being dialled, or waiting for the next attempt.
    Connecting,
    /// The handshake is done; nothing is listed yet.
    Connected,
    /// The lists are being read.
    Discovering,
    /// Connected, and every list that could be read has been.
    Ready,
    /// A person must sign in.
    Authenticating,
    /// The attempts are used up; a call or `connect` starts anew.
    Failed,
    /// Closed by us; `connect` opens it again.
    Closed,
}

impl State {
    /// Every state, in the order of a connection's life.
    pub const ALL: [Self; 7] = [
        Self::Connecting,
        Self::Connected,
        Self::Discovering,
        Self::Ready,
        Self::Authenticating,
        Self::Failed,
        Self::Closed,
    ];

    /// The state in lower case, as it stands in the HTTP API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Discovering => "discovering",
            Self::Ready => "ready",
            Self::Authenticating => "authenticating",
            Self::Failed => "failed",
            Self::Closed => "closed",
        }
    }

    /// Whether nothing is under way: the state stays until somebody acts or the server does.
    #[must_use]
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Ready | Self::Authenticating | Self::Failed | Self::Closed)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
            Error::invalid("state", format!("`{text}` is not a state: {}", Self::ALL.map(State::as_str).join(", ")))
        })
    }
}

/// How one list of a server's catalogue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ListState {
    /// Not read yet.
    #[default]
    Pending,
    /// Read whole.
    Ok,
    /// Cut by a bound.
    Partial,
    /// The server does not offer it.
    Unsupported,
    /// It could not be read; the others are not touched by that.
    Failed,
}

/// How each list of a server's catalogue stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListStates {
    /// `tools/list`.
    pub tools: ListState,
    /// `prompts/list`.
    pub prompts: ListState,
    /// `resources/list`.
    pub resources: ListState,
    /// `resources/templates/list`.
    pub resource_templates: ListState,
}

/// Until when each list of a server's catalogue holds, by the server's own word (`ttlMs` of revision 2026-07-28).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListExpiries {
    /// `tools/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Timestamp>,
    /// `prompts/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Timestamp>,
    /// `resources/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Timestamp>,
    /// `resources/templates/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_templates: Option<Timestamp>,
}

/// How many items each list of a server's catalogue has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ListCounts {
    /// Tools.
    pub tools: usize,
    /// Prompts.
    pub prompts: usize,
    /// Resources.
    pub resources: usize,
    /// Resource templates.
    pub resource_templates: usize,
}

/// Something odd that a server did, which was worked around.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Warning {
    /// A stable code, such as `bad_tool`.
    pub code: String,
    /// What is odd, in words.
    pub message: String,
    /// The item that it was seen on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub item: Option<String>,
    /// How often it was seen.
    pub count: u64,
}

impl Warning {
    /// A warning seen once.
    #[must_use]
    pub fn new(code: impl Into<String>, message: impl Into<String>, item: Option<String>) -> Self {
        Self { code: code.into(), message: message.into(), item, count: 1 }
    }
}

/// The last thing that failed on a server, kept as data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The stable code, as in [`crate::ErrorKind::code`].
    pub code: String,
    /// What happened.
    pub message: String,
    /// When.
    pub at: Timestamp,
    /// Why, nearest cause first.
    pub causes: Vec<String>,
}

/// The longest text of a failure that is shown, in characters.
const SHOWN_CHARACTERS: usize = 500;

impl Failure {
    /// The failure that `error` describes, as of now.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        Self {
            code: error.kind().code().to_owned(),
            message: error.to_string(),
            at: Timestamp::now(),
            causes: error.causes(),
        }
    }

    /// The message and its causes in one line, cleaned of control characters; of a long one the beginning and the end,
    /// where the innermost cause stands.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.message.clone();
        for cause in &self.causes {
            text.push_str(": ");
            text.push_str(cause);
        }
        both_ends(&text)
    }
}

fn is_kept(c: &char) -> bool {
    !c.is_control() || matches!(c, '\t' | '\n' | '\r')
}

/// The text without control characters, cut at 500 characters.
pub(crate) fn clean(text: &str) -> String {
    let mut kept: String = text.chars().filter(is_kept).take(SHOWN_CHARACTERS + 1).collect();
    if let Some((cut, _)) = kept.char_indices().nth(SHOWN_CHARACTERS) {
        kept.truncate(cut);
        kept.push('…');
    }
    kept
}

/// The text without control characters, at most 500 characters: when it is longer, its beginning and its end.
fn both_ends(text: &str) -> String {
    let kept: Vec<char> = text.chars().filter(is_kept).collect();
    if kept.len() <= SHOWN_CHARACTERS {
        return kept.into_iter().collect();
    }
    let half = SHOWN_CHARACTERS / 2;
    let (beginning, end) = (&kept[..half], &kept[kept.len() - half..]);
    beginning.iter().chain(&['…']).chain(end).collect()
}

/// All that is known of one server at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ServerStatus {
    /// What people call it.
    pub name: String,
    /// Its URL; for a child process its command line.
    pub server_url: String,
    /// Where a person signs in, when one must.
    pub auth_url: Option<String>,
    /// Its state.
    pub state: State,
    /// The last failure in one cleaned line.
    pub error: Option<String>,
    /// The server's advice to models.
    pub instructions: Option<String>,
    /// The server's capabilities, as it sent them.
    pub capabilities: Option<Json>,
    /// The server's own name and version, as it sent them.
    #[serde(rename = "serverInfo")]
    pub server_info: Option<Json>,
    /// `streamable-http`, `sse`, `stdio` or `in-process`; what is spoken now, or was last.
    pub transport: &'static str,
    /// The revision that is spoken.
    #[serde(rename = "protocolVersion")]
    pub protocol_version: Option<String>,
    /// Since when it has this state.
    pub since: Timestamp,
    /// Which attempt to connect is under way or was last; 0 when ready.
    pub attempt: u32,
    /// When the next attempt is due.
    #[serde(rename = "nextAttemptAt")]
    pub next_attempt_at: Option<Timestamp>,
    /// Whether the catalogue shown is the last one known rather than the present one.
    pub stale: bool,
    /// The last failure as data.
    #[serde(rename = "errorDetail")]
    pub error_detail: Option<Failure>,
    /// How long the server took for the last question that any server answers at once: a list, or whether it is there. In
    /// milliseconds; `None` while nothing is open.
    #[serde(rename = "latencyMs")]
    pub latency_ms: Option<f64>,
    /// How each list stands.
    pub lists: ListStates,
    /// How many items each list has.
    pub counts: ListCounts,
    /// What was worked around.
    pub warnings: Vec<Warning>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cleaned_and_cut_for_show() {
        assert_eq!(clean("a\u{1b}[31mb\u{7f}\tc"), "a[31mb\tc");
        assert_eq!(clean(&"é".repeat(501)).chars().count(), 501);
        assert!(clean(&"é".repeat(501)).ends_with('…'));
        assert_eq!(clean(&"é".repeat(500)), "é".repeat(500));
    }

    #[test]
    fn a_long_failure_is_shown_with_its_innermost_cause() {
        let failure = Failure {
            code: "connect_failed".into(),
            message: "could not connect".into(),
            at: Timestamp::now(),
            causes: vec!["é".repeat(1000), "KeyError: 'API_KEY'".into()],
        };
        let text = failure.text();
        assert!(text.starts_with("could not connect: é") && text.ends_with("é: KeyError: 'API_KEY'"), "{text}");
        assert_eq!(text.chars().count(), 501);
        assert_eq!(both_ends("a\u{7}b"), "ab");
    }

    #[test]
    fn states_read_back_as_they_print() {
        assert_eq!("ready".parse::<State>().unwrap(), State::Ready);
        assert!("redy".parse::<State>().unwrap_err().to_string().contains("discovering"));
    }
}
