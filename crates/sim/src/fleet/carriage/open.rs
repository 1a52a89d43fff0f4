//! The model of a connection whose carrier does not hold back: what it is handed leaves at once, whatever was lost before.
//!
//! The reference's figures of the baselines, 60 MiB and 24 MiB for a full queue, and the field's 190 GiB an hour of one node,
//! are those of a carrier that puts out what it is given: more than a window of two datagrams a probe timeout would let
//! through in years. Over a QUIC with congestion control the same policies are held back by a layer that is none of their
//! merit. So a baseline runs over this under its own name, and over the model of QUIC as `NAME+quic`: what the congestion
//! window alone saves is the difference of the two rows. quell has the window and runs over it always.
//!
//! All else is the model's, for it *is* the model, told to leave out two things: the congestion window, and all that
//! watches over datagrams for their loss, probes included. The handshake with its repeats, headers and seals,
//! acknowledgements of what comes, the idle timer, control messages that are repeated until they are acknowledged, and the
//! search for the path's size stay. What leaves meets the scenario's access as everything does: its rate and its queue, in
//! front of which the bytes are counted.
//!
//! Invariant: no datagram waits. The backlog is nothing whenever the connection was asked for what leaves.

use std::time::Instant;

use super::Carriages;
use super::model::Model;

/// Makes connections that do not hold back.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opens;

impl<U: Clone> Carriages<U> for Opens {
    type Carriage = Model<U>;

    fn dial(&mut self, _number: u64, now: Instant) -> Model<U> {
        Model::unheld(now)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::fleet::carriage::model::Models;
    use crate::fleet::carriage::{Carriage, CarriageEvent, Side, UdpDatagram as _};
    use std::time::Duration;

    /// Lets both ends say all that they have to, until neither has anything.
    fn talk(carriage: &mut Model<u32>, now: Instant) -> u32 {
        let mut came = 0;
        loop {
            let mut any = false;
            for side in [Side::Client, Side::Server] {
                while let Some(udp) = carriage.poll_udp(side, now) {
                    any = true;
                    carriage.handle(side.other(), udp, now);
                }
                while let Some(event) = carriage.poll_event(side) {
                    came += u32::from(matches!(event, CarriageEvent::Datagram(_)));
                }
            }
            if !any {
                return came;
            }
        }
    }

    /// How many of 10,000 datagrams leave at once after a handshake, and bytes of all that leaves.
    fn leaves(mut carriage: Model<u32>, now: Instant) -> (usize, u32, Model<u32>) {
        talk(&mut carriage, now);
        for unit in 0..10_000 {
            assert!(carriage.send_datagram(Side::Client, unit, 1_100, now));
        }
        let mut bytes = 0;
        while let Some(udp) = carriage.poll_udp(Side::Client, now) {
            bytes += udp.len_bytes();
        }
        let left = carriage.facts(Side::Client).unwrap().backlog_bytes / 1_100;
        (10_000 - left, bytes, carriage)
    }

    #[test]
    fn all_leaves_at_once_into_silence() {
        let now = Instant::now();
        let (count, bytes, mut open) = leaves(Opens.dial(1, now), now);
        assert_eq!(count, 10_000);
        assert!(
            (10_000 * (1_100 + 29)..10_000 * (1_100 + 29 + 4)).contains(&bytes),
            "{bytes}"
        );
        // And it says no more until it is idle.
        let idle = now + Duration::from_secs(75);
        let mut at = now;
        while let Some(next) = open.poll_timeout(Side::Client).filter(|next| *next < idle) {
            at = next;
            open.handle_timeout(Side::Client, at);
            while let Some(udp) = open.poll_udp(Side::Client, at) {
                assert!(udp.len_bytes() < 1_500);
            }
        }
        assert!(at < idle);
        open.handle_timeout(Side::Client, idle);
        let events = std::iter::from_fn(|| open.poll_event(Side::Client));
        assert!(
            events
                .into_iter()
                .any(|event| matches!(event, CarriageEvent::Closed(_)))
        );
        let (count, ..) = leaves(Models.dial(1, now), now);
        assert!(count < 20, "QUIC holds back: {count}");
    }

    #[test]
    fn what_leaves_arrives() {
        let now = Instant::now();
        let mut open: Model<u32> = Opens.dial(1, now);
        talk(&mut open, now);
        for unit in 0..1_000 {
            open.send_datagram(Side::Client, unit, 100, now);
        }
        assert_eq!(talk(&mut open, now), 1_000);
    }
}
