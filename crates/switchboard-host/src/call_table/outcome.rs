//! How calls stand, and how they end.

use std::sync::Arc;

use serde::Serialize;
use switchboard::wire::Json;
use switchboard::{Error, ErrorKind};

use crate::code::Code;
use crate::problem::{ErrorObject, Problem};

/// The state of a call, as the world sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CallState {
    /// Under way.
    Running,
    /// Waits for a person's answer.
    Waiting,
    /// The server has answered.
    Done,
    /// It failed, or was cancelled.
    Failed,
    /// The connection was lost, and whether it ran is not known.
    Lost,
}

impl CallState {
    /// Every state, by its name.
    pub(crate) const ALL: [(&'static str, Self); 5] = [
        ("running", Self::Running),
        ("waiting", Self::Waiting),
        ("done", Self::Done),
        ("failed", Self::Failed),
        ("lost", Self::Lost),
    ];
}

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// The server's result, and whether it does not fit its output schema.
    Done {
        /// As it came.
        result: Json,
        /// Whether the server marked it as an error.
        is_error: bool,
        /// Whether it does not fit the tool's output schema.
        is_odd: bool,
    },
    /// It failed.
    Failed(Arc<Error>),
    /// It was cancelled through the API.
    Cancelled,
    /// The daemon stopped, or had a fault, before it ended.
    Cut,
}

impl Outcome {
    pub(super) fn state(&self) -> CallState {
        match self {
            Self::Done { .. } => CallState::Done,
            Self::Failed(error)
                if error.kind() == ErrorKind::ConnectionLost && error.data().maybe_ran != Some(false) =>
            {
                CallState::Lost
            }
            Self::Failed(_) | Self::Cancelled => CallState::Failed,
            Self::Cut => CallState::Lost,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Done { result, .. } => result.as_bytes().len(),
            _ => 0,
        }
    }

    pub(super) fn error(&self) -> Option<ErrorObject> {
        match self {
            Self::Done { .. } => None,
            Self::Failed(error) => Some(ErrorObject::of(error)),
            Self::Cancelled => Some(cancelled().into()),
            Self::Cut => Some(cut().into()),
        }
    }
}

/// The problem of a call that was cancelled through the API.
pub(crate) fn cancelled() -> Problem {
    Problem::new(Code::Cancelled, "the call was cancelled through the API")
        .with(|members| members.maybe_ran = Some(true))
}

/// The problem of a call that ended with the daemon.
pub(crate) fn cut() -> Problem {
    Problem::new(Code::Stopping, "the daemon stopped before the call ended")
        .with(|members| members.maybe_ran = Some(true))
}
