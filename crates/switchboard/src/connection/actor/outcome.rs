//! How what the actor had started ended: what that means for the machine, and what readers are shown of it.

use std::sync::Arc;

use serde_json::json;
use tokio::time::Instant;

use super::{Actor, Outcome};
use crate::connection::discovery::Discovered;
use crate::connection::listen::Standing;
use crate::connection::state::{Failure, Input, Phase};
use crate::connection::{Live, failure, notices};
use crate::error::Error;
use crate::event::EventKind;
use crate::session::Session;
use crate::session::era::Verdict;
use crate::session::request::RequestError;
use crate::tasks::OwnedTask;
use crate::time::Timestamp;
use crate::transport::TransportError;
use crate::wire::Era;

impl Actor {
    pub(super) fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Opened(generation, session) => self.opened(generation, *session),
            Outcome::NotOpened(generation, error) => {
                if error.is_silence() {
                    self.forget_verdict();
                }
                self.memory(|memory| memory.ended_at_probe = error.is_end_at_probe());
                let input = Input::NotOpened { generation, failure: failure::of_open(&error) };
                self.failed(generation, input, failure::open_error(*error));
            }
            Outcome::Discovered(generation, found) => self.discovered(generation, *found),
            Outcome::Refreshed(generation, found) => self.refreshed(generation, *found),
            Outcome::Probed(generation, outcome) => self.probed(generation, outcome.map_err(|error| *error)),
            // What a server says of the stream is not what it says of requests, so it is asked, whatever the reason.
            Outcome::StreamLost(generation, error) => self.suspected(generation, *error),
        }
    }

    pub(super) fn opened(&mut self, generation: u64, session: Session) {
        let session = Arc::new(session);
        if generation != self.machine.generation() || self.machine.phase() != Phase::Dialing {
            self.end(session);
            return;
        }
        self.memory(|memory| {
            memory.facts = session.facts.clone();
            memory.ended_at_probe = false;
            if !session.is_trusted {
                memory.verdict = Some(Verdict::of(&session));
                memory.transport = session.transport.kind();
                memory.session = None;
            }
        });
        self.is_unproven = session.is_resumed();
        let payload = json!({
            "url": self.shared.spec.target.display(), "transport": session.transport_name(&self.shared.spec.target),
            "state": "connected",
            "protocolVersion": session.version,
        });
        if let Some(level) = self.shared.wishes.borrow().log_level {
            session.ask_for_logs(level);
        }
        self.shared.standing.send_replace(Standing::Pending);
        self.stream = notices::are_wanted(&self.shared, &session).then(|| {
            let (notices, sender) =
                (notices::follow(self.shared.clone(), session.clone()), self.outcome_sender.clone());
            OwnedTask::spawn(async move {
                if let Err(error) = notices.await {
                    let _ = sender.send(Outcome::StreamLost(generation, Box::new(error))).await;
                }
            })
        });
        self.shared.live.store(Some(Arc::new(Live { session, generation })));
        self.emit(EventKind::Connect, payload);
        if self.machine.is_return() {
            self.emit(EventKind::Reconnect, json!({ "attempt": self.machine.attempt() }));
        }
        if !self.is_unproven
            && let Some(state) = self.lost_session.take()
        {
            self.emit(EventKind::Session, json!({ "state": state }));
        }
        self.step(Input::Opened { generation });
        self.shared.observer.changed(&self.shared.id);
    }

    fn discovered(&mut self, generation: u64, found: Discovered) {
        if generation != self.machine.generation() {
            return;
        }
        self.listing = None;
        self.refresh.discovered(Instant::now());
        self.tell_progress();
        if let Some(error) = found.failure {
            self.lists_unreachable(generation, error);
            return;
        }
        let counts = json!({
            "url": self.shared.spec.target.display(), "tools": found.catalogue.tools().len(),
        });
        self.shared.show(&found.catalogue);
        if let Some(live) = self.shared.live.load_full() {
            self.memory(|memory| memory.session = live.session.record());
        }
        if std::mem::take(&mut self.is_unproven) {
            self.emit(EventKind::Session, json!({ "state": "resumed" }));
        }
        self.emit(EventKind::Discover, counts);
        self.shared.view.send_modify(|view| view.failure = None);
        self.step(Input::Discovered { generation });
        self.shared.observer.changed(&self.shared.id);
    }

    /// Every list failed because the server did not answer: it is not there, or not what it was.
    fn lists_unreachable(&mut self, generation: u64, error: RequestError) {
        let mut failure = failure::of_request(&error);
        if self.shared.live.load().as_ref().is_some_and(|live| live.session.is_trusted) {
            // A server that says plainly that the session is gone is what it was taken for. Else all that was known of it may
            // be wrong, and it is asked anew.
            if failure != Failure::SessionGone {
                self.forget_verdict();
            }
            if failure == Failure::Permanent {
                failure = Failure::SessionGone;
            }
        }
        let outward = error.outward("the lists could not be read");
        self.failed(generation, Input::Lost { generation, failure }, outward);
    }

    /// Has the server asked anew what it speaks, the next time.
    fn forget_verdict(&self) {
        self.memory(|memory| memory.verdict = None);
    }

    /// A session that was lost is not taken up again.
    fn forget_session(&mut self, failure: Failure) {
        self.memory(|memory| memory.session = None);
        let is_legacy = self.shared.live.load().as_ref().is_some_and(|live| live.session.era == Era::Legacy);
        if std::mem::take(&mut self.is_unproven) {
            self.lost_session = Some("replaced");
        } else if failure == Failure::SessionGone && is_legacy {
            self.lost_session = Some("renewed");
        }
    }

    fn refreshed(&mut self, generation: u64, found: Discovered) {
        // One that was abandoned for a discovery may have ended all the same.
        let is_vain = found.failed.is_empty() && found.catalogue.offers_the_same(&self.shared.catalogue.load());
        if generation != self.machine.generation() || !self.refresh.ended(found.failed, is_vain, Instant::now()) {
            return;
        }
        self.listing = None;
        self.shared.show(&found.catalogue);
        if found.failed.is_empty() {
            self.emit(EventKind::ListChanged, json!({ "state": "read" }));
        } else {
            tracing::warn!(server = %self.shared.id, "changed lists could not be read; the former ones are kept");
        }
        self.tell_progress();
        self.shared.observer.changed(&self.shared.id);
        if let Some(RequestError::Transport(error)) = found.failure {
            self.doubted(generation, error);
        }
    }

    pub(super) fn broken(&mut self, generation: u64, error: TransportError) {
        if generation != self.machine.generation() {
            return;
        }
        let failure = failure::of_transport(&error);
        let outward = failure::lost_error(error);
        self.failed(generation, Input::Lost { generation, failure }, outward);
    }

    pub(super) fn failed(&mut self, generation: u64, input: Input, error: Error) {
        if generation != self.machine.generation() {
            return;
        }
        let error = error.of(&self.shared.id);
        let payload = json!({
            "url": self.shared.spec.target.display(), "transport": self.shared.spec.target.transport(), "state": "failed",
            "error": { "code": error.kind().code(), "message": error.to_string(), "causes": error.causes() },
        });
        let is_connect = matches!(input, Input::NotOpened { .. });
        if let Input::Lost { failure, .. } = input {
            self.emit(EventKind::Lost, payload["error"].clone());
            self.forget_session(failure);
        }
        self.shared.view.send_modify(|view| view.failure = Some((error, Timestamp::now())));
        self.step(input);
        if is_connect {
            self.emit(EventKind::Connect, payload);
        }
        self.shared.observer.changed(&self.shared.id);
    }

    /// Something failed so that it is doubtful whether the server is there.
    pub(super) fn doubted(&mut self, generation: u64, error: TransportError) {
        if generation != self.machine.generation() {
            return;
        }
        // That the server does not let us in any more needs no probe.
        let failure = failure::of_transport(&error);
        if failure == Failure::SignIn {
            self.failed(generation, Input::Lost { generation, failure }, failure::lost_error(error));
            return;
        }
        self.suspected(generation, error);
    }

    fn suspected(&mut self, generation: u64, error: TransportError) {
        if generation == self.machine.generation() {
            self.doubt.get_or_insert(error);
            self.step(Input::Doubted { generation });
        }
    }

    fn probed(&mut self, generation: u64, outcome: Result<(), RequestError>) {
        if generation != self.machine.generation() {
            return;
        }
        let doubt = self.doubt.take();
        match outcome {
            Ok(()) => self.step(Input::Answered { generation }),
            Err(error) => {
                let failure = failure::of_probe(&error);
                // What made us ask says more than that there was no answer.
                let outward = match doubt {
                    Some(doubt) if failure != Failure::SignIn => failure::lost_error(doubt),
                    _ => error.outward("the server does not answer any more"),
                };
                self.failed(generation, Input::Lost { generation, failure }, outward);
            }
        }
    }
}
