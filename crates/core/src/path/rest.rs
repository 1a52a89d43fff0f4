//! When a path that has nothing to do has something to do again.
//!
//! *Intuition.* An owner of many paths asks each of them at each of its turns what there is to send and when to come back,
//! and nearly all of them have nothing to say since the last time. Once all that could leave was taken, nothing changes
//! before the next input or the first timer; that timer is found once, and until then both questions are answered by it
//! without a look at lanes and health.
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

use std::time::Instant;

/// The first timer, and why; `None`: there is none.
pub(super) type Timer = Option<(Instant, &'static str)>;

/// Whether a path is drained, and until when it rests.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Since the last input all that could leave was taken.
    is_drained: bool,
    /// `None`: not known.
    timer: Option<Timer>,
}

impl Rest {
    /// There was an input: something may leave.
    pub(super) fn wake(&mut self) {
        (self.is_drained, self.timer) = (false, None);
    }

    /// A timer may have changed, and nothing else.
    pub(super) fn forget(&mut self) {
        self.timer = None;
    }

    /// All that could leave was taken; with a timer, if the path rests until then.
    pub(super) fn begin(&mut self, timer: Option<Timer>) {
        (self.is_drained, self.timer) = (true, timer);
    }

    pub(super) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// The timer, if it is known.
    pub(super) fn timer(&self) -> Option<Timer> {
        self.timer
    }

    /// Whether nothing is due at `now`, nor was since the rest began.
    pub(super) fn lasts(&self, now: Instant) -> bool {
        self.timer
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
        let mut rest = Rest::default();
        assert!(!rest.lasts(t0), "what was never drained does not rest");
        rest.begin(Some(Some((due, "keepalive"))));
        assert!(rest.lasts(due - Duration::from_nanos(1)));
        assert!(!rest.lasts(due));
        rest.wake();
        assert!(!rest.is_drained() && !rest.lasts(t0));
    }

    #[test]
    fn what_is_drained_without_room_or_with_a_timer_forgotten_is_asked_anew() {
        let t0 = Instant::now();
        let mut rest = Rest::default();
        rest.begin(None);
        assert!(rest.is_drained() && !rest.lasts(t0));
        rest.begin(Some(None));
        assert!(rest.lasts(t0), "no timer: it rests for good");
        rest.forget();
        assert_eq!((rest.is_drained(), rest.timer()), (true, None));
    }
}
