//! QUIC's settings, and why each is what it is.

use std::sync::Arc;
use std::time::Duration;

use quinn::congestion::CubicConfig;
use quinn::{AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::error::NetError;

/// Bytes of datagrams that quinn may hold for sending. The core hands over far
/// less at a time; this is only the bound that quinn itself enforces.
pub(crate) const DATAGRAM_SEND_BYTES: usize = 256 * 1024;
/// Bytes of received datagrams that quinn holds until the engine reads them.
/// 2 MiB: 17 ms at 1 Gbit/s, far longer than the engine is ever away.
const DATAGRAM_RECEIVE_BYTES: usize = 2 * 1024 * 1024;
/// Ack-eliciting packets that the peer may take before it acknowledges
/// (draft-ietf-quic-ack-frequency). 10: halves the cost of acks at no measurable
/// loss of speed; a gap is still reported at once.
const ACK_ELICITING_THRESHOLD: u32 = 10;
/// Longest delay of an acknowledgement. 25 ms is QUIC's own default.
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Bytes of one control stream on their way: one message of the largest size and some.
const CONTROL_STREAM_BYTES: u32 = 128 * 1024;

/// What people may set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportSettings {
    /// A connection without any packet for this long is gone. At least the
    /// `ack_timeout` of 60 s and 15 s more (DESIGN §4), so that an outage which the
    /// lanes can bridge never ends the connection. Default 75 s.
    pub idle_timeout: Duration,
    /// UDP payload assumed to pass, in bytes. Default 1,200, QUIC's minimum.
    pub mtu_initial: u16,
    /// Largest UDP payload looked for, in bytes. Default 1,452: Ethernet less
    /// IPv6 and UDP headers.
    pub mtu_upper: u16,
    /// Receive and send buffer of the UDP socket, in bytes. Default 4 MiB; the
    /// system's default of some 200 KiB overflows within 2 ms at 1 Gbit/s.
    pub socket_buffer_bytes: usize,
}

impl Default for TransportSettings {
    fn default() -> Self {
        Self {
            idle_timeout: Duration::from_secs(75),
            mtu_initial: 1_200,
            mtu_upper: 1_452,
            socket_buffer_bytes: 4 * 1024 * 1024,
        }
    }
}

impl TransportSettings {
    pub(crate) fn quic(&self) -> Result<Arc<TransportConfig>, NetError> {
        let idle = IdleTimeout::try_from(self.idle_timeout).map_err(|_| {
            NetError::Transport(format!("idle_timeout {:?} is too long", self.idle_timeout))
        })?;
        let mut discovery = MtuDiscoveryConfig::default();
        // After a change of the way, a larger size is looked for again each minute.
        discovery
            .upper_bound(self.mtu_upper)
            .interval(Duration::from_secs(60))
            .black_hole_cooldown(Duration::from_secs(20));
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(ACK_ELICITING_THRESHOLD))
            .max_ack_delay(Some(MAX_ACK_DELAY));
        let mut config = TransportConfig::default();
        config
            .max_idle_timeout(Some(idle))
            // Keepalives are the core's: one place decides when a path may speak.
            .keep_alive_interval(None)
            .initial_mtu(self.mtu_initial)
            .mtu_discovery_config(Some(discovery))
            .ack_frequency_config(Some(acks))
            .datagram_send_buffer_size(DATAGRAM_SEND_BYTES)
            .datagram_receive_buffer_size(Some(DATAGRAM_RECEIVE_BYTES))
            .max_concurrent_bidi_streams(VarInt::from_u32(1))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .stream_receive_window(VarInt::from_u32(CONTROL_STREAM_BYTES))
            .receive_window(VarInt::from_u32(CONTROL_STREAM_BYTES))
            .congestion_controller_factory(Arc::new(CubicConfig::default()));
        Ok(Arc::new(config))
    }
}
