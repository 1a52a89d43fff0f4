//! Which exit a new flow takes.
//!
//! | policy | choice |
//! |---|---|
//! | `sticky` | the primary exit, for as long as it is usable; then the best of the others becomes it, and stays it when the former is back |
//! | `spread` | by the destination: each exit draws a number for it, stretched by its score, and the highest wins (rendezvous hashing, Thaler and Ravishankar 1998) |
//!
//! With `spread` a destination keeps its exit while that is usable, whoever joins or
//! leaves moves only the destinations that it takes or had, and scores are rounded to
//! powers of two, so that a wobble of one moves nothing.
//!
//! With `sticky` the exit that connections turn to when the primary one does not answer
//! is remembered too, and is the next primary one. Otherwise a user's address would
//! change twice: races go elsewhere at once, and the primary exit a second later, when
//! its stall is certain; and the exit that has just taken the races looks worse than
//! those that did nothing, since what it was sent is still under way.
//!
//! An exit that a person selected is the primary one whenever it is usable, under either policy; the others stand in
//! for it, and give it back.
//!
//! An exit that is not usable (not up, not proved, stalled, about to stop) gets a new
//! flow only if none is. Then what is up comes before what is suspended: what waits
//! there may still arrive.

use std::hash::{Hash as _, Hasher as _};
use std::net::IpAddr;

use rustc_hash::FxHasher;

use super::exit_id::ExitId;
use crate::config::ExitPolicy;

/// How far an exit can be trusted with a new flow, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It has a session that no connection carries, or one that does not answer.
    Waiting,
    /// Its session is up, and has not answered yet, or will end soon.
    Up,
    /// It does worse than the others.
    Avoided,
    /// All is well.
    Usable,
}

/// An exit that a new flow could take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) exit: ExitId,
    pub(super) standing: Standing,
    pub(super) score: f64,
    /// What the configuration prefers it by, 100 for none.
    pub(super) weight: u32,
}

impl Candidate {
    /// Rounded to a power of two.
    fn coarse(&self) -> f64 {
        (self.score * f64::from(self.weight.max(1)))
            .log2()
            .round()
            .exp2()
    }
}

/// The choice of one client.
#[derive(Debug)]
pub(super) struct Chooser {
    policy: ExitPolicy,
    seed: u64,
    primary: Option<ExitId>,
    /// The exit that took what the primary one did not answer, with `sticky`.
    second: Option<ExitId>,
    /// What a person wants, before all else.
    selected: Option<ExitId>,
    /// How often another exit became the primary one.
    moves: u64,
}

impl Chooser {
    pub(super) fn new(policy: ExitPolicy, seed: u64) -> Self {
        Self {
            policy,
            seed,
            primary: None,
            second: None,
            selected: None,
            moves: 0,
        }
    }

    /// The exit that carries new flows, with `sticky`; the first that carried any, else.
    pub(super) fn primary(&self) -> Option<ExitId> {
        self.primary
    }

    /// Lets `exit` be the primary one whenever it is usable.
    pub(super) fn select(&mut self, exit: Option<ExitId>) {
        self.selected = exit;
    }

    pub(super) fn selected(&self) -> Option<ExitId> {
        self.selected
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// The exit for a new flow to `destination`; `None`: there is none at all.
    pub(super) fn choose(
        &mut self,
        candidates: impl Iterator<Item = Candidate> + Clone,
        destination: IpAddr,
    ) -> Option<ExitId> {
        let primary = self.settle(candidates.clone());
        match self.policy {
            ExitPolicy::Sticky => primary,
            ExitPolicy::Spread if primary.is_some() && primary == self.selected => primary,
            ExitPolicy::Spread => self.highest(candidates, destination),
        }
    }

    /// The next best exit for a flow that has some already; those are left out of
    /// `candidates`.
    pub(super) fn best(
        &mut self,
        candidates: impl Iterator<Item = Candidate>,
        destination: IpAddr,
    ) -> Option<ExitId> {
        let candidates: Vec<_> = candidates.collect();
        let is_second = |candidate: &&Candidate| {
            candidate.standing == Standing::Usable && self.second == Some(candidate.exit)
        };
        if let Some(second) = candidates.iter().find(is_second) {
            return Some(second.exit);
        }
        let best = self.highest(candidates.into_iter(), destination);
        if self.policy == ExitPolicy::Sticky {
            self.second = best;
        }
        best
    }

    fn highest(
        &self,
        candidates: impl Iterator<Item = Candidate>,
        destination: IpAddr,
    ) -> Option<ExitId> {
        let key = |candidate: &Candidate| match self.policy {
            ExitPolicy::Sticky => candidate.score * f64::from(candidate.weight.max(1)),
            ExitPolicy::Spread => self.draw(candidate, destination),
        };
        let better = |a: &(Candidate, f64), b: &(Candidate, f64)| {
            let standing = a.0.standing.cmp(&b.0.standing);
            // The first of equals wins, so that the order of the list decides.
            standing
                .then(a.1.total_cmp(&b.1))
                .then(b.0.exit.cmp(&a.0.exit))
        };
        candidates
            .map(|candidate| (candidate, key(&candidate)))
            .max_by(better)
            .map(|(candidate, _)| candidate.exit)
    }

    /// Looks whether the primary exit is still the one, and finds another if not.
    pub(super) fn settle(
        &mut self,
        candidates: impl Iterator<Item = Candidate> + Clone,
    ) -> Option<ExitId> {
        let of = |exit| candidates.clone().find(|candidate| candidate.exit == exit);
        let selected = self.selected.and_then(of);
        if let Some(selected) = selected.filter(|c| c.standing >= Standing::Avoided) {
            self.lead_with(selected.exit);
            return Some(selected.exit);
        }
        let present = self.primary.and_then(of);
        if let Some(present) = present.filter(|c| c.standing >= Standing::Avoided) {
            return Some(present.exit);
        }
        let by_score = |a: &Candidate, b: &Candidate| {
            let (x, y) = (a.score * f64::from(a.weight), b.score * f64::from(b.weight));
            let standing = a.standing.cmp(&b.standing);
            let second = |of: &Candidate| self.second == Some(of.exit);
            standing
                .then(second(a).cmp(&second(b)))
                .then(x.total_cmp(&y))
                .then(b.exit.cmp(&a.exit))
        };
        let best = candidates.max_by(by_score);
        let better = |best: &Candidate| present.is_none_or(|had| best.standing > had.standing);
        if let Some(best) = best.filter(better) {
            self.lead_with(best.exit);
        }
        self.primary.filter(|_| best.is_some())
    }

    fn lead_with(&mut self, exit: ExitId) {
        self.moves += u64::from(self.primary.is_some_and(|had| had != exit));
        self.primary = Some(exit);
        self.second = self.second.filter(|second| *second != exit);
    }

    /// A number that `candidate` draws for `destination`: the better, the higher.
    fn draw(&self, candidate: &Candidate, destination: IpAddr) -> f64 {
        let mut hasher = FxHasher::default();
        (self.seed, candidate.exit, destination).hash(&mut hasher);
        // The upper 53 bits as a number in (0, 1): an exponential draw of rate `coarse`.
        let bits = mix(hasher.finish()) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
        let unit = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
        candidate.coarse() / -unit.ln()
    }
}

/// Spreads a weak hash over all bits (the finalizer of SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn candidate(exit: u16, standing: Standing, score: f64) -> Candidate {
        Candidate {
            exit: ExitId(exit),
            standing,
            score,
            weight: 100,
        }
    }

    fn destination(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    #[test]
    fn the_primary_stays_until_it_is_not_usable_and_does_not_come_back() {
        use Standing::{Usable, Waiting};
        let mut chooser = Chooser::new(ExitPolicy::Sticky, 1);
        let mut choose = |first, second| {
            let both = [candidate(0, first, 0.5), candidate(1, second, 0.4)];
            chooser.choose(both.into_iter(), destination(1))
        };
        assert_eq!(choose(Usable, Usable), Some(ExitId(0)));
        assert_eq!(choose(Waiting, Usable), Some(ExitId(1)));
        assert_eq!(choose(Usable, Usable), Some(ExitId(1)), "no fail-back");
        assert_eq!(
            choose(Waiting, Waiting),
            Some(ExitId(1)),
            "nothing is better"
        );
        assert_eq!(chooser.moves(), 1);
    }

    #[test]
    fn who_took_the_races_is_the_next_primary_whatever_its_score_is_by_then() {
        use Standing::{Avoided, Usable, Waiting};
        let mut chooser = Chooser::new(ExitPolicy::Sticky, 1);
        let three = |standings: [Standing; 3], scores: [f64; 3]| {
            let of = move |exit: u16| {
                let index = usize::from(exit);
                candidate(exit, standings[index], scores[index])
            };
            (0..3).map(of)
        };
        let well = [Usable; 3];
        let of = |exit| Some(ExitId(exit));
        let to = destination(1);
        assert_eq!(chooser.choose(three(well, [0.9, 0.5, 0.6]), to), of(0));
        let others = |scores| three(well, scores).skip(1);
        assert_eq!(chooser.best(others([0.9, 0.5, 0.6]), to), of(2));
        // What it was sent is under way: it looks worse than one that did nothing.
        assert_eq!(chooser.best(others([0.9, 0.5, 0.4]), to), of(2));
        let silent = [Waiting, Usable, Usable];
        assert_eq!(chooser.choose(three(silent, [0.9, 0.5, 0.4]), to), of(2));
        // One that does worse than the others is no second any more.
        assert_eq!(chooser.best(three(silent, [0.9, 0.5, 0.4]), to), of(1));
        let avoided = [Usable, Avoided, Waiting];
        assert_eq!(chooser.choose(three(avoided, [0.9, 0.5, 0.4]), to), of(0));
    }

    #[test]
    fn a_better_score_alone_moves_nobody() {
        let mut chooser = Chooser::new(ExitPolicy::Sticky, 1);
        let first = [candidate(0, Standing::Usable, 0.5)];
        chooser.choose(first.into_iter(), destination(1));
        let both = [
            candidate(0, Standing::Avoided, 0.01),
            candidate(1, Standing::Usable, 1.0),
        ];
        let chosen = chooser.choose(both.into_iter(), destination(2));
        assert_eq!(chosen, Some(ExitId(0)));
    }

    #[test]
    fn a_selected_exit_leads_whenever_it_is_usable_and_returns() {
        for policy in [ExitPolicy::Sticky, ExitPolicy::Spread] {
            let mut chooser = Chooser::new(policy, 1);
            let both = |standing| {
                let other = candidate(0, Standing::Usable, 0.9);
                [other, candidate(1, standing, 0.1)]
            };
            chooser.select(Some(ExitId(1)));
            let mut chosen = |standing| {
                let all = both(standing).into_iter();
                (0..20).all(|n| chooser.choose(all.clone(), destination(n)) == Some(ExitId(1)))
            };
            assert!(chosen(Standing::Usable) && chosen(Standing::Avoided));
            assert!(!chosen(Standing::Up) && !chosen(Standing::Waiting));
            assert!(chosen(Standing::Usable));
            chooser.select(None);
            assert_eq!((chooser.selected(), chooser.moves()), (None, 2));
        }
    }

    #[test]
    fn without_exits_there_is_no_choice() {
        let mut chooser = Chooser::new(ExitPolicy::Sticky, 1);
        assert_eq!(chooser.choose([].into_iter(), destination(1)), None);
        let one = [candidate(0, Standing::Up, 0.5)];
        assert_eq!(
            chooser.choose(one.into_iter(), destination(1)),
            Some(ExitId(0))
        );
        assert_eq!(chooser.choose([].into_iter(), destination(1)), None);
    }

    #[test]
    fn spread_keeps_destinations_and_moves_only_those_of_who_left() {
        let mut chooser = Chooser::new(ExitPolicy::Spread, 7);
        let of = |exits: &[u16]| {
            let exits = exits.to_vec();
            exits
                .into_iter()
                .map(|exit| candidate(exit, Standing::Usable, 0.5))
        };
        let four = of(&[0, 1, 2, 3]);
        let mut load = BTreeMap::<_, u32>::new();
        for n in 0..4_000 {
            let before = chooser
                .choose(four.clone(), destination(n))
                .unwrap_or(ExitId(9));
            *load.entry(before).or_default() += 1;
            let after = chooser.choose(of(&[0, 1, 3]), destination(n));
            assert!(after == Some(before) || before == ExitId(2));
        }
        assert!(load.values().all(|n| (850..1_150).contains(n)), "{load:?}");
    }

    #[test]
    fn spread_gives_twice_the_score_twice_the_destinations() {
        let mut chooser = Chooser::new(ExitPolicy::Spread, 3);
        let two = [
            candidate(0, Standing::Usable, 0.5),
            candidate(1, Standing::Usable, 0.25),
        ];
        let first = (0..6_000)
            .filter(|n| chooser.choose(two.into_iter(), destination(*n)) == Some(ExitId(0)))
            .count();
        assert!((3_850..4_150).contains(&first), "{first}");
    }
}
