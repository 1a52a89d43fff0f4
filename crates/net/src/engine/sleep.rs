//! The two clocks that tell whether the machine slept (clock_gettime(2)).

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use quell_core::health::sleep::SleepWatch;

/// Looks at both; how long the machine slept since the last look, if it did. A
/// system without one of them never sleeps.
pub(super) fn look(watch: &mut SleepWatch) -> Option<Duration> {
    let boot = clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?;
    let run = clock_gettime(ClockId::CLOCK_MONOTONIC).ok()?;
    watch.look(boot.into(), run.into())
}
