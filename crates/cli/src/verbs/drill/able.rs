//! What of a scenario can be drilled on one machine, and what is refused, by its name.
//!
//! A drill has one client, as many as three providers and one backend, all processes or sockets of this machine. What
//! breaks must be something that a relay between them, a signal, or the backend can do. What lies inside the encrypted
//! packets cannot be singled out, and neither the machine's sleep nor its clock is touched.

use std::time::Duration;

use quell_sim::scenario::{FaultKind, Scenario};

/// Exits that the stage has networks for.
const PROVIDERS_MAX: u16 = 3;
/// Longer than any outage that people would sit through.
const DURATION_MAX: Duration = Duration::from_secs(600);
/// What `backend.check_interval` takes.
const DEMAND: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(5)..=Duration::from_secs(600);

/// Why a scenario cannot be drilled: each reason in words; none: it can.
pub(super) fn refusals(scenario: &Scenario) -> Vec<String> {
    let (fleet, backend) = (&scenario.fleet, &scenario.backend);
    let mut all = Vec::new();
    let mut refuse = |wrong: bool, words: String| {
        if wrong {
            all.push(words);
        }
    };
    refuse(
        fleet.clients != 1,
        format!("fleet.clients = {}: a drill has one", fleet.clients),
    );
    refuse(
        !(1..=PROVIDERS_MAX).contains(&fleet.providers),
        format!(
            "fleet.providers = {}: a drill has 1 to {PROVIDERS_MAX}",
            fleet.providers
        ),
    );
    refuse(
        fleet.backends > 1,
        format!(
            "fleet.backends = {}: a drill has one or none",
            fleet.backends
        ),
    );
    refuse(
        scenario.duration > DURATION_MAX,
        format!(
            "duration = {:?}: a drill takes at most {DURATION_MAX:?}",
            scenario.duration
        ),
    );
    refuse(
        fleet.backends > 0 && !DEMAND.contains(&backend.demand_interval),
        format!(
            "backend.demand_interval = {:?}: a client asks each {:?} to {:?}",
            backend.demand_interval,
            DEMAND.start(),
            DEMAND.end()
        ),
    );
    let limits = [
        (
            "fleet.provider_handshakes_per_s",
            fleet.provider_handshakes_per_s.is_some(),
        ),
        (
            "fleet.provider_dials_per_s_max",
            fleet.provider_dials_per_s_max.is_some(),
        ),
        (
            "fleet.provider_sessions_max",
            fleet.provider_sessions_max.is_some(),
        ),
        (
            "backend.requests_per_s_max",
            backend.requests_per_s_max.is_some(),
        ),
    ];
    for (key, is_set) in limits {
        refuse(is_set, format!("{key}: one client reaches no such limit"));
    }
    refuse(
        scenario.path.rate_bits_per_s.is_some() && fleet.providers > 1,
        "path.rate_bits_per_s: each provider's relay would have a line of its own".to_owned(),
    );
    for fault in &scenario.fault {
        if let Some(why) = refusal_of(&fault.kind) {
            refuse(true, format!("{}: {why}", fault.kind.name()));
        }
    }
    all
}

fn refusal_of(kind: &FaultKind) -> Option<&'static str> {
    match kind {
        FaultKind::Blackhole { .. }
        | FaultKind::ProviderDeath
        | FaultKind::UplinkLoss
        | FaultKind::BackendRefuses
        | FaultKind::BackendSilent
        | FaultKind::BackendSlow { .. }
        | FaultKind::BackendUnavailable { .. }
        | FaultKind::BackendFails { .. } => None,
        FaultKind::AcksLost => Some("what acknowledges is encrypted, and a relay cannot tell it"),
        FaultKind::DialsRefused => Some("a relay cannot refuse a dial in the provider's name"),
        FaultKind::RollingRestart { .. } => {
            Some("a drill's few providers are no fleet; let them die one by one")
        }
        FaultKind::Suspend => Some("this machine is not put to sleep"),
        FaultKind::SharedNat => Some("there is one client"),
        FaultKind::BackendFailsOne { .. } => {
            Some("a client without contracts asks one kind of question")
        }
        FaultKind::ClockOff { .. } => Some("this machine's clock is not touched"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PLAIN: &str = "name = \"plain\"\nsummary = \"s\"\nduration = \"30s\"\n";

    fn refused(more: &str) -> Vec<String> {
        refusals(&Scenario::from_toml(&format!("{PLAIN}{more}")).unwrap())
    }

    #[test]
    fn one_client_and_three_providers_can_be_drilled_and_no_more() {
        let none = Vec::<String>::new();
        assert_eq!(refused("[fleet]\nclients = 1\nproviders = 3\n"), none);
        let many = refused("[fleet]\nclients = 2\nproviders = 4\nbackends = 2\n");
        assert_eq!(many.len(), 3, "{many:?}");
        assert!(many[1].contains("fleet.providers = 4: a drill has 1 to 3"));
    }

    #[test]
    fn each_fault_is_drilled_or_refused_by_its_name() {
        let fault = |kind: &str, more: &str| {
            refused(&format!(
                "[[fault]]\nkind = \"{kind}\"\nat = \"5s\"\nuntil = \"10s\"\n{more}"
            ))
        };
        let drilled = [
            ("blackhole", "direction = \"up\"\n"),
            ("provider-death", ""),
            ("uplink-loss", ""),
            ("backend-refuses", ""),
            ("backend-silent", ""),
            ("backend-slow", "answer_time = \"14s\"\n"),
            ("backend-unavailable", ""),
            ("backend-fails", "part = 0.5\n"),
        ];
        for (kind, more) in drilled {
            assert_eq!(fault(kind, more), Vec::<String>::new(), "{kind}");
        }
        let refused = [
            ("acks-lost", ""),
            ("dials-refused", ""),
            ("rolling-restart", "away = \"1s\"\n"),
            ("suspend", ""),
            ("shared-nat", ""),
            ("backend-fails-one", "work = \"auth\"\n"),
            ("clock-off", "seconds = 3600\n"),
        ];
        for (kind, more) in refused {
            let said = fault(kind, more);
            assert!(
                said.iter().any(|why| why.starts_with(kind)),
                "{kind}: {said:?}"
            );
        }
    }

    #[test]
    fn the_longest_drill_takes_ten_minutes() {
        let lasts = |time: &str| {
            let text = PLAIN.replace("30s", time);
            refusals(&Scenario::from_toml(&text).unwrap()).is_empty()
        };
        assert_eq!((lasts("600s"), lasts("601s")), (true, false));
    }
}
