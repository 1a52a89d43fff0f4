//! Each client's packet to whom it concerns.
//!
//! A packet is judged once, as a whole ([`judge_network`], [`judge_upper`]): what reaches a flow or an association is well-formed, between two
//! hosts, and has right checksums. What is wrong is counted and dropped in silence.
//!
//! After each batch the router steps back, so that the flows take what it queued before the next batch comes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quell_packet::reassembly::{Fate, Reassembly};
use quell_packet::{FlowKey, IpPacket, icmp, protocol};
use quell_stack::{Inlet, Ledger, Outbox, Outlet, judge_network, judge_upper};

use super::books::{Books, DropReason};
use super::config::UserspaceConfig;
use super::datagram::Datagrams;
use super::paths::Paths;
use super::policy::Policy;
use super::tcp::Flows;

/// What all parts of the egress share.
pub(super) struct Common {
    pub(super) config: UserspaceConfig,
    pub(super) outbox: Outbox,
    pub(super) paths: RefCell<Paths>,
    pub(super) books: Arc<Books>,
}

/// The table of tables.
pub(super) struct Router {
    common: Rc<Common>,
    policy: Box<dyn Policy>,
    flows: Flows,
    datagrams: Datagrams,
    fragments: Reassembly,
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
            paths: RefCell::new(Paths::new(config.mtu)),
            config,
            outbox: Outbox::new(outlet, ledger),
            books,
        });
        let flusher = Rc::clone(&common);
        tokio::task::spawn_local(async move { flusher.outbox.flush_for_ever().await });
        Self {
            flows: Flows::new(Rc::clone(&common)),
            datagrams: Datagrams::new(Rc::clone(&common)),
            fragments: Reassembly::default(),
            common,
            policy,
        }
    }

    /// Runs until no packet will come.
    pub(super) async fn run(mut self, inlet: &Inlet) {
        loop {
            let due = self.fragments.poll_timeout();
            let expired = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                batch = inlet.receive() => match batch {
                    Some(batch) => self.route_all(batch, inlet),
                    None => return,
                },
                () = expired => self.give_fragments_up(),
            }
            tokio::task::yield_now().await;
        }
    }

    fn route_all(&mut self, mut batch: Vec<Bytes>, inlet: &Inlet) {
        for packet in batch.drain(..) {
            if let Err(reason) = self.route(packet) {
                self.common.books.drop_one(reason);
            }
        }
        inlet.recycle(batch);
    }

    fn give_fragments_up(&mut self) {
        self.fragments.expire(Instant::now());
        let given_up = self.fragments.take_given_up();
        self.common.books.drop_many(DropReason::Fragment, given_up);
    }

    /// Takes a fragment, and gives its datagram when that is whole. What is held waits in the books; what was given up
    /// for it is counted here.
    fn join(&mut self, ip: &IpPacket<'_>) -> Result<Option<Bytes>, DropReason> {
        let fate = self.fragments.take(ip, Instant::now());
        let given_up = self.fragments.take_given_up();
        self.common.books.drop_many(DropReason::Fragment, given_up);
        match fate {
            Fate::Held => Ok(None),
            Fate::Whole { packet, pieces } => {
                // The last one is counted by whoever takes the whole.
                self.common.books.consume(pieces);
                Ok(Some(packet.into()))
            }
            Fate::Refused => Err(DropReason::Fragment),
        }
    }

    /// Takes an ICMP error from the tunnel's side. The one that says something is "packet too big", and it says it of
    /// packets to its sender: a client must not make another's segments small.
    fn handle_error(&self, ip: &IpPacket<'_>) -> Result<(), DropReason> {
        let quoted = icmp::quoted_flow(ip).filter(|quoted| quoted.destination == ip.source());
        let quoted = quoted.ok_or(DropReason::UnsupportedIcmp)?;
        let mtu = icmp::reported_mtu(ip).ok_or(DropReason::UnsupportedIcmp)?;
        let least = if ip.source().is_ipv4() { 576 } else { 1_280 };
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX).max(least);
        let mut paths = self.common.paths.borrow_mut();
        paths.shrink(ip.source(), mtu, Instant::now());
        self.flows.shrink(&quoted.reversed(), mtu);
        self.common.books.consume(1);
        Ok(())
    }

    /// Hands a packet on; whoever takes it counts it.
    fn route(&mut self, packet: Bytes) -> Result<(), DropReason> {
        let ip = IpPacket::parse(&packet).map_err(|_| DropReason::Malformed)?;
        judge_network(&ip)?;
        if ip.is_fragment() {
            return match self.join(&ip)? {
                Some(whole) => self.route(whole),
                None => Ok(()),
            };
        }
        judge_upper(&ip)?;
        let key = FlowKey::of(&ip);
        match (ip, ip.protocol()) {
            (_, protocol::TCP) => self.flows.handle(key, packet.clone(), self.policy.as_mut()),
            (_, protocol::UDP) => self.datagrams.handle_udp(key, &ip, self.policy.as_mut()),
            (IpPacket::V4(_), protocol::ICMP) | (IpPacket::V6(_), protocol::ICMPV6) => {
                if icmp::is_error(&ip) {
                    return self.handle_error(&ip);
                }
                self.datagrams.handle_echo(key, &ip, self.policy.as_mut())
            }
            _ => Err(DropReason::UnsupportedProtocol),
        }
    }
}
