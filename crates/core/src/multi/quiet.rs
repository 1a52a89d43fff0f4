//! The client under the quiet ceiling (DESIGN §5).
//!
//! Whoever drives the client says how many bytes left the socket, which is more
//! than the core handed over: QUIC's own and dials. While a dial is under way they
//! come out of its reservation. A dial that waited for room comes a random while
//! after there is some, so that a provider's clients do not come together. What an inbound datagram acknowledged, or answered,
//! lifts the ceiling.

use std::time::{Duration, Instant};

use rand::RngExt as _;

use super::client::Client;
use crate::budget::{DialReservation, QuietCeiling, QuietStatus};
use crate::config::QuietConfig;

/// How much later than there is room a dial that waited for it comes, at most.
///
/// 30 s: clients that lost the same provider at the same moment spent the same bytes
/// at the same moments, and so have room again together. Half a minute's draw each
/// time has them spread over a minute after a handful of dials.
const ROOM_SPREAD: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Quiet {
    ceiling: QuietCeiling,
    dial: Option<DialReservation>,
    /// As last said.
    bytes_out: u64,
    progress: u64,
}

impl Quiet {
    pub(super) fn new(config: QuietConfig, now: Instant) -> Self {
        Self {
            ceiling: QuietCeiling::new(config, now),
            dial: None,
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
        match &mut self.dial {
            Some(dial) => self.ceiling.on_dial_sent(dial, bytes, now),
            None => self.ceiling.on_sent(bytes, now),
        }
    }

    /// The path says how much progress it made so far.
    pub(super) fn look(&mut self, progress: u64, now: Instant) {
        if std::mem::replace(&mut self.progress, progress) != progress {
            self.ceiling.on_progress(now);
        }
    }

    pub(super) fn on_progress(&mut self, now: Instant) {
        self.ceiling.on_progress(now);
    }

    /// Reserves a dial; when there may be room, if there is none.
    fn reserve_dial(&mut self, now: Instant) -> Result<(), Instant> {
        self.dial = Some(self.ceiling.may_dial(now)?);
        Ok(())
    }

    pub(super) fn on_dial_ended(&mut self) {
        if let Some(dial) = self.dial.take() {
            self.ceiling.release(dial);
        }
    }

    pub(super) fn status(&self, now: Instant) -> QuietStatus {
        self.ceiling.status(now)
    }
}

impl Client {
    /// Starts a dial that is due and has room under the ceiling; whether it did.
    pub(super) fn may_dial(&mut self, now: Instant) -> bool {
        if !self.dial.is_due(now) {
            return false;
        }
        if let Err(until) = self.quiet.reserve_dial(now) {
            let spread = ROOM_SPREAD.mul_f64(self.rng.random());
            self.dial_waits("room under the quiet ceiling", until + spread);
            return false;
        }
        match self.dial.start_if_due(now) {
            Ok(started) => started,
            Err(retry) => {
                self.quiet.on_dial_ended();
                let what = format!("the provider's gate: {}", retry.reason);
                self.dial_waits(&what, retry.at);
                false
            }
        }
    }

    /// A dial that is due waits for something. Why there is one to dial stays said.
    fn dial_waits(&mut self, what: &str, until: Instant) {
        const WAITS: &str = "; the next dial waits for ";
        let end = self.reason.find(WAITS).unwrap_or(self.reason.len());
        self.reason.truncate(end);
        self.reason.push_str(WAITS);
        self.reason.push_str(what);
        self.dial.postpone(until);
    }
}
