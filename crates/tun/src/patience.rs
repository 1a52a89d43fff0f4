//! How often a device may fail before it is given up, and how long to pause meanwhile (case B81).
//!
//! Three kinds of event bring no packet:
//!
//! - *idle turns*: an interrupted call, or a wake-up with nothing to read. Harmless, and they may come at the rate of a
//!   profiler's signals; but more than [`IDLE_TURNS_MAX`] within a second is a device that spins, and counts as an
//!   unknown failure;
//! - *passing troubles*: the interface is down, memory is short. They end when somebody ends them, so they are never
//!   fatal; the pause between two looks grows to [`PAUSE_MAX`];
//! - *unknown failures*: the same pauses, and fatal after [`FAILURES_MAX`] in a row. The pauses make that about seven
//!   seconds, so that no short hiccup ends a tunnel.
//!
//! A packet ends all rows. So does time: troubles further apart than [`ROW_GAP`] are not a row.

use std::time::{Duration, Instant};

/// Idle turns within a second that are taken as harmless: ten times the rate of the busiest profiler.
pub(crate) const IDLE_TURNS_MAX: u32 = 10_000;
/// Unknown failures in a row that are borne.
pub(crate) const FAILURES_MAX: u32 = 16;
/// The first pause.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest pause: an interface that comes up again is noticed within this time.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Troubles further apart than this do not belong to one row; longer than any pause.
const ROW_GAP: Duration = Duration::from_secs(10);
/// The span over which idle turns are counted.
const IDLE_SPAN: Duration = Duration::from_secs(1);

/// What to do after an event without a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Go on at once.
    Again,
    /// Go on after this time.
    Pause(Duration),
    /// Give the device up.
    GiveUp,
}

/// The rows that are being counted.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    idle_since: Option<Instant>,
    idle_turns: u32,
    trouble_at: Option<Instant>,
    pauses: u32,
    failures: u32,
}

impl Patience {
    /// A packet came or went: all rows end.
    pub(crate) fn progress(&mut self) {
        *self = Self::default();
    }

    /// A call was interrupted, or woke up for nothing.
    pub(crate) fn idle_turn(&mut self, now: Instant) -> Verdict {
        let within = self
            .idle_since
            .is_some_and(|since| now.saturating_duration_since(since) < IDLE_SPAN);
        if !within {
            self.idle_since = Some(now);
            self.idle_turns = 0;
        }
        self.idle_turns = self.idle_turns.saturating_add(1);
        if self.idle_turns <= IDLE_TURNS_MAX {
            return Verdict::Again;
        }
        self.failure(now)
    }

    /// Something is in the way that will pass: never fatal.
    pub(crate) fn trouble(&mut self, now: Instant) -> Verdict {
        Verdict::Pause(self.next_pause(now))
    }

    /// A failure of unknown kind: fatal after too many in a row.
    pub(crate) fn failure(&mut self, now: Instant) -> Verdict {
        let pause = self.next_pause(now);
        self.failures += 1;
        if self.failures > FAILURES_MAX {
            return Verdict::GiveUp;
        }
        Verdict::Pause(pause)
    }

    fn next_pause(&mut self, now: Instant) -> Duration {
        let in_row = self
            .trouble_at
            .is_some_and(|at| now.saturating_duration_since(at) < ROW_GAP);
        if !in_row {
            self.pauses = 0;
            self.failures = 0;
        }
        self.trouble_at = Some(now);
        let pause = PAUSE_MIN
            .saturating_mul(2_u32.saturating_pow(self.pauses))
            .min(PAUSE_MAX);
        self.pauses = self.pauses.saturating_add(1);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    // case B81
    #[test]
    fn failures_in_a_row_are_borne_sixteen_times_with_growing_pauses() {
        let mut now = Instant::now();
        let start = now;
        let mut patience = Patience::default();
        let mut pauses = Vec::new();
        for _ in 0..FAILURES_MAX {
            let Verdict::Pause(pause) = patience.failure(now) else {
                panic!("given up after {}", pauses.len());
            };
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses[0], ms(1));
        assert_eq!(pauses[9], ms(512));
        assert_eq!(pauses[10], PAUSE_MAX);
        assert_eq!(pauses[15], PAUSE_MAX);
        assert_eq!(patience.failure(now), Verdict::GiveUp);
        let borne = now - start;
        assert!(
            borne > Duration::from_secs(5) && borne < Duration::from_secs(10),
            "{borne:?}"
        );
    }

    // case B81
    #[test]
    fn a_passing_trouble_is_never_fatal_and_never_paused_longer_than_a_second() {
        let mut now = Instant::now();
        let mut patience = Patience::default();
        for _ in 0..1_000 {
            let Verdict::Pause(pause) = patience.trouble(now) else {
                panic!("a trouble must pause");
            };
            assert!(pause >= PAUSE_MIN && pause <= PAUSE_MAX);
            now += pause;
        }
    }

    #[test]
    fn idle_turns_are_free_up_to_their_rate() {
        let now = Instant::now();
        let mut patience = Patience::default();
        for _ in 0..IDLE_TURNS_MAX {
            assert_eq!(patience.idle_turn(now), Verdict::Again);
        }
        assert_eq!(patience.idle_turn(now), Verdict::Pause(PAUSE_MIN));

        // A profiler at 1 kHz for an hour of silence costs nothing.
        let mut patience = Patience::default();
        for turn in 0..3_600_000 {
            assert_eq!(patience.idle_turn(now + ms(turn)), Verdict::Again);
        }
    }

    #[test]
    fn a_packet_or_a_quiet_spell_ends_the_row() {
        let now = Instant::now();
        let mut patience = Patience::default();
        for _ in 0..FAILURES_MAX {
            let _ = patience.failure(now);
        }
        patience.progress();
        assert_eq!(patience.failure(now), Verdict::Pause(PAUSE_MIN));

        let mut patience = Patience::default();
        for _ in 0..FAILURES_MAX {
            let _ = patience.failure(now);
        }
        assert_eq!(patience.failure(now + ROW_GAP), Verdict::Pause(PAUSE_MIN));
    }

    #[test]
    fn just_within_the_gap_it_is_still_a_row() {
        let now = Instant::now();
        let mut patience = Patience::default();
        for _ in 0..FAILURES_MAX {
            let _ = patience.failure(now);
        }
        assert_eq!(patience.failure(now + ROW_GAP - ms(1)), Verdict::GiveUp);
    }
}
