//! The task that owns a connection: turns what happens into inputs, and carries out what the machine decides.

mod outcome;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::discovery::{Discovered, discover};
use super::refresh::Refresh;
use super::state::{Effect, Failure, Input, Machine, Phase};
use super::{Command, Ending, Live, Memory, Order, Shared, dial, freshness, liveness};
use crate::catalogue::ServerCatalogue;
use crate::error::{Error, ErrorKind};
use crate::event::EventKind;
use crate::session::Session;
use crate::session::incoming::Changed;
use crate::session::lifecycle::OpenError;
use crate::session::request::RequestError;
use crate::status::State;
use crate::tasks::OwnedTask;
use crate::time::Timestamp;
use crate::transport::TransportError;

/// Ends that wait for the task: of the dial, the listing, the stream and the probe, of which there is one each.
const OUTCOMES: usize = 4;

/// Runs a connection until its last handle is gone.
pub(super) async fn run(shared: Arc<Shared>, commands: mpsc::Receiver<Command>) {
    let (outcome_sender, outcomes) = mpsc::channel(OUTCOMES);
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
        is_unproven: false,
        lost_session: None,
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
    /// Whether a session was taken up of which the server has not yet shown that it knows it.
    is_unproven: bool,
    /// What is said of the next session, when the one before was lost.
    lost_session: Option<&'static str>,
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
                Event::Asked(command) => self.asked(command),
                Event::Ended(outcome) => self.ended(outcome),
                Event::Due => self.due(),
                Event::Broken(generation, error) => self.broken(generation, error),
                Event::Changed(changed) => self.noticed(changed),
                Event::HandlesGone => break,
            }
        }
    }

    fn asked(&mut self, command: Command) {
        match command.order {
            Order::Connect { lists, quiet } => {
                self.is_quiet = quiet;
                self.step(Input::Connect { lists });
            }
            Order::Needed => {
                self.is_quiet = false;
                self.step(Input::Needed);
            }
            Order::Discover => {
                (self.is_quiet, self.is_explicit) = (false, true);
                self.step(Input::Discover);
            }
            Order::Refresh(lists) => self.refresh_now(lists),
            Order::Doubt(generation, error) => self.doubted(generation, *error),
            Order::Renew(generation) => {
                let failure = Failure::SessionGone;
                let error = Error::new(ErrorKind::ConnectionLost, "the server has ended the session");
                self.failed(generation, Input::Lost { generation, failure }, error);
            }
            Order::Close => self.close(),
        }
        if let Some(begun) = command.begun {
            // Whoever asked may have gone.
            let _ = begun.send(());
        }
    }

    /// Closes the connection: it is gone at once, and its end in good order goes on behind.
    fn close(&mut self) {
        let live = self.shared.live.load_full();
        let was_open = self.machine.phase() != Phase::Closed;
        self.step(Input::Close);
        (self.is_unproven, self.lost_session) = (false, None);
        if let Some(live) = live {
            self.memory(|memory| memory.session = None);
            live.session.stop_listening();
            self.end(live.session.clone());
        }
        if was_open {
            let payload = json!({ "transport": self.shared.spec.target.transport(), "state": "closed" });
            self.emit(EventKind::Close, payload);
        }
    }

    /// Ends a session in good order. One that the server does not end is taken up again the next time.
    fn end(&self, session: Arc<Session>) {
        let (ending, shared) = (Ending::begin(&self.shared), Arc::downgrade(&self.shared));
        let record = session.record();
        self.shared.surroundings.endings.spawn(async move {
            let is_ended = session.close().await;
            drop(session);
            if let Some(shared) = shared.upgrade() {
                if !is_ended && shared.view.borrow().state == State::Closed {
                    shared.memory.write().unwrap_or_else(PoisonError::into_inner).session = record;
                }
                shared.observer.changed(&shared.id);
            }
            drop(ending);
        });
    }

    fn memory<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.shared.memory.write().unwrap_or_else(PoisonError::into_inner))
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
            self.tell_progress();
        }
    }

    /// Reads these lists, and those that were announced as changed, without waiting for more notices.
    fn refresh_now(&mut self, lists: Changed) {
        let Some(live) = self.shared.live.load_full() else { return };
        self.refresh.wanted();
        self.noticed(live.session.inbox.take());
        self.refresh.announce(lists, Instant::now());
        self.tell_progress();
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

    /// Tells those who wait how far the lists are.
    fn tell_progress(&self) {
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
            let outcome = match dial::open(&shared, is_quiet).await {
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
        self.tell_progress();
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
