//! What a tunnel's processes use, as the system counts it.

use std::fs;
use std::time::Duration;

/// Ticks of `/proc/PID/stat` a second: Linux has had this one for all programs since 2.6 (`USER_HZ`).
const TICKS_S: u64 = 100;

/// The processes of one subject.
#[derive(Debug, Clone, Default)]
pub(super) struct Processes(pub(super) Vec<u32>);

impl Processes {
    /// Processor time so far; `None`: there is no process, or one is gone.
    pub(super) fn cpu(&self) -> Option<Duration> {
        self.sum(|id| cpu_ticks(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?))
            .map(|ticks| Duration::from_millis(ticks * 1_000 / TICKS_S))
    }

    /// Memory that was resident at most, each process by itself.
    pub(super) fn memory_peak_bytes(&self) -> Option<u64> {
        self.sum(|id| peak_bytes(&fs::read_to_string(format!("/proc/{id}/status")).ok()?))
    }

    fn sum(&self, of: impl Fn(u32) -> Option<u64>) -> Option<u64> {
        let figures = self.0.iter().map(|id| of(*id));
        let sum = figures.sum::<Option<u64>>()?;
        (!self.0.is_empty()).then_some(sum)
    }
}

/// Fields 14 and 15, user and system time: the second field, a name in brackets, may have any character.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn peak_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_times_of_a_process_with_a_wicked_name() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194304 120 0 0 0 250 50 0 0 20 0 9 0 88";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("7 (a) S 1 7"), None);
    }

    #[test]
    fn this_process_is_seen_and_one_that_is_gone_is_none() {
        let own = Processes(vec![std::process::id()]);
        assert!(own.memory_peak_bytes().unwrap() > 1_000_000);
        assert!(own.cpu().is_some());
        let gone = Processes(vec![std::process::id(), u32::MAX]);
        assert_eq!((gone.cpu(), gone.memory_peak_bytes()), (None, None));
        assert_eq!(Processes::default().cpu(), None);
    }
}
