//! The flows that a client holds: [`FlowTable`] with a bound that refuses.
//!
//! Packets come in runs of one flow, downloads above all. The flow of the packet before is remembered, and as long as it
//! was looked up within [`FRESH_TIME`] and the segment neither opens nor ends anything, the next packet of it needs no
//! lookup. The table then believes the flow idle for up to that long too soon, which is less than a tenth of its
//! shortest idle time.

use std::time::{Duration, Instant};

use quell_packet::{FlowKey, IpPacket, TcpView, protocol, tcp::flags};

use crate::config::FlowsConfig;
use crate::multi::ExitId;
use crate::multi::flows::FlowTable;

/// How long a flow need not be looked up again.
const FRESH_TIME: Duration = Duration::from_secs(1);
/// All flows leave by the same exit: this one.
const HERE: ExitId = ExitId(0);
/// Where a TCP header has its flags (RFC 9293 §3.1).
const FLAGS_AT: usize = 13;
const TURNING: u8 = flags::SYN | flags::FIN | flags::RST;

/// The flow of the packet before.
#[derive(Debug, Clone, Copy)]
struct Fresh {
    key: FlowKey,
    until: Instant,
}

#[derive(Debug)]
pub(super) struct HeldFlows {
    table: FlowTable,
    outward: Option<Fresh>,
    /// By its name as the client's packets carry it.
    inward: Option<Fresh>,
}

impl HeldFlows {
    pub(super) fn new(flows_max: u32, seed: u64) -> Self {
        let config = FlowsConfig {
            flows_max,
            ..FlowsConfig::default()
        };
        Self {
            table: FlowTable::new(config, seed),
            outward: None,
            inward: None,
        }
    }

    /// Whether a packet of the client's is of a flow that is held.
    pub(super) fn holds_outward(
        &mut self,
        key: &FlowKey,
        view: &IpPacket<'_>,
        now: Instant,
    ) -> bool {
        let turns = turns(view);
        if !turns && is_fresh(self.outward, key, now) {
            return true;
        }
        let tcp = segment(view);
        let Some(flow) = self.table.touch_outward(key, tcp.as_ref(), now) else {
            self.outward = None;
            return false;
        };
        let stays = !flow.track.is_closing();
        self.outward = stays.then(|| fresh(*key, now)).flatten();
        if !stays {
            self.inward = None;
        }
        true
    }

    /// A packet for the client.
    pub(super) fn note_inward(&mut self, view: &IpPacket<'_>, now: Instant) {
        let key = FlowKey::of(view).reversed();
        if !turns(view) && is_fresh(self.inward, &key, now) {
            return;
        }
        let tcp = segment(view);
        let flow = self.table.touch_inward(&key, HERE, tcp.as_ref(), now);
        let stays = flow.is_some_and(|flow| !flow.track.is_closing());
        self.inward = stays.then(|| fresh(key, now)).flatten();
        if !stays && self.outward.is_some_and(|it| it.key == key) {
            self.outward = None;
        }
    }

    /// Whether one more may be held.
    pub(super) fn has_room(&mut self, now: Instant) -> bool {
        self.table.expire(now);
        self.table.has_room()
    }

    /// Holds a flow that begins with this packet of the client's.
    pub(super) fn hold(&mut self, key: FlowKey, view: &IpPacket<'_>, now: Instant) {
        self.table.insert(key, HERE, segment(view).as_ref(), now);
        self.outward = fresh(key, now);
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

fn fresh(key: FlowKey, now: Instant) -> Option<Fresh> {
    let until = now.checked_add(FRESH_TIME)?;
    Some(Fresh { key, until })
}

fn is_fresh(fresh: Option<Fresh>, key: &FlowKey, now: Instant) -> bool {
    fresh.is_some_and(|it| now < it.until && it.key == *key)
}

/// Whether the packet may open or end a connection.
fn turns(view: &IpPacket<'_>) -> bool {
    view.protocol() == protocol::TCP
        && view
            .payload()
            .get(FLAGS_AT)
            .is_none_or(|flags| flags & TURNING != 0)
}

fn segment<'a>(view: &IpPacket<'a>) -> Option<TcpView<'a>> {
    let is_tcp = view.protocol() == protocol::TCP;
    is_tcp.then(|| TcpView::parse(view.payload()).ok())?
}
