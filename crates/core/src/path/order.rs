//! Which pack is the previous one of a flow.
//!
//! A pack of lane `flow` names the last pack of its flow's previous packet, as a
//! distance back, and the receiver holds it for that one alone: one flow's loss
//! delays no other. The table remembers each flow's last pack for as long as the
//! distance to it can be said, so it never holds more flows than that distance
//! has numbers.

use std::collections::HashMap;

use quell_packet::FlowKey;
use quell_wire::registry::DEP_MAX;
use rustc_hash::FxSeededState;

/// Flows after which what is out of reach is swept out: at most half of them stay.
const FLOWS_MAX: usize = 2 * (DEP_MAX as usize + 1);

/// The last pack of each flow.
#[derive(Debug)]
pub(super) struct FlowOrder {
    last: HashMap<FlowKey, u64, FxSeededState>,
}

impl FlowOrder {
    /// `seed` keeps those who choose flows from choosing their places in the table.
    pub(super) fn new(seed: u64) -> Self {
        let seed = usize::try_from(seed & u64::from(u32::MAX)).unwrap_or_default();
        Self {
            last: HashMap::with_hasher(FxSeededState::with_seed(seed)),
        }
    }

    /// The distance from `first`, the first pack of a packet of `flow`, to the
    /// flow's previous one; 0 for none. `end` is the first number after the packet.
    pub(super) fn enter(&mut self, flow: FlowKey, first: u64, end: u64) -> u16 {
        if self.last.len() >= FLOWS_MAX && !self.last.contains_key(&flow) {
            self.last
                .retain(|_, last| first.saturating_sub(*last) <= DEP_MAX);
        }
        let previous = self.last.insert(flow, end.saturating_sub(1));
        let distance = previous.map_or(0, |last| first.saturating_sub(last));
        if distance > DEP_MAX {
            return 0;
        }
        u16::try_from(distance).unwrap_or(0)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.last.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn flow(port: u16, host: u8) -> FlowKey {
        FlowKey {
            source: IpAddr::from([10, 0, 0, host]),
            destination: IpAddr::from([192, 0, 2, 1]),
            protocol: 6,
            source_port: port,
            destination_port: 443,
        }
    }

    #[test]
    fn each_flow_points_at_its_own_previous_pack() {
        let mut order = FlowOrder::new(1);
        assert_eq!(order.enter(flow(1, 1), 0, 1), 0);
        assert_eq!(order.enter(flow(2, 1), 1, 3), 0, "packs 1 and 2");
        assert_eq!(order.enter(flow(1, 1), 3, 4), 3);
        assert_eq!(
            order.enter(flow(2, 1), 4, 5),
            2,
            "the last pack of the previous packet"
        );
    }

    #[test]
    fn the_farthest_distance_is_said_and_one_more_is_none() {
        let mut order = FlowOrder::new(1);
        order.enter(flow(1, 1), 0, 1);
        order.enter(flow(2, 1), 0, 1);
        assert_eq!(
            u64::from(order.enter(flow(1, 1), DEP_MAX, DEP_MAX + 1)),
            DEP_MAX
        );
        assert_eq!(order.enter(flow(2, 1), DEP_MAX + 1, DEP_MAX + 2), 0);
    }

    #[test]
    fn a_flow_of_each_packet_does_not_make_it_grow() {
        let mut order = FlowOrder::new(1);
        for number in 0..100_000_u64 {
            let port = (number % 50_000) as u16;
            order.enter(flow(port, (number / 50_000) as u8), number, number + 1);
            assert!(order.len() <= FLOWS_MAX);
        }
    }
}
