//! What to do when the system refuses to send a datagram.
//!
//! QUIC ends a connection whose socket fails, and repairs one whose datagrams are
//! lost. A refusal is neither: nothing is wrong with the connection, and nothing
//! has left. So a refused datagram waits a little where waiting may help, because
//! what never left needs no resend; and where it does not help, it is lost, as on a
//! path that is cut, and the rules for such a path take over.
//!
//! ```text
//! sending --refused--> waiting 1, 2, 4 … 16 ms --still refused after 100 ms--> losing
//!    ^---------------------- a datagram is taken -------------------------------/
//! ```
//!
//! | refusal | meaning | answer |
//! |---|---|---|
//! | full (ENOBUFS) | a queue of this machine overflows | wait |
//! | unreachable (ENETUNREACH and its kin) | no way leads there at the moment | wait |
//! | too large (EMSGSIZE) | a probe for the MTU, or the interface shrank | lose: QUIC finds the size |
//! | offload (EIO, EINVAL with segments) | the device cannot segment | send each segment by itself |
//! | other (EPERM of a local filter …) | unknown | wait |
//!
//! The grace of 100 ms is the age limit of what nobody acknowledges: a packet that
//! waited longer is worth nothing to whoever asked for it.

use std::time::{Duration, Instant};

use super::backoff::doubled;

/// How long refused datagrams wait before they count as lost.
pub const GRACE: Duration = Duration::from_millis(100);

/// The first wait: what a full queue of a network card takes to have room again.
pub const WAIT_MIN: Duration = Duration::from_millis(1);

/// The longest wait: some tries fall into the grace.
pub const WAIT_MAX: Duration = Duration::from_millis(16);

/// Why the system refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A queue of this machine is full.
    Full,
    /// No way leads there at the moment.
    Unreachable,
    /// The datagram is larger than the interface takes.
    TooLarge,
    /// The device cannot cut a batch into datagrams.
    Offload,
    /// Anything else.
    Other,
}

/// What becomes of what was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try it again after this long.
    Wait(Duration),
    /// It is lost.
    Lose,
    /// Send each of its datagrams by itself, at once.
    Split,
}

/// The refusals of one connection in a row.
#[derive(Debug, Clone, Default)]
pub struct Refusals {
    since: Option<Instant>,
    row: u32,
}

impl Refusals {
    /// What to do about a refusal at `now`.
    pub fn on_refused(&mut self, why: Refusal, now: Instant) -> Verdict {
        match why {
            Refusal::TooLarge => return Verdict::Lose,
            Refusal::Offload => return Verdict::Split,
            Refusal::Full | Refusal::Unreachable | Refusal::Other => {}
        }
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= GRACE {
            return Verdict::Lose;
        }
        let wait = doubled(WAIT_MIN, self.row, WAIT_MAX);
        self.row = self.row.saturating_add(1);
        Verdict::Wait(wait)
    }

    /// The system took a datagram.
    pub fn on_sent(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn waits_double_until_the_grace_is_over_and_a_sent_datagram_renews_it() {
        let t0 = Instant::now();
        let mut refusals = Refusals::default();
        for why in [Refusal::Full, Refusal::Unreachable, Refusal::Other] {
            let waits: Vec<_> = (0..6).map(|_| refusals.on_refused(why, t0)).collect();
            let expected = [1, 2, 4, 8, 16, 16].map(|ms| Verdict::Wait(ms * MS));
            assert_eq!(waits, expected);
            let before = t0 + GRACE - Duration::from_nanos(1);
            assert_eq!(refusals.on_refused(why, before), Verdict::Wait(WAIT_MAX));
            assert_eq!(refusals.on_refused(why, t0 + GRACE), Verdict::Lose);
            assert_eq!(refusals.on_refused(why, t0 + 50 * GRACE), Verdict::Lose);
            refusals.on_sent();
        }
    }

    #[test]
    fn a_size_is_lost_and_a_batch_is_split_whatever_came_before() {
        let t0 = Instant::now();
        let mut refusals = Refusals::default();
        for _ in 0..2 {
            assert_eq!(refusals.on_refused(Refusal::TooLarge, t0), Verdict::Lose);
            assert_eq!(refusals.on_refused(Refusal::Offload, t0), Verdict::Split);
        }
        let first = refusals.on_refused(Refusal::Full, t0);
        assert_eq!(first, Verdict::Wait(WAIT_MIN), "neither began the grace");
    }

    #[test]
    fn a_clock_that_jumps_back_is_no_time() {
        let t0 = Instant::now() + GRACE;
        let mut refusals = Refusals::default();
        refusals.on_refused(Refusal::Full, t0);
        let verdict = refusals.on_refused(Refusal::Full, t0 - GRACE);
        assert_eq!(verdict, Verdict::Wait(2 * WAIT_MIN));
    }
}
