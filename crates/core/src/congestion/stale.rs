//! A smoothed RTT that holds an outage, and what it may not do to the pace.
//!
//! The first acknowledgement after a cut often names a packet that came just before
//! it: the peer's own answer to that one was lost. QUIC takes the length of the cut
//! for a round trip, an eighth of which stays in its smoothed RTT for a dozen
//! acknowledgements more. Its pacer spreads a window over that RTT: after a cut of
//! 55 s on a path of 20 ms, a window would take seven seconds, and what is handed
//! over would wait for longer than it is worth.
//!
//! ```text
//! trusted --silence--> doubted: packets sent since then measure; window × QUIC's RTT / ours
//!    ^------------------------- QUIC's is within a quarter of ours ----------'
//! ```
//!
//! The pace is then that of the window and of the RTT that there is. What may be in
//! flight is more than the window meanwhile; at that pace it is not used before a
//! round trip without an answer, and then the path falls silent again.

use std::time::{Duration, Instant};

/// QUIC's RTT is trusted again within one such part of ours: as near as an RTT is to
/// another that is smoothed the same way.
const TRUST_PART: u32 = 4;

/// Above this many bytes a window is not paced at all.
const PACED_BYTES_MAX: u64 = u32::MAX as u64;

/// Two smoothed RTTs, one of which does not know the outage.
#[derive(Debug, Clone, Default)]
pub struct StaleRtt {
    /// When the silence began, while QUIC's RTT is in doubt.
    since: Option<Instant>,
    own: Duration,
    quic: Duration,
    newest_sent: Option<Instant>,
}

impl StaleRtt {
    /// The path is silent from `now` on.
    pub fn on_silence(&mut self, now: Instant) {
        if self.since.is_none() && !self.quic.is_zero() {
            (self.since, self.own) = (Some(now), self.quic);
        }
    }

    /// A packet that left at `sent` was acknowledged; `smoothed` is QUIC's RTT so far.
    pub fn on_acked(&mut self, sent: Instant, smoothed: Duration) {
        self.quic = smoothed;
        self.newest_sent = self.newest_sent.max(Some(sent));
    }

    /// The acknowledgement is complete: QUIC takes its sample now.
    pub fn on_acks_end(&mut self, now: Instant) {
        let Some(sent) = self.newest_sent.take() else {
            return;
        };
        let Some(since) = self.since else { return };
        let sample = now.saturating_duration_since(sent);
        self.quic = smooth(self.quic, sample);
        if sent < since {
            return;
        }
        self.own = smooth(self.own, sample);
        if self.quic <= self.own.saturating_add(self.own / TRUST_PART) {
            self.since = None;
        }
    }

    /// The RTT to go by, where QUIC's is `smoothed`.
    pub fn believed(&self, smoothed: Duration) -> Duration {
        match self.since {
            Some(_) => smoothed.min(self.own),
            None => smoothed,
        }
    }

    /// The window that makes QUIC's pace the one of `window_bytes` and the RTT to go by.
    pub fn scaled_bytes(&self, window_bytes: u64) -> u64 {
        if self.since.is_none() || self.quic <= self.own || self.own.is_zero() {
            return window_bytes;
        }
        let scaled =
            u128::from(window_bytes).saturating_mul(self.quic.as_nanos()) / self.own.as_nanos();
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
        scaled.min(PACED_BYTES_MAX.max(window_bytes))
    }
}

/// RFC 6298 §2: an eighth of the news.
fn smooth(before: Duration, sample: Duration) -> Duration {
    before.saturating_mul(7).saturating_add(sample) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn acked(rtt: &mut StaleRtt, quic: &mut Duration, sent: Instant, now: Instant) {
        rtt.on_acked(sent, *quic);
        rtt.on_acks_end(now);
        *quic = smooth(*quic, now - sent);
    }

    #[test]
    fn an_outage_changes_neither_the_pace_nor_what_is_believed() {
        for outage in [1, 55, 600].map(Duration::from_secs) {
            let t0 = Instant::now();
            let (mut rtt, mut quic) = (StaleRtt::default(), 20 * MS);
            acked(&mut rtt, &mut quic, t0, t0 + 20 * MS);
            let hushed = t0 + 100 * MS;
            rtt.on_silence(hushed);
            rtt.on_silence(hushed + 50 * MS);
            let healed = hushed + outage;
            // News of what was sent before the silence.
            acked(&mut rtt, &mut quic, t0 + 30 * MS, healed);
            assert!(quic > 120 * MS);
            let mut round = 0;
            while rtt.since.is_some() {
                let pace = |window: u64, rtt: Duration| window as f64 / rtt.as_secs_f64();
                let (is, should) = (pace(rtt.scaled_bytes(30_000), quic), pace(30_000, 20 * MS));
                assert!(
                    (0.79..1.01).contains(&(is / should)),
                    "{round}: {is} {should}"
                );
                assert_eq!(rtt.believed(quic), 20 * MS);
                round += 1;
                let sent = healed + round * 20 * MS;
                acked(&mut rtt, &mut quic, sent, sent + 20 * MS);
                assert!(round < 150);
            }
            assert!(quic <= 25 * MS, "{quic:?}");
            assert_eq!(rtt.scaled_bytes(30_000), 30_000);
            assert_eq!(rtt.believed(70 * MS), 70 * MS);
        }
    }

    #[test]
    fn a_path_that_came_back_longer_is_learnt() {
        let t0 = Instant::now();
        let (mut rtt, mut quic) = (StaleRtt::default(), 20 * MS);
        acked(&mut rtt, &mut quic, t0, t0 + 20 * MS);
        rtt.on_silence(t0 + 100 * MS);
        for round in 0..40 {
            let sent = t0 + Duration::from_secs(10) + round * 200 * MS;
            acked(&mut rtt, &mut quic, sent, sent + 200 * MS);
        }
        assert!(rtt.since.is_none());
        assert!(rtt.believed(quic) > 190 * MS);
    }

    #[test]
    fn before_anything_is_known_and_at_the_ends_of_numbers_nothing_happens() {
        let now = Instant::now();
        let mut rtt = StaleRtt::default();
        rtt.on_silence(now);
        rtt.on_acks_end(now);
        assert_eq!(rtt.scaled_bytes(7), 7);
        rtt.on_acked(now, MS);
        rtt.on_silence(now);
        rtt.on_acked(now, Duration::MAX);
        rtt.on_acks_end(now);
        assert_eq!(rtt.scaled_bytes(u64::MAX / 2), u64::MAX / 2);
        assert_eq!(rtt.scaled_bytes(1 << 20), PACED_BYTES_MAX);
    }
}
