//! What the QUIC connection beneath can take at the moment.
//!
//! quinn keeps an own queue of datagrams. Whatever stands in it is out of our
//! hands: it cannot be reordered, cancelled or aged, and every packet behind it
//! waits. So little is handed over at a time, at most what leaves within
//! [`HAND_OVER_TIME`], two datagrams at least and [`HAND_OVER_BYTES_MAX`] at most
//! (DESIGN §4). What the driver saw last is the whole state; each datagram handed
//! over shrinks it until the driver looks again.
//!
//! A carrier that refused a datagram is offered none until it tells something else
//! than before: one that is closed refuses for ever, and what is offered again in the
//! same breath would be refused in the same breath.

use std::time::Duration;

use quell_wire::frame::Ping;

/// The time's worth of sending that may stand in the carrier's queue.
///
/// 2 ms: longer than a wake-up of the driver, far shorter than anyone notices.
pub const HAND_OVER_TIME: Duration = Duration::from_millis(2);

/// Most bytes in the carrier's queue, however fast the path is.
///
/// 32 KiB: two of quinn's segmentation batches of 10 datagrams of 1,452 bytes.
pub const HAND_OVER_BYTES_MAX: usize = 32 * 1024;

/// A path whose datagrams are shorter than this, in bytes, carries nothing.
///
/// The longest PING: what cannot even be asked about is not there. The size is
/// the peer's word (RFC 9221 §3, `max_datagram_frame_size`), and one too small
/// for a PONG would leave us with an answer that is due for ever.
pub const DATAGRAM_LEN_MIN: usize = Ping::ENCODED_LEN_MAX;

/// What the driver reads off the QUIC connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CarrierFacts {
    /// Largest datagram the path carries, in bytes.
    pub datagram_len_max: usize,
    /// Bytes handed over and not yet sent.
    pub backlog_bytes: usize,
    /// The congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// The smoothed round-trip time.
    pub rtt: Duration,
}

/// The carrier as last seen, less what was handed over since.
#[derive(Debug, Clone, Default)]
pub(crate) struct Carrier {
    datagram_len_max: usize,
    space_bytes: usize,
    cwnd_bytes: u64,
    rtt: Duration,
    told: Option<CarrierFacts>,
    /// It refused a datagram, and told nothing new since.
    refused: bool,
}

impl Carrier {
    pub(crate) fn update(&mut self, facts: CarrierFacts) {
        let news = self.told.replace(facts) != Some(facts);
        self.refused &= !news;
        let usable = facts.datagram_len_max >= DATAGRAM_LEN_MIN;
        self.datagram_len_max = if usable { facts.datagram_len_max } else { 0 };
        self.space_bytes = hand_over_bytes(&facts).saturating_sub(facts.backlog_bytes);
        (self.cwnd_bytes, self.rtt) = (facts.cwnd_bytes, facts.rtt);
    }

    /// No connection is there; the sizes stay those of the last one.
    pub(crate) fn suspend(&mut self) {
        self.space_bytes = 0;
        self.refused = false;
    }

    pub(crate) fn on_refused(&mut self) {
        self.refused = true;
    }

    /// Bytes that leave within `time` at the congestion window's rate.
    pub(crate) fn bytes_in(&self, time: Duration) -> usize {
        bytes_in(self.cwnd_bytes, self.rtt, time)
    }

    /// Largest datagram the path carries; 0 before the first facts, and where it carries none.
    pub(crate) fn datagram_len_max(&self) -> usize {
        self.datagram_len_max
    }

    /// Whether one more full datagram may be handed over.
    pub(crate) fn has_space(&self) -> bool {
        !self.refused && self.datagram_len_max > 0 && self.space_bytes >= self.datagram_len_max
    }

    pub(crate) fn handed_over(&mut self, len_bytes: usize) {
        self.space_bytes = self.space_bytes.saturating_sub(len_bytes);
    }
}

fn bytes_in(cwnd_bytes: u64, rtt: Duration, time: Duration) -> usize {
    let bytes = u128::from(cwnd_bytes).saturating_mul(time.as_nanos()) / rtt.as_nanos().max(1);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn hand_over_bytes(facts: &CarrierFacts) -> usize {
    bytes_in(facts.cwnd_bytes, facts.rtt, HAND_OVER_TIME)
        .min(HAND_OVER_BYTES_MAX)
        .max(2 * facts.datagram_len_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(cwnd_bytes: u64, rtt_ms: u64, backlog_bytes: usize) -> CarrierFacts {
        CarrierFacts {
            datagram_len_max: 1_400,
            backlog_bytes,
            cwnd_bytes,
            rtt: Duration::from_millis(rtt_ms),
        }
    }

    #[test]
    fn a_slow_path_takes_two_datagrams_and_a_fast_one_the_maximum() {
        assert_eq!(hand_over_bytes(&facts(12_000, 50, 0)), 2_800);
        assert_eq!(hand_over_bytes(&facts(500_000, 50, 0)), 20_000);
        assert_eq!(hand_over_bytes(&facts(u64::MAX, 0, 0)), HAND_OVER_BYTES_MAX);
    }

    #[test]
    fn a_path_too_narrow_for_a_ping_has_no_space() {
        let mut carrier = Carrier::default();
        for (len, usable) in [(DATAGRAM_LEN_MIN, true), (DATAGRAM_LEN_MIN - 1, false)] {
            carrier.update(CarrierFacts {
                datagram_len_max: len,
                ..facts(12_000, 50, 0)
            });
            assert_eq!(carrier.has_space(), usable, "{len}");
        }
    }

    #[test]
    fn a_refusal_ends_with_the_first_news_and_with_the_connection() {
        let mut carrier = Carrier::default();
        carrier.update(facts(12_000, 50, 0));
        carrier.on_refused();
        assert!(!carrier.has_space());
        carrier.update(facts(12_000, 50, 0));
        assert!(!carrier.has_space(), "told the same");
        carrier.update(facts(12_001, 50, 0));
        assert!(carrier.has_space());
        carrier.update(facts(12_001, 50, 0));
        assert!(carrier.has_space());
        carrier.on_refused();
        carrier.suspend();
        carrier.update(facts(12_001, 50, 0));
        assert!(carrier.has_space(), "another connection");
    }

    #[test]
    fn space_ends_exactly_where_one_more_datagram_would_pass_the_limit() {
        let mut carrier = Carrier::default();
        assert!(!carrier.has_space(), "nothing is known yet");
        carrier.update(facts(12_000, 50, 1_400));
        assert!(carrier.has_space());
        carrier.update(facts(12_000, 50, 1_401));
        assert!(!carrier.has_space());
        carrier.update(facts(12_000, 50, 0));
        carrier.handed_over(1_400);
        assert!(carrier.has_space());
        carrier.handed_over(1_400);
        assert!(!carrier.has_space());
    }
}
