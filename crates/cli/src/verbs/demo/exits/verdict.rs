//! The figures of the second act, and whether they are within their bounds.
//!
//! | bound | why this much |
//! |---|---|
//! | 4,000 ms to a new connection | a stall is certain within two timeouts and a PING, and TCP asks again within a second |
//! | 1,000 ms that a stream on another exit waits | nothing holds it up but this machine |
//! | 20,000 ms until a stream goes on | an exit that is not the first choice is asked rarely while it is silent |
//! | nothing failed, strayed, sent away or unaccounted for | no reason for any of it |

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::books::Books;
use super::super::bounds::{Bound, Table, bound, ms};
use super::crowd::Crowd;
use super::{EXITS, Second};
use quell_sim::report::grouped;

const NEW_CONNECTION_MS_MAX: u64 = 4_000;
const STREAM_RESUMED_MS_MAX: u64 = 20_000;

/// What the act measured.
#[derive(Debug, Clone)]
pub(in super::super) struct Figures {
    pub(super) crowd: Crowd,
    /// From the thaw of its exit to bytes of the first stream at its sink.
    pub(super) stream_thawed: Option<Duration>,
    /// From the heal likewise.
    pub(super) stream_healed: Option<Duration>,
    /// The longest time without bytes of it from the kill of another exit to the silence.
    pub(super) stream_gap: Duration,
    /// Bytes of it that were sent, and that arrived.
    pub(super) stream_bytes: (u64, u64),
    /// Exits that were sent away for the silence of all.
    pub(super) evictions: u64,
    pub(super) client: Books,
    /// What the exits that lived to the end cannot account for.
    pub(super) unaccounted_by_exits: u64,
    /// All of it, second by second.
    pub(super) seconds: Vec<Second>,
}

impl Figures {
    /// What moved, second by second.
    pub(in super::super) fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    fn unaccounted(&self) -> u64 {
        let client = self.client.unaccounted();
        client.saturating_add(self.unaccounted_by_exits)
    }

    pub(in super::super) fn bounds(&self) -> [Bound; 11] {
        let crowd = &self.crowd;
        let (sent, arrived) = self.stream_bytes;
        [
            bound(
                "new_connection_after_freeze_ms",
                "ms from the freeze to a new connection",
                crowd.after_freeze.map(ms),
                NEW_CONNECTION_MS_MAX,
            ),
            bound(
                "new_connection_after_kill_ms",
                "ms from the kill to a new connection",
                crowd.after_kill.map(ms),
                NEW_CONNECTION_MS_MAX,
            ),
            bound(
                "new_connection_after_silence_ms",
                "ms from the heal to a new connection",
                crowd.after_heal.map(ms),
                NEW_CONNECTION_MS_MAX,
            ),
            bound(
                "requests_failed",
                "requests failed whose exit was not killed",
                Some(crowd.failed_else),
                0,
            ),
            bound(
                "requests_strayed",
                "requests that changed exits without a reason",
                Some(crowd.strays),
                0,
            ),
            bound(
                "stream_after_thaw_ms",
                "ms from the thaw to bytes of the stream",
                self.stream_thawed.map(ms),
                STREAM_RESUMED_MS_MAX,
            ),
            bound(
                "stream_gap_at_kill_ms",
                "ms the stream waited while another was killed",
                Some(ms(self.stream_gap)),
                1_000,
            ),
            bound(
                "stream_after_silence_ms",
                "ms from the heal to bytes of the stream",
                self.stream_healed.map(ms),
                STREAM_RESUMED_MS_MAX,
            ),
            bound(
                "stream_bytes_missing",
                "bytes of the stream that never arrived",
                Some(sent.saturating_sub(arrived)),
                0,
            ),
            bound(
                "evictions",
                "exits sent away while all were silent",
                Some(self.evictions),
                0,
            ),
            bound(
                "exits_unaccounted",
                "packets and packs unaccounted for",
                Some(self.unaccounted()),
                0,
            ),
        ]
    }

    /// Everything but the bounds, as one object.
    pub(in super::super) fn json(&self) -> Value {
        let crowd = &self.crowd;
        let (sent, arrived) = self.stream_bytes;
        json!({
            "requests": {
                "answered_by_exit": crowd.answers,
                "failed_open_at_kill": crowd.failed_open,
                "failed_in_silence": crowd.failed_silent,
                "failed_else": crowd.failed_else,
                "strayed": crowd.strays,
            },
            "new_connection_ms": {
                "after_freeze": crowd.after_freeze.map(ms),
                "after_kill": crowd.after_kill.map(ms),
                "after_silence": crowd.after_heal.map(ms),
            },
            "stream_ms": {
                "after_thaw": self.stream_thawed.map(ms),
                "gap_at_kill": ms(self.stream_gap),
                "after_silence": self.stream_healed.map(ms),
            },
            "stream_bytes": {"sent": sent, "arrived": arrived},
            "evictions": self.evictions,
            "conservation": {"client": self.client.json()},
            "unaccounted": self.unaccounted(),
        })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let crowd = &self.crowd;
        let [one, two, three] = crowd.answers.map(grouped);
        const { assert!(EXITS == 3, "the sentence names each exit") };
        writeln!(
            f,
            "answers: {one} through exit 1, {two} through exit 2, {three} through exit 3"
        )?;
        writeln!(
            f,
            "failed: {} open when their exit was killed, {} while all were silent",
            grouped(crowd.failed_open),
            grouped(crowd.failed_silent),
        )?;
        let (accepted, dropped) = self.client.accepted_and_dropped();
        let (accepted, dropped) = (grouped(accepted), grouped(dropped));
        writeln!(
            f,
            "client: {accepted} packets to carry, {dropped} of them dropped by reason"
        )?;
        write!(f, "{}", Table(&self.bounds()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::bounds::broken;
    use super::*;

    /// An act in which every figure is exactly at its bound.
    fn at_the_bounds() -> Figures {
        let limit = Some(Duration::from_millis(NEW_CONNECTION_MS_MAX));
        let resumed = Some(Duration::from_millis(STREAM_RESUMED_MS_MAX));
        Figures {
            crowd: Crowd {
                answers: [1_000, 2_000, 3_000],
                after_freeze: limit,
                after_kill: limit,
                after_heal: limit,
                failed_open: 8,
                failed_silent: 8,
                failed_else: 0,
                strays: 0,
            },
            stream_thawed: resumed,
            stream_healed: resumed,
            stream_gap: Duration::from_secs(1),
            stream_bytes: (5_000, 5_000),
            evictions: 0,
            client: Books::of_client(&json!({"unaccounted": 0})),
            unaccounted_by_exits: 0,
            seconds: Vec::new(),
        }
    }

    /// One step past each bound, in the order of the bounds.
    const STEPS: [fn(&mut Figures); 11] = [
        |act| act.crowd.after_freeze = Some(Duration::from_nanos(4_000_000_001)),
        |act| act.crowd.after_kill = Some(Duration::from_nanos(4_000_000_001)),
        |act| act.crowd.after_heal = Some(Duration::from_nanos(4_000_000_001)),
        |act| act.crowd.failed_else = 1,
        |act| act.crowd.strays = 1,
        |act| act.stream_thawed = Some(Duration::from_nanos(20_000_000_001)),
        |act| act.stream_gap = Duration::from_nanos(1_000_000_001),
        |act| act.stream_healed = None,
        |act| act.stream_bytes.1 -= 1,
        |act| act.evictions = 1,
        |act| act.unaccounted_by_exits = 1,
    ];

    #[test]
    fn one_step_past_a_bound_breaks_it_and_no_other() {
        let act = at_the_bounds();
        assert_eq!(broken(&act.bounds()), [""; 0]);
        assert!(!act.to_string().contains("BROKEN"), "{act}");
        for (bound, step) in act.bounds().iter().zip(STEPS) {
            let mut act = at_the_bounds();
            step(&mut act);
            assert_eq!(broken(&act.bounds()), [bound.name]);
            assert_eq!(act.to_string().matches("BROKEN").count(), 1, "{act}");
        }
    }

    #[test]
    fn the_verdict_is_readable_on_any_terminal() {
        let mut act = at_the_bounds();
        act.crowd.answers = [123_456; EXITS];
        let text = act.to_string();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
