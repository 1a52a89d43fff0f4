//! What the peer lets us send: absolute, monotone, counted from the lane's beginning.
//!
//! A grant is never taken back, so the larger of each value counts and an ACK
//! that comes late does no harm. Numbers are bounded a second time by the peer's
//! dedup bitmap, which reaches [`BITMAP_NUMBERS`] from its cumulative on: a peer
//! that grants more than it can remember would close the connection over a pack
//! that it asked for.

use quell_wire::frame::Credit;
use quell_wire::registry::BITMAP_NUMBERS;

use super::limits::Backpressure;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    granted: Credit,
    /// The peer's cumulative: numbers below it were received or skipped.
    cumulative: u64,
}

impl Allowance {
    pub(crate) fn new(first: Credit) -> Self {
        Self {
            granted: first,
            cumulative: 0,
        }
    }

    /// Takes a grant; values below earlier ones are ignored.
    pub(crate) fn grant(&mut self, credit: Credit) {
        self.granted.max_bytes = self.granted.max_bytes.max(credit.max_bytes);
        self.granted.max_number = self.granted.max_number.max(credit.max_number);
    }

    /// The peer expects `cumulative` next.
    pub(crate) fn advance(&mut self, cumulative: u64) {
        self.cumulative = self.cumulative.max(cumulative);
    }

    pub(crate) fn cumulative(&self) -> u64 {
        self.cumulative
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
