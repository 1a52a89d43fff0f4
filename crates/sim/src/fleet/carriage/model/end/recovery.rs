//! What came of packets that were sent: acknowledged or lost, and what that says of the window and of the round trip.
//!
//! RFC 9002 as quinn-proto has it. A loss cuts the window to seven tenths (Cubic) once a round trip; losses that span three
//! probe timeouts to two datagrams, from which it grows by slow start. A lost probe for the path's size says nothing but
//! that. Stream data is sent again when it is lost and not with a probe.

use std::collections::VecDeque;

use super::super::{ACK_DELAY_NS, Ack, CWND_MIN, INITIAL_RTT_NS};
use super::{End, Sent};

/// Packets behind an acknowledged one after which an earlier one is lost (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u32 = 3;
/// Smallest granularity of timers (RFC 9002 §6.1.2).
const GRANULARITY_NS: u64 = 1_000_000;

impl<U> End<U> {
    pub(super) fn on_ack(&mut self, ack: Ack, now_ns: u64) {
        let (mut acked_bytes, mut lost_bytes) = (0, 0);
        let mut lost: Option<(Sent, Sent)> = None;
        // RFC 9002 §6.1.2.
        let late_ns = (self.rtt_ns() / 8 * 9).max(GRANULARITY_NS);
        let mut rtt = None;
        let mut index = 0;
        while let Some(sent) = self
            .sent
            .get(index)
            .copied()
            .filter(|s| s.number <= ack.largest)
        {
            let back = ack.largest - sent.number;
            let bit = 1_u64.checked_shl(back.wrapping_sub(1)).unwrap_or(0);
            if back == 0 || ack.before & bit != 0 {
                acked_bytes += u32::from(sent.len_bytes);
                if sent.number + 1 == self.size_probe {
                    (self.size_probe, self.size_losses) = (0, 0);
                    self.size += 1;
                }
                if back == 0 {
                    let held = u64::from(ack.delay_us) * 1_000;
                    rtt = Some(now_ns.saturating_sub(sent.at_ns).saturating_sub(held));
                }
                self.on_control_acked(sent.control);
            } else if back >= PACKET_THRESHOLD || sent.at_ns.saturating_add(late_ns) <= now_ns {
                lost_bytes += u32::from(sent.len_bytes);
                if sent.number + 1 == self.size_probe {
                    // It says nothing of the path but its size.
                    self.size_probe = 0;
                    self.size_losses += 1;
                } else {
                    lost = Some((lost.map_or(sent, |(first, _)| first), sent));
                }
                self.on_control_lost(sent.control);
            } else {
                index += 1;
                continue;
            }
            self.sent.remove(index);
        }
        self.in_flight = self.in_flight.saturating_sub(acked_bytes + lost_bytes);
        if self.sent.is_empty() && self.sent.capacity() > 64 {
            self.sent = VecDeque::new();
        }
        if let Some(rtt) = rtt {
            self.on_rtt(rtt);
        }
        if acked_bytes > 0 {
            self.timeouts = 0;
            self.probes = 0;
            self.grow(acked_bytes);
        }
        if let Some((first, last)) = lost {
            self.shrink(first, last);
        }
    }

    /// Cubic's answer to a loss, once a round trip; RFC 9002 §7.6 where it lasted.
    fn shrink(&mut self, first: Sent, last: Sent) {
        if last.number < self.recovery_until {
            return;
        }
        self.cwnd = (self.cwnd / 10 * 7).max(CWND_MIN);
        self.ssthresh = self.cwnd;
        self.recovery_until = self.next_number;
        if last.at_ns - first.at_ns > 3 * self.pto_base_ns() {
            self.ssthresh = (self.cwnd / 10 * 7).max(CWND_MIN);
            self.cwnd = CWND_MIN;
        }
    }

    fn grow(&mut self, acked_bytes: u32) {
        if !std::mem::take(&mut self.is_limited) {
            return;
        }
        let by = if self.cwnd < self.ssthresh {
            acked_bytes
        } else {
            u32::try_from(
                u64::from(self.mtu()) * u64::from(acked_bytes) / u64::from(self.cwnd.max(1)),
            )
            .unwrap_or(0)
        };
        self.cwnd = self.cwnd.saturating_add(by);
    }

    fn on_control_acked(&mut self, control: u32) {
        let (Some(number), Some(controls)) = (control.checked_sub(1), &mut self.controls) else {
            return;
        };
        controls.out.retain(|message| message.number != number);
        self.tidy();
    }

    fn on_control_lost(&mut self, control: u32) {
        let (Some(number), Some(controls)) = (control.checked_sub(1), &mut self.controls) else {
            return;
        };
        let message = controls.out.iter_mut().find(|m| m.number == number);
        if let Some(message) = message {
            message.due = true;
        }
    }

    /// RFC 9002 §5.3.
    pub(super) fn on_rtt(&mut self, rtt_ns: u64) {
        let sample = u32::try_from(rtt_ns / 1_000).unwrap_or(u32::MAX).max(1);
        if self.srtt_us == 0 {
            (self.srtt_us, self.rttvar_us) = (sample, sample / 2);
            return;
        }
        let difference = u64::from(self.srtt_us.abs_diff(sample));
        let eighths = |of: u32, weight: u64| u64::from(of) * weight;
        let var = (eighths(self.rttvar_us, 3) + difference) / 4;
        let smoothed = (eighths(self.srtt_us, 7) + u64::from(sample)) / 8;
        self.rttvar_us = u32::try_from(var).unwrap_or(u32::MAX);
        self.srtt_us = u32::try_from(smoothed).unwrap_or(u32::MAX).max(1);
    }

    /// RFC 9002 §6.2.1, before any backoff.
    pub(super) fn pto_base_ns(&self) -> u64 {
        if self.srtt_us == 0 {
            return 3 * INITIAL_RTT_NS;
        }
        let var = (4 * u64::from(self.rttvar_us) * 1_000).max(GRANULARITY_NS);
        self.rtt_ns() + var + ACK_DELAY_NS
    }

    pub(super) fn pto_ns(&self) -> u64 {
        self.pto_base_ns()
            .saturating_mul(1 << u32::from(self.timeouts).min(30))
    }
}
