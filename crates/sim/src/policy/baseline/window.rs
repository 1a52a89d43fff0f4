//! The window's clock and its removals: when more exits are looked for, and which may go.
//!
//! A *pass* on each 15 s of the clock asks the backend for providers and evaluates up to 4 that are not in the window: each
//! is dialled, gets a sequence with a contract, and is admitted by the ack of a ping within 30 s. A pass that went well is
//! followed by the next at once while the window is short, so that it fills within seconds of a start (assumed; the
//! reference gives the 15 s and the 4). Passes go on in an outage. While there is nobody to evaluate there is no pass:
//! that costs the baseline nothing and a fleet a good deal.
//!
//! An exit *fails* when its sequence ends by the ack timeout, or by its health: 15 buckets of a second in which it either
//! acked or delivered, and not both (a bucket with both clears the count, one with neither does not count; a pause of 30 s
//! forgets). That is judged of exits that delivered something before: a simulated user may get no answers at all.
//! A failed exit loses its flows. It is removed unless the window would fall below its minimum, or the make holds
//! removals back. That it is warned of after 5 buckets changes nothing here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::rules::{Removals, WindowRules};
use crate::fleet::node::ServerId;

/// From one pass to the next.
const PASS_INTERVAL: Duration = Duration::from_secs(15);
/// Exits that one pass evaluates.
const EVALUATED_MAX: usize = 4;
/// How long an evaluation may take.
pub(crate) const EVALUATION_TIME: Duration = Duration::from_secs(30);
/// Buckets of one second that make an exit fail.
const BUCKETS_MAX: u8 = 15;
/// What is longer ago is forgotten, in buckets.
const BUCKETS_KEPT: u64 = 30;
/// Failures kept to tell a shared fate by.
const FAILED_KEPT_MAX: usize = 32;

/// Whether an exit acks and delivers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Health {
    bucket: u64,
    acked: bool,
    delivered: bool,
    ever_delivered: bool,
    one_of_both: u8,
}

/// What an exit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// It acked something.
    Acked,
    /// It delivered something.
    Delivered,
}

impl Health {
    /// Notes `sign`, `age` after some fixed moment; whether the exit has failed.
    pub(crate) fn note(&mut self, sign: Sign, age: Duration) -> bool {
        let bucket = age.as_secs();
        if bucket != self.bucket {
            self.close_bucket(bucket);
        }
        match sign {
            Sign::Acked => self.acked = true,
            Sign::Delivered => (self.delivered, self.ever_delivered) = (true, true),
        }
        self.one_of_both >= BUCKETS_MAX
    }

    fn close_bucket(&mut self, next: u64) {
        match (self.acked, self.delivered) {
            (true, true) => self.one_of_both = 0,
            (true, false) | (false, true) if self.ever_delivered => {
                self.one_of_both = self.one_of_both.saturating_add(1);
            }
            (true, false) | (false, true) | (false, false) => {}
        }
        if next - self.bucket > BUCKETS_KEPT {
            self.one_of_both = 0;
        }
        (self.bucket, self.acked, self.delivered) = (next, false, false);
    }
}

/// When passes are, and what was removed.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    rules: WindowRules,
    since: Instant,
    pass_at: Option<Instant>,
    /// An evaluation of this pass failed.
    pass_failed: bool,
    removed: VecDeque<Instant>,
    failed: VecDeque<(Instant, ServerId)>,
}

impl Window {
    /// Its first pass is at once.
    pub(crate) fn new(rules: WindowRules, now: Instant) -> Self {
        Self {
            rules,
            since: now,
            pass_at: Some(now),
            pass_failed: false,
            removed: VecDeque::new(),
            failed: VecDeque::new(),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.pass_at
    }

    /// Whether a pass is due that asks for exits. `exits` are in the window, those under evaluation included; `spare`
    /// providers are not.
    pub(crate) fn poll_pass(
        &mut self,
        exits: usize,
        spare: usize,
        degraded: bool,
        now: Instant,
    ) -> bool {
        if self.pass_at.is_none_or(|at| at > now) {
            return false;
        }
        self.pass_at = None;
        self.pass_failed = false;
        self.await_pass(exits, spare, now);
        let paused = self.rules.paused_while_degraded && degraded;
        self.pass_at.is_some() && !paused
    }

    /// How many to evaluate once the backend has named them.
    pub(crate) fn room(&self, exits: usize) -> usize {
        let most = self.rules.exits.min(self.rules.exits_hard_max);
        most.saturating_sub(exits).min(EVALUATED_MAX)
    }

    /// Sets the next pass on the clock, if there is anything to look for.
    pub(crate) fn await_pass(&mut self, exits: usize, spare: usize, now: Instant) {
        if self.pass_at.is_some() || self.room(exits) == 0 || spare == 0 {
            return;
        }
        let passed =
            now.saturating_duration_since(self.since).as_nanos() / PASS_INTERVAL.as_nanos();
        let next = u32::try_from(passed + 1).unwrap_or(u32::MAX);
        self.pass_at = Some(self.since + PASS_INTERVAL * next);
    }

    /// An evaluation ended; `evaluating` others go on.
    pub(crate) fn on_evaluated(&mut self, admitted: bool, evaluating: usize, now: Instant) {
        self.pass_failed |= !admitted;
        if evaluating == 0 && !self.pass_failed && self.pass_at.is_some() {
            self.pass_at = Some(now);
        }
    }

    /// Notes that these exits failed, and returns those that are removed out of `admitted` ones.
    pub(crate) fn on_failed(
        &mut self,
        servers: &[ServerId],
        admitted: usize,
        now: Instant,
    ) -> Vec<ServerId> {
        let spare = admitted.saturating_sub(self.rules.exits_min);
        let count = match self.rules.removals {
            Removals::Free => spare,
            Removals::Limited {
                count_max,
                within,
                shared,
                shared_within,
            } => {
                self.note_failed(servers, shared_within, now);
                while self
                    .removed
                    .front()
                    .is_some_and(|at| now.saturating_duration_since(*at) >= within)
                {
                    self.removed.pop_front();
                }
                if self.failed.len() >= shared {
                    0
                } else {
                    spare.min(count_max.saturating_sub(self.removed.len()))
                }
            }
        };
        let gone: Vec<ServerId> = servers.iter().copied().take(count).collect();
        if self.rules.removals != Removals::Free {
            self.removed.extend(gone.iter().map(|_| now));
        }
        gone
    }

    fn note_failed(&mut self, servers: &[ServerId], within: Duration, now: Instant) {
        self.failed.retain(|(at, server)| {
            now.saturating_duration_since(*at) < within && !servers.contains(server)
        });
        self.failed
            .extend(servers.iter().map(|server| (now, *server)));
        while self.failed.len() > FAILED_KEPT_MAX {
            self.failed.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{report_fix, upstream_2026_05, upstream_2026_08};

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// The second in which an exit fails that gives these signs once a second.
    fn fails_at(signs: &[Sign]) -> Option<u64> {
        let mut health = Health::default();
        health.note(Sign::Delivered, s(0));
        health.note(Sign::Acked, s(0));
        (1..100).find(|at| signs.iter().any(|sign| health.note(*sign, s(*at))))
    }

    #[test]
    fn an_exit_fails_by_15_buckets_with_one_of_both() {
        assert_eq!(fails_at(&[Sign::Acked]), Some(16));
        assert_eq!(fails_at(&[Sign::Delivered]), Some(16));
        assert_eq!(fails_at(&[Sign::Delivered, Sign::Acked]), None);
        assert_eq!(fails_at(&[]), None);
    }

    #[test]
    fn an_exit_that_never_delivered_is_not_judged() {
        let mut health = Health::default();
        assert!((0..100).all(|at| !health.note(Sign::Acked, s(at))));
    }

    #[test]
    fn a_bucket_with_both_clears_the_count() {
        let mut health = Health::default();
        let mut fails = |sign, at| health.note(sign, s(at));
        (1..=10).for_each(|at| assert!(!fails(Sign::Delivered, at)));
        assert!(!fails(Sign::Acked, 10));
        (11..=25).for_each(|at| assert!(!fails(Sign::Delivered, at), "{at}"));
        assert!(fails(Sign::Delivered, 26));
    }

    #[test]
    fn a_pause_of_30_s_is_forgotten() {
        for (pause, fails) in [(30, true), (31, false)] {
            let mut health = Health::default();
            (1..=15).for_each(|at| assert!(!health.note(Sign::Delivered, s(at))));
            assert_eq!(health.note(Sign::Delivered, s(15 + pause)), fails);
        }
    }

    #[test]
    fn passes_keep_to_the_clock_while_exits_are_missing() {
        let start = Instant::now();
        let mut window = Window::new(upstream_2026_05::RULES.window, start);
        assert!(window.poll_pass(0, 9, true, start), "no outage stops it");
        assert_eq!(window.room(0), 4);
        assert_eq!(window.poll_timeout(), Some(start + s(15)));
        window.on_evaluated(false, 0, start + s(3));
        assert!(!window.poll_pass(3, 6, false, start + s(14)));
        assert!(window.poll_pass(3, 6, false, start + s(15)));
        window.on_evaluated(true, 1, start + s(16));
        assert_eq!(window.poll_timeout(), Some(start + s(30)));
        window.on_evaluated(true, 0, start + s(16));
        assert_eq!(window.poll_timeout(), Some(start + s(16)));
        assert!(!window.poll_pass(6, 3, false, start + s(16)), "it is full");
        assert_eq!(window.poll_timeout(), None);
        window.await_pass(5, 4, start + s(50));
        assert_eq!(window.poll_timeout(), Some(start + s(60)));
    }

    #[test]
    fn the_older_make_removes_down_to_two_at_once() {
        let now = Instant::now();
        let mut window = Window::new(upstream_2026_05::RULES.window, now);
        assert_eq!(window.on_failed(&[0, 1, 2, 3, 4, 5], 6, now), [0, 1, 2, 3]);
    }

    #[test]
    fn the_newer_make_removes_two_in_30_s_and_none_of_a_shared_fate() {
        let now = Instant::now();
        let mut window = Window::new(upstream_2026_08::RULES.window, now);
        assert!(window.on_failed(&[0, 1, 2], 6, now).is_empty());
        assert_eq!(window.on_failed(&[3, 4], 6, now + s(10)), [3, 4]);
        assert!(window.on_failed(&[5], 4, now + s(39)).is_empty());
        assert_eq!(window.on_failed(&[5], 4, now + s(40)), [5]);
    }

    #[test]
    fn the_fix_of_the_report_passes_while_not_degraded_alone() {
        let start = Instant::now();
        let mut window = Window::new(report_fix::RULES.window, start);
        assert!(!window.poll_pass(0, 9, true, start));
        assert!(window.poll_pass(0, 9, false, start + s(15)));
    }
}
