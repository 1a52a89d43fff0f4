//! What a client's log says of its connection: one line a minute and class at most.
//!
//! A class is a kind of notice: the log of an outage tells that the connection was lost,
//! and then each minute how the dials fare, with the number of notices that a line stands
//! for beside itself (case B84). Whether a line is written depends on nothing but the
//! lines before it, and nothing else depends on that.

use std::time::Instant;

use quell_core::multi::Notice;
use quell_tun::LogGate;
use tracing::{info, warn};

/// One gate a class.
#[derive(Debug, Default)]
pub(super) struct Notes {
    up: LogGate,
    resumed: LogGate,
    suspended: LogGate,
    down: LogGate,
    dial_failed: LogGate,
}

impl Notes {
    pub(super) fn write(&mut self, notice: &Notice, remote: &str, now: Instant) {
        let gate = match notice {
            Notice::Up { .. } => &mut self.up,
            Notice::Resumed => &mut self.resumed,
            Notice::Suspended { .. } => &mut self.suspended,
            Notice::Down { .. } => &mut self.down,
            Notice::DialFailed { .. } => &mut self.dial_failed,
        };
        if let Some(stands_for) = gate.admit(now) {
            log(notice, remote, stands_for - 1);
        }
    }
}

fn log(notice: &Notice, remote: &str, suppressed: u64) {
    match notice {
        Notice::Up { failures_before } => info!(
            provider = remote,
            failures_before, suppressed, "tunnel is up"
        ),
        Notice::Resumed => info!(provider = remote, suppressed, "the session goes on"),
        Notice::Suspended {
            words,
            next_dial_in,
        } => warn!(
            provider = remote,
            next_dial_in_s = next_dial_in.as_secs_f32(),
            suppressed,
            "connection lost, the session waits for another: {words}"
        ),
        Notice::Down {
            words,
            next_dial_in,
        } => warn!(
            provider = remote,
            next_dial_in_s = next_dial_in.as_secs_f32(),
            suppressed,
            "tunnel is down: {words}"
        ),
        Notice::DialFailed {
            words,
            failures,
            next_dial_in,
        } => warn!(
            provider = remote,
            failures,
            next_dial_in_s = next_dial_in.as_secs_f32(),
            suppressed,
            "cannot connect: {words}"
        ),
    }
}

#[cfg(test)]
mod tests;
