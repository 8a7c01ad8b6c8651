//! The calls of one instance: those that run, and for a while those that have ended and may still be asked for.

mod outcome;
mod ticket;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use switchboard::ErrorKind;
use switchboard::time::Timestamp;
use switchboard::wire::Json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use outcome::{CallState, Outcome, cancelled, cut};
pub(crate) use ticket::{Follower, Ticket};

use crate::code::Code;
use crate::problem::{ErrorObject, Problem};

/// The most calls in the table, running ones included.
const MAX_CALLS: usize = 10_000;
/// The most bytes of results that are kept.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// How long an ended call is kept.
const KEPT_FOR: Duration = Duration::from_secs(3600);

/// What a call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// The MCP method.
    pub(crate) method: &'static str,
    /// The server, unless the tool was named by its key.
    pub(crate) server: Option<String>,
    /// The tool, the prompt, the URI.
    pub(crate) name: String,
}

/// A call as `GET /calls/{id}` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallView {
    pub(crate) id: String,
    pub(crate) state: CallState,
    pub(crate) method: &'static str,
    pub(crate) server_id: Option<String>,
    pub(crate) name: String,
    pub(crate) started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended_at: Option<Timestamp>,
    /// Ids of questions that the call waits for.
    pub(crate) questions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<ErrorObject>,
}

/// An idempotency key and a print of the call that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// The caller's key.
    pub(crate) key: String,
    /// Differs when the call differs.
    pub(crate) print: u64,
}

/// What a repeated call finds under its key.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is new; whoever holds the ticket carries it out.
    New(Ticket),
    /// It was begun before.
    Known(Follower),
}

/// The calls of one instance.
#[derive(Debug, Default)]
pub(crate) struct CallTable(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    by_id: HashMap<Arc<str>, Call>,
    by_key: HashMap<String, Arc<str>>,
    /// Ended calls, oldest first, with the moment at which each is forgotten.
    ended: VecDeque<(Instant, Arc<str>)>,
    result_bytes: usize,
    /// How many calls there have been, to number them.
    begun: u64,
}

#[derive(Debug)]
struct Call {
    subject: Subject,
    number: u64,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    key: Option<Key>,
    cancel: CancellationToken,
    outcome: watch::Sender<Option<Outcome>>,
}

impl CallTable {
    /// Enters a call that its caller waits for: it is seen and can be cancelled while it runs, and leaves when it ends.
    pub(crate) fn enter(self: &Arc<Self>, subject: Subject) -> Result<Ticket, Problem> {
        self.insert(&mut self.calls(), subject, None, false)
    }

    /// Enters a call that goes on by itself and is kept when it has ended. A key that is known leads to its first call.
    pub(crate) fn begin(self: &Arc<Self>, subject: Subject, key: Option<Key>) -> Result<Begun, Problem> {
        let mut calls = self.calls();
        if let Some(key) = &key
            && let Some((id, call)) = calls.of_key(&key.key)
        {
            if call.key.as_ref() != Some(key) {
                return Err(Problem::new(Code::KeyReused, format!("`{}` was given with another call before", key.key)));
            }
            return Ok(Begun::Known(Follower { id: Arc::clone(id), outcome: call.outcome.subscribe() }));
        }
        self.insert(&mut calls, subject, key, true).map(Begun::New)
    }

    /// The call of that id.
    pub(crate) fn view(&self, id: &str) -> Option<CallView> {
        let calls = self.calls();
        calls.by_id.get_key_value(id).map(|(id, call)| call.view(id, true))
    }

    /// The calls in one of these states, or all, in the order in which they began, without their results.
    pub(crate) fn list(&self, states: &[CallState]) -> Vec<CallView> {
        let calls = self.calls();
        let mut chosen: Vec<_> =
            calls.by_id.iter().filter(|(_, call)| states.is_empty() || states.contains(&call.state())).collect();
        chosen.sort_by_key(|(_, call)| call.number);
        chosen.into_iter().map(|(id, call)| call.view(id, false)).collect()
    }

    /// Cancels a call; one that has ended stays as it is. Whether there is one.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        self.calls().by_id.get(id).map(|call| call.cancel.cancel()).is_some()
    }

    fn insert(
        self: &Arc<Self>,
        calls: &mut Calls,
        subject: Subject,
        key: Option<Key>,
        is_kept: bool,
    ) -> Result<Ticket, Problem> {
        if calls.by_id.len() >= MAX_CALLS && !calls.forget_oldest() {
            let detail = format!("{MAX_CALLS} calls are under way, which is as many as may be");
            return Err(Problem::new(Code::Kind(ErrorKind::Overloaded), detail));
        }
        calls.begun += 1;
        let id: Arc<str> = new_id().into();
        let cancel = CancellationToken::new();
        let outcome = watch::Sender::new(None);
        let follower = Follower { id: Arc::clone(&id), outcome: outcome.subscribe() };
        if let Some(key) = &key {
            calls.by_key.insert(key.key.clone(), Arc::clone(&id));
        }
        let call = Call {
            subject,
            number: calls.begun,
            started_at: Timestamp::now(),
            ended_at: None,
            key,
            cancel: cancel.clone(),
            outcome,
        };
        calls.by_id.insert(id, call);
        Ok(Ticket { table: Arc::clone(self), follower, cancel, is_kept, is_finished: false })
    }

    fn finish(&self, id: &Arc<str>, outcome: Outcome, is_kept: bool) {
        let mut calls = self.calls();
        if !is_kept {
            calls.forget(id);
            return;
        }
        let bytes = outcome.bytes();
        let Some(call) = calls.by_id.get_mut(id) else { return };
        call.ended_at = Some(Timestamp::now());
        call.outcome.send_replace(Some(outcome));
        calls.result_bytes += bytes;
        calls.ended.push_back((Instant::now() + KEPT_FOR, Arc::clone(id)));
        // The newest stays however large it is: somebody is about to ask for it.
        while calls.result_bytes > MAX_RESULT_BYTES && calls.ended.len() > 1 {
            calls.forget_oldest();
        }
    }

    /// The table, without what is too old.
    fn calls(&self) -> MutexGuard<'_, Calls> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while calls.ended.front().is_some_and(|(due, _)| *due <= now) {
            calls.forget_oldest();
        }
        calls
    }
}

impl Calls {
    fn of_key(&self, key: &str) -> Option<(&Arc<str>, &Call)> {
        self.by_key.get(key).and_then(|id| self.by_id.get_key_value(id))
    }

    /// Forgets the call that ended first; whether there was one.
    fn forget_oldest(&mut self) -> bool {
        let Some((_, id)) = self.ended.pop_front() else { return false };
        self.forget(&id);
        true
    }

    fn forget(&mut self, id: &str) {
        let Some(call) = self.by_id.remove(id) else { return };
        self.result_bytes -= call.outcome.borrow().as_ref().map_or(0, Outcome::bytes);
        if let Some(key) = call.key {
            self.by_key.remove(&key.key);
        }
    }
}

impl Call {
    fn state(&self) -> CallState {
        self.outcome.borrow().as_ref().map_or(CallState::Running, Outcome::state)
    }

    fn view(&self, id: &str, is_whole: bool) -> CallView {
        let outcome = self.outcome.borrow();
        let result = match &*outcome {
            Some(Outcome::Done { result, .. }) if is_whole => Some(result.clone()),
            _ => None,
        };
        CallView {
            id: id.to_owned(),
            state: outcome.as_ref().map_or(CallState::Running, Outcome::state),
            method: self.subject.method,
            server_id: self.subject.server.clone(),
            name: self.subject.name.clone(),
            started_at: self.started_at,
            ended_at: self.ended_at,
            questions: Vec::new(),
            result,
            error: outcome.as_ref().and_then(Outcome::error),
        }
    }
}

/// A new id: unique in the life of this daemon and not to be guessed from another.
fn new_id() -> String {
    format!("call-{:016x}", fastrand::u64(..))
}

#[cfg(test)]
mod tests;
