//! How much the floor asks for, round by round.
//!
//! ```text
//!            stalled, queue, loss           every 6 to 48 full rounds
//! Startup ───────────────────────▶ Cruise ────────────────────────────▶ Probe ─┐
//!    ▲                             ▲                                    │ ▲    │ found more
//!    └── nothing known any more    └──────── vain, queue, loss ─────────┘ └────┘
//! ```
//!
//! Only full rounds move it: what a sender with little to send sees says nothing
//! about the path. Vain probes double the cruise, since on a full path whose queue is
//! too short to be seen each one costs every flow packets; the first that finds more
//! brings the shortest back. Random loss keeps them frequent by itself: between
//! probes it wears the best rate off, so that a probe finds more.
//!
//! **Cruise.** A constant gain of 1.25 fills a deep queue by a quarter of a round
//! trip for ever, and overflows one that is shallower: in the model of the crate's
//! tests (20 Mbit/s, 40 ms, 5 ms of queue) it lost 14 % by its own doing and left
//! AIMD beside it 0.1 of 50 Mbit/s. So the floor asks for more in two rounds of eight,
//! stays while it gets more, and asks less often where it got nothing: 2.4 % and 3.4.
//!
//! Between probes it keeps its rate, no more: minimum RTT times rate is too little
//! on a path with jitter, where a packet takes the minimum and something, and such a
//! floor would shrink round by round. So a cruise empties the queue for one round,
//! and from then on counts the lowest mean RTT of a round that it has seen, a quarter
//! above the minimum at most.

/// Gain in start-up, in percent.
///
/// 200: as slow start, which a first random loss ends after a few packets.
pub const STARTUP_GAIN: u64 = 200;

/// Full rounds without a quarter more after which start-up ends.
///
/// 3: BBR's; one round may be short of a burst of loss, three are not.
pub const STARTUP_ROUNDS: u32 = 3;

/// Growth of the best rate by one such part keeps start-up going.
pub const STARTUP_GROWTH_PART: u64 = 4;

/// Growth above the rate before it by one such part keeps a probe going.
///
/// 16: above the noise of a round of a hundred packets, well below the gain.
pub const PROBE_GROWTH_PART: u64 = 16;

/// Gain between probes, in percent.
///
/// 100: what is in flight fills the path and no queue.
pub const CRUISE_GAIN: u64 = 100;

/// Full rounds between probes while probes find something.
///
/// 6: with the two of a probe a cycle is eight rounds, as BBR's.
pub const CRUISE_ROUNDS_MIN: u32 = 6;

/// Full rounds between probes where several in a row found nothing.
///
/// 48: on a full path without a queue a probe costs every flow packets.
pub const CRUISE_ROUNDS_MAX: u32 = 48;

/// Gain of a probe, in percent (DESIGN §4).
///
/// 125: bounds the queue that it makes to a quarter of the path's.
pub const PROBE_GAIN: u64 = 125;

/// Full rounds that a probe waits for growth.
///
/// 2: the first fills the path, the second measures it filled.
pub const PROBE_ROUNDS: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// `stalled` full rounds in a row brought no quarter more.
    Startup { stalled: u32 },
    /// `left` full rounds to the next probe, of `rounds`.
    Cruise { left: u32, rounds: u32 },
    /// `left` full rounds to find more than `base`; a vain one makes the next
    /// cruise twice as long as the last, which took `rounds`.
    Probe { base: u64, left: u32, rounds: u32 },
}

impl Phase {
    pub(super) const START: Self = Self::Startup { stalled: 0 };
    pub(super) const CRUISE: Self = Self::cruise(CRUISE_ROUNDS_MIN);

    /// A cruise that need not empty the queue first.
    pub(super) const EMPTIED: Self = Self::Cruise {
        left: CRUISE_ROUNDS_MIN - 1,
        rounds: CRUISE_ROUNDS_MIN,
    };

    pub(super) const fn cruise(rounds: u32) -> Self {
        Self::Cruise {
            left: rounds,
            rounds,
        }
    }

    pub(super) const fn probe(base: u64, rounds: u32) -> Self {
        Self::Probe {
            base,
            left: PROBE_ROUNDS,
            rounds,
        }
    }

    /// The first round of a cruise: what a probe or start-up put into the queue leaves it.
    pub(super) fn is_emptying(self) -> bool {
        matches!(self, Self::Cruise { left, rounds } if left == rounds)
    }

    pub(super) fn gain(self) -> u64 {
        match self {
            Self::Startup { .. } => STARTUP_GAIN,
            Self::Cruise { .. } => CRUISE_GAIN,
            Self::Probe { .. } => PROBE_GAIN,
        }
    }

    /// After a full round of `rate` that no queue and no loss has marked.
    pub(super) fn next(self, rate: u64, best: u64, best_before: u64) -> Self {
        match self {
            Self::Startup { .. } if grew(rate, best_before, STARTUP_GROWTH_PART) => Self::START,
            Self::Startup { stalled } if stalled + 1 < STARTUP_ROUNDS => Self::Startup {
                stalled: stalled + 1,
            },
            Self::Startup { .. } => Self::CRUISE,
            Self::Cruise { left, rounds } if left > 1 => Self::Cruise {
                left: left - 1,
                rounds,
            },
            Self::Cruise { rounds, .. } => Self::probe(best, rounds),
            Self::Probe { base, .. } if grew(rate, base, PROBE_GROWTH_PART) => {
                // half of the shortest: the probe that ends this was not vain
                Self::probe(rate, CRUISE_ROUNDS_MIN / 2)
            }
            Self::Probe { base, left, rounds } if left > 1 => Self::Probe {
                base,
                left: left - 1,
                rounds,
            },
            Self::Probe { rounds, .. } => Self::cruise((2 * rounds).min(CRUISE_ROUNDS_MAX)),
        }
    }
}

/// Whether `rate` is above `base` by a `part` of it.
fn grew(rate: u64, base: u64, part: u64) -> bool {
    rate > base.saturating_add(base / part)
}
