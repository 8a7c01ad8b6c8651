//! Callers that share one stream of answers, whatever carries it.
//!
//! Answers find their callers through a table. Each entry belongs to the guard that its caller holds; giving up takes it
//! out. When the stream ends, every caller is told why.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::process::Exit;
use super::{Answer, TransportError};
use crate::wire::frame::TooLarge;

/// Why a stream cannot be used any more.
#[derive(Debug, Clone)]
pub(super) enum Broken {
    /// The other side closed its output.
    Ended,
    /// The other side closed its input.
    Deaf,
    /// Reading failed.
    Failed(String),
    /// The child process ended.
    Exited(Exit),
    /// We closed it.
    Closed,
}

impl Broken {
    pub(super) fn error(&self) -> TransportError {
        match self {
            Self::Ended => TransportError::Lost("the server closed its output".into()),
            Self::Deaf => TransportError::Lost("the server closed its input".into()),
            Self::Failed(cause) => TransportError::Lost(cause.clone().into()),
            Self::Exited(exit) => TransportError::Exited(exit.clone()),
            Self::Closed => TransportError::Closed,
        }
    }
}

/// Callers that wait, by request id.
#[derive(Default)]
pub(super) struct Callers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u64, oneshot::Sender<Result<Answer, TransportError>>>,
    unmatched: u64,
    broken: Option<Broken>,
}

impl Callers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an answer to whom it belongs; `false` when that is nobody.
    pub(super) fn answer(&self, id: Option<u64>, outcome: Answer) -> bool {
        let mut state = self.state();
        let id = match id {
            // An error that could not read the id belongs to the only caller there is.
            None if outcome.is_err() && state.waiting.len() == 1 => state.waiting.keys().next().copied(),
            id => id,
        };
        match id.and_then(|id| state.waiting.remove(&id)) {
            Some(caller) => {
                // A caller that has just given up needs no answer.
                let _ = caller.send(Ok(outcome));
                true
            }
            None => {
                state.unmatched += 1;
                false
            }
        }
    }

    /// A message was too large to be read. It is told to the caller whose answer it was; to all when that is unknown.
    pub(super) fn too_large(&self, line: &TooLarge) {
        let mut state = self.state();
        let callers: Vec<_> = match Whose::of(&line.head, &line.tail) {
            Whose::Nobody => Vec::new(),
            Whose::Of(id) => state.waiting.remove(&id).into_iter().collect(),
            Whose::Unknown => state.waiting.drain().map(|(_, caller)| caller).collect(),
        };
        for caller in callers {
            let _ = caller.send(Err(TransportError::TooLarge { limit: line.limit }));
        }
    }

    /// A line was meant as a message and cannot be read. When it is the answer to a caller, that caller is told.
    pub(super) fn garbled(&self, line: &[u8], shown: &str) {
        if line.first() != Some(&b'{') || memchr::memmem::find(line, b"\"jsonrpc\"").is_none() {
            return;
        }
        if let Whose::Of(id) = Whose::of(line, line)
            && let Some(caller) = self.state().waiting.remove(&id)
        {
            let _ = caller.send(Err(TransportError::NotMcp(format!("a line that is not JSON: {shown}"))));
        }
    }

    pub(super) fn fail_all(&self, reason: Broken) {
        let mut state = self.state();
        for (_, caller) in state.waiting.drain() {
            let _ = caller.send(Err(reason.error()));
        }
        state.broken.get_or_insert(reason);
    }

    /// A place for the caller of the request `id`.
    ///
    /// # Errors
    /// When the stream has ended.
    pub(super) fn enter(&self, id: u64) -> Result<Waiting<'_>, TransportError> {
        let (sender, answer) = oneshot::channel();
        let mut state = self.state();
        if let Some(broken) = &state.broken {
            return Err(broken.error());
        }
        state.waiting.insert(id, sender);
        drop(state);
        Ok(Waiting { callers: self, id, answer })
    }

    /// Answers that belonged to nobody.
    pub(super) fn unmatched(&self) -> u64 {
        self.state().unmatched
    }
}

/// Whose answer a line was that could not be read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The answer to that request.
    Of(u64),
    /// No answer: noise, or something that the server says unasked.
    Nobody,
    /// An answer, but nothing kept of it says to what.
    Unknown,
}

impl Whose {
    /// Judges by the two ends of the line. Half of the servers write the id in front of the result, half behind it.
    fn of(head: &[u8], tail: &[u8]) -> Self {
        if !matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')) {
            return Self::Nobody;
        }
        let find = |what: &[u8]| memchr::memmem::find(head, what);
        let outcome = find(b"\"result\"").into_iter().chain(find(b"\"error\"")).min();
        let envelope = &head[..outcome.unwrap_or(head.len())];
        if outcome.is_none() && memchr::memmem::find(envelope, b"\"method\"").is_some() {
            return Self::Nobody;
        }
        let behind = || {
            // Directly before the one brace that ends the message.
            let end = tail.trim_ascii_end().strip_suffix(b"}")?;
            Some(&end[memchr::memmem::rfind(end, ID)?..]).filter(|member| !member.contains(&b'}'))
        };
        let in_front = || memchr::memmem::find(envelope, ID).map(|at| &envelope[at..]);
        in_front().or_else(behind).and_then(id_at).map_or(Self::Unknown, Self::Of)
    }
}

const ID: &[u8] = b"\"id\":";

/// The number in a member that begins with [`ID`].
fn id_at(member: &[u8]) -> Option<u64> {
    let digits = member[ID.len()..].trim_ascii_start();
    let digits = digits.strip_prefix(b"\"").unwrap_or(digits);
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

/// A caller's place in the table; dropping it gives the place up.
pub(super) struct Waiting<'a> {
    callers: &'a Callers,
    id: u64,
    answer: oneshot::Receiver<Result<Answer, TransportError>>,
}

impl Waiting<'_> {
    /// Waits for the answer.
    ///
    /// Cancel safety: no answer is lost.
    pub(super) async fn answer(&mut self) -> Result<Answer, TransportError> {
        (&mut self.answer).await.unwrap_or(Err(TransportError::Closed))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.callers.state().waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_large_is_known_by_either_end() {
        let whose = |head: &str, tail: &str| Whose::of(head.as_bytes(), tail.as_bytes());
        assert_eq!(whose(r#"{"jsonrpc":"2.0","id":17,"result":{"#, "}}"), Whose::Of(17));
        assert_eq!(whose(r#"{"id": "17","error":{"#, "}}"), Whose::Of(17));
        assert_eq!(whose(r#"{"result":{"id":3,"#, r#""},"jsonrpc":"2.0","id":17}"#), Whose::Of(17));
        assert_eq!(whose(r#"{"result":{"#, r#"},"id": "17" } "#), Whose::Of(17));
        assert_eq!(whose(r#"{"result":{"id":3,"#, r#"{"id":4}}}"#), Whose::Unknown);
        assert_eq!(whose(r#"{"id":null,"error":{"#, "}}"), Whose::Unknown);
        assert_eq!(whose(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"#, "}}"), Whose::Nobody);
        assert_eq!(
            whose(r#"{"jsonrpc":"2.0","id":3,"method":"sampling/createMessage","params":{"#, "}}"),
            Whose::Nobody
        );
        assert_eq!(whose("Welcome to", "the server"), Whose::Nobody);
    }
}
