//! Which era a server is of: what its answer to the probe says, and for how long that is relied on.
//!
//! Source: specification 2026-07-28, "Versioning", "Backward Compatibility".

use std::time::Duration;

use super::Session;
use super::lifecycle::OpenError;
use super::request::RequestError;
use crate::time::Timestamp;
use crate::transport::TransportError;
use crate::wire::model::member;
use crate::wire::{Era, Json, message, version};

/// How long a legacy verdict is trusted before the server is asked again.
const LEGACY_TRUST: Duration = Duration::from_secs(24 * 3600);

/// The request that asks a server for its era.
pub(super) const PROBE: &str = "server/discover";

/// What is known of a server's era from an earlier life.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// The era.
    pub(crate) era: Era,
    /// The revision spoken last.
    pub(crate) version: String,
    /// The discover result, of modern servers.
    pub(crate) discover: Option<Json>,
    /// When it was found out.
    pub(crate) at: Timestamp,
}

impl Verdict {
    /// The verdict that a session stands for.
    pub(crate) fn of(session: &Session) -> Self {
        Self {
            era: session.era,
            version: session.version.to_owned(),
            discover: session.discover.clone(),
            at: Timestamp::now(),
        }
    }

    /// Whether it can be relied on without asking again.
    pub(super) fn is_fresh(&self, now: Timestamp) -> bool {
        let trust = match self.era {
            Era::Legacy => LEGACY_TRUST,
            Era::Modern => {
                let ttl = self.discover.as_ref().and_then(|discover| member(discover, "ttlMs"));
                // A result that does not say how long it holds is relied on until it fails.
                ttl.and_then(|ttl| ttl.read::<f64>().ok()).map_or(Duration::MAX, |millis| {
                    Duration::try_from_secs_f64(millis.max(0.0) / 1000.0).unwrap_or(Duration::MAX)
                })
            }
        };
        now < self.at.after(trust)
    }
}

/// What a probe said of the server.
#[derive(Debug)]
pub(super) enum Probed {
    /// Modern, with its discover result.
    Modern(Json),
    /// Legacy.
    Legacy(Because),
    /// Modern, but to be asked again in the revision that both speak.
    AskAgain,
}

/// Why a server was taken for a legacy one, as far as it matters for what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Because {
    /// It answered.
    Answered,
    /// It did not answer in time.
    Silent,
    /// Its pipe is closed: it must be started again.
    Gone,
}

/// What an answer to the probe says of the server's era.
pub(super) fn judge(outcome: Result<Json, RequestError>, is_pipe: bool) -> Result<Probed, OpenError> {
    let failed = OpenError::step(PROBE);
    let error = match outcome {
        Ok(result) => {
            let offered = member(&result, "supportedVersions").and_then(|list| list.read::<Vec<String>>().ok());
            let is_modern = offered.is_some_and(|offered| version::common_modern(&offered).is_some());
            return Ok(if is_modern { Probed::Modern(result) } else { Probed::Legacy(Because::Answered) });
        }
        Err(error) => error,
    };
    match &error {
        RequestError::Rpc(rpc) if rpc.code == message::UNSUPPORTED_VERSION => {
            let offered = supported(rpc.data.as_ref()).unwrap_or_default();
            if version::common_modern(&offered).is_some() {
                return Ok(Probed::AskAgain);
            }
            if version::common_legacy(&offered).is_none() && offered.iter().any(|date| version::is_modern_date(date)) {
                return Err(OpenError::no_common(&offered));
            }
            Ok(Probed::Legacy(Because::Answered))
        }
        RequestError::Rpc(_) => Ok(Probed::Legacy(Because::Answered)),
        RequestError::Timeout { .. } => Ok(Probed::Legacy(Because::Silent)),
        RequestError::NoTurn { .. } | RequestError::Refused(_) | RequestError::Cancelled { .. } => Err(failed(error)),
        RequestError::Transport(transport) => match transport {
            TransportError::NoAnswer(_) => Ok(Probed::Legacy(Because::Answered)),
            TransportError::Status(status) if is_era_status(status.status) => Ok(Probed::Legacy(Because::Answered)),
            // It failed for a reason of its own. To start it again at once would only do so twice.
            TransportError::Exited(exit) if exit.is_failure() => Err(failed(error)),
            TransportError::Lost(_) | TransportError::Exited(_) if is_pipe => Ok(Probed::Legacy(Because::Gone)),
            _ => Err(failed(error)),
        },
    }
}

/// Statuses with which servers answer a method or a header that they do not know. Others say nothing about the era.
pub(super) fn is_era_status(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 401 | 403 | 408 | 425 | 429)
}

/// The revisions in the data of an error about revisions.
pub(super) fn supported(data: Option<&Json>) -> Option<Vec<String>> {
    member(data?, "supported")?.read().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RpcError;
    use crate::transport::StatusError;

    fn json(text: &str) -> Json {
        text.parse().unwrap()
    }

    fn verdict(outcome: Result<Json, RequestError>, is_pipe: bool) -> String {
        match judge(outcome, is_pipe) {
            Ok(Probed::Modern(_)) => "modern".to_owned(),
            Ok(Probed::Legacy(because)) => format!("legacy {because:?}"),
            Ok(Probed::AskAgain) => "again".to_owned(),
            Err(_) => "error".to_owned(),
        }
    }

    fn rpc(code: i64, data: Option<&str>) -> Result<Json, RequestError> {
        Err(RequestError::Rpc(RpcError::new(code, "no", data.map(json))))
    }

    fn status(status: u16) -> Result<Json, RequestError> {
        Err(TransportError::Status(Box::new(StatusError { status, ..StatusError::default() })).into())
    }

    #[test]
    fn the_probe_decides_the_era() {
        let table = [
            (Ok(json(r#"{"supportedVersions":["2026-07-28","2025-11-25"]}"#)), "modern"),
            (Ok(json(r#"{"supportedVersions":["2025-11-25"]}"#)), "legacy Answered"),
            (Ok(json("{}")), "legacy Answered"),
            (rpc(-32022, Some(r#"{"supported":["2026-07-28"]}"#)), "again"),
            (rpc(-32022, Some(r#"{"supported":["2027-05-05"]}"#)), "error"),
            (rpc(-32022, Some(r#"{"supported":["2025-06-18"]}"#)), "legacy Answered"),
            (rpc(-32022, None), "legacy Answered"),
            (rpc(-32601, None), "legacy Answered"),
            (rpc(-32001, None), "legacy Answered"),
            (status(400), "legacy Answered"),
            (status(404), "legacy Answered"),
            (status(401), "error"),
            (status(403), "error"),
            (status(429), "error"),
            (status(500), "error"),
            (Err(TransportError::NoAnswer("the event stream").into()), "legacy Answered"),
            (Err(TransportError::NotMcp("html".to_owned()).into()), "error"),
            (Err(TransportError::Connect("refused".into()).into()), "error"),
        ];
        for (outcome, expected) in table {
            let shown = format!("{outcome:?}");
            assert_eq!(verdict(outcome, false), expected, "{shown}");
        }
    }

    #[test]
    fn an_ended_pipe_means_legacy_and_a_broken_http_connection_means_nothing() {
        let lost = || Err(TransportError::Lost("eof".into()).into());
        assert_eq!(verdict(lost(), true), "legacy Gone");
        assert_eq!(verdict(lost(), false), "error");
        let late = || {
            Err(RequestError::Timeout { method: "server/discover".into(), after: Duration::from_secs(5), unmatched: 0 })
        };
        assert_eq!(verdict(late(), true), "legacy Silent");
        assert_eq!(verdict(late(), false), "legacy Silent");
    }

    #[test]
    fn verdicts_are_trusted_for_as_long_as_they_hold() {
        let at = Timestamp::from_millis(1_000_000);
        let modern = |discover: &str| Verdict {
            era: Era::Modern,
            version: version::MODERN.into(),
            discover: Some(json(discover)),
            at,
        };
        assert!(modern(r#"{"ttlMs":60000}"#).is_fresh(at.after(Duration::from_secs(59))));
        assert!(!modern(r#"{"ttlMs":60000}"#).is_fresh(at.after(Duration::from_secs(61))));
        assert!(modern("{}").is_fresh(at.after(Duration::from_secs(86_400))));
        let legacy = Verdict { era: Era::Legacy, version: "2025-11-25".into(), discover: None, at };
        assert!(legacy.is_fresh(at.after(Duration::from_secs(3600))));
        assert!(!legacy.is_fresh(at.after(Duration::from_secs(90_000))));
    }
}
