//! The task that owns a connection: turns what happens into inputs, and carries out what the machine decides.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::discovery::{Discovered, discover};
use super::listen::Standing;
use super::refresh::Refresh;
use super::state::{Effect, Input, Machine, Phase};
use super::{Command, Live, Shared, Wish, failure, freshness, liveness, notices};
use crate::catalogue::ServerCatalogue;
use crate::error::{Error, ErrorKind};
use crate::event::EventKind;
use crate::session::detect::Detection;
use crate::session::incoming::Changed;
use crate::session::lifecycle::{OpenError, Opening, Verdict};
use crate::session::request::RequestError;
use crate::session::{Link, Session};
use crate::spec::{HttpTarget, Target};
use crate::status::State;
use crate::tasks::OwnedTask;
use crate::time::Timestamp;
use crate::transport::{HttpTransport, SseTransport, Transport, TransportError, stdio};

/// Runs a connection until its last handle is gone.
pub(super) async fn run(shared: Arc<Shared>, commands: mpsc::Receiver<Command>) {
    let (outcome_sender, outcomes) = mpsc::channel(4);
    // Different servers wait differently; the same server waits alike in one process.
    let seed = shared
        .id
        .as_str()
        .bytes()
        .fold(u64::from(std::process::id()), |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let heartbeat = Some(shared.spec.timeouts.heartbeat).filter(|period| !period.is_zero());
    let machine = Machine::new(&shared.spec.retry, seed).heartbeat(heartbeat);
    let actor = Actor {
        shared,
        machine,
        outcome_sender,
        dial: None,
        listing: None,
        stream: None,
        probe: None,
        doubt: None,
        wake_at: None,
        refresh: Refresh::default(),
        is_quiet: false,
        is_explicit: false,
    };
    actor.run(commands, outcomes).await;
}

struct Actor {
    shared: Arc<Shared>,
    machine: Machine,
    outcome_sender: mpsc::Sender<Outcome>,
    dial: Option<OwnedTask>,
    /// The discovery or refresh under way.
    listing: Option<OwnedTask>,
    stream: Option<OwnedTask>,
    probe: Option<OwnedTask>,
    /// What made it doubtful whether the server is there, while it is probed.
    doubt: Option<TransportError>,
    wake_at: Option<Instant>,
    refresh: Refresh,
    /// Whether nobody waits for the connect under way.
    is_quiet: bool,
    /// Whether somebody asked for the lists to be read anew, however fresh they are.
    is_explicit: bool,
}

/// How something ended that the actor had started.
enum Outcome {
    Opened(u64, Box<Session>),
    NotOpened(u64, Box<OpenError>),
    Discovered(u64, Box<Discovered>),
    Refreshed(u64, Box<Discovered>),
    Probed(u64, Result<(), Box<RequestError>>),
    /// The stream on which the server speaks unasked is not to be had, for a reason that says something of the server.
    StreamLost(u64, Box<TransportError>),
}

/// What the actor waits for.
enum Event {
    Asked(Command),
    Ended(Outcome),
    Due,
    Broken(u64, TransportError),
    Changed(Changed),
    HandlesGone,
}

impl Actor {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut outcomes: mpsc::Receiver<Outcome>) {
        loop {
            let live = self.shared.live.load_full();
            let event = tokio::select! {
                command = commands.recv() => command.map_or(Event::HandlesGone, Event::Asked),
                Some(outcome) = outcomes.recv() => Event::Ended(outcome),
                () = sleep_until(self.next_moment()) => Event::Due,
                (generation, error) = broken(live.as_deref()) => Event::Broken(generation, error),
                changed = changed(live.as_deref()) => Event::Changed(changed),
            };
            match event {
                Event::Asked(command) => self.asked(command).await,
                Event::Ended(outcome) => self.ended(outcome),
                Event::Due => self.due(),
                Event::Broken(generation, error) => self.broken(generation, error),
                Event::Changed(changed) => self.noticed(changed),
                Event::HandlesGone => break,
            }
        }
    }

    async fn asked(&mut self, command: Command) {
        match command.wish {
            Wish::Connect { lists, quiet } => {
                self.is_quiet = quiet;
                self.step(Input::Connect { lists });
            }
            Wish::Needed => {
                self.is_quiet = false;
                self.step(Input::Needed);
            }
            Wish::Discover => {
                (self.is_quiet, self.is_explicit) = (false, true);
                self.step(Input::Discover);
            }
            Wish::Refresh(lists) => self.refresh_now(lists),
            Wish::Doubt(generation, error) => self.doubted(generation, *error),
            Wish::Renew(generation) => {
                let failure = super::state::Failure::SessionGone;
                let error = Error::new(ErrorKind::ConnectionLost, "the server has ended the session");
                self.failed(generation, Input::Lost { generation, failure }, error);
            }
            Wish::Close => self.close().await,
        }
        if let Some(begun) = command.begun {
            // Whoever asked may have gone.
            let _ = begun.send(());
        }
    }

    /// Closes the connection in good order before anything else is done.
    async fn close(&mut self) {
        let live = self.shared.live.load_full();
        let was_open = self.machine.phase() != Phase::Closed;
        self.step(Input::Close);
        if let Some(live) = live {
            live.session.stop_listening();
            live.session.transport.close().await;
        }
        if was_open {
            let payload = json!({ "transport": self.shared.spec.target.transport(), "state": "closed" });
            self.emit(EventKind::Close, payload);
        }
    }

    fn ended(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Opened(generation, session) => self.opened(generation, *session),
            Outcome::NotOpened(generation, error) => {
                if error.is_late() {
                    self.forget_verdict();
                }
                let input = Input::NotOpened { generation, failure: failure::of_open(&error) };
                self.failed(generation, input, failure::open_error(*error));
            }
            Outcome::Discovered(generation, found) => self.discovered(generation, *found),
            Outcome::Refreshed(generation, found) => self.refreshed(generation, *found),
            Outcome::Probed(generation, outcome) => self.probed(generation, outcome.map_err(|error| *error)),
            Outcome::StreamLost(generation, error) => self.doubted(generation, *error),
        }
    }

    fn opened(&mut self, generation: u64, session: Session) {
        if generation != self.machine.generation() || self.machine.phase() != Phase::Dialing {
            return;
        }
        let session = Arc::new(session);
        {
            let mut memory = self.shared.memory.write().unwrap_or_else(PoisonError::into_inner);
            memory.facts = session.facts.clone();
            if !session.is_trusted {
                memory.verdict = Some(Verdict::of(&session));
                memory.transport = session.transport.kind();
            }
        }
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
        self.step(Input::Opened { generation });
        self.shared.observer.changed(&self.shared.id);
    }

    fn discovered(&mut self, generation: u64, found: Discovered) {
        if generation != self.machine.generation() {
            return;
        }
        self.listing = None;
        self.refresh.discovered(Instant::now());
        self.told_progress();
        if let Some(error) = found.failure {
            self.lists_unreachable(generation, error);
            return;
        }
        let counts = json!({
            "url": self.shared.spec.target.display(), "tools": found.catalogue.tools().len(),
        });
        self.shared.show(&found.catalogue);
        self.emit(EventKind::Discover, counts);
        self.shared.view.send_modify(|view| view.failure = None);
        self.step(Input::Discovered { generation });
        self.shared.observer.changed(&self.shared.id);
    }

    /// Every list failed because the server did not answer: it is not there, or not what it was.
    fn lists_unreachable(&mut self, generation: u64, error: RequestError) {
        let was_trusted = self.shared.live.load().as_ref().is_some_and(|live| live.session.is_trusted);
        let mut failure = failure::of_request(&error);
        if was_trusted {
            // What was known of the server may be wrong; it is asked anew.
            self.forget_verdict();
            failure = match failure {
                super::state::Failure::Permanent => super::state::Failure::Transient { retry_after: None },
                failure => failure,
            };
        }
        let outward = error.outward("the lists could not be read");
        self.failed(generation, Input::Lost { generation, failure }, outward);
    }

    /// Has the server asked anew what it speaks, the next time.
    fn forget_verdict(&self) {
        self.shared.memory.write().unwrap_or_else(PoisonError::into_inner).verdict = None;
    }

    fn refreshed(&mut self, generation: u64, found: Discovered) {
        // One that was abandoned for a discovery may have ended all the same.
        if generation != self.machine.generation() || !self.refresh.ended(found.failed, Instant::now()) {
            return;
        }
        self.listing = None;
        self.shared.show(&found.catalogue);
        if found.failed.is_empty() {
            self.emit(EventKind::ListChanged, json!({ "state": "read" }));
        } else {
            tracing::warn!(server = %self.shared.id, "changed lists could not be read; the former ones are kept");
        }
        self.told_progress();
        self.shared.observer.changed(&self.shared.id);
        if let Some(RequestError::Transport(error)) = found.failure {
            self.doubted(generation, error);
        }
    }

    fn broken(&mut self, generation: u64, error: TransportError) {
        if generation != self.machine.generation() {
            return;
        }
        let failure = failure::of_transport(&error);
        let outward = failure::lost_error(error);
        self.emit(EventKind::Lost, json!({ "error": outward.to_string() }));
        self.failed(generation, Input::Lost { generation, failure }, outward);
    }

    fn failed(&mut self, generation: u64, input: Input, error: Error) {
        if generation != self.machine.generation() {
            return;
        }
        let error = error.of(&self.shared.id);
        let payload = json!({
            "url": self.shared.spec.target.display(), "transport": self.shared.spec.target.transport(), "state": "failed",
            "error": { "code": error.kind().code(), "message": error.to_string(), "causes": error.causes() },
        });
        self.shared.view.send_modify(|view| view.failure = Some((error, Timestamp::now())));
        let is_connect = matches!(input, Input::NotOpened { .. });
        self.step(input);
        if is_connect {
            self.emit(EventKind::Connect, payload);
        }
        self.shared.observer.changed(&self.shared.id);
    }

    /// Something failed so that it is doubtful whether the server is there.
    fn doubted(&mut self, generation: u64, error: TransportError) {
        if generation != self.machine.generation() {
            return;
        }
        // That the server does not let us in any more needs no probe.
        let failure = failure::of_transport(&error);
        if failure == super::state::Failure::SignIn {
            self.failed(generation, Input::Lost { generation, failure }, failure::lost_error(error));
            return;
        }
        self.doubt.get_or_insert(error);
        self.step(Input::Doubted { generation });
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
                let outward = match (doubt, error.needs_sign_in()) {
                    (Some(doubt), false) => failure::lost_error(doubt),
                    _ => error.outward("the server does not answer any more"),
                };
                self.failed(generation, Input::Lost { generation, failure }, outward);
            }
        }
    }

    fn noticed(&mut self, changed: Changed) {
        let due = Instant::now() + self.shared.spec.timeouts.list_changed;
        if changed.has_updates() {
            self.refresh.update(due);
        }
        if !changed.lists().is_empty() {
            if self.refresh.announce(changed.lists(), due) {
                self.emit(EventKind::ListChanged, json!({ "state": "announced" }));
            }
            self.told_progress();
        }
    }

    /// Reads these lists, and those that were announced as changed, without waiting for more notices.
    fn refresh_now(&mut self, lists: Changed) {
        let Some(live) = self.shared.live.load_full() else { return };
        self.noticed(live.session.inbox.take());
        self.refresh.announce(lists, Instant::now());
        self.told_progress();
        self.begin_refresh();
    }

    fn due(&mut self) {
        let now = Instant::now();
        if self.wake_at.is_some_and(|moment| moment <= now) {
            self.wake_at = None;
            self.step(Input::Due);
        }
        if self.refresh.takes_updates(now) {
            self.tell_updates();
        }
        self.begin_refresh();
    }

    fn tell_updates(&self) {
        let Some(live) = self.shared.live.load_full() else { return };
        for uri in live.session.inbox.take_updated() {
            self.emit(EventKind::ResourceUpdated, json!({ "uri": uri }));
        }
    }

    fn begin_refresh(&mut self) {
        let is_ready = self.machine.phase() == Phase::Ready;
        if let Some(lists) = self.refresh.begin(is_ready, Instant::now()) {
            self.list(self.machine.generation(), lists, Outcome::Refreshed);
        }
    }

    /// Lets those who wait know how far the lists are.
    fn told_progress(&self) {
        let progress = self.refresh.progress();
        self.shared.progress.send_replace(progress);
        if progress.read == progress.announced {
            self.shared.is_renewing.store(false, Ordering::Release);
        }
    }

    /// The next moment at which something is due.
    fn next_moment(&self) -> Option<Instant> {
        [self.wake_at, self.refresh.next_moment()].into_iter().flatten().min()
    }

    fn step(&mut self, input: Input) {
        let before = self.machine.state();
        let (machine, effects) = self.machine.clone().step(input, Instant::now().into_std());
        self.machine = machine;
        for effect in effects {
            match effect {
                Effect::Dial(generation) => self.dial(generation),
                Effect::Discover(generation) => self.discover(generation),
                Effect::Probe(generation) => self.probe(generation),
                Effect::HangUp => self.hang_up(),
                Effect::WakeAt(moment) => self.wake_at = Some(Instant::from_std(moment)),
                Effect::Sleep => self.wake_at = None,
            }
        }
        self.publish(before);
    }

    /// Shows the machine's state to readers.
    fn publish(&self, before: State) {
        let state = self.machine.state();
        let now = Timestamp::now();
        let present = Instant::now().into_std();
        let due_in = |moment: std::time::Instant| now.after(moment.saturating_duration_since(present));
        self.shared.view.send_modify(|view| {
            if view.state != state {
                view.since = now;
            }
            view.state = state;
            view.attempt = self.machine.attempt();
            view.next_attempt_at = self.machine.next_attempt().map(due_in);
        });
        if state != before {
            let error = self.shared.view.borrow().failure.as_ref().map(|(error, _)| error.to_string());
            self.emit(EventKind::State, json!({ "from": before, "to": state, "error": error }));
        }
    }

    fn dial(&mut self, generation: u64) {
        self.emit(EventKind::Preconnect, json!({ "attempt": self.machine.attempt() }));
        let (shared, sender, is_quiet) = (self.shared.clone(), self.outcome_sender.clone(), self.is_quiet);
        self.dial = Some(OwnedTask::spawn(async move {
            let outcome = match open(&shared, is_quiet).await {
                Ok(session) => Outcome::Opened(generation, Box::new(session)),
                Err(error) => Outcome::NotOpened(generation, Box::new(error)),
            };
            let _ = sender.send(outcome).await;
        }));
    }

    /// Reads every list, unless they are known and the server says that they still hold.
    fn discover(&mut self, generation: u64) {
        self.refresh.discovering();
        let known = self.shared.catalogue.load_full();
        let live = self.shared.live.load_full().filter(|live| freshness::is_fresh(&known, &live.session));
        if live.is_none() || std::mem::take(&mut self.is_explicit) {
            return self.list(generation, Changed::ALL, Outcome::Discovered);
        }
        let found = Discovered { catalogue: ServerCatalogue::clone(&known), failure: None, failed: Changed::default() };
        let sender = self.outcome_sender.clone();
        self.listing = Some(OwnedTask::spawn(async move {
            let _ = sender.send(Outcome::Discovered(generation, Box::new(found))).await;
        }));
        // Nothing was asked of the server so far, and it counts as ready from now on.
        self.step(Input::Doubted { generation });
    }

    fn list(&mut self, generation: u64, wanted: Changed, outcome: fn(u64, Box<Discovered>) -> Outcome) {
        let Some(live) = self.shared.live.load_full() else { return };
        let (shared, sender) = (self.shared.clone(), self.outcome_sender.clone());
        self.listing = Some(OwnedTask::spawn(async move {
            let known = shared.catalogue.load_full();
            let found = discover(&live.session, &shared.spec.timeouts, &known, wanted).await;
            let _ = sender.send(outcome(generation, Box::new(found))).await;
        }));
    }

    fn probe(&mut self, generation: u64) {
        let Some(live) = self.shared.live.load_full() else { return };
        let (limit, sender) = (self.shared.spec.timeouts.probe, self.outcome_sender.clone());
        self.probe = Some(OwnedTask::spawn(async move {
            let outcome = liveness::probe(&live.session, limit).await.map_err(Box::new);
            let _ = sender.send(Outcome::Probed(generation, outcome)).await;
        }));
    }

    fn hang_up(&mut self) {
        self.dial = None;
        self.listing = None;
        self.stream = None;
        self.probe = None;
        self.doubt = None;
        self.refresh.lost();
        self.told_progress();
        // What the last calls still hold ends with them.
        self.shared.live.store(None);
        self.shared.catalogue.rcu(|catalogue| ServerCatalogue::clone(catalogue).stale(true));
    }

    fn emit(&self, kind: EventKind, payload: serde_json::Value) {
        self.shared.surroundings.events.emit(kind, Some(&self.shared.id), payload);
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

async fn broken(live: Option<&Live>) -> (u64, TransportError) {
    match live {
        Some(live) => (live.generation, live.session.transport.broken().await),
        None => std::future::pending().await,
    }
}

async fn changed(live: Option<&Live>) -> Changed {
    match live {
        Some(live) => live.session.inbox.changed().await,
        None => std::future::pending().await,
    }
}

/// Opens a connection: waits for its turn, then has the time that the registration gives it.
async fn open(shared: &Shared, is_quiet: bool) -> Result<Session, OpenError> {
    let surroundings = &shared.surroundings;
    let turn = match (&shared.spec.target, is_quiet) {
        (Target::Stdio(_), _) => Some(&surroundings.process_starts),
        (_, true) => Some(&surroundings.quiet_dials),
        (_, false) => None,
    };
    // The semaphores are never closed.
    let _turn = match turn {
        Some(turn) => turn.acquire().await.ok(),
        None => None,
    };
    let (known, won) = {
        let memory = shared.memory.read().unwrap_or_else(PoisonError::into_inner);
        (memory.verdict.clone(), memory.transport)
    };
    let dial = || link(shared);
    let mut identity = surroundings.identity.clone();
    if let Some(capabilities) = &shared.spec.capabilities {
        identity.capabilities = capabilities.clone();
    }
    let (timeouts, choice) = (&shared.spec.timeouts, shared.spec.era);
    let limit = shared.spec.timeouts.connect;
    let (until, is_heard) = (Instant::now() + limit, AtomicBool::new(false));
    let opening = Opening { dial: &dial, identity: &identity, timeouts, until, choice, is_heard };
    let opened = async {
        match &shared.spec.target {
            Target::Http(target) => {
                let stream = || -> BoxFuture<'_, _> { Box::pin(event_stream(shared, target)) };
                let detection = Detection { opening: &opening, stream: &stream, setting: target.transport };
                detection.open(known.as_ref(), won).await
            }
            Target::Stdio(_) | Target::InProcess(_) => opening.open(known.as_ref()).await,
        }
    };
    match tokio::time::timeout(limit, opened).await {
        Ok(outcome) => outcome,
        Err(_) => Err(OpenError::late(limit)),
    }
}

/// A new way to the server over HTTP+SSE.
async fn event_stream(shared: &Shared, target: &HttpTarget) -> Result<Link, TransportError> {
    let surroundings = &shared.surroundings;
    let inbox = notices::inbox(shared);
    let limit = shared.spec.limits.message_bytes;
    let sse = SseTransport::open(surroundings.http.clone(), target, limit, inbox.clone()).await?;
    Ok(Link::new(Transport::Sse(Arc::new(sse)), inbox))
}

/// A new way to the server; to one at a URL, over Streamable HTTP.
fn link(shared: &Shared) -> Result<Link, TransportError> {
    let surroundings = &shared.surroundings;
    let inbox = notices::inbox(shared);
    let limit = shared.spec.limits.message_bytes;
    let transport = match &shared.spec.target {
        Target::Http(target) => {
            let http = HttpTransport::new(surroundings.http.clone(), target, limit, inbox.clone())?;
            Transport::Http(Arc::new(http))
        }
        Target::Stdio(target) => {
            let pipe = stdio::start(target, &surroundings.environment, limit, inbox.clone())?;
            Transport::Pipe(Arc::new(pipe))
        }
        Target::InProcess(target) => Transport::Pipe(Arc::new(stdio::open(target, limit, inbox.clone()))),
    };
    Ok(Link::new(transport, inbox))
}
