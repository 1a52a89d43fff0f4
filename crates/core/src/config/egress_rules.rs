//! Constants of the rules about whom clients may speak to.
//!
//! The lists are the operator's and empty by default: what is denied without them stands in
//! [`provider::rules`](crate::provider::rules), with its reasons.

use super::{ConfigError, number};
use crate::provider::rules::Rule;

/// Most rules of one list. Rules are compiled whenever the host's addresses change; so many take some milliseconds.
const RULES_MAX: usize = 4_096;

/// Whom clients may speak to, and how often they are told that they may not (DESIGN §8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRulesConfig {
    /// What is allowed although it is denied by default.
    ///
    /// `[]`: the defaults are what a provider owes its own network. At most 4,096 rules.
    pub allow: Vec<Rule>,
    /// What is denied, also where `allow` names it.
    ///
    /// `[]`: what else a host reaches, its operator knows. At most 4,096 rules.
    pub deny: Vec<Rule>,
    /// Denied packets of one client that are answered each second in the long run.
    ///
    /// 50: a browser whose page names a dozen denied places hears of all at once; a scan hears of few. Range 1 to 10,000.
    pub denial_answers_per_s_max: u32,
    /// Denied packets of one client that are answered at once.
    ///
    /// 100: two seconds of the rate. Range 1 to 100,000.
    pub denial_answer_burst_max: u32,
}

impl Default for EgressRulesConfig {
    fn default() -> Self {
        Self {
            allow: Vec::default(),
            deny: Vec::default(),
            denial_answers_per_s_max: 50,
            denial_answer_burst_max: 100,
        }
    }
}

impl EgressRulesConfig {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        for (key, rules) in [("allow", &self.allow), ("deny", &self.deny)] {
            if rules.len() > RULES_MAX {
                let value = format!("{} rules", rules.len());
                let allowed = format!("at most {RULES_MAX} rules");
                return Err(ConfigError::new(format!("egress.{key}"), value, allowed));
            }
        }
        let rate = self.denial_answers_per_s_max;
        number("egress.denial_answers_per_s_max", rate, 1..=10_000)?;
        let burst = self.denial_answer_burst_max;
        number("egress.denial_answer_burst_max", burst, 1..=100_000)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_list_ends_where_its_range_does() {
        let rule: Rule = "192.0.2.1 tcp/443".parse().unwrap();
        let with = |rules| EgressRulesConfig {
            deny: vec![rule; rules],
            ..EgressRulesConfig::default()
        };
        with(RULES_MAX).try_new().unwrap();
        let error = with(RULES_MAX + 1).try_new().unwrap_err();
        assert_eq!(
            error.to_string(),
            "egress.deny = 4097 rules: allowed is at most 4096 rules"
        );
    }

    #[test]
    fn answers_stay_within_their_ranges() {
        let with = |denial_answers_per_s_max, denial_answer_burst_max| {
            EgressRulesConfig {
                denial_answers_per_s_max,
                denial_answer_burst_max,
                ..EgressRulesConfig::default()
            }
            .try_new()
        };
        with(1, 1).unwrap();
        with(10_000, 100_000).unwrap();
        with(0, 1).unwrap_err();
        with(10_001, 1).unwrap_err();
        with(1, 0).unwrap_err();
        with(1, 100_001).unwrap_err();
    }
}
