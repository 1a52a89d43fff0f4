//! Who may dial, grow, evict, race: one function each, the order of its questions in
//! its own words, the first reason against it returned.
//!
//! They are pure. What they ask about is gathered by whoever asks, so that a rule
//! stands in one place and can be read without the machinery around it.

use std::time::Instant;

use super::exit_id::ExitId;
use super::verdict::No;
use crate::config::{ExitPolicy, Raced, RacerConfig, WindowConfig};
use crate::flap::{Decision, Evidence, FlapDamper};

/// One exit as a review sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) exit: ExitId,
    pub(super) weight: u32,
    pub(super) score: f64,
    /// New flows are well there.
    pub(super) is_usable: bool,
    /// It has a session, though perhaps one that waits for a connection.
    pub(super) has_session: bool,
    /// The provider said that it stops, or the catalog names it no longer.
    pub(super) is_draining: bool,
    /// The catalog names it no longer.
    pub(super) is_unlisted: bool,
    /// It could be used at once.
    pub(super) is_ready: bool,
    /// Dials in a row that failed.
    pub(super) dial_failures: u32,
    /// Its probe says that it is not well.
    pub(super) is_critical: bool,
    pub(super) is_avoided: bool,
    pub(super) is_primary: bool,
    pub(super) member_since: Option<Instant>,
    /// Flows that are open on it.
    pub(super) flows: usize,
}

/// What is true of the process as a whole.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Surroundings {
    /// The control plane is degraded.
    pub(super) degraded: bool,
    /// Bytes on the network beneath cost.
    pub(super) metered: bool,
    /// The own uplink is in doubt.
    pub(super) in_doubt: bool,
    /// Flows that are open.
    pub(super) flows: usize,
    /// Members that could carry a flow.
    pub(super) usable: usize,
}

/// What the window leaves room for when one is to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct EvictionRoom {
    /// When one more may go; `None`: at once.
    pub(super) frees_at: Option<Instant>,
    /// Another is there to take its place.
    pub(super) is_replaced: bool,
    /// The window is not smaller than it may be without it.
    pub(super) is_spare: bool,
}

/// What the window leaves room for when one is to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct GrowthRoom {
    pub(super) members: usize,
    pub(super) has_candidate: bool,
}

/// Exits that what is there to carry is worth.
pub(super) fn exits_wanted(around: &Surroundings, config: &WindowConfig) -> usize {
    let least = exits_least(around, config);
    match config.exit_policy {
        ExitPolicy::Sticky => least,
        ExitPolicy::Spread if around.metered => least,
        ExitPolicy::Spread => {
            let wanted = around.flows.div_ceil(config.flows_per_exit.max(1));
            wanted.clamp(least, config.window_max)
        }
    }
}

/// Exits that are kept whatever there is to carry: one alone where bytes cost and that one is well.
pub(super) fn exits_least(around: &Surroundings, config: &WindowConfig) -> usize {
    if around.metered && around.usable > 0 {
        1
    } else {
        config.window_min
    }
}

/// Whether the window may take in one exit more than it needs.
///
/// In this order: degraded, in doubt, metered, full, no demand, nobody there.
pub(super) fn may_grow(
    around: &Surroundings,
    room: &GrowthRoom,
    config: &WindowConfig,
) -> Result<(), No> {
    if around.degraded {
        return Err(No::Degraded);
    }
    if around.in_doubt {
        return Err(No::UplinkInDoubt);
    }
    if around.metered {
        return Err(No::Metered);
    }
    if room.members >= config.window_max {
        return Err(No::WindowFull);
    }
    if room.members >= exits_wanted(around, config) {
        return Err(No::Sufficient);
    }
    if room.has_candidate {
        Ok(())
    } else {
        Err(No::Alone)
    }
}

/// Whether a member may be sent away, on what evidence, and why in words.
///
/// In this order: it is well; in doubt; enough left of late; too few would be left;
/// and for soft evidence: it joined not long ago, it carries flows, nobody else could
/// carry them, it left too often. The damper is asked last, because its answer costs.
pub(super) fn may_evict(
    look: &Look,
    around: &Surroundings,
    room: &EvictionRoom,
    config: &WindowConfig,
    damper: &mut FlapDamper<ExitId>,
    now: Instant,
) -> Result<(Evidence, &'static str), No> {
    let (evidence, why) = speaks_against(look).ok_or(No::Well)?;
    if around.in_doubt {
        return Err(No::UplinkInDoubt);
    }
    if let Some(until) = room.frees_at.filter(|at| now < *at) {
        return Err(No::EvictedEnough { until });
    }
    if !room.is_spare && !room.is_replaced {
        return Err(No::AtMinimum);
    }
    if evidence == Evidence::Soft {
        let until = look.member_since.map(|since| since + config.membership_min);
        if let Some(until) = until.filter(|at| now < *at) {
            return Err(No::TooYoung { until });
        }
        if look.flows > 0 {
            return Err(No::CarriesFlows);
        }
        if around.usable == 0 {
            return Err(No::Alone);
        }
    }
    match damper.decide(&look.exit, evidence, now) {
        Decision::Allowed => Ok((evidence, why)),
        held @ (Decision::DeniedByHost | Decision::DeniedByCatalog) => Err(No::Held(held)),
    }
}

/// The strongest evidence against a member.
fn speaks_against(look: &Look) -> Option<(Evidence, &'static str)> {
    if !look.has_session && look.dial_failures > 0 {
        return Some((Evidence::Hard, "its session is gone and dials of it fail"));
    }
    if look.is_unlisted {
        return Some((Evidence::Soft, "the catalog names it no longer"));
    }
    if look.is_critical {
        return Some((Evidence::Soft, "it does not answer its probes"));
    }
    if look.is_avoided {
        return Some((Evidence::Soft, "it does worse than the others"));
    }
    None
}

/// Why no copy is sent that was not asked for: the control plane is degraded, or bytes cost.
pub(super) fn narrows(degraded: bool, metered: bool) -> Option<No> {
    match (degraded, metered) {
        (true, _) => Some(No::Degraded),
        (false, true) => Some(No::Metered),
        (false, false) => None,
    }
}

/// Copies of one thing that may wait for an answer at the same time, `narrow` where something [`narrows`] them.
pub(super) fn race_width(narrow: Option<No>, config: &RacerConfig) -> usize {
    match narrow {
        Some(_) => 1,
        None => config.race_client_count,
    }
}

/// Whether one more copy may be sent beside those that wait for an answer.
///
/// In this order: races are off; something [`narrows`] them; as many copies wait as
/// may. Whether there is another exit, and what it costs, is asked by who sends it.
pub(super) fn may_race(live: usize, narrow: Option<No>, config: &RacerConfig) -> Result<(), No> {
    if config.race == Raced::Off {
        return Err(No::RacesOff);
    }
    if live < race_width(narrow, config) {
        return Ok(());
    }
    Err(narrow.unwrap_or(No::RaceFull))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::FlapConfig;

    fn around() -> Surroundings {
        Surroundings {
            flows: 1_000,
            usable: 2,
            ..Surroundings::default()
        }
    }

    fn spread() -> WindowConfig {
        WindowConfig {
            exit_policy: ExitPolicy::Spread,
            ..WindowConfig::default()
        }
    }

    #[test]
    fn growth_pauses_while_degraded_and_while_in_doubt() {
        //
        let room = GrowthRoom {
            members: 2,
            has_candidate: true,
        };
        let config = spread();
        assert_eq!(may_grow(&around(), &room, &config), Ok(()));
        let degraded = Surroundings {
            degraded: true,
            ..around()
        };
        assert_eq!(may_grow(&degraded, &room, &config), Err(No::Degraded));
        let doubting = Surroundings {
            in_doubt: true,
            ..around()
        };
        assert_eq!(may_grow(&doubting, &room, &config), Err(No::UplinkInDoubt));
    }

    #[test]
    fn growth_ends_at_its_bounds() {
        let config = spread();
        let grow = |members, flows, has_candidate| {
            let around = Surroundings { flows, ..around() };
            let room = GrowthRoom {
                members,
                has_candidate,
            };
            may_grow(&around, &room, &config)
        };
        assert_eq!(grow(5, 1_000, true), Ok(()));
        assert_eq!(grow(6, 1_000, true), Err(No::WindowFull));
        assert_eq!(grow(2, 129, true), Ok(()));
        assert_eq!(grow(2, 128, true), Err(No::Sufficient));
        assert_eq!(grow(2, 129, false), Err(No::Alone));
    }

    #[test]
    fn sticky_wants_no_more_than_the_minimum() {
        assert_eq!(exits_wanted(&around(), &WindowConfig::default()), 2);
        assert_eq!(exits_wanted(&around(), &spread()), 6);
    }

    #[test]
    fn metered_one_exit_is_enough_while_it_is_well() {
        let metered = Surroundings {
            metered: true,
            usable: 1,
            ..around()
        };
        let stalled = Surroundings {
            usable: 0,
            ..metered
        };
        for config in [WindowConfig::default(), spread()] {
            assert_eq!(exits_wanted(&metered, &config), 1);
            assert_eq!(exits_wanted(&stalled, &config), config.window_min);
        }
        let room = GrowthRoom {
            members: 2,
            has_candidate: true,
        };
        assert_eq!(may_grow(&metered, &room, &spread()), Err(No::Metered));
    }

    fn look() -> Look {
        Look {
            exit: ExitId(1),
            weight: 100,
            score: 0.5,
            is_usable: false,
            has_session: false,
            is_draining: false,
            is_unlisted: false,
            is_ready: true,
            dial_failures: 1,
            is_critical: false,
            is_avoided: false,
            is_primary: false,
            member_since: None,
            flows: 0,
        }
    }

    fn soft(since: Instant) -> Look {
        Look {
            has_session: true,
            is_critical: true,
            member_since: Some(since),
            ..look()
        }
    }

    const ROOM: EvictionRoom = EvictionRoom {
        frees_at: None,
        is_replaced: true,
        is_spare: false,
    };

    fn evict(
        look: &Look,
        around: &Surroundings,
        room: &EvictionRoom,
        now: Instant,
    ) -> Result<Evidence, No> {
        let mut damper = FlapDamper::new(FlapConfig::default(), 1);
        let config = WindowConfig::default();
        may_evict(look, around, room, &config, &mut damper, now).map(|(evidence, _)| evidence)
    }

    #[test]
    fn nobody_is_evicted_in_doubt_nor_without_evidence() {
        // case B25
        let t0 = Instant::now();
        let doubting = Surroundings {
            in_doubt: true,
            ..around()
        };
        assert_eq!(evict(&look(), &around(), &ROOM, t0), Ok(Evidence::Hard));
        assert_eq!(evict(&look(), &doubting, &ROOM, t0), Err(No::UplinkInDoubt));
        let well = Look {
            dial_failures: 0,
            ..look()
        };
        assert_eq!(evict(&well, &around(), &ROOM, t0), Err(No::Well));
        let waiting = Look {
            has_session: true,
            ..look()
        };
        assert_eq!(evict(&waiting, &around(), &ROOM, t0), Err(No::Well));
    }

    #[test]
    fn too_few_or_too_soon_is_refused() {
        let t0 = Instant::now();
        let until = t0 + Duration::from_secs(1);
        let soon = EvictionRoom {
            frees_at: Some(until),
            ..ROOM
        };
        assert_eq!(
            evict(&look(), &around(), &soon, t0),
            Err(No::EvictedEnough { until })
        );
        assert_eq!(evict(&look(), &around(), &soon, until), Ok(Evidence::Hard));
        let last = EvictionRoom {
            is_replaced: false,
            ..ROOM
        };
        assert_eq!(evict(&look(), &around(), &last, t0), Err(No::AtMinimum));
        let spare = EvictionRoom {
            is_spare: true,
            ..last
        };
        assert_eq!(evict(&look(), &around(), &spare, t0), Ok(Evidence::Hard));
    }

    #[test]
    fn soft_evidence_waits_for_a_minute_and_for_the_flows() {
        let t0 = Instant::now();
        let minute = t0 + Duration::from_secs(60);
        let young = minute - Duration::from_nanos(1);
        assert_eq!(
            evict(&soft(t0), &around(), &ROOM, minute),
            Ok(Evidence::Soft)
        );
        assert_eq!(
            evict(&soft(t0), &around(), &ROOM, young),
            Err(No::TooYoung { until: minute })
        );
        let busy = Look {
            flows: 1,
            ..soft(t0)
        };
        assert_eq!(
            evict(&busy, &around(), &ROOM, minute),
            Err(No::CarriesFlows)
        );
        let alone = Surroundings {
            usable: 0,
            ..around()
        };
        assert_eq!(evict(&soft(t0), &alone, &ROOM, minute), Err(No::Alone));
    }

    #[test]
    fn a_damped_exit_is_held_and_hard_evidence_passes() {
        let t0 = Instant::now();
        let flap = FlapConfig {
            host_interval: Duration::from_secs(3_600),
            host_burst: 1,
            ..FlapConfig::default()
        };
        let mut damper = FlapDamper::new(flap, 1);
        let config = WindowConfig::default();
        let now = t0 + Duration::from_secs(60);
        let mut evict = |look: &Look| {
            may_evict(look, &around(), &ROOM, &config, &mut damper, now).map(|(e, _)| e)
        };
        assert_eq!(evict(&soft(t0)), Ok(Evidence::Soft));
        assert_eq!(evict(&soft(t0)), Err(No::Held(Decision::DeniedByHost)));
        assert_eq!(evict(&look()), Ok(Evidence::Hard));
    }

    #[test]
    fn two_copies_may_race_and_one_while_degraded() {
        //
        let config = RacerConfig::default();
        let race = |live, degraded, metered| may_race(live, narrows(degraded, metered), &config);
        assert_eq!(race(1, false, false), Ok(()));
        assert_eq!(race(2, false, false), Err(No::RaceFull));
        assert_eq!(race(0, true, false), Ok(()));
        assert_eq!(race(1, true, false), Err(No::Degraded));
        assert_eq!(race(0, false, true), Ok(()));
        assert_eq!(race(1, false, true), Err(No::Metered));
        let off = RacerConfig {
            race: Raced::Off,
            ..config
        };
        assert_eq!(may_race(0, None, &off), Err(No::RacesOff));
    }
}
