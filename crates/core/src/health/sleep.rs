//! Was this machine asleep?
//!
//! Timers here go by a clock that stands still while the machine sleeps, so after
//! half an hour under a closed lid a keepalive may be due in ten seconds and a dial
//! in fifty, on a network that is another one. A second clock, which went on, tells:
//! the two drift apart by what was slept and by nothing else. Whether a timer came
//! late says nothing, as a process may be stopped, or idle by design, and the wall
//! clock may be set; neither moves these two apart.
//!
//! ```text
//! boot time − run time:  ───────────────┐ slept for 30 min
//!                                       └──────────────── once, however often asked
//! ```

use std::time::Duration;

/// A shorter sleep is none: less than a person or a timer notices.
pub const SLEEP_MIN: Duration = Duration::from_secs(2);

/// The two clocks as last seen.
#[derive(Debug, Clone, Default)]
pub struct SleepWatch {
    apart: Option<Duration>,
}

impl SleepWatch {
    /// Both clocks at one moment: `boot` counts sleep, `run` does not. How long the
    /// machine slept since the last call, if it did.
    pub fn look(&mut self, boot: Duration, run: Duration) -> Option<Duration> {
        let apart = boot.saturating_sub(run);
        let before = *self.apart.get_or_insert(apart);
        let slept = apart.saturating_sub(before);
        if slept < SLEEP_MIN {
            // Small steps are forgotten: two readings are never of one moment.
            self.apart = Some(apart);
            return None;
        }
        self.apart = Some(apart);
        Some(slept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_sleep_is_told_once() {
        // case B32
        let mut watch = SleepWatch::default();
        assert_eq!(watch.look(1_000 * S, 900 * S), None);
        assert_eq!(watch.look(1_000 * S + SLEEP_MIN, 900 * S), Some(SLEEP_MIN));
        assert_eq!(watch.look(1_002 * S, 900 * S), None);
        assert_eq!(watch.look(2_802 * S, 900 * S), Some(1_800 * S));
        assert_eq!(watch.look(2_812 * S, 910 * S), None);
    }

    #[test]
    fn a_pause_of_the_process_is_no_sleep() {
        // case B33
        let mut watch = SleepWatch::default();
        watch.look(100 * S, 100 * S);
        assert_eq!(watch.look(700 * S, 700 * S), None);
        let nearly = SLEEP_MIN - Duration::from_nanos(1);
        assert_eq!(watch.look(800 * S + nearly, 800 * S), None);
        assert_eq!(watch.look(900 * S + nearly, 900 * S), None);
    }

    #[test]
    fn clocks_that_go_back_are_no_sleep() {
        let mut watch = SleepWatch::default();
        watch.look(1_000 * S, 900 * S);
        assert_eq!(watch.look(900 * S, 1_000 * S), None);
        assert_eq!(watch.look(Duration::ZERO, Duration::MAX), None);
    }
}
