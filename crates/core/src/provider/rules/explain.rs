//! What `quell why` says of a destination.
//!
//! The judge itself answers, so the words cannot differ from what happens to a packet. Beside it stand the operator's rules
//! that speak of the destination and of some ports alone, which a question without a port does not see, and how many
//! packets were denied for the same reason: whoever asks wants to know whether it is *their* packets that are denied.

use serde::Serialize;

use super::class::{Class, Denials};
use super::rule::{Asked, Rule, Service};
use super::{RuleSet, embedded};
use crate::config::EgressRulesConfig;

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Whether it may be sent.
    pub allowed: bool,
    /// The class it is denied for, by name.
    pub class: Option<&'static str>,
    /// The answer in one sentence.
    pub reason: String,
    /// Packets of all clients that were denied for that reason since the start.
    pub denied_packets: u64,
    /// Rules of the operator about some ports or protocols of the destination.
    pub partial_rules: Vec<String>,
}

impl Explanation {
    /// Judges, and says why.
    pub(in crate::provider) fn of(
        asked: &Asked,
        rules: &RuleSet,
        config: &EgressRulesConfig,
        denied: &Denials,
    ) -> Self {
        let class = rules.judge(asked).err();
        Self {
            allowed: class.is_none(),
            class: class.map(Class::name),
            reason: class.map_or_else(|| "allowed".to_owned(), words),
            denied_packets: class.map_or(0, |class| denied[class]),
            partial_rules: partial(asked, config),
        }
    }
}

fn words(class: Class) -> String {
    let opens = match class.is_opened_by_allow() {
        true => "`egress.allow` opens it",
        false => "no rule opens it",
    };
    format!("denied: {}; {opens}", class.words())
}

/// The rules that speak of the destination, and not of all that may be sent there.
fn partial(asked: &Asked, config: &EgressRulesConfig) -> Vec<String> {
    let Some(destination) = asked.destination else {
        return Vec::new();
    };
    let inside = match destination {
        std::net::IpAddr::V4(_) => [None, None],
        std::net::IpAddr::V6(v6) => embedded(v6),
    };
    let places: Vec<_> = std::iter::once(destination)
        .chain(inside.into_iter().flatten().map(Into::into))
        .collect();
    let speaks = |rule: &&Rule| {
        let here = |prefix: quell_packet::Prefix| places.iter().any(|it| prefix.contains(*it));
        rule.service != Service::Any && rule.prefix.is_none_or(here)
    };
    let lists = [("deny", &config.deny), ("allow", &config.allow)];
    let named = lists.into_iter().flat_map(|(list, rules)| {
        let rules = rules.iter().filter(speaks);
        rules.map(move |rule| format!("{list} {rule}"))
    });
    named.collect()
}
