//! Flows that a client gave up: FLOW_CLOSE (DESIGN §6).
//!
//! A client that asked for a connection over two exits keeps the one that answered first. The loser hears of it here,
//! by the flow's name and, where the client knows it, by the number that a reset towards the destination has to carry:
//!
//! ```text
//! FLOW_CLOSE ──→ a reset to the destination (TCP, number given)
//!           └──→ remembered for closed_flow_term:
//!                  from the destination   dropped; a segment that is no reset draws one (RFC 9293 §3.10.7.1)
//!                  from the client        dropped, but for an opening SYN: the flow is no longer closed
//! ```
//!
//! The reset is a courtesy, sent once and unanswered. What makes it sure is the memory: a destination that did not
//! hear of it, or whose numbers were others, speaks again and is answered with numbers out of its own segment, as it
//! would be by a host that knows nothing of the connection. An opening SYN may be an old copy that came late; then the
//! destination's answer reaches the client, who closes the flow once more.
//!
//! A flow is known by its ports, so fragments behind the first pass; without the first no reader can use them. ICMP
//! errors are of the flow that they quote, and are answered by nothing.
//!
//! **Bounds.** As many flows as [`closed_flows_max`](ClosedFlowsConfig::closed_flows_max), the one that was closed
//! first goes first; one reset a flow each [`reset_interval`](ClosedFlowsConfig::reset_interval); and a client that closes
//! more flows than it can have opened breaks the protocol, as one that floods PINGs does. Resets that are made here are
//! packets of nobody: they stand in no books but [`ClosedCounters::resets`].

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use foldhash::fast::FixedState;
use quell_packet::reset::{tcp_reset, tcp_reset_for};
use quell_packet::{FlowKey, IpPacket, TcpView, icmp, protocol};
use quell_wire::control::FlowClose;
use quell_wire::registry::ErrorCode;

use crate::bucket::TokenBucket;
use crate::config::ClosedFlowsConfig;
use crate::counters::counters;
use crate::path::Violation;

counters! {
    /// What a client's FLOW_CLOSE messages came to.
    pub struct ClosedCounters {
        /// Flows that were closed.
        pub closed: u64,
        /// Messages about a flow that is not the client's, or that goes nowhere: nothing was done.
        pub refused: u64,
        /// Resets that were sent to destinations. They are packets handed on, and not counted with those of the client.
        pub resets: u64,
    }
}

#[derive(Debug, Clone, Copy)]
struct Closed {
    since: Instant,
    reset_at: Option<Instant>,
}

/// What is to be done with a packet of the world.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Inward {
    /// It is the client's.
    Pass,
    /// Its flow is closed.
    Drop {
        /// What the destination is answered.
        reset: Option<Bytes>,
    },
}

/// The closed flows of one session.
#[derive(Debug)]
pub(super) struct ClosedFlows {
    config: ClosedFlowsConfig,
    bucket: TokenBucket,
    /// By their names as the client's packets carry them.
    flows: HashMap<FlowKey, Closed, FixedState>,
    /// The same, the one first that was closed first.
    order: VecDeque<FlowKey>,
    counters: ClosedCounters,
}

impl ClosedFlows {
    pub(super) fn new(config: ClosedFlowsConfig, seed: u64) -> Self {
        let (rate, burst) = (config.flow_closes_per_s_max, config.flow_close_burst_max);
        Self {
            bucket: TokenBucket::new(rate, burst),
            config,
            flows: HashMap::with_hasher(FixedState::with_seed(seed)),
            order: VecDeque::new(),
            counters: ClosedCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> ClosedCounters {
        self.counters
    }

    /// Whether another FLOW_CLOSE may come at `now`.
    ///
    /// # Errors
    /// More came than may: the session ends.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Violation> {
        if self.bucket.take(now) {
            return Ok(());
        }
        let rate = self.config.flow_closes_per_s_max;
        Err(Violation {
            code: ErrorCode::FlowCloseFlood,
            words: format!("more than {rate} flows closed a second"),
        })
    }

    /// A message about a flow that is none of the client's.
    pub(super) fn refuse(&mut self) {
        self.counters.refused += 1;
    }

    /// The client gave the flow up; what the destination is told.
    pub(super) fn close(&mut self, close: &FlowClose, now: Instant) -> Option<Bytes> {
        let flow = key_of(close);
        self.counters.closed += 1;
        self.forget(&flow);
        self.forget_old(now);
        while self.order.len() >= self.config.closed_flows_max as usize {
            self.forget_first();
        }
        let reset = close.sequence.and_then(|it| tcp_reset(&flow, it, None));
        let reset_at = reset.is_some().then_some(now);
        self.counters.resets += u64::from(reset.is_some());
        self.flows.insert(
            flow,
            Closed {
                since: now,
                reset_at,
            },
        );
        self.order.push_back(flow);
        reset.map(Bytes::from)
    }

    /// A packet of the world that is addressed to the client.
    pub(super) fn judge_inward(&mut self, packet: &[u8], now: Instant) -> Inward {
        if self.flows.is_empty() {
            return Inward::Pass;
        }
        let Ok(view) = IpPacket::parse(packet) else {
            return Inward::Pass;
        };
        let key = if icmp::is_error(&view) {
            icmp::quoted_flow(&view)
        } else {
            Some(FlowKey::of(&view).reversed())
        };
        let interval = self.config.reset_interval;
        let Some(closed) = key.and_then(|key| self.closed(&key, now)) else {
            return Inward::Pass;
        };
        let waits = |at: Instant| now.saturating_duration_since(at) < interval;
        if closed.reset_at.is_some_and(waits) {
            return Inward::Drop { reset: None };
        }
        let reset = tcp_reset_for(&view);
        if reset.is_some() {
            closed.reset_at = Some(now);
            self.counters.resets += 1;
        }
        Inward::Drop {
            reset: reset.map(Bytes::from),
        }
    }

    /// Whether a packet of the client's is of a closed flow; an opening SYN opens it again.
    pub(super) fn holds_outward(&mut self, view: &IpPacket<'_>, now: Instant) -> bool {
        if self.flows.is_empty() {
            return false;
        }
        let key = if icmp::is_error(view) {
            icmp::quoted_flow(view).map(FlowKey::reversed)
        } else {
            Some(FlowKey::of(view))
        };
        let Some(key) = key.filter(|key| self.closed(key, now).is_some()) else {
            return false;
        };
        let opens = view.protocol() == protocol::TCP
            && TcpView::parse(view.payload()).is_ok_and(|tcp| tcp.is_opening());
        if opens {
            self.forget(&key);
        }
        !opens
    }

    /// A closed flow whose time is not over.
    fn closed(&mut self, flow: &FlowKey, now: Instant) -> Option<&mut Closed> {
        self.forget_old(now);
        self.flows.get_mut(flow)
    }

    fn forget_old(&mut self, now: Instant) {
        let term = self.config.closed_flow_term;
        let is_old = |closed: &Closed| now.saturating_duration_since(closed.since) >= term;
        while self
            .order
            .front()
            .is_some_and(|first| self.flows.get(first).is_none_or(is_old))
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(first) = self.order.pop_front() {
            self.flows.remove(&first);
        }
    }

    /// Looks through the whole order, which only a FLOW_CLOSE, and a SYN for each, can ask for.
    fn forget(&mut self, flow: &FlowKey) {
        if self.flows.remove(flow).is_some() {
            self.order.retain(|other| other != flow);
        }
    }
}

pub(super) fn key_of(close: &FlowClose) -> FlowKey {
    let flow = close.flow;
    FlowKey {
        source: flow.source,
        destination: flow.destination,
        protocol: flow.protocol,
        source_port: flow.source_port,
        destination_port: flow.destination_port,
    }
}
