//! What a client has to tell whoever embeds it: is it up, since when not, where it went, what it cost.
//!
//! ```text
//!            nothing answers                    an exit answers
//!   Up ────────────────────────→ Stalled ─────────────────────────→ Up
//!                                 │   ^ the next attempt came to nothing: the next one (once a second at most)
//!                                 └───┘
//! ```
//!
//! *Carried* is a client of which at least one session is up on a path that answers. It is told by its changes, never by
//! its state: whoever missed one asks for a status. A client that has not been up yet is silent until a first attempt
//! failed: a dial of a second is no outage. A client that is held tells that, and nothing else until it is released.
//!
//! *Moves* are told of the exit that is the first choice: another one is it, or the same over another connection.
//!
//! *Usage* is told when there is some and [`USAGE_INTERVAL`] has passed since it was told last, on occasion of whatever
//! happens: an idle client is not woken to count itself (case B87).
//!
//! Everything here reads what the client decided; no decision reads anything here.

use std::time::{Duration, Instant};

use super::client::Client;
use super::dial::State;
use super::exit::Exit;
use super::exit_id::ExitId;
use crate::send::Degraded as _;

/// Usage is told at most once in this time. 5 s: a person's display, and 12 wake-ups a minute under load alone.
pub const USAGE_INTERVAL: Duration = Duration::from_secs(5);
/// A next attempt is told at most once in this time: what stalls asks more often than anybody reads.
const ATTEMPTS_INTERVAL: Duration = Duration::from_secs(1);

/// What happened to a client as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Packets are carried.
    Up {
        /// Over whose session, of those that are up the first choice.
        exit: ExitId,
        /// How long they were not.
        after: Duration,
    },
    /// Packets are not carried, or not yet.
    Stalled {
        /// Since when.
        since: Instant,
        /// When something is tried next; `None`: it is being tried.
        next_attempt: Option<Instant>,
    },
    /// Another exit is the first choice.
    Moved {
        /// The one before.
        from: ExitId,
        /// The one that is it.
        to: ExitId,
    },
    /// The session of the first choice goes on over another connection.
    Rejoined {
        /// Whose.
        exit: ExitId,
    },
    /// The person's pause began.
    Held,
    /// The control plane is degraded, or is no longer.
    Outage {
        /// It is.
        degraded: bool,
    },
}

/// A client at one moment.
#[derive(Debug, Clone, Copy)]
struct View {
    held: bool,
    degraded: bool,
    /// Whose session carries, the first choice if it does.
    carrying: Option<ExitId>,
    next_attempt: Option<Instant>,
    /// The first choice, and how often its session was resumed.
    primary: Option<(ExitId, u64)>,
}

/// What was told last.
#[derive(Debug)]
pub(super) struct Story {
    held: bool,
    degraded: bool,
    carrying: bool,
    since: Instant,
    /// The attempt that was told, and when it was.
    attempt: Option<(Instant, Instant)>,
    primary: Option<(ExitId, u64)>,
}

impl Story {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            held: false,
            degraded: false,
            carrying: false,
            since: now,
            attempt: None,
            primary: None,
        }
    }

    /// The next thing to tell; `None`: all is told.
    fn tell(&mut self, view: &View, now: Instant) -> Option<Told> {
        if std::mem::replace(&mut self.degraded, view.degraded) != view.degraded {
            let degraded = view.degraded;
            return Some(Told::Outage { degraded });
        }
        if std::mem::replace(&mut self.held, view.held) != view.held {
            (self.carrying, self.since, self.attempt) = (false, now, None);
            if view.held {
                return Some(Told::Held);
            }
        }
        if view.held {
            return None;
        }
        self.tell_carrying(view, now)
            .or_else(|| self.tell_move(view))
    }

    fn tell_carrying(&mut self, view: &View, now: Instant) -> Option<Told> {
        let Some(exit) = view.carrying else {
            return self.tell_stall(view, now);
        };
        if std::mem::replace(&mut self.carrying, true) {
            return None;
        }
        self.attempt = None;
        let after = now.saturating_duration_since(self.since);
        Some(Told::Up { exit, after })
    }

    fn tell_stall(&mut self, view: &View, now: Instant) -> Option<Told> {
        if std::mem::take(&mut self.carrying) {
            self.since = now;
        } else {
            let next = view.next_attempt?;
            let is_over =
                |(next, told): (Instant, Instant)| now >= next && now >= told + ATTEMPTS_INTERVAL;
            if !self.attempt.is_none_or(is_over) || next <= now {
                return None;
            }
        }
        self.attempt = view.next_attempt.map(|next| (next, now));
        Some(Told::Stalled {
            since: self.since,
            next_attempt: view.next_attempt,
        })
    }

    fn tell_move(&mut self, view: &View) -> Option<Told> {
        let now = view.primary?;
        let before = self.primary.replace(now)?;
        if before.0 != now.0 {
            return Some(Told::Moved {
                from: before.0,
                to: now.0,
            });
        }
        (before.1 != now.1).then_some(Told::Rejoined { exit: now.0 })
    }
}

impl Client {
    /// The next thing to tell an embedder; `None`: all is told. To be asked after each drain.
    pub fn poll_told(&mut self, now: Instant) -> Option<Told> {
        let view = self.view(now);
        self.story.tell(&view, now)
    }

    fn view(&self, now: Instant) -> View {
        let primary = self.chooser.primary();
        let primary = primary.and_then(|exit| self.exits.get(exit.index()));
        let carrying = primary
            .filter(|exit| carries(exit))
            .or_else(|| self.exits.live().find(|exit| carries(exit)))
            .map(|exit| exit.id);
        View {
            held: self.is_held(),
            degraded: self.signal.is_degraded(now),
            carrying,
            next_attempt: match carrying {
                Some(_) => None,
                None => self.next_attempt(),
            },
            primary: primary.map(|exit| (exit.id, exit.resumes)),
        }
    }

    /// When something is tried next that could end a stall: a dial, or a question.
    fn next_attempt(&self) -> Option<Instant> {
        let of = |exit: &Exit| match (exit.dial.state(), exit.path.as_deref()) {
            (State::Waiting { until }, _) => self.window.is_member(exit.id).then_some(until),
            (State::Up { .. }, Some(path)) => path.poll_timeout().map(|(at, _)| at),
            (State::Up { .. } | State::Dialing { .. } | State::Greeting { .. }, _) => None,
        };
        self.exits.live().filter_map(of).min()
    }
}

fn carries(exit: &Exit) -> bool {
    exit.is_up() && exit.path.as_deref().is_some_and(|path| !path.is_stalled())
}

/// When bytes on the wire are told.
#[derive(Debug, Clone, Default)]
pub struct UsageMeter {
    told: (u64, u64),
    told_at: Option<Instant>,
}

impl UsageMeter {
    /// The bytes out and in so far; whether they are to be told now.
    pub fn is_due(&mut self, bytes_out: u64, bytes_in: u64, now: Instant) -> bool {
        let is_new = self.told != (bytes_out, bytes_in);
        let rested = |at: Instant| now.saturating_duration_since(at) >= USAGE_INTERVAL;
        if !is_new || !self.told_at.is_none_or(rested) {
            return false;
        }
        (self.told, self.told_at) = ((bytes_out, bytes_in), Some(now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const NS: Duration = Duration::from_nanos(1);

    fn view() -> View {
        View {
            held: false,
            degraded: false,
            carrying: None,
            next_attempt: None,
            primary: None,
        }
    }

    fn up(exit: u16) -> View {
        View {
            carrying: Some(ExitId(exit)),
            primary: Some((ExitId(exit), 0)),
            ..view()
        }
    }

    fn stalled(next: Instant) -> View {
        View {
            next_attempt: Some(next),
            primary: Some((ExitId(0), 0)),
            ..view()
        }
    }

    fn all(story: &mut Story, view: &View, now: Instant) -> Vec<Told> {
        let told = std::iter::from_fn(|| story.tell(view, now));
        told.take(10).collect()
    }

    #[test]
    fn an_outage_is_told_by_its_beginning_its_attempts_and_its_end() {
        let t0 = Instant::now();
        let mut story = Story::new(t0);
        assert_eq!(all(&mut story, &view(), t0), []);
        let exit = ExitId(0);
        assert_eq!(
            all(&mut story, &up(0), t0 + S),
            [Told::Up { exit, after: S }]
        );
        assert_eq!(all(&mut story, &up(0), t0 + 2 * S), []);
        let began = t0 + 3 * S;
        let stall = |at| {
            let next_attempt = Some(at);
            Told::Stalled {
                since: began,
                next_attempt,
            }
        };
        let (first, second) = (began + 5 * S, began + 15 * S);
        assert_eq!(all(&mut story, &stalled(first), began), [stall(first)]);
        assert_eq!(all(&mut story, &stalled(second), first - NS), []);
        assert_eq!(all(&mut story, &stalled(second), first), [stall(second)]);
        let after = 20 * S;
        let back = began + after;
        assert_eq!(all(&mut story, &up(0), back), [Told::Up { exit, after }]);
    }

    #[test]
    fn attempts_are_told_once_a_second_at_most() {
        let t0 = Instant::now();
        let mut story = Story::new(t0);
        let ms = Duration::from_millis;
        let told = (0..1_000).filter(|n| {
            let now = t0 + ms(10 * n);
            story.tell(&stalled(now + ms(10)), now).is_some()
        });
        assert_eq!(told.count(), 10);
    }

    #[test]
    fn a_move_is_told_by_exit_and_by_connection() {
        let t0 = Instant::now();
        let mut story = Story::new(t0);
        all(&mut story, &up(0), t0);
        let (from, to) = (ExitId(0), ExitId(2));
        assert_eq!(all(&mut story, &up(2), t0), [Told::Moved { from, to }]);
        let resumed = View {
            primary: Some((to, 1)),
            ..up(2)
        };
        assert_eq!(all(&mut story, &resumed, t0), [Told::Rejoined { exit: to }]);
    }

    #[test]
    fn a_hold_is_told_once_and_silences_the_stall_that_it_is() {
        let t0 = Instant::now();
        let mut story = Story::new(t0);
        all(&mut story, &up(0), t0);
        let held = View {
            held: true,
            ..stalled(t0 + S)
        };
        assert_eq!(all(&mut story, &held, t0), [Told::Held]);
        assert_eq!(all(&mut story, &held, t0 + 9 * S), []);
        assert_eq!(all(&mut story, &view(), t0 + 10 * S), []);
        let told = all(&mut story, &up(0), t0 + 11 * S);
        let exit = ExitId(0);
        assert_eq!(told, [Told::Up { exit, after: S }]);
    }

    #[test]
    fn the_control_planes_outage_is_told_beside() {
        let t0 = Instant::now();
        let mut story = Story::new(t0);
        let degraded = View {
            degraded: true,
            ..view()
        };
        let outage = |degraded| Told::Outage { degraded };
        assert_eq!(all(&mut story, &degraded, t0), [outage(true)]);
        assert_eq!(all(&mut story, &view(), t0), [outage(false)]);
    }

    #[test]
    fn usage_is_told_when_there_is_some_and_not_too_often() {
        let t0 = Instant::now();
        let mut meter = UsageMeter::default();
        assert!(!meter.is_due(0, 0, t0));
        assert!(meter.is_due(1, 0, t0));
        assert!(!meter.is_due(2, 0, t0 + USAGE_INTERVAL - NS));
        assert!(meter.is_due(2, 0, t0 + USAGE_INTERVAL));
        assert!(!meter.is_due(2, 0, t0 + 9 * USAGE_INTERVAL));
        assert!(meter.is_due(2, 1, t0 + 9 * USAGE_INTERVAL));
    }
}
