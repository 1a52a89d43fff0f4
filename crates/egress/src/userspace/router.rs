//! Each client's packet to whom it concerns.
//!
//! A packet is judged once, as a whole ([`judge`]): what reaches a flow or an association is well-formed, between two
//! hosts, and has right checksums. What is wrong is counted and dropped in silence.
//!
//! After each batch the router steps back, so that the flows take what it queued before the next batch comes.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use quell_packet::{FlowKey, IpPacket, icmp, protocol};
use quell_stack::{Inlet, Ledger, Outbox, Outlet, judge};

use super::books::{Books, DropReason};
use super::config::UserspaceConfig;
use super::datagram::Datagrams;
use super::policy::Policy;
use super::tcp::Flows;

/// What all parts of the egress share.
pub(super) struct Common {
    pub(super) config: UserspaceConfig,
    pub(super) outbox: Outbox,
    pub(super) books: Arc<Books>,
}

/// The table of tables.
pub(super) struct Router {
    common: Rc<Common>,
    policy: Box<dyn Policy>,
    flows: Flows,
    datagrams: Datagrams,
}

impl Router {
    /// Must be called within a `LocalSet`.
    pub(super) fn new(
        config: UserspaceConfig,
        policy: Box<dyn Policy>,
        outlet: Outlet,
        books: Arc<Books>,
    ) -> Self {
        let ledger: Arc<dyn Ledger> = Arc::<Books>::clone(&books);
        let common = Rc::new(Common {
            config,
            outbox: Outbox::new(outlet, ledger),
            books,
        });
        let flusher = Rc::clone(&common);
        tokio::task::spawn_local(async move { flusher.outbox.flush_for_ever().await });
        Self {
            flows: Flows::new(Rc::clone(&common)),
            datagrams: Datagrams::new(Rc::clone(&common)),
            common,
            policy,
        }
    }

    /// Runs until no packet will come.
    pub(super) async fn run(mut self, inlet: &Inlet) {
        while let Some(mut batch) = inlet.receive().await {
            for packet in batch.drain(..) {
                if let Err(reason) = self.route(packet) {
                    self.common.books.drop_one(reason);
                }
            }
            inlet.recycle(batch);
            tokio::task::yield_now().await;
        }
    }

    /// Hands a packet on; whoever takes it counts it.
    fn route(&mut self, packet: Bytes) -> Result<(), DropReason> {
        let ip = IpPacket::parse(&packet).map_err(|_| DropReason::Malformed)?;
        judge(&ip)?;
        let key = FlowKey::of(&ip);
        match (ip, ip.protocol()) {
            (_, protocol::TCP) => self.flows.handle(key, packet.clone(), self.policy.as_mut()),
            (_, protocol::UDP) => self.datagrams.handle_udp(key, &ip, self.policy.as_mut()),
            (IpPacket::V4(_), protocol::ICMP) | (IpPacket::V6(_), protocol::ICMPV6) => {
                if icmp::is_error(&ip) {
                    return self.flows.handle_error(&ip);
                }
                self.datagrams.handle_echo(key, &ip, self.policy.as_mut())
            }
            _ => Err(DropReason::UnsupportedProtocol),
        }
    }
}
