//! The window as timelines: reviews with looks that are made up.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::config::{ExitPolicy, FlapConfig};

const S: Duration = Duration::from_secs(1);

/// A window and what it sees.
struct Lab {
    window: Window,
    damper: FlapDamper<ExitId>,
    looks: Vec<Look>,
    around: Surroundings,
    start: Instant,
    now: Instant,
}

impl Lab {
    fn new(exits: u16, config: WindowConfig) -> Self {
        let now = Instant::now();
        let look = |id| Look {
            exit: ExitId(id),
            weight: 100,
            score: 0.5,
            is_usable: true,
            has_session: true,
            is_draining: false,
            is_unlisted: false,
            is_ready: true,
            dial_failures: 0,
            is_critical: false,
            is_avoided: false,
            is_primary: false,
            member_since: None,
            flows: 0,
        };
        let mut lab = Self {
            window: Window::new(config, exits.into(), 5, now),
            damper: FlapDamper::new(FlapConfig::default(), 1),
            looks: (0..exits).map(look).collect(),
            around: Surroundings {
                usable: 2,
                ..Surroundings::default()
            },
            start: now,
            now,
        };
        lab.review();
        lab
    }

    /// A review now; those that joined and those that left.
    fn review(&mut self) -> (Vec<u16>, Vec<u16>) {
        for look in &mut self.looks {
            look.member_since = self.window.member_since(look.exit);
            look.is_avoided = self.window.is_avoided(look.exit);
        }
        let damper = &mut self.damper;
        let steps = self
            .window
            .review(&self.looks, &self.around, damper, self.now);
        let (mut joined, mut left) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Join(exit) => joined.push(exit.0),
                Step::Leave(exit, _) => left.push(exit.0),
            }
        }
        (joined, left)
    }

    fn after(&mut self, time: Duration) -> (Vec<u16>, Vec<u16>) {
        self.now += time;
        self.review()
    }

    fn members(&self) -> Vec<u16> {
        let ids = self.looks.iter().map(|look| look.exit);
        ids.filter(|id| self.window.is_member(*id))
            .map(|id| id.0)
            .collect()
    }

    fn die(&mut self, exit: u16) {
        let look = &mut self.looks[usize::from(exit)];
        (look.is_usable, look.has_session, look.dial_failures) = (false, false, 1);
    }

    fn live(&mut self, exit: u16) {
        let look = &mut self.looks[usize::from(exit)];
        (look.is_usable, look.has_session, look.dial_failures) = (true, true, 0);
    }
}

fn spread() -> WindowConfig {
    WindowConfig {
        exit_policy: ExitPolicy::Spread,
        ..WindowConfig::default()
    }
}

#[test]
fn a_window_begins_at_its_minimum_and_with_one_exit_at_one() {
    assert_eq!(Lab::new(6, WindowConfig::default()).members().len(), 2);
    assert_eq!(Lab::new(1, WindowConfig::default()).members(), [0]);
}

#[test]
fn a_dead_member_is_replaced_at_once_and_rests() {
    let mut lab = Lab::new(3, WindowConfig::default());
    let dead = lab.members()[0];
    let other = (0..3).find(|id| !lab.members().contains(id)).unwrap();
    lab.die(dead);
    assert_eq!(lab.after(S), (vec![other], vec![dead]));
    assert_eq!(lab.members().len(), 2);
    assert!(
        lab.window
            .words(ExitId(dead), lab.now)
            .starts_with("in quarantine for"),
    );
}

#[test]
fn nobody_is_sent_away_whom_nobody_replaces() {
    let mut lab = Lab::new(2, WindowConfig::default());
    lab.die(0);
    lab.die(1);
    assert_eq!(lab.after(S), (vec![], vec![]));
    assert!(lab.window.words(ExitId(0), lab.now).contains("too small"));
}

#[test]
fn never_more_than_half_leave_at_once_nor_two_within_thirty_seconds() {
    let config = WindowConfig {
        window_min: 2,
        ..WindowConfig::default()
    };
    let mut lab = Lab::new(8, config);
    (0..8).for_each(|id| lab.die(id));
    let left = |(_, left): (Vec<u16>, Vec<u16>)| left.len();
    assert_eq!(left(lab.after(S)), 1, "half of two");
    assert_eq!(left(lab.after(29 * S)), 0);
    assert_eq!(left(lab.after(S)), 1, "thirty seconds are over");

    let config = WindowConfig {
        window_min: 6,
        ..WindowConfig::default()
    };
    let mut lab = Lab::new(12, config);
    (0..12).for_each(|id| lab.die(id));
    assert_eq!(left(lab.after(S)), 2, "not half of six");
    assert_eq!(left(lab.after(29 * S)), 0);
    assert_eq!(left(lab.after(S)), 2);
}

#[test]
fn a_rest_grows_and_is_forgotten_after_ten_minutes_of_membership() {
    let mut lab = Lab::new(3, WindowConfig::default());
    let first = lab.members()[0];
    let mut rests = Vec::new();
    for _ in 0..4 {
        lab.die(first);
        while lab.members().contains(&first) {
            lab.after(15 * S);
        }
        let from = lab.now;
        // All others die until it is taken in again.
        while !lab.members().contains(&first) {
            lab.live(first);
            for other in 0..3 {
                if other != first {
                    lab.die(other);
                }
            }
            lab.after(S);
        }
        rests.push(lab.now - from);
        (0..3).for_each(|id| lab.live(id));
    }
    assert!(rests.windows(2).all(|pair| pair[0] < pair[1]), "{rests:?}");
    assert!(rests[0] >= 45 * S && rests[0] <= 76 * S, "{rests:?}");
    lab.after(600 * S);
    lab.die(first);
    lab.after(15 * S);
    let text = lab.window.words(ExitId(first), lab.now);
    let seconds: u64 = text
        .trim_start_matches("in quarantine for ")
        .split(' ')
        .next()
        .and_then(|text| text.parse().ok())
        .unwrap();
    assert!((45..=75).contains(&seconds), "{text}");
}

#[test]
fn growth_follows_demand_one_a_review_and_pauses_while_degraded() {
    //
    let mut lab = Lab::new(8, spread());
    lab.around.flows = 1_000;
    lab.around.degraded = true;
    assert_eq!(lab.after(15 * S), (vec![], vec![]));
    let words = lab.window.status(lab.now).growth;
    assert_eq!(words, "the backend is degraded");
    lab.around.degraded = false;
    let mut sizes = vec![lab.members().len()];
    for _ in 0..6 {
        lab.after(15 * S);
        sizes.push(lab.members().len());
    }
    assert_eq!(sizes, [2, 3, 4, 5, 6, 6, 6]);
}

#[test]
fn replacement_up_to_the_minimum_does_not_pause_while_degraded() {
    //
    let mut lab = Lab::new(4, WindowConfig::default());
    lab.around.degraded = true;
    let dead = lab.members()[1];
    lab.die(dead);
    let (joined, left) = lab.after(S);
    assert_eq!((joined.len(), left), (1, vec![dead]));
}

#[test]
fn a_window_that_is_too_large_shrinks_by_idle_members_after_a_minute() {
    let mut lab = Lab::new(8, spread());
    lab.around.flows = 1_000;
    (0..4).for_each(|_| {
        lab.after(15 * S);
    });
    assert_eq!(lab.members().len(), 6);
    lab.around.flows = 0;
    let busy = lab.members()[0];
    lab.looks[usize::from(busy)].flows = 1;
    for _ in 0..10 {
        lab.after(15 * S);
    }
    assert_eq!(lab.members().len(), 2);
    assert!(lab.members().contains(&busy), "flows are open on it");
}

#[test]
fn who_does_worse_than_half_of_the_median_is_avoided_until_four_fifths() {
    let config = WindowConfig {
        window_min: 3,
        ..WindowConfig::default()
    };
    let mut lab = Lab::new(3, config);
    let mut avoided = |score| {
        lab.looks[1].score = score;
        lab.after(S);
        lab.window.is_avoided(ExitId(1))
    };
    assert!(!avoided(0.25));
    assert!(avoided(0.249));
    assert!(avoided(0.4), "hysteresis");
    assert!(!avoided(0.401));
    assert!(!avoided(0.3));
}

#[test]
fn who_is_avoided_leaves_when_it_carries_nothing_and_another_is_there() {
    let mut lab = Lab::new(3, WindowConfig::default());
    let worse = lab.members()[0];
    lab.looks[usize::from(worse)].score = 0.01;
    lab.looks[usize::from(worse)].flows = 1;
    lab.after(60 * S);
    assert_eq!(lab.after(15 * S), (vec![], vec![]), "a flow is open on it");
    lab.looks[usize::from(worse)].flows = 0;
    let (joined, left) = lab.after(15 * S);
    assert_eq!((joined.len(), left), (1, vec![worse]));
}

#[test]
fn a_provider_that_stops_is_made_up_for_before_it_leaves() {
    let mut lab = Lab::new(3, WindowConfig::default());
    let stopping = lab.members()[0];
    lab.looks[usize::from(stopping)].is_draining = true;
    let (joined, left) = lab.after(S);
    assert_eq!((joined.len(), left.len()), (1, 0));
    assert!(lab.members().contains(&stopping));
}

#[test]
fn nothing_is_due_while_all_is_well() {
    let mut lab = Lab::new(3, WindowConfig::default());
    assert_eq!(lab.window.poll_timeout(), None);
    let dead = lab.members()[0];
    lab.looks[usize::from(dead)].is_usable = false;
    lab.after(S);
    let due = lab.window.poll_timeout().map(|(at, _)| at);
    assert_eq!(due, Some(lab.now + 15 * S));
    assert!(lab.window.is_due(lab.now + 15 * S));
    assert!(
        !lab.window
            .is_due(lab.now + 15 * S - Duration::from_nanos(1))
    );
    assert!(lab.now > lab.start);
}

#[test]
fn weights_decide_who_joins_in_the_long_run() {
    let mut first = 0;
    for seed in 0..400 {
        let now = Instant::now();
        let config = WindowConfig {
            window_min: 1,
            ..WindowConfig::default()
        };
        let mut window = Window::new(config, 2, seed, now);
        let mut looks = Lab::new(2, WindowConfig::default()).looks;
        looks[0].weight = 300;
        let mut damper = FlapDamper::new(FlapConfig::default(), 1);
        window.review(&looks, &Surroundings::default(), &mut damper, now);
        first += usize::from(window.is_member(ExitId(0)));
    }
    assert!((270..330).contains(&first), "{first}");
}

#[test]
fn metered_the_second_exit_leaves_and_comes_back_when_the_first_stalls() {
    let mut lab = Lab::new(3, WindowConfig::default());
    assert_eq!(lab.window.members(), 2);
    lab.around.metered = true;
    lab.now += 59 * S;
    assert_eq!(lab.review().1, [] as [u16; 0], "a member for a minute");
    lab.now += S;
    assert_eq!(lab.review().1.len(), 1);
    assert_eq!(lab.window.members(), 1);
    lab.around.usable = 0;
    assert_eq!(lab.review().0.len(), 1);
    assert_eq!(lab.window.members(), 2);
}

#[test]
fn a_selected_exit_joins_at_once_and_is_kept_and_replaced_while_it_is_not_well() {
    let mut lab = Lab::new(4, WindowConfig::default());
    let outside = (0..4)
        .find(|id| !lab.window.is_member(ExitId(*id)))
        .unwrap();
    lab.window.select(Some(ExitId(outside)));
    assert_eq!(lab.review().0, [outside]);
    let look = usize::from(outside);
    lab.looks[look].is_usable = false;
    lab.looks[look].has_session = false;
    lab.looks[look].dial_failures = 9;
    lab.now += 600 * S;
    lab.review();
    assert!(lab.window.is_member(ExitId(outside)), "kept");
    assert_eq!(lab.window.members(), 3, "and two that carry");
    lab.window.select(None);
    assert_eq!(lab.review().1, [outside]);
}

#[test]
fn who_is_dismissed_does_not_rest() {
    let mut lab = Lab::new(2, WindowConfig::default());
    assert_eq!(lab.window.dismiss("held").len(), 2);
    assert_eq!(lab.window.members(), 0);
    assert_eq!(lab.review().0.len(), 2);
}
