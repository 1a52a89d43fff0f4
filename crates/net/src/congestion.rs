//! quinn's Cubic with the core's loss floor under it.
//!
//! The decisions are [`quell_core::congestion`]'s; this file only translates.
//! quinn reports each acknowledged packet ([`Controller::on_ack`]), then the end of
//! the acknowledgement, then what it showed to be lost. Its pacer spreads one and a
//! quarter of [`Controller::window`] over a smoothed RTT, so it follows the floor by
//! itself.
//!
//! # One state a path
//! quinn clones a controller where the peer only rebinds (RFC 9000 §9.4: same
//! address, other port) and when someone asks for
//! [`congestion_state`](quinn::Connection::congestion_state). Clones share one
//! state behind a lock: after a rebinding two paths of the same network have one
//! history, and whoever holds a clone sees what quinn sees, and may speak to it. For
//! another address quinn builds a fresh controller: what one network showed says
//! nothing about the next.
//!
//! The lock is held by the connection's task for some hundred instructions an
//! acknowledged packet, and nothing of ours on the packet's way takes it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use quell_core::congestion::LossFloor;
use quell_core::congestion::stale::StaleRtt;
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics, CubicConfig};
use quinn_proto::RttEstimator;

/// Builds [`Floored`] controllers.
#[derive(Debug, Default)]
pub(crate) struct FlooredConfig {
    cubic: Arc<CubicConfig>,
}

impl ControllerFactory for FlooredConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let cubic = Arc::clone(&self.cubic).build(now, current_mtu);
        Box::new(Floored {
            initial_window: cubic.initial_window(),
            state: Arc::new(Mutex::new(State {
                cubic,
                floor: LossFloor::new(current_mtu.into()),
                stale: StaleRtt::default(),
                granted: false,
            })),
        })
    }
}

struct State {
    cubic: Box<dyn Controller>,
    floor: LossFloor,
    stale: StaleRtt,
    /// What the core hands over leaves, whatever the window says.
    granted: bool,
}

impl State {
    fn window(&mut self) -> u64 {
        if self.granted {
            return u64::MAX;
        }
        let window = self.floor.window_bytes(self.cubic.window());
        self.stale.scaled_bytes(window)
    }
}

/// Opens the window of a connection, or leaves it to the controller again. `controller` is a clone of the connection's;
/// another kind than ours is left alone.
///
/// quinn counts datagrams that were lost against the window until an answer comes,
/// and its own probes back off without a ceiling: a path that was cut could stay
/// unused for as long as the cut had lasted. While the core has hushed the path it
/// hands over next to nothing, each at a time of its own choosing, and that must
/// leave.
pub fn grant(controller: Box<dyn Controller>, granted: bool, now: Instant) {
    if let Ok(floored) = controller.into_any().downcast::<Floored>() {
        let mut state = floored.state.lock();
        state.granted = granted;
        if granted {
            state.stale.on_silence(now);
        }
    }
}

/// `max(Cubic's window, the floor)`. Clones share their state, see the [module](self).
#[derive(Clone)]
pub(crate) struct Floored {
    state: Arc<Mutex<State>>,
    initial_window: u64,
}

impl fmt::Debug for Floored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Floored").finish_non_exhaustive()
    }
}

impl Controller for Floored {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let mut state = self.state.lock();
        state.cubic.on_sent(now, bytes, last_packet_number);
        state.floor.on_sent(bytes, now);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let mut state = self.state.lock();
        state.cubic.on_ack(now, sent, bytes, app_limited, rtt);
        state.stale.on_acked(sent, rtt.get());
        let srtt = state.stale.believed(rtt.get());
        state.floor.on_acked(bytes, sent, srtt, now);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let mut state = self.state.lock();
        let cubic = &mut state.cubic;
        cubic.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        state.floor.on_acks_end(in_flight, now);
        state.stale.on_acks_end(now);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let mut state = self.state.lock();
        let cubic = &mut state.cubic;
        cubic.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        // quinn's way to say that the path marked packets (ECN) and lost none
        if lost_bytes == 0 {
            state.floor.on_marked();
        }
        state.floor.on_lost(lost_bytes);
        if is_persistent_congestion {
            state.floor.on_persistent_congestion();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        let mut state = self.state.lock();
        state.cubic.on_mtu_update(new_mtu);
        state.floor.on_packet_bytes(new_mtu.into());
    }

    fn window(&self) -> u64 {
        self.state.lock().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut state = self.state.lock();
        let mut metrics = state.cubic.metrics();
        metrics.congestion_window = state.window();
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    /// Cubic's. quinn sizes the first burst of its pacer by it.
    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::endpoint::{connect, listen};
    use crate::identity::Identity;
    use crate::socket::SocketWatch;
    use crate::transport::TransportSettings;

    fn build() -> Box<dyn Controller> {
        Arc::new(FlooredConfig::default()).build(Instant::now(), 1_200)
    }

    fn floored(controller: Box<dyn Controller>) -> Box<Floored> {
        controller.into_any().downcast().unwrap()
    }

    #[test]
    fn before_anything_is_known_the_window_is_cubics() {
        let now = Instant::now();
        let mut ours = build();
        let mut cubic = Arc::new(CubicConfig::default()).build(now, 1_200);
        assert_eq!(ours.initial_window(), cubic.initial_window());
        assert_eq!(ours.window(), cubic.window());
        for controller in [&mut ours, &mut cubic] {
            controller.on_congestion_event(now, now, false, 1_200);
        }
        assert_eq!(ours.window(), cubic.window());
        assert!(ours.window() < ours.initial_window());
        assert_eq!(ours.metrics().congestion_window, ours.window());
        assert_eq!(ours.metrics().ssthresh, cubic.metrics().ssthresh);
        for controller in [&mut ours, &mut cubic] {
            let later = now + Duration::from_millis(1);
            controller.on_congestion_event(later, later, true, 1_200);
            controller.on_mtu_update(1_452);
        }
        assert_eq!(ours.window(), cubic.window());
    }

    #[test]
    fn clones_share_their_state_and_another_path_has_its_own() {
        let factory = Arc::new(FlooredConfig::default());
        let now = Instant::now();
        let path = Arc::clone(&factory).build(now, 1_200);
        let mut rebound = path.clone_box();
        rebound.on_congestion_event(now, now, true, 1_200);
        assert_eq!(path.window(), rebound.window());
        assert!(path.window() < path.initial_window());
        let other = factory.build(now, 1_200);
        assert_eq!(other.window(), other.initial_window());
        let shared = [floored(path), floored(rebound), floored(other)].map(|c| c.state);
        assert!(Arc::ptr_eq(&shared[0], &shared[1]) && !Arc::ptr_eq(&shared[0], &shared[2]));
    }

    #[tokio::test]
    async fn on_a_connection_the_floor_learns_from_acks_and_the_window_is_the_larger() {
        let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let transport = TransportSettings::default();
        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let listening = listen(&server, any, &transport, SocketWatch::default()).unwrap();
        let remote = listening.local_addr().unwrap();
        let watch = SocketWatch::default();
        let (_endpoint, connecting) =
            connect(&client, remote, server.public_key(), &transport, watch).unwrap();
        let accepting = async { listening.accept().await.unwrap().await.unwrap() };
        let (connection, accepted) = tokio::join!(connecting, accepting);
        let connection = connection.unwrap();
        let state = floored(connection.congestion_state()).state;
        let payload = Bytes::from(vec![0; 1_000]);
        // Both ends share this thread: whoever sends without a pause starves the one that acknowledges.
        let sending = async {
            while state.lock().floor.min_rtt().is_none() {
                let payload = payload.clone();
                connection.send_datagram_wait(payload).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let receiving = async { while accepted.read_datagram().await.is_ok() {} };
        tokio::select! {
            () = sending => {}
            () = receiving => panic!("the connection was lost"),
            () = tokio::time::sleep(Duration::from_secs(10)) => panic!("no round trip"),
        }
        assert!(state.lock().floor.min_rtt().unwrap() < Duration::from_secs(1));
        let window = connection.congestion_state().window();
        let mut state = state.lock();
        assert_eq!(window, state.window());
        assert_eq!(window, state.floor.floor_bytes().max(state.cubic.window()));
    }
}
