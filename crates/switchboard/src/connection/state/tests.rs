//! The machine as a table, and under random inputs.

use super::*;

const TRANSIENT: Failure = Failure::Transient { retry_after: None };

/// A machine and its clock.
struct Life {
    machine: Machine,
    now: Instant,
}

impl Life {
    fn new(attempts: u32) -> Self {
        Self { machine: Machine::new(&Retry::attempts(attempts), 7), now: Instant::now() }
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let (machine, effects) = self.machine.clone().step(input, self.now);
        self.machine = machine;
        effects
    }

    fn generation(&self) -> u64 {
        self.machine.generation()
    }

    fn opened(&mut self) -> Vec<Effect> {
        let generation = self.generation();
        self.step(Input::Opened { generation })
    }

    fn not_opened(&mut self, failure: Failure) -> Vec<Effect> {
        let generation = self.generation();
        self.step(Input::NotOpened { generation, failure })
    }

    fn discovered(&mut self) -> Vec<Effect> {
        let generation = self.generation();
        self.step(Input::Discovered { generation })
    }

    fn lost(&mut self) -> Vec<Effect> {
        let generation = self.generation();
        self.step(Input::Lost { generation, failure: TRANSIENT })
    }

    /// Lets the moment come that is waited for.
    fn due(&mut self) -> Vec<Effect> {
        self.now = self.machine.next_attempt().expect("nothing is waited for");
        self.step(Input::Due)
    }

    fn after(inputs: &[Input]) -> Self {
        let mut life = Self::new(3);
        for input in inputs {
            life.step(*input);
        }
        life
    }

    fn ready() -> Self {
        let mut life = Self::after(&[Input::Connect { lists: true }]);
        life.opened();
        life.discovered();
        assert_eq!(life.machine.state(), State::Ready);
        life
    }
}

#[test]
fn a_connect_dials_lists_and_is_ready() {
    let mut life = Life::new(3);
    assert_eq!(life.step(Input::Connect { lists: true }), [Effect::Sleep, Effect::Dial(1)]);
    assert_eq!((life.machine.state(), life.machine.attempt()), (State::Connecting, 1));
    assert_eq!(life.opened(), [Effect::Discover(1)]);
    assert_eq!(life.machine.state(), State::Discovering);
    assert_eq!(life.discovered(), []);
    assert_eq!((life.machine.state(), life.machine.attempt()), (State::Ready, 0));
}

#[test]
fn a_second_connect_joins_the_first() {
    let mut life = Life::new(3);
    life.step(Input::Connect { lists: false });
    assert_eq!(life.step(Input::Connect { lists: true }), []);
    assert_eq!(life.opened(), [Effect::Discover(1)], "the second one wants the lists");
}

#[test]
fn a_connect_without_lists_waits_for_somebody_to_ask() {
    let mut life = Life::new(3);
    life.step(Input::Connect { lists: false });
    assert_eq!(life.opened(), []);
    assert_eq!(life.machine.state(), State::Connected);
    assert_eq!(life.step(Input::Discover), [Effect::Discover(1)]);
}

#[test]
fn the_first_connect_is_tried_as_often_as_registered() {
    let mut life = Life::new(3);
    life.step(Input::Connect { lists: true });
    for attempt in 1..3 {
        let effects = life.not_opened(TRANSIENT);
        assert!(matches!(effects[..], [Effect::WakeAt(_)]), "{effects:?}");
        assert_eq!((life.machine.state(), life.machine.attempt()), (State::Connecting, attempt));
        assert!(matches!(life.due()[..], [Effect::Sleep, Effect::Dial(_)]));
    }
    life.not_opened(TRANSIENT);
    assert_eq!((life.machine.state(), life.machine.attempt()), (State::Failed, 3));
}

#[test]
fn b039_the_wait_that_a_server_asks_for_is_obeyed() {
    let mut life = Life::new(3);
    life.step(Input::Connect { lists: true });
    let retry_after = Some(Duration::from_secs(90));
    assert_eq!(
        life.not_opened(Failure::Transient { retry_after }),
        [Effect::WakeAt(life.now + Duration::from_secs(90))]
    );
}

#[test]
fn what_would_fail_the_same_way_is_not_tried_again_at_once() {
    let mut life = Life::new(3);
    life.step(Input::Connect { lists: true });
    life.not_opened(Failure::Permanent);
    assert_eq!(life.machine.state(), State::Failed);
}

#[test]
fn b041_a_failed_server_is_tried_again_at_growing_intervals() {
    let mut life = Life::new(1);
    life.step(Input::Connect { lists: true });
    let mut waits = Vec::new();
    for _ in 0..12 {
        life.not_opened(TRANSIENT);
        waits.push(life.machine.next_attempt().unwrap() - life.now);
        life.due();
    }
    assert!((22..38).contains(&waits[0].as_secs()), "{waits:?}");
    assert!(waits[1] > waits[0] && waits[2] > waits[1] && waits[4] > waits[2], "{waits:?}");
    assert!(waits[6..].iter().all(|wait| (600..1200).contains(&wait.as_secs())), "{waits:?}");
}

#[test]
fn b041_a_server_that_needs_a_sign_in_is_parked() {
    let mut life = Life::new(3);
    life.step(Input::Connect { lists: true });
    assert_eq!(life.not_opened(Failure::SignIn), [Effect::Sleep]);
    assert_eq!((life.machine.state(), life.machine.next_attempt()), (State::Authenticating, None));
    assert_eq!(life.step(Input::Needed), []);
    assert!(matches!(life.step(Input::Connect { lists: true })[..], [Effect::Sleep, Effect::Dial(_)]));
}

#[test]
fn a_call_wakes_a_failed_server_but_not_in_a_storm() {
    let mut life = Life::new(1);
    life.step(Input::Connect { lists: true });
    life.not_opened(Failure::Permanent);
    assert_eq!(life.step(Input::Needed), [], "it has failed just now");
    life.now += Duration::from_secs(1);
    assert!(matches!(life.step(Input::Needed)[..], [Effect::Sleep, Effect::Dial(_)]));
}

#[test]
fn a_call_shortens_a_long_wait_but_not_what_the_server_asked_for() {
    let mut life = Life::ready();
    for _ in 0..4 {
        life.lost();
        life.due();
        life.opened();
    }
    life.lost();
    life.now += Duration::from_millis(999);
    assert_eq!(life.step(Input::Needed), []);
    life.now += Duration::from_millis(1);
    assert!(matches!(life.step(Input::Needed)[..], [Effect::Sleep, Effect::Dial(_)]));

    let mut life = Life::after(&[Input::Connect { lists: true }]);
    life.not_opened(Failure::Transient { retry_after: Some(Duration::from_secs(90)) });
    life.now += Duration::from_secs(89);
    assert_eq!(life.step(Input::Needed), []);
}

#[test]
fn a_loss_begins_the_way_back_and_its_end_is_failure() {
    let mut life = Life::ready();
    life.now += Duration::from_secs(6);
    let effects = life.lost();
    assert!(matches!(effects[..], [Effect::HangUp, Effect::WakeAt(_)]), "{effects:?}");
    let mut dials = 0;
    while life.machine.state() == State::Connecting {
        life.due();
        dials += 1;
        life.not_opened(TRANSIENT);
    }
    assert_eq!((life.machine.state(), dials), (State::Failed, 5));
}

#[test]
fn b043_a_connection_that_does_not_hold_does_not_reset_the_ladder() {
    let mut life = Life::ready();
    life.now += Duration::from_secs(6);
    life.lost();
    let mut dials = 0;
    while life.machine.state() == State::Connecting {
        life.due();
        dials += 1;
        life.opened();
        life.discovered();
        life.lost();
    }
    assert_eq!(dials, 5, "five attempts in all, although each one was ready for a moment");
    assert_eq!(life.machine.state(), State::Failed);
}

#[test]
fn answers_of_an_earlier_life_change_nothing() {
    let mut life = Life::ready();
    let old = life.generation();
    life.step(Input::Close);
    life.step(Input::Connect { lists: true });
    for input in [
        Input::Opened { generation: old },
        Input::NotOpened { generation: old, failure: TRANSIENT },
        Input::Discovered { generation: old },
        Input::Lost { generation: old, failure: TRANSIENT },
    ] {
        assert_eq!(life.step(input), []);
        assert_eq!(life.machine.phase(), Phase::Dialing);
    }
}

#[test]
fn several_wishes_for_the_lists_become_one_running_and_one_waiting() {
    let mut life = Life::ready();
    assert_eq!(life.step(Input::Discover).len(), 1);
    assert_eq!(life.step(Input::Discover), []);
    assert_eq!(life.step(Input::Discover), []);
    assert_eq!(life.discovered().len(), 1);
    assert_eq!(life.discovered(), []);
    assert_eq!(life.machine.state(), State::Ready);
}

#[test]
fn closing_twice_hangs_up_once() {
    let mut life = Life::ready();
    assert_eq!(life.step(Input::Close), [Effect::Sleep, Effect::HangUp]);
    assert_eq!(life.step(Input::Close), []);
    assert_eq!(life.step(Input::Due), []);
    assert_eq!(life.machine.state(), State::Closed);
}

/// What the actor would see, kept to check that effects fit together.
#[derive(Default)]
struct World {
    dialing: Option<u64>,
    is_open: bool,
    discovering: Option<u64>,
    probing: Option<u64>,
    timer: Option<Instant>,
}

impl World {
    fn carry_out(&mut self, effects: &[Effect]) {
        for effect in effects {
            match *effect {
                Effect::Dial(generation) => {
                    assert!(!self.is_open, "a second connection is dialled");
                    assert_eq!(self.dialing, None, "two dials at once");
                    self.dialing = Some(generation);
                }
                Effect::Discover(generation) => {
                    assert!(self.is_open, "lists are asked for without a connection");
                    self.discovering = Some(generation);
                }
                Effect::Probe(generation) => {
                    assert!(self.is_open, "a server is probed without a connection");
                    assert_eq!(self.probing, None, "two probes at once");
                    self.probing = Some(generation);
                }
                Effect::HangUp => {
                    self.is_open = false;
                    self.dialing = None;
                    self.discovering = None;
                    self.probing = None;
                }
                Effect::WakeAt(moment) => self.timer = Some(moment),
                Effect::Sleep => self.timer = None,
            }
        }
    }
}

#[test]
fn under_random_inputs_the_invariants_hold() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut life = Life::new(3);
    life.machine = life.machine.heartbeat(Some(Duration::from_secs(5)));
    let mut world = World::default();
    let mut dropped = None;
    for _ in 0..100_000 {
        life.now += Duration::from_millis(random.u64(0..2000));
        let generation = life.generation();
        let failure = match random.u8(0..4) {
            0 => Failure::Permanent,
            1 => Failure::SignIn,
            2 => Failure::SessionGone,
            _ => TRANSIENT,
        };
        let input = match random.u8(0..12) {
            0 => Input::Connect { lists: random.bool() },
            1 => Input::Needed,
            2 => Input::Discover,
            3 if random.u8(0..4) == 0 => Input::Close,
            4 if world.dialing.take_if(|dial| *dial == generation).is_some() => {
                world.is_open = true;
                Input::Opened { generation }
            }
            5 if world.dialing.take_if(|dial| *dial == generation).is_some() => {
                Input::NotOpened { generation, failure }
            }
            6 if world.discovering.take_if(|known| *known == generation).is_some() => Input::Discovered { generation },
            7 if world.is_open && random.u8(0..4) == 0 => Input::Lost { generation, failure },
            8 => Input::Doubted { generation },
            9 if world.probing.take_if(|known| *known == generation).is_some() => Input::Answered { generation },
            _ => Input::Due,
        };
        let was_closed = life.machine.phase() == Phase::Closed;
        let effects = life.step(input);
        if life.machine.phase() == Phase::Closed {
            let expected: &[Effect] = if was_closed { &[] } else { &[Effect::Sleep, Effect::HangUp] };
            assert_eq!(effects, expected, "nothing is done after the close");
        }
        if effects.contains(&Effect::HangUp) {
            assert!(dropped.replace(generation) != Some(generation), "dropped twice in one life");
            assert_ne!(life.generation(), generation, "the life goes on after the drop");
        }
        world.carry_out(&effects);

        let machine = &life.machine;
        assert_eq!(machine.state() == State::Closed, machine.phase() == Phase::Closed);
        assert!(machine.attempt() <= 5, "attempts are bounded");
        assert_eq!(machine.next_moment(), world.timer, "{:?} {input:?}", machine.phase());
        match machine.phase() {
            Phase::Dialing => assert!(world.dialing == Some(machine.generation()) && !world.is_open),
            Phase::Connected | Phase::Ready => assert!(world.is_open && world.dialing.is_none()),
            Phase::Discovering { .. } => assert!(world.is_open && world.discovering == Some(machine.generation())),
            Phase::Closed | Phase::Waiting { .. } | Phase::SignIn | Phase::Failed { .. } => {
                assert!(!world.is_open && world.dialing.is_none(), "{:?}", machine.phase());
            }
        }
    }
}

/// A phase, and the way to it.
type Way = (&'static str, fn() -> Life);
/// An input, of the present generation, and what it leads to from each phase.
type Row = (&'static str, fn(u64) -> Input, [&'static str; 8]);

/// The phases, each with the way that leads there.
const PHASES: [Way; 8] = [
    ("closed", || Life::new(3)),
    ("dialing", || Life::after(&[Input::Connect { lists: true }])),
    ("waiting", || {
        let mut life = Life::after(&[Input::Connect { lists: true }]);
        life.not_opened(TRANSIENT);
        life
    }),
    ("connected", || {
        let mut life = Life::after(&[Input::Connect { lists: false }]);
        life.opened();
        life
    }),
    ("discovering", || {
        let mut life = Life::after(&[Input::Connect { lists: true }]);
        life.opened();
        life
    }),
    ("ready", Life::ready),
    ("sign-in", || {
        let mut life = Life::after(&[Input::Connect { lists: true }]);
        life.not_opened(Failure::SignIn);
        life
    }),
    ("failed", || {
        let mut life = Life::after(&[Input::Connect { lists: true }]);
        life.not_opened(Failure::Permanent);
        life
    }),
];

/// For each input, what it leads to from each of the [`PHASES`], in their order; `-` where it changes nothing.
const TABLE: [Row; 19] = {
    const DIAL: &str = "dialing sleep dial";
    const LIST: &str = "discovering list";
    const CLOSE: &str = "closed sleep hang-up";
    const RETURN: &str = "waiting hang-up wake";
    const FAIL: &str = "failed hang-up wake";
    const ASK: &str = "sign-in hang-up sleep";
    const RENEW: &str = "dialing hang-up sleep dial";
    use Failure::{Permanent, SessionGone, SignIn};
    [
        //                closed dialing waiting connected discovering ready sign-in failed
        ("connect", |_| Input::Connect { lists: false }, [DIAL, "-", DIAL, "-", "-", "-", DIAL, DIAL]),
        ("connect with lists", |_| Input::Connect { lists: true }, [DIAL, "-", DIAL, LIST, "-", "-", DIAL, DIAL]),
        ("needed", |_| Input::Needed, [DIAL, "-", DIAL, LIST, "-", "-", "-", DIAL]),
        ("discover", |_| Input::Discover, [DIAL, "-", DIAL, LIST, "discovering-again", LIST, DIAL, DIAL]),
        ("close", |_| Input::Close, ["-", CLOSE, CLOSE, CLOSE, CLOSE, CLOSE, CLOSE, CLOSE]),
        ("opened", |generation| Input::Opened { generation }, ["-", LIST, "-", "-", "-", "-", "-", "-"]),
        ("not opened", |of| not_opened(of, TRANSIENT), ["-", "waiting wake", "-", "-", "-", "-", "-", "-"]),
        ("not opened for good", |of| not_opened(of, Permanent), ["-", "failed wake", "-", "-", "-", "-", "-", "-"]),
        ("not let in", |of| not_opened(of, SignIn), ["-", "sign-in sleep", "-", "-", "-", "-", "-", "-"]),
        ("no session", |of| not_opened(of, SessionGone), ["-", "waiting wake", "-", "-", "-", "-", "-", "-"]),
        ("discovered", |generation| Input::Discovered { generation }, ["-", "-", "-", "-", "ready", "-", "-", "-"]),
        ("lost", |of| lost(of, TRANSIENT), ["-", "-", "-", RETURN, RETURN, RETURN, "-", "-"]),
        ("lost for good", |of| lost(of, Permanent), ["-", "-", "-", FAIL, FAIL, FAIL, "-", "-"]),
        ("not let in any more", |of| lost(of, SignIn), ["-", "-", "-", ASK, ASK, ASK, "-", "-"]),
        ("session gone", |of| lost(of, SessionGone), ["-", "-", "-", RENEW, RENEW, RENEW, "-", "-"]),
        ("lost, earlier", |of| lost(of.wrapping_sub(1), TRANSIENT), ["-"; 8]),
        (
            "doubted",
            |generation| Input::Doubted { generation },
            ["-", "-", "-", "connected probe", "discovering probe", "ready probe", "-", "-"],
        ),
        // Nobody has asked.
        ("answered", |generation| Input::Answered { generation }, ["-"; 8]),
        ("due", |_| Input::Due, ["-", "-", DIAL, "-", "-", "-", "-", DIAL]),
    ]
};

fn not_opened(generation: u64, failure: Failure) -> Input {
    Input::NotOpened { generation, failure }
}

fn lost(generation: u64, failure: Failure) -> Input {
    Input::Lost { generation, failure }
}

/// Where a machine goes and what it orders, in a few letters.
fn outcome(mut life: Life, input: impl Fn(u64) -> Input) -> String {
    life.now = life.machine.next_attempt().unwrap_or(life.now);
    let before = format!("{:?}", life.machine.phase());
    let effects = life.step(input(life.generation()));
    if effects.is_empty() && before == format!("{:?}", life.machine.phase()) {
        return "-".to_owned();
    }
    let orders = effects.iter().map(|effect| match effect {
        Effect::Dial(_) => " dial",
        Effect::Discover(_) => " list",
        Effect::Probe(_) => " probe",
        Effect::HangUp => " hang-up",
        Effect::WakeAt(_) => " wake",
        Effect::Sleep => " sleep",
    });
    let phase = match life.machine.phase() {
        Phase::Closed => "closed",
        Phase::Dialing => "dialing",
        Phase::Waiting { .. } => "waiting",
        Phase::Connected => "connected",
        Phase::Discovering { again: false } => "discovering",
        Phase::Discovering { again: true } => "discovering-again",
        Phase::Ready => "ready",
        Phase::SignIn => "sign-in",
        Phase::Failed { .. } => "failed",
    };
    phase.to_owned() + &orders.collect::<String>()
}

#[test]
fn every_phase_answers_every_input_as_the_table_says() {
    for (name, input, expected) in TABLE {
        for ((phase, life), expected) in PHASES.into_iter().zip(expected) {
            assert_eq!(outcome(life(), input), expected, "`{name}` while {phase}");
        }
    }
}

#[test]
fn one_probe_serves_every_doubt_and_a_sound_server_is_kept() {
    let mut life = Life::ready();
    let generation = life.generation();
    assert_eq!(life.step(Input::Doubted { generation }), [Effect::Probe(generation)]);
    assert_eq!(life.step(Input::Doubted { generation }), []);
    assert_eq!(life.step(Input::Answered { generation }), []);
    assert_eq!(life.machine.state(), State::Ready);
    assert_eq!(life.step(Input::Doubted { generation }), [Effect::Probe(generation)], "the next doubt is another");
}

#[test]
fn heartbeats_follow_each_other_and_end_with_the_connection() {
    let mut life = Life::new(3);
    let period = Duration::from_secs(30);
    life.machine = life.machine.heartbeat(Some(period));
    life.step(Input::Connect { lists: true });
    assert_eq!(life.opened(), [Effect::WakeAt(life.now + period), Effect::Discover(1)]);
    life.discovered();
    life.now += period;
    assert_eq!(life.step(Input::Due), [Effect::Sleep, Effect::Probe(1)]);
    life.now += period;
    assert_eq!(life.step(Input::Due), [], "the next one waits for the answer to the last");
    assert_eq!(life.step(Input::Answered { generation: 1 }), [Effect::WakeAt(life.now + period)]);
    life.lost();
    let connecting = life.machine.next_attempt().unwrap();
    assert!(connecting < life.now + period, "only the way back is waited for");
    life.step(Input::Close);
    life.now += period;
    assert_eq!(life.step(Input::Due), []);
}

#[test]
fn b001_a_session_that_the_server_ended_is_opened_anew_at_once_but_not_for_ever() {
    let mut life = Life::ready();
    let (mut at_once, mut dials) = (0, 0);
    loop {
        let generation = life.generation();
        life.step(Input::Lost { generation, failure: Failure::SessionGone });
        match life.machine.phase() {
            Phase::Dialing => at_once += 1,
            Phase::Waiting { .. } => drop(life.due()),
            phase => {
                assert!(matches!(phase, Phase::Failed { .. }), "{phase:?}");
                break;
            }
        }
        dials += 1;
        life.opened();
        life.discovered();
    }
    assert_eq!((at_once, dials), (1, 5), "the ladder is for sessions that do not hold, too");
}
