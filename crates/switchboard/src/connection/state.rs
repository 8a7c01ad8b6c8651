//! The life of a connection as a pure machine: a state and an input give the next state and what is to be done.
//!
//! No I/O, no clock, no lock. The actor turns what happens into an [`Input`] and carries out each [`Effect`]; it decides
//! nothing. Answers carry the generation that they belong to; those of an earlier life change nothing.

use std::time::{Duration, Instant};

use crate::backoff::Ladder;
use crate::spec::Retry;
use crate::status::State;

/// How long a connection must hold before its loss counts as the first again.
const PROVEN: Duration = Duration::from_secs(5);
/// How soon after a failed attempt a call may have the server dialled again, whatever else is waited for: so long on the
/// way back, and up to three times that for one that has failed again and again.
const WAKE_PAUSE: Duration = Duration::from_secs(1);

/// Where a connection stands. Named for what it waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Phase {
    /// Nothing: it is not wanted open.
    Closed,
    /// The end of a dial.
    Dialing,
    /// The moment of the next dial.
    Waiting {
        /// That moment.
        until: Instant,
        /// The moment from which on a call need not wait any longer.
        earliest: Instant,
    },
    /// Somebody to ask for the lists.
    Connected,
    /// The end of a discovery.
    Discovering {
        /// Another discovery was asked for meanwhile.
        again: bool,
    },
    /// Calls.
    Ready,
    /// A person to sign in.
    SignIn,
    /// A call, a person, or the moment to try again.
    Failed {
        /// When it failed.
        since: Instant,
        /// The moment to try again.
        until: Instant,
    },
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Input {
    /// It is wanted open; with its lists, or without.
    Connect {
        /// Whether the lists are wanted too.
        lists: bool,
    },
    /// A call needs it.
    Needed,
    /// The lists are wanted, read anew.
    Discover,
    /// It is not wanted open any more.
    Close,
    /// A dial succeeded.
    Opened {
        /// Which.
        generation: u64,
    },
    /// A dial failed.
    NotOpened {
        /// Which.
        generation: u64,
        /// What kind of failure it was.
        failure: Failure,
    },
    /// A discovery ended; some of its lists may have failed.
    Discovered {
        /// In which life.
        generation: u64,
    },
    /// The connection broke.
    Lost {
        /// In which life.
        generation: u64,
        /// What kind of failure it was.
        failure: Failure,
    },
    /// Something suggests that the server is not there any more.
    Doubted {
        /// In which life.
        generation: u64,
    },
    /// A probe ended: the server is there. One that found it gone is a loss.
    Answered {
        /// In which life.
        generation: u64,
    },
    /// The moment that was waited for has come.
    Due,
}

/// A failure, as far as it matters for what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It may pass by itself; the server may have said when.
    Transient {
        /// The least wait that the server asked for.
        retry_after: Option<Duration>,
    },
    /// Trying again at once would fail the same way.
    Permanent,
    /// A person must sign in.
    SignIn,
    /// The server is there, but has ended the session: a new one is opened at once.
    SessionGone,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Effect {
    /// Open a connection; its outcome carries this generation. A dial under way is abandoned.
    Dial(u64),
    /// Read the lists; the outcome carries this generation. A discovery under way is abandoned.
    Discover(u64),
    /// Ask the server whether it is there; the outcome carries this generation.
    Probe(u64),
    /// Abandon what is under way and close the connection.
    HangUp,
    /// Say when this moment has come, instead of any earlier one asked for.
    WakeAt(Instant),
    /// No moment is waited for any more.
    Sleep,
}

/// Which ladder is being climbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Climb {
    /// A connect that somebody asked for.
    Connect,
    /// The way back after a loss.
    Reconnect,
    /// A failed server tried once more.
    Revive,
}

/// A connection's life.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    phase: Phase,
    generation: u64,
    climb: Climb,
    /// Which attempt of the climb is under way or was last; from 1.
    attempt: u32,
    /// Failures in a row that used up their ladder.
    rounds: u32,
    /// When the present connection was opened.
    opened: Option<Instant>,
    /// Whether the lists are wanted as soon as it is open.
    lists: bool,
    /// Whether a probe is under way.
    is_probing: bool,
    /// When the server is to be probed next without a reason.
    beat: Option<Instant>,
    connect: Ladder,
    /// How long after the last probe the server is probed without a reason.
    heartbeat: Option<Duration>,
    random: fastrand::Rng,
}

impl Machine {
    /// A connection that is not wanted open yet. The same seed makes the same decisions.
    pub(crate) fn new(retry: &Retry, seed: u64) -> Self {
        Self {
            phase: Phase::Closed,
            generation: 0,
            climb: Climb::Connect,
            attempt: 0,
            rounds: 0,
            opened: None,
            lists: false,
            is_probing: false,
            beat: None,
            connect: Ladder::connect(retry),
            heartbeat: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// The same machine, which has the server probed whenever nothing was heard of a probe for `period`.
    pub(crate) fn heartbeat(mut self, period: Option<Duration>) -> Self {
        self.heartbeat = period;
        self
    }

    /// Whether the connection is, or comes, back after a loss.
    pub(crate) fn is_return(&self) -> bool {
        self.climb == Climb::Reconnect
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The state as the world sees it.
    pub(crate) fn state(&self) -> State {
        match self.phase {
            Phase::Closed => State::Closed,
            Phase::Dialing | Phase::Waiting { .. } => State::Connecting,
            Phase::Connected => State::Connected,
            Phase::Discovering { .. } => State::Discovering,
            Phase::Ready => State::Ready,
            Phase::SignIn => State::Authenticating,
            Phase::Failed { .. } => State::Failed,
        }
    }

    /// Which attempt is under way or was last; 0 while it is open or closed.
    pub(crate) fn attempt(&self) -> u32 {
        match self.phase {
            Phase::Dialing | Phase::Waiting { .. } | Phase::Failed { .. } => self.attempt,
            _ => 0,
        }
    }

    /// When the next attempt is due by itself.
    pub(crate) fn next_attempt(&self) -> Option<Instant> {
        match self.phase {
            Phase::Waiting { until, .. } | Phase::Failed { until, .. } => Some(until),
            _ => None,
        }
    }

    /// The moment that is waited for.
    #[cfg(test)]
    fn next_moment(&self) -> Option<Instant> {
        self.next_attempt().or(self.beat)
    }

    /// Takes in what happened, at the moment `now`.
    pub(crate) fn step(mut self, input: Input, now: Instant) -> (Self, Vec<Effect>) {
        let effects = match input {
            Input::Connect { lists } => self.connect(lists),
            Input::Needed => self.needed(now),
            Input::Discover => self.discover(),
            Input::Close => self.close(),
            Input::Due => self.due(now),
            Input::Opened { generation } if self.is_present(generation) => self.opened(now),
            Input::NotOpened { generation, failure } if self.is_present(generation) => self.not_opened(failure, now),
            Input::Discovered { generation } if self.is_present(generation) => self.discovered(),
            Input::Lost { generation, failure } if self.is_present(generation) => self.lost(failure, now),
            Input::Doubted { generation } if self.is_present(generation) => self.probe(),
            Input::Answered { generation } if self.is_present(generation) => self.answered(now),
            // Of an earlier life.
            Input::Opened { .. }
            | Input::NotOpened { .. }
            | Input::Discovered { .. }
            | Input::Lost { .. }
            | Input::Doubted { .. }
            | Input::Answered { .. } => Vec::new(),
        };
        (self, effects)
    }

    fn is_present(&self, generation: u64) -> bool {
        self.generation == generation
    }

    fn connect(&mut self, lists: bool) -> Vec<Effect> {
        self.lists |= lists;
        match self.phase {
            Phase::Closed | Phase::Failed { .. } | Phase::SignIn | Phase::Waiting { .. } => {
                self.dial(Climb::Connect, 1)
            }
            Phase::Connected if lists => self.begin_discovery(),
            Phase::Dialing | Phase::Connected | Phase::Discovering { .. } | Phase::Ready => Vec::new(),
        }
    }

    fn needed(&mut self, now: Instant) -> Vec<Effect> {
        self.lists = true;
        match self.phase {
            Phase::Closed => self.dial(Climb::Connect, 1),
            Phase::Waiting { earliest, .. } if now >= earliest => self.dial(self.climb, self.attempt + 1),
            Phase::Failed { since, .. } if now >= since + WAKE_PAUSE * self.rounds.clamp(1, 3) => {
                self.dial(Climb::Revive, 1)
            }
            Phase::Connected => self.begin_discovery(),
            _ => Vec::new(),
        }
    }

    fn discover(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Connected | Phase::Ready => {
                self.lists = true;
                self.begin_discovery()
            }
            Phase::Discovering { .. } => {
                self.phase = Phase::Discovering { again: true };
                Vec::new()
            }
            _ => self.connect(true),
        }
    }

    fn close(&mut self) -> Vec<Effect> {
        let was_closed = self.phase == Phase::Closed;
        self.phase = Phase::Closed;
        self.generation += 1;
        (self.is_probing, self.beat) = (false, None);
        self.opened = None;
        self.attempt = 0;
        self.rounds = 0;
        self.lists = false;
        if was_closed { Vec::new() } else { vec![Effect::Sleep, Effect::HangUp] }
    }

    fn due(&mut self, now: Instant) -> Vec<Effect> {
        match self.phase {
            Phase::Waiting { until, .. } if now >= until => self.dial(self.climb, self.attempt + 1),
            Phase::Failed { until, .. } if now >= until => self.dial(Climb::Revive, 1),
            _ if self.is_open() && self.beat.is_some_and(|beat| now >= beat) => self.probe(),
            // The moment of an earlier wait.
            _ => Vec::new(),
        }
    }

    fn opened(&mut self, now: Instant) -> Vec<Effect> {
        if self.phase != Phase::Dialing {
            return Vec::new();
        }
        self.opened = Some(now);
        self.phase = Phase::Connected;
        let mut effects = self.arm(now);
        if self.lists {
            effects.extend(self.begin_discovery());
        }
        effects
    }

    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Connected | Phase::Discovering { .. } | Phase::Ready)
    }

    /// One probe at a time, whatever the reasons.
    fn probe(&mut self) -> Vec<Effect> {
        if self.is_probing || !self.is_open() {
            return Vec::new();
        }
        self.is_probing = true;
        let had_beat = self.beat.take().is_some();
        let sleep = had_beat.then_some(Effect::Sleep);
        sleep.into_iter().chain([Effect::Probe(self.generation)]).collect()
    }

    fn answered(&mut self, now: Instant) -> Vec<Effect> {
        if !std::mem::take(&mut self.is_probing) {
            return Vec::new();
        }
        self.arm(now)
    }

    /// Waits for the next heartbeat, where there is one.
    fn arm(&mut self, now: Instant) -> Vec<Effect> {
        self.beat = self.heartbeat.map(|period| now + period);
        self.beat.map(Effect::WakeAt).into_iter().collect()
    }

    fn not_opened(&mut self, failure: Failure, now: Instant) -> Vec<Effect> {
        if self.phase != Phase::Dialing {
            return Vec::new();
        }
        self.after_failure(failure, now)
    }

    fn discovered(&mut self) -> Vec<Effect> {
        let Phase::Discovering { again } = self.phase else { return Vec::new() };
        self.rounds = 0;
        self.phase = Phase::Ready;
        if again { self.begin_discovery() } else { Vec::new() }
    }

    fn lost(&mut self, failure: Failure, now: Instant) -> Vec<Effect> {
        if !self.is_open() {
            return Vec::new();
        }
        let has_held = self.opened.take().is_some_and(|opened| now >= opened + PROVEN);
        if has_held || self.climb == Climb::Connect {
            // The first loss in a while: the way back begins at its first step.
            self.attempt = 0;
        }
        self.climb = Climb::Reconnect;
        let mut effects = vec![Effect::HangUp];
        // A server that ends each session at once gets the ladder like any other.
        effects.extend(if failure == Failure::SessionGone && self.attempt == 0 {
            self.dial(Climb::Reconnect, 1)
        } else {
            self.after_failure(failure, now)
        });
        effects
    }

    /// The next wait, or the end of the ladder. Until the next dial nothing of this life matters any more.
    fn after_failure(&mut self, failure: Failure, now: Instant) -> Vec<Effect> {
        self.generation += 1;
        (self.is_probing, self.beat) = (false, None);
        let failure = match failure {
            Failure::SessionGone => Failure::Transient { retry_after: None },
            // It worked a moment ago. Gateways deny what is being restarted behind them in every way there is.
            Failure::Permanent if self.climb == Climb::Reconnect && self.attempt > 0 => {
                Failure::Transient { retry_after: None }
            }
            failure => failure,
        };
        let ladder = match self.climb {
            Climb::Connect => self.connect.clone(),
            Climb::Reconnect => Ladder::reconnect(),
            Climb::Revive => self.connect.clone().once(),
        };
        match failure {
            Failure::SignIn => {
                self.phase = Phase::SignIn;
                vec![Effect::Sleep]
            }
            Failure::Transient { retry_after } if self.attempt < ladder.attempts => {
                let wait = ladder.delay(self.attempt.max(1), &mut self.random);
                let asked = retry_after.unwrap_or_default();
                let until = now + wait.max(asked);
                self.phase = Phase::Waiting { until, earliest: until.min(now + WAKE_PAUSE.max(asked)) };
                vec![Effect::WakeAt(until)]
            }
            Failure::Transient { .. } | Failure::Permanent | Failure::SessionGone => {
                self.rounds = self.rounds.saturating_add(1);
                let until = now + Ladder::revive().delay(self.rounds, &mut self.random);
                self.phase = Phase::Failed { since: now, until };
                vec![Effect::WakeAt(until)]
            }
        }
    }

    fn dial(&mut self, climb: Climb, attempt: u32) -> Vec<Effect> {
        self.climb = climb;
        self.attempt = attempt;
        self.generation += 1;
        (self.is_probing, self.beat) = (false, None);
        self.phase = Phase::Dialing;
        vec![Effect::Sleep, Effect::Dial(self.generation)]
    }

    fn begin_discovery(&mut self) -> Vec<Effect> {
        self.phase = Phase::Discovering { again: false };
        vec![Effect::Discover(self.generation)]
    }
}

#[cfg(test)]
mod tests;
