//! What the peer lets us send: absolute, monotone, counted from the lane's beginning.
//!
//! A grant is never taken back, so the larger of each value counts and an ACK
//! that comes late does no harm. Numbers are bounded a second time by the peer's
//! dedup bitmap, which reaches [`BITMAP_NUMBERS`] from its cumulative on: a peer
//! that grants more than it can remember would close the connection over a pack
//! that it asked for.
//!
//! Credit comes with ACKs, and the peer sends one for credit alone only once. If
//! that one is lost while nothing of ours is unacknowledged, nobody speaks again:
//! the peer has said it, and we have nothing to send that would draw an answer.
//! So a PING names a lane whose credit has become *scarce*, also when it has
//! nothing unacknowledged, and the ACK beside its PONG says it again (as QUIC's
//! DATA_BLOCKED and TCP's window probe do).

use quell_wire::frame::Credit;
use quell_wire::registry::BITMAP_NUMBERS;

use super::limits::Backpressure;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    granted: Credit,
    /// What was granted before anything was acknowledged: the peer's window.
    window: Credit,
    /// The peer's cumulative: numbers below it were received or skipped.
    cumulative: u64,
}

impl Allowance {
    pub(crate) fn new(first: Credit) -> Self {
        Self {
            granted: first,
            window: first,
            cumulative: 0,
        }
    }

    /// Takes a grant; values below earlier ones are ignored.
    pub(crate) fn grant(&mut self, credit: Credit) {
        self.granted.max_bytes = self.granted.max_bytes.max(credit.max_bytes);
        self.granted.max_number = self.granted.max_number.max(credit.max_number);
        if self.cumulative == 0 {
            self.window = self.granted;
        }
    }

    /// The peer expects `cumulative` next.
    pub(crate) fn advance(&mut self, cumulative: u64) {
        self.cumulative = self.cumulative.max(cumulative);
    }

    pub(crate) fn cumulative(&self) -> u64 {
        self.cumulative
    }

    /// Whether less than half of the peer's window is left, with all numbers below
    /// `end` and `used_bytes` used.
    pub(crate) fn is_scarce(&self, end: u64, used_bytes: u64) -> bool {
        let numbers = self.window.max_number.min(BITMAP_NUMBERS) / 2;
        let bytes = self.window.max_bytes / 2;
        let later = end.saturating_add(numbers);
        self.admit(later, used_bytes.saturating_add(bytes)).is_err()
    }

    /// Whether numbers below `end` and `bytes` of payload since the beginning are covered.
    pub(crate) fn admit(&self, end: u64, bytes: u64) -> Result<(), Backpressure> {
        let reach = self.cumulative.saturating_add(BITMAP_NUMBERS);
        let covered = end <= self.granted.max_number.min(reach) && bytes <= self.granted.max_bytes;
        if covered {
            Ok(())
        } else {
            Err(Backpressure::Credit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_that_shrinks_is_ignored_in_each_value() {
        let mut allowance = Allowance::new(Credit {
            max_bytes: 100,
            max_number: 10,
        });
        allowance.grant(Credit {
            max_bytes: 50,
            max_number: 20,
        });
        assert_eq!(allowance.admit(20, 100), Ok(()));
        assert_eq!(allowance.admit(21, 100), Err(Backpressure::Credit));
        assert_eq!(allowance.admit(20, 101), Err(Backpressure::Credit));
    }

    #[test]
    fn credit_is_scarce_below_half_of_the_peers_window() {
        let window = Credit {
            max_bytes: 1_000,
            max_number: 64,
        };
        let mut allowance = Allowance::new(Credit {
            max_bytes: 0,
            max_number: 0,
        });
        allowance.grant(window);
        allowance.advance(1);
        assert!(!allowance.is_scarce(32, 500));
        assert!(allowance.is_scarce(33, 500) && allowance.is_scarce(32, 501));
        allowance.grant(Credit {
            max_bytes: 1_001,
            max_number: 65,
        });
        assert!(!allowance.is_scarce(33, 501));
        // More than the bitmap is no window.
        let mut allowance = Allowance::new(Credit {
            max_bytes: u64::MAX,
            max_number: u64::MAX,
        });
        allowance.advance(100);
        assert!(!allowance.is_scarce(100, 0) && !allowance.is_scarce(4_196, 0));
        assert!(allowance.is_scarce(4_197, 0));
    }

    #[test]
    fn no_grant_reaches_beyond_the_peers_bitmap() {
        let mut allowance = Allowance::new(Credit {
            max_bytes: u64::MAX,
            max_number: u64::MAX,
        });
        assert_eq!(allowance.admit(8_192, 0), Ok(()));
        assert_eq!(allowance.admit(8_193, 0), Err(Backpressure::Credit));
        allowance.advance(1);
        allowance.advance(0);
        assert_eq!(allowance.admit(8_193, 0), Ok(()));
    }
}
