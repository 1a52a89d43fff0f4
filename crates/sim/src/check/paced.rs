//! A dial that failed is not repeated before its wait.
//!
//! The wait after the n-th failed dial in a row is `reconnect_base`, doubled n − 1 times, `reconnect_max` at most, times the
//! smallest jitter; the server's own gate only adds to it. A fast refusal waits as long as a timeout. A row ends with a
//! connection, whatever becomes of it: what a connection that died young costs is for the tests of the core. A machine that
//! woke begins anew.

use std::collections::BTreeMap;

use super::{Checker, Complaints, Fact, Terms, ns, seconds};
use crate::fleet::node::{ClientId, ServerId};

/// The smallest factor of a wait.
const JITTER_MIN_PERCENT: u64 = 75;

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    dialling: bool,
    failures: u32,
    failed_ns: u64,
}

#[derive(Debug)]
pub(super) struct Paced {
    rows: BTreeMap<(ClientId, ServerId), Row>,
    base_ns: u64,
    max_ns: u64,
}

impl Paced {
    pub(super) fn new(terms: &Terms) -> Self {
        Self {
            rows: BTreeMap::new(),
            base_ns: ns(terms.client.reconnect_base),
            max_ns: ns(terms.client.reconnect_max),
        }
    }

    fn least_ns(&self, failures: u32) -> u64 {
        let doubled = 1_u64
            .checked_shl(failures.saturating_sub(1))
            .unwrap_or(u64::MAX);
        let wait = self.base_ns.saturating_mul(doubled).min(self.max_ns);
        wait / 100 * JITTER_MIN_PERCENT
    }
}

impl Checker for Paced {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Dialled { client, server } = *fact {
            let mut row = self
                .rows
                .get(&(client, server))
                .copied()
                .unwrap_or_default();
            let (waited, least) = (now_ns - row.failed_ns, self.least_ns(row.failures));
            if row.failures > 0 && waited < least {
                let (failures, waited, least) = (row.failures, seconds(waited), seconds(least));
                complaints.say(now_ns, format_args!(
                    "client {client} dials provider {server} {waited:.3} s after failure {failures} in a row, {least:.3} s at least"
                ));
            }
            row.dialling = true;
            self.rows.insert((client, server), row);
        }
        if let Fact::Connected { client, server } = *fact {
            self.rows.remove(&(client, server));
        }
        if let Fact::Closed { client, server } = *fact
            && let Some(row) = self.rows.get_mut(&(client, server))
            && std::mem::take(&mut row.dialling)
        {
            row.failures += 1;
            row.failed_ns = now_ns;
        }
        if let Fact::Woke { client } = *fact {
            self.rows
                .retain(|(of, _), row| *of != client || row.dialling);
        }
    }
}
