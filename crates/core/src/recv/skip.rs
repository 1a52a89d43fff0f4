//! SKIP: numbers that the peer will never send again (RFC 3758's forward TSN).
//!
//! All numbers up to `up_to` count as known from here on: acked, and dropped should they still come. What came before and
//! waits stays what it is: a packet held for a skipped one is released, and pieces whose sibling was skipped are dropped,
//! for they can never be whole. What was received whole is delivered, SKIP or not.
//!
//! A SKIP is repeated until our cumulative passes it, and datagrams overtake each other, so an older one is no news and no
//! fault. A *contradiction* is, because the two ends would count credit differently for good (`SKIP_BACKWARDS`):
//!
//! | what is compared | must hold |
//! |---|---|
//! | an earlier SKIP | `up_to` and `bytes_up_to` grow together, equal ones are equal |
//! | what came, with gaps below `up_to` | `bytes_up_to` is at least the payload that came up to there |
//! | what came, without a gap | `bytes_up_to` is exactly that payload, at most it for numbers long gone |
//!
//! A SKIP cannot reach farther than a pack could: beyond the window or the credit it is the same breach. On a strictly
//! ordered lane there is nothing to go on with after a hole: the peer ends that lane by name instead, and a SKIP over a
//! message that did not come is a breach (`WRONG_STATE`); one over what was delivered only repeats our ACK.

use std::time::Instant;

use quell_wire::frame::Skip;
use quell_wire::registry::{BITMAP_NUMBERS, ErrorCode};

use super::fingerprint::Fingerprint;
use super::{Order, ReceiveSequence, violation};
use crate::path::Violation;

/// The farthest SKIP so far.
#[derive(Debug, Default)]
pub(super) struct SkipBook {
    farthest: Option<(u64, u64)>,
}

impl SkipBook {
    /// Takes note of a SKIP, unless it contradicts the farthest one.
    fn note(&mut self, skip: &Skip) -> Result<(), Violation> {
        if let Some((up_to, bytes)) = self.farthest
            && skip.up_to.cmp(&up_to) != skip.bytes_up_to.cmp(&bytes)
            // Empty packs move the number alone.
            && skip.bytes_up_to != bytes
        {
            let was = format!("an earlier one said {bytes} bytes up to {up_to}");
            return Err(contradiction(skip, &was));
        }
        let said = (skip.up_to, skip.bytes_up_to);
        self.farthest = self.farthest.max(Some(said));
        Ok(())
    }
}

fn contradiction(skip: &Skip, why: &str) -> Violation {
    let words = format!(
        "SKIP of {} bytes up to {}, and {why}",
        skip.bytes_up_to, skip.up_to
    );
    violation(ErrorCode::SkipBackwards, words)
}

impl ReceiveSequence {
    /// Takes a SKIP of this lane.
    ///
    /// # Errors
    /// `SKIP_BACKWARDS` for one that contradicts an earlier one or what came, `NUMBER_OUT_OF_WINDOW` and `CREDIT_EXCEEDED`
    /// for one that reaches too far, `WRONG_STATE` on the message lane for one over a message that did not come. The
    /// connection is to be closed with it.
    pub fn handle_skip(&mut self, skip: &Skip, now: Instant) -> Result<(), Violation> {
        self.now = now;
        let base = self.bitmap.base();
        if skip.up_to >= base + BITMAP_NUMBERS {
            return Err(self.out_of_window(skip.up_to));
        }
        if skip.up_to >= base {
            self.credit.check_number(skip.up_to)?;
        }
        let never_came = self.bytes_that_never_came(skip)?;
        self.skips.note(skip)?;
        self.credit.admit_bytes(never_came)?;
        self.credit.release(0, never_came);
        if skip.up_to >= base {
            self.bytes_below_base = skip.bytes_up_to;
            self.skip_missing(base, skip.up_to);
            self.settle_gone()?;
        }
        self.acks.prompt(now);
        Ok(())
    }

    /// Payload of the numbers that `skip` gives up and that did not come.
    fn bytes_that_never_came(&self, skip: &Skip) -> Result<u64, Violation> {
        let base = self.bitmap.base();
        let (mut came, mut gaps) = (self.bytes_below_base, 0);
        for number in base..=skip.up_to {
            if self.bitmap.contains(number) {
                came += self.fingerprints.slot(number).len_bytes();
            } else {
                gaps += 1;
            }
        }
        if gaps > 0 && self.order == Order::Strict {
            let words = format!("SKIP up to {}, and {gaps} did not come", skip.up_to);
            return Err(violation(ErrorCode::WrongState, words));
        }
        // Of numbers long gone only their sum with later ones is remembered.
        let long_gone = skip.up_to + 1 < base && skip.bytes_up_to <= came;
        if long_gone || (gaps == 0 && skip.bytes_up_to == came) {
            return Ok(0);
        }
        match skip.bytes_up_to.checked_sub(came) {
            Some(bytes) if gaps > 0 => Ok(bytes),
            _ => Err(contradiction(skip, &format!("{came} bytes came"))),
        }
    }

    /// Makes the missing numbers of `base..=up_to` known, and notes them as gone.
    fn skip_missing(&mut self, base: u64, up_to: u64) {
        for number in base..=up_to {
            if self.bitmap.contains(number) {
                continue;
            }
            self.fingerprints.insert(number, Fingerprint::SKIPPED);
            self.counters.skipped += 1;
            self.credit.release(1, 0);
            match self.gone.back_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => self.gone.push_back((number, number)),
            }
        }
        self.bitmap.skip_to(up_to + 1);
        self.count_bytes_below(up_to + 1);
    }
}
