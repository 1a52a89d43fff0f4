//! What became of short requests while exits came and went.
//!
//! A request *began later* than a fault if its connection was begun after it. Of those
//! none may fail: what finds the first choice gone takes another exit. A request that
//! was open when its exit was killed is lost with it, as any connection through it is,
//! and one that overlaps the time in which all are silent has nobody to turn to.
//!
//! A *stray* is a connection that took another exit for no reason: after the first one
//! over a new exit that succeeded, and before the next fault, all that begin take that.

use std::time::{Duration, Instant};

use quell_lab::load::Asked;

use super::scene::exit_of;
use super::{EXITS, Tally};

/// When what happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moments {
    /// The first choice froze.
    pub(super) frozen: Instant,
    /// Its successor was killed.
    pub(super) killed: Instant,
    /// All were cut off.
    pub(super) silent: Instant,
    /// All were back, but the killed one.
    pub(super) healed: Instant,
}

/// What became of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crowd {
    /// Answers by the exit that they came through.
    pub(super) answers: [u64; EXITS],
    /// From the freeze to the first answer over another exit.
    pub(super) after_freeze: Option<Duration>,
    /// From the kill likewise.
    pub(super) after_kill: Option<Duration>,
    /// From the heal to the first answer to a request that began later.
    pub(super) after_heal: Option<Duration>,
    /// Failures that an exit's end excuses: what was open at the kill.
    pub(super) failed_open: u64,
    /// Failures of requests that overlapped the silence.
    pub(super) failed_silent: u64,
    /// All other failures.
    pub(super) failed_else: u64,
    /// Connections that changed their exit for no reason.
    pub(super) strays: u64,
}

impl Crowd {
    pub(super) fn of(asked: &[Asked], moments: &Moments) -> Self {
        let Moments {
            frozen,
            killed,
            silent,
            healed,
        } = *moments;
        let failed = |is: &dyn Fn(&Asked) -> bool| {
            let failed = asked
                .iter()
                .filter(|asked| asked.answer.is_err() && is(asked));
            failed.count() as u64
        };
        let is_open = |asked: &Asked| asked.began <= killed && asked.ended >= killed;
        let is_silent = |asked: &Asked| asked.began <= healed && asked.ended >= silent;
        let left = [(frozen, killed), (killed, silent)].map(|span| Leaving::of(asked, span));
        let later = asked.iter().filter(|asked| asked.began > healed);
        let answered = later.filter(|asked| asked.answer.is_ok());
        Self {
            answers: tally(asked, 0).answers,
            after_freeze: left[0].after,
            after_kill: left[1].after,
            after_heal: answered.map(|asked| asked.ended - healed).min(),
            failed_open: failed(&is_open),
            failed_silent: failed(&|asked| is_silent(asked) && !is_open(asked)),
            failed_else: failed(&|asked| !is_silent(asked) && !is_open(asked)),
            strays: left.iter().map(|left| left.strays).sum(),
        }
    }
}

/// How the crowd left an exit within a span of time.
struct Leaving {
    after: Option<Duration>,
    strays: u64,
}

impl Leaving {
    fn of(asked: &[Asked], (fault, end): (Instant, Instant)) -> Self {
        let exit = |asked: &Asked| asked.answer.ok().and_then(exit_of);
        let before = asked.iter().filter(|asked| asked.ended < fault);
        let old = before.filter_map(exit).next_back();
        let within = || {
            asked
                .iter()
                .filter(|asked| asked.began > fault && asked.began < end)
        };
        let moved = within().filter(|asked| exit(asked).is_some() && exit(asked) != old);
        let Some(first) = moved.min_by_key(|asked| asked.ended) else {
            return Self {
                after: None,
                strays: 0,
            };
        };
        // What was open when the next fault came may have moved because of that one.
        let settled = within()
            .filter(|asked| asked.began > first.ended && asked.ended < end)
            .filter(|asked| asked.answer.is_ok());
        let strays = settled.filter(|asked| exit(asked) != exit(first));
        Self {
            after: Some(first.ended - fault),
            strays: strays.count() as u64,
        }
    }
}

/// What has come to pass so far.
pub(super) fn tally(asked: &[Asked], stream_bytes: u64) -> Tally {
    let mut tally = Tally {
        stream_bytes,
        ..Tally::default()
    };
    for asked in asked {
        match asked.answer.map(exit_of) {
            Ok(Some(exit)) => tally.answers[exit] += 1,
            Ok(None) | Err(_) => tally.failed += 1,
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::ErrorKind;
    use std::net::IpAddr;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn moments(start: Instant) -> Moments {
        Moments {
            frozen: start + 1_000 * MS,
            killed: start + 2_000 * MS,
            silent: start + 3_000 * MS,
            healed: start + 4_000 * MS,
        }
    }

    fn asked(start: Instant, began_ms: u32, ended_ms: u32, exit: Option<u8>) -> Asked {
        let address = |exit| IpAddr::from([10, 85 + exit, 0, 9]);
        Asked {
            began: start + began_ms * MS,
            ended: start + ended_ms * MS,
            answer: exit.map(address).ok_or(ErrorKind::TimedOut),
        }
    }

    fn crowd(requests: &[(u32, u32, Option<u8>)]) -> Crowd {
        let start = Instant::now();
        let asked: Vec<_> = requests
            .iter()
            .map(|(began, ended, exit)| asked(start, *began, *ended, *exit))
            .collect();
        Crowd::of(&asked, &moments(start))
    }

    #[test]
    fn each_fault_is_over_with_the_first_answer_over_another_exit() {
        let crowd = crowd(&[
            (900, 990, Some(0)),
            (1_010, 1_300, Some(1)),
            (1_020, 1_250, Some(1)),
            (1_900, 1_990, Some(1)),
            (2_010, 2_020, Some(1)),
            (2_030, 2_400, Some(2)),
            (4_010, 4_100, Some(2)),
        ]);
        assert_eq!(crowd.after_freeze, Some(250 * MS));
        assert_eq!(crowd.after_kill, Some(400 * MS));
        assert_eq!(crowd.after_heal, Some(100 * MS));
        assert_eq!((crowd.answers, crowd.strays), ([1, 4, 2], 0));
        let failed = (crowd.failed_open, crowd.failed_silent, crowd.failed_else);
        assert_eq!(failed, (0, 0, 0));
    }

    #[test]
    fn a_failure_is_excused_by_its_exits_end_and_by_silence_alone() {
        let failed = |began, ended| {
            let crowd = crowd(&[(began, ended, None)]);
            (crowd.failed_open, crowd.failed_silent, crowd.failed_else)
        };
        assert_eq!(failed(1_500, 1_999), (0, 0, 1), "over before the kill");
        assert_eq!(failed(2_000, 2_500), (1, 0, 0));
        assert_eq!(failed(1_999, 2_000), (1, 0, 0));
        assert_eq!(failed(2_001, 2_999), (0, 0, 1));
        assert_eq!(failed(2_001, 3_000), (0, 1, 0));
        assert_eq!(failed(4_000, 4_100), (0, 1, 0));
        assert_eq!(failed(4_001, 4_100), (0, 0, 1));
    }

    #[test]
    fn who_leaves_the_new_exit_again_is_a_stray() {
        let strays = |exit| {
            let crowd = crowd(&[
                (900, 990, Some(0)),
                (1_100, 1_200, Some(1)),
                (1_300, 1_400, Some(exit)),
            ]);
            crowd.strays
        };
        assert_eq!([strays(0), strays(1), strays(2)], [1, 0, 1]);
    }

    #[test]
    fn what_never_came_has_no_figure() {
        let crowd = crowd(&[(900, 990, Some(0)), (1_100, 1_200, Some(0))]);
        assert_eq!(crowd.after_freeze, None);
        assert_eq!((crowd.after_kill, crowd.after_heal), (None, None));
    }
}
