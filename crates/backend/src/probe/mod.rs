//! Asks each provider whether it is well, at its own beat.
//!
//! ```text
//! every interval ± 20 %, at most concurrency_max at a time
//!
//!   no http_path   QUIC handshake with the provider's own key    Passing
//!                  refused, another protocol, another key         Rejected
//!                  nothing                                        Failed
//!   http_path      GET, status 200 to 299                         Passing
//!                  any other answer                               Rejected
//!                  none                                           Failed
//! ```
//!
//! What an outcome means for the catalog is [`crate::catalog`]'s: here is only the question.
//!
//! *Why the handshake is the answer.* It is made by the same task that carries packets, signed anew with the key that
//! clients look for, over the way that they come: a provider that cannot finish it serves nobody, and one that can has
//! its loop, its socket and its key. A PONG would say no more, and costs the prober an identity: frames are taken only
//! in a session, a session needs a contract or an entry in the provider's list, and a refusal by name in its place would
//! be counted by the provider as an attack. The probe's key is drawn at each start of the server and known to nobody.
//!
//! A probe starts within an interval of when its host is first seen, at a random moment, so that five hundred hosts are
//! not asked at once after a start; a host's addresses are asked one after the other until one passes, since clients do
//! the same. Addresses are a provider's own word: who enrols one is trusted that far, and what is sent there is one
//! handshake, or one GET whose answer nobody sees.

mod ask;
mod config;
mod schedule;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_net::NetError;
use quell_net::identity::Identity;
use quell_wire::key::PublicKey;
use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio::task::{Id, JoinSet};
use tracing::debug;

pub use self::ask::Asker;
pub use self::config::ProbeConfig;
use self::schedule::Schedule;
use crate::catalog::Catalog;

/// How often hosts that are due are looked for. 100 ms: a hundredth of the usual interval.
const TICK: Duration = Duration::from_millis(100);

/// Probes the hosts of a catalog.
#[derive(Debug)]
pub struct Prober {
    config: ProbeConfig,
    asker: Arc<Asker>,
    catalog: Arc<Catalog>,
}

impl Prober {
    /// `config` is validated.
    ///
    /// # Errors
    /// No identity can be drawn.
    pub fn new(config: ProbeConfig, catalog: Arc<Catalog>) -> Result<Self, NetError> {
        let asker = Arc::new(Asker::new(Identity::generate()?, config.clone()));
        Ok(Self {
            config,
            asker,
            catalog,
        })
    }

    /// Probes until it is dropped.
    pub async fn run(&self, seed: u64) {
        let mut schedule = Schedule::new(self.config.interval);
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut probes = JoinSet::new();
        // A probe that ended in a panic is over, too.
        let mut asked: HashMap<Id, PublicKey> = HashMap::new();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let now = Instant::now();
            while let Some(ended) = probes.try_join_next_with_id() {
                let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
                if let Some(key) = asked.remove(&id) {
                    schedule.on_ended(&key, now, &mut rng);
                }
            }
            let hosts = self.catalog.look(|membership| {
                let hosts = membership.hosts();
                hosts.copied().collect::<Vec<_>>()
            });
            schedule.on_hosts(&hosts, now, &mut rng);
            let room = self.config.concurrency_max.saturating_sub(probes.len());
            for key in schedule.due(now, room) {
                asked.insert(probes.spawn(self.probe(key)).id(), key);
            }
        }
    }

    fn probe(&self, key: PublicKey) -> impl Future<Output = ()> + Send + 'static {
        let (asker, catalog) = (Arc::clone(&self.asker), Arc::clone(&self.catalog));
        let known = catalog.look(|membership| {
            let addresses = membership.addresses(&key)?.to_vec();
            Some((membership.epoch(&key)?, addresses))
        });
        async move {
            if let Some((epoch, addresses)) = known {
                let outcome = asker.ask(key, &addresses).await;
                debug!(provider = %key, ?outcome, "probed");
                catalog.on_probed(&key, epoch, outcome);
            }
        }
    }
}
