//! How long to wait before the next attempt: all ladders, of connects, of streams and of requests. Pure: the randomness
//! comes from a generator that the caller owns.

use std::time::Duration;

use crate::spec::Retry;

/// A ladder of waits.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ladder {
    /// How many attempts one climb has.
    pub(crate) attempts: u32,
    base: Duration,
    max: Duration,
    jitter: Jitter,
}

/// How waits are spread, so that many clients do not come back at once.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Jitter {
    /// Anything from nothing to the whole wait.
    Full,
    /// The wait, more or less by this part of it.
    Around(f64),
    /// None: whoever waits has a server's wish to consider, and spreads what comes of it.
    None,
}

impl Ladder {
    /// The ladder of a first connect, as registered.
    pub(crate) fn connect(retry: &Retry) -> Self {
        // The first step is already doubled once: `min(2^n × base, max)` with `n` counted from 1.
        let base = retry.base_delay.saturating_mul(2);
        Self { attempts: retry.max_attempts, base, max: retry.max_delay, jitter: Jitter::Full }
    }

    /// The ladder after a loss.
    pub(crate) fn reconnect() -> Self {
        Self {
            attempts: 5,
            base: Duration::from_millis(500),
            max: Duration::from_secs(30),
            jitter: Jitter::Around(0.25),
        }
    }

    /// The ladder of a server that has failed and is tried again by itself, for ever.
    pub(crate) fn revive() -> Self {
        Self {
            attempts: u32::MAX,
            base: Duration::from_secs(30),
            max: Duration::from_secs(900),
            jitter: Jitter::Around(0.25),
        }
    }

    /// The ladder of an answer whose event stream broke, and is looked for where it goes on.
    pub(crate) fn resume() -> Self {
        Self {
            attempts: 5,
            base: Duration::from_millis(250),
            max: Duration::from_secs(30),
            jitter: Jitter::Around(0.25),
        }
    }

    /// The ladder of a request that never left, because there was no connection. Its first step gives the connection's task
    /// the time to find out what is wrong.
    pub(crate) fn unsent() -> Self {
        Self { attempts: 3, base: Duration::from_millis(100), max: Duration::from_secs(5), jitter: Jitter::None }
    }

    /// The ladder of a request to a server that has too much to do. How often is for the request's deadline to say.
    pub(crate) fn limited() -> Self {
        Self { attempts: u32::MAX, base: Duration::from_millis(500), max: Duration::from_secs(5), jitter: Jitter::None }
    }

    /// The same ladder with one attempt.
    pub(crate) fn once(self) -> Self {
        Self { attempts: 1, ..self }
    }

    /// The wait after attempt `attempt`, counted from 1.
    pub(crate) fn delay(&self, attempt: u32, random: &mut fastrand::Rng) -> Duration {
        let wait = self.step(attempt);
        match self.jitter {
            Jitter::Full => wait.mul_f64(random.f64()),
            Jitter::Around(part) => wait.mul_f64(1.0 - part + 2.0 * part * random.f64()),
            Jitter::None => wait,
        }
    }

    /// The wait after attempt `attempt`, counted from 1, before it is spread.
    pub(crate) fn step(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(ladder: &Ladder, attempt: u32) -> (u128, u128) {
        let mut random = fastrand::Rng::with_seed(7);
        let waits: Vec<u128> = (0..1000).map(|_| ladder.delay(attempt, &mut random).as_millis()).collect();
        (*waits.iter().min().unwrap(), *waits.iter().max().unwrap())
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let ladder = Ladder::reconnect();
        for (attempt, wait) in [(1, 500.0), (2, 1000.0), (3, 2000.0), (7, 30_000.0), (1_000_000, 30_000.0)] {
            let (least, most) = spread(&ladder, attempt);
            #[expect(clippy::cast_precision_loss, reason = "milliseconds")]
            let (least, most) = (least as f64, most as f64);
            assert!(
                least >= wait * 0.74 && least < wait * 0.8 && most > wait * 1.2 && most <= wait * 1.25,
                "{attempt}"
            );
        }
    }

    #[test]
    fn a_first_connect_waits_any_part_of_its_step() {
        let (least, most) = spread(&Ladder::connect(&Retry::default()), 1);
        assert!(least < 50 && (900..=1000).contains(&most), "{least} {most}");
        let (_, most) = spread(&Ladder::connect(&Retry::default()), 9);
        assert!(most <= 5000);
    }
}
