//! The figures of the first act, and whether they are within their bounds.
//!
//! | bound | why this much |
//! |---|---|
//! | 49,152 bytes out | two timeouts of load until the silence is certain, then what the tail of repairs and PINGs takes |
//! | 8,192 of them after the first second | near zero: a PING now and then, whatever is offered |
//! | 1,000 ms to the first answer | a person takes it for a hiccup, not for a tunnel to be restarted |
//! | 1,200 ms to bytes of the stream | the same, and a repair of what was lost in the cut |
//! | 17 sends of one pack | one, and 16 resends (R-10) |
//! | nothing damaged, lost or unaccounted for | no reason to lose it: the outage is shorter than a pack's life |

use std::fmt;

use quell_sim::report::grouped;
use serde_json::{Value, json};

use super::Ends;
use super::books::Books;
use super::bounds::{Bound, Table, bound, ms};
use super::outage::{CAUSES, Outage, Second};
use super::quiet::Quiet;
use super::text::wrapped;

/// What a run of the demo measured.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    download_mbit_s: f64,
    downloads_damaged: u64,
    pings_lost: u64,
    outage: Outage,
    max_sends_of_one_pack: Option<u64>,
    client: Books,
    provider: Books,
}

impl Figures {
    /// What moved, second by second.
    pub(super) fn seconds(&self) -> &[Second] {
        &self.outage.seconds
    }

    /// Those of a run whose ends said `ends` last.
    pub(super) fn of(quiet: &Quiet, outage: Outage, ends: &Ends) -> Self {
        let sends = |status: &Value| status["max_sends_of_one_pack"].as_u64();
        let most = |(client, provider): (u64, u64)| client.max(provider);
        Self {
            download_mbit_s: quiet.mbit_s(),
            downloads_damaged: quiet.is_damaged().into(),
            pings_lost: quiet.pings_lost(),
            outage,
            max_sends_of_one_pack: sends(&ends.client).zip(sends(&ends.provider)).map(most),
            client: Books::of_client(&ends.client),
            provider: Books::of_provider(&ends.provider),
        }
    }

    fn unaccounted(&self) -> u64 {
        let (client, provider) = (self.client.unaccounted(), self.provider.unaccounted());
        client.saturating_add(provider)
    }

    pub(super) fn bounds(&self) -> [Bound; 9] {
        let outage = &self.outage;
        let missing = outage
            .tcp_bytes_sent
            .saturating_sub(outage.tcp_bytes_arrived);
        [
            bound(
                "downloads_damaged",
                "downloads damaged",
                Some(self.downloads_damaged),
                0,
            ),
            bound(
                "pings_lost",
                "pings lost before the cut",
                Some(self.pings_lost),
                0,
            ),
            bound(
                "udp_bytes_out_in_outage",
                "UDP bytes that the client sent while cut",
                Some(outage.bytes_out),
                49_152,
            ),
            bound(
                "udp_bytes_out_after_first_second",
                "of them after the first second",
                Some(outage.bytes_out_after_first_second),
                8_192,
            ),
            bound(
                "first_packet_after_heal_ms",
                "ms from the heal to the first answer",
                outage.first_packet.map(ms),
                1_000,
            ),
            bound(
                "tcp_resumed_after_heal_ms",
                "ms from the heal to bytes of the open stream",
                outage.tcp_resumed.map(ms),
                1_200,
            ),
            bound(
                "tcp_bytes_missing",
                "bytes of the stream that never arrived",
                Some(missing),
                0,
            ),
            bound(
                "max_sends_of_one_pack",
                "sends of the pack that was sent most",
                self.max_sends_of_one_pack,
                17,
            ),
            bound(
                "unaccounted",
                "packets and packs unaccounted for",
                Some(self.unaccounted()),
                0,
            ),
        ]
    }

    /// Everything but the bounds, as one object.
    pub(super) fn json(&self) -> Value {
        let outage = &self.outage;
        let mut bytes_out = json!({
            "total": outage.bytes_out,
            "after_first_second": outage.bytes_out_after_first_second,
        });
        for (cause, bytes) in CAUSES.iter().zip(outage.bytes_out_by_cause) {
            bytes_out[cause] = bytes.into();
        }
        json!({
            "download_mbit_s": tenths(self.download_mbit_s),
            "outage_s": tenths(outage.time.as_secs_f64()),
            "udp_bytes_out_in_outage": bytes_out,
            "bytes_offered_in_outage": outage.bytes_offered,
            "dials_in_outage": outage.dials,
            "first_packet_after_heal_ms": outage.first_packet.map(ms),
            "tcp_resumed_after_heal_ms": outage.tcp_resumed.map(ms),
            "tcp_bytes": {"sent": outage.tcp_bytes_sent, "arrived": outage.tcp_bytes_arrived},
            "max_sends_of_one_pack": self.max_sends_of_one_pack,
            "conservation": {"client": self.client.json(), "provider": self.provider.json()},
            "unaccounted": self.unaccounted(),
        })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outage = &self.outage;
        writeln!(
            f,
            "offered while cut: {} bytes; sent: {} bytes",
            grouped(outage.bytes_offered),
            grouped(outage.bytes_out),
        )?;
        let causes = CAUSES.iter().zip(outage.bytes_out_by_cause);
        let causes = causes.filter(|(_, bytes)| *bytes != 0);
        let causes: Vec<_> = causes
            .map(|(cause, bytes)| {
                let sign = if bytes < 0 { "-" } else { "" };
                format!("{cause} {sign}{}", grouped(bytes.unsigned_abs()))
            })
            .collect();
        write!(f, "{}", wrapped(&causes))?;
        for (end, books) in [("client", &self.client), ("exit", &self.provider)] {
            let (accepted, dropped) = books.accepted_and_dropped();
            let (accepted, dropped) = (grouped(accepted), grouped(dropped));
            writeln!(
                f,
                "{end}: {accepted} packets to carry, {dropped} of them dropped by reason"
            )?;
        }
        write!(f, "{}", Table(&self.bounds()))
    }
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests;
