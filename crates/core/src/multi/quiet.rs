//! The client under the quiet ceiling (DESIGN §5).
//!
//! Whoever drives the client says how many bytes left the socket, which is more
//! than the core handed over: QUIC's own and dials. While dials are under way they
//! come out of the reservations of those. What an inbound datagram acknowledged, or
//! answered, lifts the ceiling.

use std::time::Instant;

use super::exit_id::ExitId;
use crate::budget::{DialReservation, QuietCeiling, QuietStatus};
use crate::config::QuietConfig;

#[derive(Debug)]
pub(super) struct Quiet {
    ceiling: QuietCeiling,
    /// Dials under way.
    dials: Vec<(ExitId, DialReservation)>,
    /// As last said.
    bytes_out: u64,
    progress: u64,
}

impl Quiet {
    pub(super) fn new(config: QuietConfig, now: Instant) -> Self {
        Self {
            ceiling: QuietCeiling::new(config, now),
            dials: Vec::new(),
            bytes_out: 0,
            progress: 0,
        }
    }

    pub(super) fn on_wire(&mut self, bytes_out: u64, now: Instant) {
        let bytes = bytes_out.saturating_sub(self.bytes_out);
        self.bytes_out = bytes_out;
        if bytes == 0 {
            return;
        }
        let mut left = bytes;
        for (_, dial) in &mut self.dials {
            let covered = left.min(dial.left_bytes());
            self.ceiling.on_dial_sent(dial, covered, now);
            left -= covered;
        }
        self.ceiling.on_sent(left, now);
    }

    /// The paths say how much progress they made so far, all together.
    pub(super) fn look(&mut self, progress: u64, now: Instant) {
        if std::mem::replace(&mut self.progress, progress) != progress {
            self.ceiling.on_progress(now);
        }
    }

    pub(super) fn on_progress(&mut self, now: Instant) {
        self.ceiling.on_progress(now);
    }

    /// Reserves a dial.
    ///
    /// # Errors
    /// There is no room: when there may be.
    pub(super) fn reserve_dial(&mut self, exit: ExitId, now: Instant) -> Result<(), Instant> {
        let reservation = self.ceiling.may_dial(now)?;
        self.dials.push((exit, reservation));
        Ok(())
    }

    pub(super) fn on_dial_ended(&mut self, exit: ExitId) {
        let of_exit = |(of, _): &mut (ExitId, DialReservation)| *of == exit;
        for (_, dial) in self.dials.extract_if(.., of_exit) {
            self.ceiling.release(dial);
        }
    }

    pub(super) fn status(&self, now: Instant) -> QuietStatus {
        self.ceiling.status(now)
    }
}
