//! What the peer said it holds out of order (RFC 2018), so that it is not sent twice.
//!
//! smoltcp keeps no such record: after a loss it writes all again from the first byte that is missing. A segment that is
//! wholly in here is written and not sent; to smoltcp it is on its way, and the acknowledgement that follows the missing
//! ones covers it. Without that, half of a narrow link would be repetition.
//!
//! The peer may change its mind (RFC 2018 §8): ranges are forgotten when nothing was heard for long, and one that begins at
//! or before the first missing byte is void. What is said of bytes that were never sent is ignored. At most
//! [`RANGES_MAX`] ranges are kept; beyond, the newest is not, and costs a repetition.

/// A window of 256 segments with every fourth one missing has as many.
const RANGES_MAX: usize = 64;

/// Ranges of the sequence, from and behind, disjoint, in order.
#[derive(Debug, Default)]
pub(crate) struct Sacked(Vec<(u32, u32)>);

fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl Sacked {
    /// The peer holds these bytes, of those between `acknowledged` and `sent`.
    pub(crate) fn insert(&mut self, from: u32, behind: u32, (acknowledged, sent): (u32, u32)) {
        let is_sound =
            is_after(from, acknowledged) && is_after(behind, from) && !is_after(behind, sent);
        if !is_sound {
            return;
        }
        let (mut from, mut behind) = (from, behind);
        self.0.retain(|&(known_from, known_behind)| {
            let is_apart = is_after(known_from, behind) || is_after(from, known_behind);
            if !is_apart {
                from = if is_after(from, known_from) {
                    known_from
                } else {
                    from
                };
                behind = if is_after(known_behind, behind) {
                    known_behind
                } else {
                    behind
                };
            }
            is_apart
        });
        if self.0.len() < RANGES_MAX {
            let at = self.0.partition_point(|&(known, _)| is_after(from, known));
            self.0.insert(at, (from, behind));
        }
    }

    /// All before `acknowledged` arrived.
    pub(crate) fn advance(&mut self, acknowledged: u32) {
        self.0.retain(|&(from, _)| is_after(from, acknowledged));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the peer holds all of these bytes.
    pub(crate) fn holds(&self, from: u32, behind: u32) -> bool {
        let holds = |&(known_from, known_behind): &(u32, u32)| {
            !is_after(known_from, from) && !is_after(behind, known_behind)
        };
        self.0.iter().any(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: (u32, u32) = (u32::MAX - 100, 10_000);

    #[test]
    fn ranges_grow_together_and_are_forgotten_from_below() {
        let mut sacked = Sacked::default();
        sacked.insert(100, 200, NEAR);
        sacked.insert(300, 400, NEAR);
        // Around the end of the numbers.
        sacked.insert(u32::MAX - 50, 50, NEAR);
        assert!(sacked.holds(u32::MAX - 50, 50) && sacked.holds(120, 200));
        assert!(!sacked.holds(120, 201) && !sacked.holds(99, 120) && !sacked.holds(50, 100));
        sacked.insert(200, 300, NEAR);
        assert!(sacked.holds(100, 400));
        assert_eq!(sacked.0.len(), 2);
        sacked.advance(u32::MAX - 51);
        assert_eq!(sacked.0.len(), 2);
        sacked.advance(u32::MAX - 50);
        assert_eq!(sacked.0, [(100, 400)], "one that begins there is void");
        sacked.clear();
        assert!(sacked.is_empty());
    }

    #[test]
    fn what_cannot_be_is_ignored() {
        let mut sacked = Sacked::default();
        sacked.insert(NEAR.0, 50, NEAR);
        sacked.insert(9_000, 10_001, NEAR);
        sacked.insert(200, 200, NEAR);
        sacked.insert(200, 100, NEAR);
        assert!(sacked.is_empty());
        sacked.insert(9_000, 10_000, NEAR);
        assert!(sacked.holds(9_000, 10_000));
    }

    #[test]
    fn sixty_four_ranges_are_kept_and_no_more() {
        let mut sacked = Sacked::default();
        for number in 0..=RANGES_MAX as u32 {
            sacked.insert(number * 10 + 1, number * 10 + 5, NEAR);
        }
        assert_eq!(sacked.0.len(), RANGES_MAX);
        assert!(!sacked.holds(641, 645));
    }
}
