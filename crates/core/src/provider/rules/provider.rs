//! The provider's side of the rules: what they are made of changes, and people ask about them.
//!
//! The rules are compiled when the host's addresses or the operator's lists change, once for all sessions, and each session
//! is handed them. That is work for each session there is, some nanoseconds each, on an occasion that comes a few times a day.

use std::sync::Arc;

use super::{Asked, EgressCounters, Explanation, HostAddresses, RuleSet};
use crate::config::{ConfigError, EgressRulesConfig};
use crate::drops::DropReason;
use crate::provider::Provider;

use super::class::Class;

impl Provider {
    /// The addresses of the provider's host, all of them: what was told before and is not among them is forgotten.
    pub fn on_host_addresses(&mut self, host: HostAddresses) {
        if self.host != host {
            self.host = host;
            self.compile();
        }
    }

    /// The operator's rules are others from the next packet on, for connections that stand, too. How often sessions that
    /// are there hear of a denial stays as it was.
    ///
    /// # Errors
    /// The first setting outside its range; the rules stay as they were.
    pub fn on_egress_rules(&mut self, rules: EgressRulesConfig) -> Result<(), ConfigError> {
        self.config.egress_rules = rules.try_new()?;
        self.compile();
        Ok(())
    }

    /// Whether a client may send what is asked, and why.
    pub fn explain(&self, asked: &Asked) -> Explanation {
        let mut denied = self.egress_counters().denied;
        // These are dropped before the rules are asked: nobody has such an address.
        let sessions = self.sessions.values().map(|of| of.received_drops());
        let unjudged = sessions.chain([self.ended_received_drops]);
        let unjudged: u64 = unjudged.map(|drops| drops[DropReason::NotUnicast]).sum();
        denied.add(Class::NotUnicast, unjudged);
        Explanation::of(asked, &self.rules, &self.config.egress_rules, &denied)
    }

    pub(in crate::provider) fn egress_counters(&self) -> EgressCounters {
        let mut sum = self.ended_egress;
        let sessions = self.sessions.values().map(|of| of.egress_counters());
        sessions.for_each(|counters| sum += counters);
        sum
    }

    fn compile(&mut self) {
        let (config, gateway) = (&self.config.egress_rules, self.pool.gateway());
        self.rules = Arc::new(RuleSet::new(config, &self.host, &gateway));
        for session in self.sessions.values_mut() {
            session.guard().on_rules(&self.rules);
        }
    }
}
