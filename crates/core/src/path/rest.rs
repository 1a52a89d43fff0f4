//! When a path that has nothing to do has something to do again.
//!
//! *Intuition.* An owner of many paths asks each of them at each of its turns what there is to send and when to come back,
//! and nearly all of them have nothing to say since the last time. Once all that could leave was taken, nothing changes
//! before the next input or the first timer; that timer is found once, when it is first asked for, and until then both
//! questions are answered by it without a look at lanes and health.
//!
//! ```text
//! awake --all that could leave was taken--> drained --nothing to hand out, room in the carrier--> resting until `timer`
//!   ^-------------------------------- any input, any timer --------------------------------------------'
//! ```
//!
//! Without room in the carrier a path never rests: what stands in line is then a question of time.
//!
//! Invariants: whatever changes a timer of the path either wakes it or forgets the timer; a path that rests yields no
//! datagram, no packet and no ICMP error, and its timer is the one that [`super::Path::poll_timeout`] would find.

use std::cell::Cell;
use std::time::Instant;

/// The first timer, and why; `None`: there is none.
pub(super) type Timer = Option<(Instant, &'static str)>;

/// Whether a path is drained, and until when it rests.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Since the last input all that could leave was taken.
    is_drained: bool,
    /// Nothing is to be handed out, nothing waits for room, and no timer was changed since.
    may_rest: bool,
    /// `None`: nobody asked yet.
    timer: Cell<Option<Timer>>,
}

impl Rest {
    /// There was an input: something may leave.
    pub(super) fn wake(&mut self) {
        self.is_drained = false;
        self.forget();
    }

    /// A timer may have changed, and nothing else.
    pub(super) fn forget(&mut self) {
        self.may_rest = false;
        self.timer.set(None);
    }

    /// All that could leave was taken; whether the path rests until its first timer.
    pub(super) fn begin(&mut self, may_rest: bool) {
        (self.is_drained, self.may_rest) = (true, may_rest);
        self.timer.set(None);
    }

    pub(super) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// The timer, of a path that rests; `first` finds it, and is asked once.
    pub(super) fn timer(&self, first: impl FnOnce() -> Timer) -> Option<Timer> {
        if !self.may_rest {
            return None;
        }
        let timer = self.timer.get().unwrap_or_else(first);
        self.timer.set(Some(timer));
        Some(timer)
    }

    /// Whether nothing is due at `now`, nor was since the rest began.
    pub(super) fn lasts(&self, now: Instant, first: impl FnOnce() -> Timer) -> bool {
        self.timer(first)
            .is_some_and(|timer| timer.is_none_or(|(at, _)| at > now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rest_lasts_until_its_timer_and_ends_with_any_input() {
        let t0 = Instant::now();
        let due = t0 + Duration::from_secs(20);
        let timer = || Some((due, "keepalive"));
        let mut rest = Rest::default();
        assert!(
            !rest.lasts(t0, timer),
            "what was never drained does not rest"
        );
        rest.begin(true);
        assert!(rest.lasts(due - Duration::from_nanos(1), timer));
        assert!(!rest.lasts(due, timer));
        rest.wake();
        assert!(!rest.is_drained() && !rest.lasts(t0, timer));
    }

    #[test]
    fn a_timer_is_looked_for_once_and_when_it_is_asked_for() {
        let t0 = Instant::now();
        let asked = Cell::new(0);
        let timer = || {
            asked.set(asked.get() + 1);
            Some((t0, "keepalive"))
        };
        let mut rest = Rest::default();
        rest.begin(true);
        assert_eq!(asked.get(), 0);
        assert_eq!(rest.timer(timer), Some(Some((t0, "keepalive"))));
        assert!(!rest.lasts(t0, timer));
        assert_eq!(asked.get(), 1);
        rest.begin(true);
        rest.timer(timer);
        assert_eq!(asked.get(), 2, "another rest, another timer");
    }

    #[test]
    fn what_is_drained_without_room_or_with_a_timer_forgotten_is_asked_anew() {
        let t0 = Instant::now();
        let never = || None;
        let mut rest = Rest::default();
        rest.begin(false);
        assert!(rest.is_drained() && !rest.lasts(t0, never));
        rest.begin(true);
        assert!(rest.lasts(t0, never), "no timer: it rests for good");
        rest.forget();
        assert_eq!((rest.is_drained(), rest.timer(never)), (true, None));
    }
}
