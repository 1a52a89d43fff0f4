//! What is remembered of each exit besides its session, and what is made of it.
//!
//! A [`Score`] and a [`ProbeLatch`] for each, fed by what their paths show. The probe
//! is the path's own PING: answered, it passes; a path that stalls has failed it. An
//! exit that has never answered one stays in service, as `probe_unsupported`.
//!
//! A *stall* is noticed here, once, whatever caused it: it is evidence about the
//! uplink, lowers the score, and lets races go elsewhere.

use std::time::Instant;

use super::choose::{Candidate, Standing};
use super::client::Client;
use super::exit::Exit;
use super::exit_id::ExitId;
use super::may::{Look, Surroundings};
use super::score::Score;
use super::window::Step;
use crate::config::ProbeLatchConfig;
use crate::health::ProbeLatch;
use crate::health::probe_latch::ProbeOutcome;
use crate::path::Path;
use crate::send::Degraded as _;

#[derive(Debug)]
struct Member {
    score: Score,
    latch: ProbeLatch,
    /// PINGs that the latch was told of: answered ones, and sent ones.
    asked: (u64, u64),
    stalled: bool,
}

impl Member {
    fn new(probe: &ProbeLatchConfig) -> Self {
        Self {
            score: Score::default(),
            latch: ProbeLatch::new(probe.clone()),
            asked: (0, 0),
            stalled: false,
        }
    }

    /// What became of a PING since the last look: answered, or one more sent into a
    /// stall. A path that begins anew counts from nothing.
    fn probed(&mut self, path: &Path) -> Option<ProbeOutcome> {
        let (answered, sent) = (path.pings_answered(), path.pings_sent());
        let before = std::mem::replace(&mut self.asked, (answered, sent));
        if answered > before.0 {
            return Some(ProbeOutcome::Passing);
        }
        (path.is_stalled() && sent > before.1).then_some(ProbeOutcome::Failed)
    }
}

/// All exits of a client.
#[derive(Debug)]
pub(super) struct Members(Vec<Member>);

impl Members {
    pub(super) fn new(exits: usize, probe: &ProbeLatchConfig) -> Self {
        let member = || Member::new(probe);
        Self(std::iter::repeat_with(member).take(exits).collect())
    }

    pub(super) fn add(&mut self, probe: &ProbeLatchConfig) {
        self.0.push(Member::new(probe));
    }

    /// Another provider has this place.
    pub(super) fn renew(&mut self, exit: ExitId, probe: &ProbeLatchConfig) {
        if let Some(member) = self.of(exit) {
            *member = Member::new(probe);
        }
    }

    fn of(&mut self, exit: ExitId) -> Option<&mut Member> {
        self.0.get_mut(exit.index())
    }

    /// A dial failed, or a connection was lost.
    pub(super) fn on_failure(&mut self, exit: ExitId, now: Instant) {
        if let Some(member) = self.of(exit) {
            member.score.on_failure(now);
        }
    }

    pub(super) fn score(&self, exit: ExitId, now: Instant) -> f64 {
        let member = self.0.get(exit.index());
        member.map_or(0.0, |member| member.score.value(now))
    }

    pub(super) fn latch(&self, exit: ExitId) -> Option<&ProbeLatch> {
        Some(&self.0.get(exit.index())?.latch)
    }

    fn is_critical(&self, exit: ExitId) -> bool {
        self.latch(exit).is_some_and(|latch| !latch.is_in_service())
    }
}

impl Client {
    /// Notices that an exit stalls, or answers again.
    pub(super) fn watch(&mut self, exit: ExitId, now: Instant) {
        let path = self
            .exits
            .get(exit.index())
            .and_then(|of| of.path.as_deref());
        let stalled = path.is_some_and(|path| path.is_stalled());
        let Some(member) = self.members.of(exit) else {
            return;
        };
        if let Some(outcome) = path.and_then(|path| member.probed(path)) {
            member.latch.on_outcome(member.latch.epoch(), outcome);
        }
        if std::mem::replace(&mut member.stalled, stalled) == stalled {
            return;
        }
        self.review_wanted = true;
        if !stalled {
            return;
        }
        member.score.on_failure(now);
        self.doubt
            .on_stalled(u64::from(exit.0), self.window.members(), now);
        self.on_exit_failed(exit, now);
    }

    /// Reads off the paths what scores are made of.
    fn measure(&mut self, now: Instant) {
        for exit in self.exits.live() {
            let (Some(path), Some(member)) = (&exit.path, self.members.of(exit.id)) else {
                continue;
            };
            member.score.look(path.carried(), path.rtt(), now);
        }
    }

    pub(super) fn surroundings(&self, now: Instant) -> Surroundings {
        Surroundings {
            degraded: self.signal.is_degraded(now),
            metered: self.steering.network.metered,
            in_doubt: self.doubt.is_in_doubt(now),
            flows: self.flows.len(),
            usable: self.exits.live().filter(|exit| exit.is_usable()).count(),
        }
    }

    /// Asks the window whether it should be another, and does what it says.
    pub(super) fn review(&mut self, now: Instant) {
        self.review_wanted = false;
        if self.is_held() {
            return;
        }
        self.measure(now);
        let looks: Vec<_> = self.exits.iter().map(|exit| self.look(exit, now)).collect();
        let around = self.surroundings(now);
        let steps = self.window.review(&looks, &around, &mut self.damper, now);
        for step in steps {
            if let Step::Join(exit) = &step {
                // Its dial is to be asked for.
                self.exits.get_mut(exit.index());
            }
            if let Step::Leave(exit, why) = step
                && let Some(of) = self.exits.get_mut(exit.index())
            {
                of.leave(&why, now);
                self.absorb(exit, now);
            }
        }
        // What leaving caused is no reason to look again at once.
        self.review_wanted = false;
        let candidates = self.candidates(now);
        self.chooser.settle(candidates.into_iter());
        self.lead(now);
    }

    /// Lets the first choice ask often while it stalls, and the others rarely.
    fn lead(&mut self, now: Instant) {
        let main = self.main_exit().map(|exit| exit.id);
        for exit in self.exits.live_mut() {
            if let Some(path) = &mut exit.path {
                path.set_eager(main == Some(exit.id), now);
            }
        }
    }

    fn look(&self, exit: &Exit, now: Instant) -> Look {
        let id = exit.id;
        Look {
            exit: id,
            weight: self.settings.get(id.index()).map_or(100, |s| s.weight),
            score: self.members.score(id, now),
            is_usable: exit.is_usable(),
            has_session: exit.path.is_some(),
            is_draining: exit.draining || exit.unlisted,
            is_unlisted: exit.unlisted,
            is_ready: !exit.unready,
            dial_failures: exit.dial.failures(),
            is_critical: self.members.is_critical(id),
            is_avoided: self.window.is_avoided(id),
            is_primary: self.chooser.primary() == Some(id),
            member_since: self.window.member_since(id),
            flows: self.flows.flows_on(id),
        }
    }

    /// Exits that a new flow could take.
    pub(super) fn candidates(&self, now: Instant) -> Vec<Candidate> {
        let with_path = self.exits.live().filter(|exit| exit.path.is_some());
        with_path.map(|exit| self.candidate(exit, now)).collect()
    }

    fn candidate(&self, exit: &Exit, now: Instant) -> Candidate {
        let stalled = exit.path.as_deref().is_none_or(|path| path.is_stalled());
        let standing = match (exit.is_usable(), exit.is_up() && !stalled) {
            (true, _) if self.window.is_avoided(exit.id) => Standing::Avoided,
            (true, _) => Standing::Usable,
            (false, true) => Standing::Up,
            (false, false) => Standing::Waiting,
        };
        Candidate {
            exit: exit.id,
            standing,
            score: self.members.score(exit.id, now),
            weight: self.settings.get(exit.id.index()).map_or(100, |s| s.weight),
        }
    }
}
