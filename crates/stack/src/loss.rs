//! When what a TCP sent is to be taken for lost before smoltcp's own timer says so.
//!
//! smoltcp waits a second at the least (RFC 6298 §2.4), and of several segments that were lost together it sends the first
//! again at once and waits that second for each further one. On a narrow path that is a standstill of a second for a few
//! milliseconds' excess. Here the same is known sooner, from the segments that pass, and smoltcp is told by its clock:
//!
//! | what is seen | why it is a loss |
//! |---|---|
//! | nothing acknowledged for `srtt + 4·rttvar`, 200 ms at least | RFC 6298 §2, with the bound that Linux has |
//! | after three duplicate acknowledgements, one that covers a part of what had been sent then | RFC 6582 §3.2: what follows it is lost, too |
//!
//! Either way smoltcp sends all again from the first byte that is missing, in slow start, and what the peer is known to hold
//! is left out on the way ([`Sacked`]). Each time that nothing comes of it the wait
//! doubles (RFC 6298 §5.5), up to [`DOUBLINGS_MAX`]; then smoltcp's own timer is the faster.
//!
//! A segment that was sent twice gives no round trip (Karn). Before the first one is known nothing is hastened.

use std::time::{Duration, Instant};

use quell_packet::{IpPacket, TcpView};

use crate::sacked::Sacked;

/// The least wait for an acknowledgement. A peer may delay it by 40 ms to 200 ms; one that does is asked once too often.
const WAIT_MIN: Duration = Duration::from_millis(200);
/// Beyond it smoltcp's own timer is as good.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// 200 ms become 800 ms: from there on smoltcp's timer, which has doubled as well, is alone.
const DOUBLINGS_MAX: u32 = 2;
/// The option's kind (RFC 2018 §3).
const SACK: u8 = 5;
/// RFC 5681 §3.2.
const DUPLICATES: u32 = 3;

/// What is known of the segments of one TCP.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Behind the last byte that was ever sent, and before the first that is not acknowledged; none before the handshake.
    sent: Option<(u32, u32)>,
    sacked: Sacked,
    duplicates: u32,
    window: u16,
    /// Behind what had been sent when three duplicates came.
    recover: Option<u32>,
    /// The segment whose round trip is taken: behind its last byte, and when it was sent.
    timed: Option<(u32, Instant)>,
    round_trip: Option<RoundTrip>,
    progress_at: Option<Instant>,
    doublings: u32,
}

#[derive(Debug, Clone, Copy)]
struct RoundTrip {
    smoothed: Duration,
    variation: Duration,
}

impl RoundTrip {
    /// RFC 6298 §2.2, §2.3.
    fn next(before: Option<Self>, sample: Duration) -> Self {
        match before {
            None => Self {
                smoothed: sample,
                variation: sample / 2,
            },
            Some(Self {
                smoothed,
                variation,
            }) => Self {
                smoothed: (smoothed * 7 + sample) / 8,
                variation: (variation * 3 + smoothed.abs_diff(sample)) / 4,
            },
        }
    }
}

fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl Losses {
    /// A segment of ours leaves.
    pub(crate) fn on_sent(&mut self, packet: &[u8], now: Instant) {
        let Some((tcp, len)) = segment(packet) else {
            return;
        };
        let end = tcp.sequence().wrapping_add(len);
        if len == 0 {
            return;
        }
        let (sent, acknowledged) = self.sent.unwrap_or((tcp.sequence(), tcp.sequence()));
        if sent == acknowledged {
            self.progress_at = Some(now);
        }
        if is_after(end, sent) {
            self.sent = Some((end, acknowledged));
            self.timed = self.timed.or(Some((end, now)));
        } else {
            // It was sent before: whose acknowledgement comes, nobody can tell.
            self.timed = None;
        }
    }

    /// A segment of the peer's; whether all that is unacknowledged is to be sent again.
    pub(crate) fn on_received(&mut self, packet: &[u8], now: Instant) -> bool {
        let (Some((tcp, len)), Some((sent, acknowledged))) = (segment(packet), self.sent) else {
            return false;
        };
        if !tcp.is_ack() || tcp.is_rst() {
            return false;
        }
        let ack = tcp.acknowledgement();
        self.note_held(&tcp, (acknowledged, sent));
        let window = std::mem::replace(&mut self.window, tcp.window());
        if is_after(ack, acknowledged) && !is_after(ack, sent) {
            self.sent = Some((sent, ack));
            self.sacked.advance(ack);
            return self.on_progress(ack, now);
        }
        let is_duplicate = ack == acknowledged && len == 0 && ack != sent && window == self.window;
        if is_duplicate {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES {
                // smoltcp sends the first segment again by itself.
                self.recover = Some(sent);
                self.timed = None;
            }
        }
        false
    }

    fn note_held(&mut self, tcp: &TcpView<'_>, outstanding: (u32, u32)) {
        let list = tcp.options().map_while(Result::ok);
        for option in list.filter(|option| option.kind == SACK) {
            let (blocks, _) = option.bytes.get(2..).unwrap_or_default().as_chunks::<8>();
            for &[a, b, c, d, e, f, g, h] in blocks {
                let from = u32::from_be_bytes([a, b, c, d]);
                let behind = u32::from_be_bytes([e, f, g, h]);
                self.sacked.insert(from, behind, outstanding);
            }
        }
    }

    /// Whether the peer is known to hold parts of what was sent, so that [`is_held`](Self::is_held) may be true.
    pub(crate) fn knows_held(&self) -> bool {
        !self.sacked.is_empty()
    }

    /// Whether a segment of ours is nothing but what the peer holds.
    pub(crate) fn is_held(&self, packet: &[u8]) -> bool {
        segment(packet).is_some_and(|(tcp, len)| {
            let from = tcp.sequence();
            len > 0 && self.sacked.holds(from, from.wrapping_add(len))
        })
    }

    fn on_progress(&mut self, ack: u32, now: Instant) -> bool {
        self.duplicates = 0;
        self.progress_at = Some(now);
        if let Some((end, at)) = self.timed
            && !is_after(end, ack)
        {
            let sample = now.saturating_duration_since(at);
            self.round_trip = Some(RoundTrip::next(self.round_trip, sample));
            self.timed = None;
            self.doublings = 0;
        }
        match self.recover.take() {
            Some(recover) => is_after(recover, ack),
            None => false,
        }
    }

    /// When what is unacknowledged is to be taken for lost.
    pub(crate) fn due(&self) -> Option<Instant> {
        let RoundTrip {
            smoothed,
            variation,
        } = self.round_trip?;
        let (sent, acknowledged) = self.sent?;
        // A window that is shut is asked by smoltcp.
        if sent == acknowledged || self.doublings > DOUBLINGS_MAX || self.window == 0 {
            return None;
        }
        let wait = (smoothed + 4 * variation).clamp(WAIT_MIN, WAIT_MAX);
        Some(self.progress_at? + wait * 2_u32.pow(self.doublings))
    }

    /// All that is unacknowledged is sent again. `timed_out`: because nothing came.
    pub(crate) fn on_resent(&mut self, timed_out: bool, now: Instant) {
        if timed_out {
            self.doublings += 1;
            self.sacked.clear();
        }
        self.progress_at = Some(now);
        (self.recover, self.timed, self.duplicates) = (None, None, 0);
    }
}

/// A segment, and how much of the sequence it takes.
fn segment(packet: &[u8]) -> Option<(TcpView<'_>, u32)> {
    let ip = IpPacket::parse(packet).ok()?;
    let tcp = TcpView::parse(ip.payload()).ok()?;
    let data = ip.payload().len() - tcp.header_len();
    let ends = u32::from(tcp.is_syn()) + u32::from(tcp.is_fin());
    Some((tcp, data as u32 + ends))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use quell_packet::build::{self, Segment};
    use quell_packet::tcp::flags;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    struct Flow {
        losses: Losses,
        now: Instant,
    }

    impl Flow {
        /// The handshake is over, and a round trip of 20 ms is known.
        fn new() -> Self {
            let mut flow = Self {
                losses: Losses::default(),
                now: Instant::now(),
            };
            flow.send(u32::MAX - 1_000, 1_000);
            flow.now += RTT;
            assert!(!flow.ack(u32::MAX));
            flow
        }

        fn packet(segment: &Segment<'_>, data: &[u8]) -> Vec<u8> {
            let [from, to] = ["10.0.0.1:1", "10.0.0.2:2"].map(|a| a.parse().unwrap());
            build::tcp(from, to, segment, data)
        }

        fn send(&mut self, sequence: u32, len: usize) {
            let segment = Segment {
                sequence,
                flags: flags::ACK,
                window: 100,
                ..Segment::default()
            };
            let packet = Self::packet(&segment, &vec![0; len]);
            self.losses.on_sent(&packet, self.now);
        }

        fn ack(&mut self, acknowledgement: u32) -> bool {
            self.hear(acknowledgement, 100, b"")
        }

        fn hear(&mut self, acknowledgement: u32, window: u16, data: &[u8]) -> bool {
            let segment = Segment {
                acknowledgement,
                flags: flags::ACK,
                window,
                ..Segment::default()
            };
            let packet = Self::packet(&segment, data);
            self.losses.on_received(&packet, self.now)
        }

        /// Ten segments of 1,000 bytes, from the last byte before the numbers begin anew.
        fn send_ten(&mut self) {
            for number in 0..10_u32 {
                self.send(u32::MAX.wrapping_add(number * 1_000), 1_000);
            }
        }
    }

    fn after(segments: u32) -> u32 {
        u32::MAX.wrapping_add(segments * 1_000)
    }

    #[test]
    fn silence_is_a_loss_after_200_ms_and_then_after_ever_more() {
        let mut flow = Flow::new();
        assert_eq!(flow.losses.due(), None, "nothing is unacknowledged");
        flow.send_ten();
        let mut waits = Vec::new();
        while let Some(due) = flow.losses.due() {
            waits.push((due - flow.now).as_millis());
            flow.now = due;
            flow.losses.on_resent(true, flow.now);
        }
        assert_eq!(waits, [200, 400, 800], "and then smoltcp's own timer");
        // A round trip that can be told says that it is over.
        assert!(!flow.ack(after(10)));
        flow.send(after(10), 1_000);
        flow.now += RTT;
        assert!(!flow.ack(after(11)));
        flow.send(after(11), 1_000);
        assert_eq!(flow.losses.due(), Some(flow.now + WAIT_MIN));
    }

    #[test]
    fn a_slow_path_is_waited_for() {
        let mut flow = Flow {
            losses: Losses::default(),
            now: Instant::now(),
        };
        flow.send(0, 1_000);
        assert_eq!(flow.losses.due(), None, "no round trip is known");
        flow.now += Duration::from_millis(150);
        assert!(!flow.ack(1_000));
        flow.send(1_000, 1_000);
        // 150 ms and four times 75 ms.
        let wait = Duration::from_millis(450);
        assert_eq!(flow.losses.due(), Some(flow.now + wait));
    }

    #[test]
    fn a_part_after_three_duplicates_says_that_more_is_lost() {
        let mut flow = Flow::new();
        flow.send_ten();
        assert!(!flow.ack(after(2)));
        for _ in 0..3 {
            assert!(!flow.ack(after(2)));
        }
        assert!(flow.ack(after(5)), "of ten");
        flow.losses.on_resent(false, flow.now);
        assert!(!flow.ack(after(6)), "said once");
    }

    #[test]
    fn two_duplicates_say_nothing() {
        let mut flow = Flow::new();
        flow.send_ten();
        for _ in 0..2 {
            assert!(!flow.ack(after(0)));
        }
        // What carries data, or changes the window, is no duplicate (RFC 5681 §2).
        assert!(!flow.hear(after(0), 100, b"data"));
        assert!(!flow.hear(after(0), 101, b""));
        assert!(!flow.ack(after(5)));
    }

    #[test]
    fn all_of_it_after_three_duplicates_says_that_nothing_else_was() {
        let mut flow = Flow::new();
        flow.send_ten();
        for _ in 0..4 {
            assert!(!flow.ack(after(0)));
        }
        assert!(!flow.ack(after(10)));
    }

    #[test]
    fn what_the_peer_holds_is_not_sent_again_until_it_is_silent() {
        let mut flow = Flow::new();
        flow.send_ten();
        let [from, behind] = [after(4), after(7)].map(u32::to_be_bytes);
        let options = [&[1, 1, SACK, 10][..], &from, &behind].concat();
        let sack = Segment {
            acknowledgement: after(2),
            flags: flags::ACK,
            window: 100,
            options: &options,
            ..Segment::default()
        };
        let packet = Flow::packet(&sack, b"");
        assert!(!flow.losses.on_received(&packet, flow.now));
        let held = |flow: &Flow, number: u32, len: usize| {
            let segment = Segment {
                sequence: after(number),
                ..Segment::default()
            };
            flow.losses.is_held(&Flow::packet(&segment, &vec![0; len]))
        };
        assert!(held(&flow, 4, 1_000) && held(&flow, 5, 2_000));
        assert!(!held(&flow, 3, 1_000) && !held(&flow, 6, 1_001) && !held(&flow, 7, 1_000));
        assert!(!held(&flow, 5, 0), "an acknowledgement is no repetition");
        flow.losses.on_resent(false, flow.now);
        assert!(held(&flow, 4, 1_000));
        flow.losses.on_resent(true, flow.now);
        assert!(!flow.losses.knows_held());
    }

    #[test]
    fn what_was_sent_twice_gives_no_round_trip() {
        let mut flow = Flow::new();
        flow.send(after(0), 1_000);
        flow.now += Duration::from_secs(1);
        flow.send(after(0), 1_000);
        flow.now += RTT;
        assert!(!flow.ack(after(1)));
        flow.send(after(1), 1_000);
        assert_eq!(flow.losses.due(), Some(flow.now + WAIT_MIN));
    }

    #[test]
    fn an_acknowledgement_of_what_was_not_sent_is_none_and_a_shut_window_is_waited_for() {
        let mut flow = Flow::new();
        flow.send(after(0), 1_000);
        let due = flow.losses.due();
        flow.now += RTT;
        assert!(!flow.ack(after(2)));
        assert_eq!(flow.losses.due(), due);
        assert!(!flow.hear(after(0), 0, b""));
        assert_eq!(flow.losses.due(), None);
    }
}
