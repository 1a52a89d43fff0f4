//! What became of short requests while exits came and went.
//!
//! A request *began later* than a fault if its connection was begun after it. Of those
//! none may fail: what finds the first choice gone takes another exit. A request that
//! was open when its exit was killed is lost with it, as any connection through it is,
//! and one that overlaps the time in which all are silent has nobody to turn to.
//!
//! A *stray* is a connection that took another exit for no reason: after the first one
//! over a new exit that succeeded, and before the next fault, all that begin take that.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use quell_lab::load::Asked;

use super::{EXITS, Tally};

/// A request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// When its connection was begun.
    began: Instant,
    /// When its answer, or its failure, was complete.
    ended: Instant,
    /// The exit that its answer came through; `None`: there was none.
    exit: Option<usize>,
}

/// What was asked, with the exits that `exit_of` tells from addresses.
pub(super) fn requests(asked: &[Asked], exit_of: impl Fn(IpAddr) -> Option<usize>) -> Vec<Request> {
    let requests = asked.iter().map(|asked| Request {
        began: asked.began,
        ended: asked.ended,
        // An answer through no exit is no answer.
        exit: asked.answer.ok().and_then(&exit_of),
    });
    requests.collect()
}

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
    pub(super) fn of(requests: &[Request], moments: &Moments) -> Self {
        let Moments {
            frozen,
            killed,
            silent,
            healed,
        } = *moments;
        let failed = |is: &dyn Fn(&Request) -> bool| {
            let failed = requests
                .iter()
                .filter(|request| request.exit.is_none() && is(request));
            failed.count() as u64
        };
        let is_open = |request: &Request| request.began <= killed && request.ended >= killed;
        let is_silent = |request: &Request| request.began <= healed && request.ended >= silent;
        let left = [(frozen, killed), (killed, silent)].map(|span| Leaving::of(requests, span));
        let later = requests.iter().filter(|request| request.began > healed);
        let answered = later.filter(|request| request.exit.is_some());
        Self {
            answers: tally(requests).answers,
            after_freeze: left[0].after,
            after_kill: left[1].after,
            after_heal: answered.map(|request| request.ended - healed).min(),
            failed_open: failed(&is_open),
            failed_silent: failed(&|request| is_silent(request) && !is_open(request)),
            failed_else: failed(&|request| !is_silent(request) && !is_open(request)),
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
    fn of(requests: &[Request], (fault, end): (Instant, Instant)) -> Self {
        let before = requests.iter().filter(|request| request.ended < fault);
        let old = before.filter_map(|request| request.exit).next_back();
        let within = || {
            requests
                .iter()
                .filter(|request| request.began > fault && request.began < end)
        };
        let moved = within().filter(|request| request.exit.is_some() && request.exit != old);
        let Some(first) = moved.min_by_key(|request| request.ended) else {
            return Self {
                after: None,
                strays: 0,
            };
        };
        // What was open when the next fault came may have moved because of that one.
        let settled = within()
            .filter(|request| request.began > first.ended && request.ended < end)
            .filter(|request| request.exit.is_some());
        let strays = settled.filter(|request| request.exit != first.exit);
        Self {
            after: Some(first.ended - fault),
            strays: strays.count() as u64,
        }
    }
}

/// Answers and failures so far.
pub(super) fn tally(requests: &[Request]) -> Tally {
    let mut tally = Tally::default();
    for request in requests {
        match request.exit {
            Some(exit) => tally.answers[exit] += 1,
            None => tally.failed += 1,
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

    fn crowd(of: &[(u32, u32, Option<usize>)]) -> Crowd {
        let start = Instant::now();
        let requests = of.iter().map(|(began_ms, ended_ms, exit)| Request {
            began: start + *began_ms * MS,
            ended: start + *ended_ms * MS,
            exit: *exit,
        });
        let requests: Vec<_> = requests.collect();
        Crowd::of(&requests, &moments(start))
    }

    #[test]
    fn an_answer_through_no_exit_is_none() {
        let now = Instant::now();
        let asked = |answer| Asked {
            began: now,
            ended: now,
            answer,
        };
        let answers = [
            Ok(IpAddr::from([10, 86, 0, 9])),
            Ok(IpAddr::from([10, 80, 0, 9])),
            Err(ErrorKind::TimedOut),
        ];
        let exit_of = |address| (address == IpAddr::from([10, 86, 0, 9])).then_some(1);
        let exits = requests(&answers.map(asked), exit_of);
        let exits: Vec<_> = exits.iter().map(|request| request.exit).collect();
        assert_eq!(exits, [Some(1), None, None]);
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
