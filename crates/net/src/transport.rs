//! QUIC's settings, and why each is what it is.

use std::sync::Arc;
use std::time::Duration;

use quinn::{AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use quell_core::config::{self, ConfigError};

use crate::congestion::FlooredConfig;
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
/// How long a path that swallowed large packets carries small ones before it is
/// searched anew. 250 ms: a cut looks like that, and random loss now and then. Until
/// then packets in pieces cost up to twice the datagrams; a search costs a dozen.
const BLACK_HOLE_COOLDOWN: Duration = Duration::from_millis(250);
/// What a round trip is taken for before one was measured; QUIC's own default is 333 ms
/// (RFC 9002 §6.2.2). A first packet is repeated after 3, 9, 21 and 45 of them: at
/// 300 ms the last of these, 13.5 s after the first, falls into a dial's 15 s and may
/// still be answered. Under the quiet ceiling there is one dial a minute.
const INITIAL_RTT: Duration = Duration::from_millis(300);
/// Bytes of one control stream on their way: one message of the largest size and some.
const CONTROL_STREAM_BYTES: u32 = 128 * 1024;

/// Shortest idle timeout: packs may be acknowledged for 60 s (`ack_timeout`), and
/// QUIC must outlive that by 15 s, or an outage that a lane survives would end the
/// connection under it (DESIGN §4, "The QUIC beneath").
pub const IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(75);
/// Longest idle timeout: a dead peer's state is not kept for longer.
pub const IDLE_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// What people may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportSettings {
    /// Silence after which QUIC gives a connection up; the lower of both ends' counts.
    ///
    /// 75 s: `ack_timeout` (60 s) and 15 s (DESIGN §4). Range 75 s to 10 min.
    pub idle_timeout: Duration,
    /// Bytes of UDP payload that every path is assumed to carry.
    ///
    /// 1,200: what RFC 9000 §14 demands of any QUIC path. Range 1,200 to 1,452.
    pub mtu_initial: u16,
    /// Largest UDP payload that discovery tries, in bytes.
    ///
    /// 1,452: an Ethernet frame's 1,500 less the headers of IPv6 and UDP. Over
    /// IPv4 alone 1,472 fit. Range `mtu_initial` to 1,472.
    pub mtu_upper: u16,
    /// Bytes asked of the system for each of the UDP socket's two buffers.
    ///
    /// 4 MiB: 33 ms at 1 Gbit/s, more than a descheduled engine sleeps; the
    /// system's default of some 200 KiB overflows within 2 ms. The system may
    /// give less. Range 64 KiB to 64 MiB.
    pub socket_buffer_bytes: usize,
}

impl Default for TransportSettings {
    fn default() -> Self {
        Self {
            idle_timeout: IDLE_TIMEOUT_MIN,
            mtu_initial: 1_200,
            mtu_upper: 1_452,
            socket_buffer_bytes: 4 * 1024 * 1024,
        }
    }
}

impl TransportSettings {
    /// Checks every value against its range.
    ///
    /// # Errors
    /// The first setting outside its range, named as in a configuration file.
    pub fn try_new(self) -> Result<Self, ConfigError> {
        config::duration(
            "transport.idle_timeout",
            self.idle_timeout,
            IDLE_TIMEOUT_MIN..=IDLE_TIMEOUT_MAX,
        )?;
        let bytes = self.socket_buffer_bytes;
        if !(64 * 1024..=64 * 1024 * 1024).contains(&bytes) {
            return Err(ConfigError::new(
                "transport.socket_buffer",
                bytes,
                "64 KiB to 64 MiB",
            ));
        }
        config::number("transport.mtu_initial", self.mtu_initial, 1_200..=1_452)?;
        config::number(
            "transport.mtu_upper",
            self.mtu_upper,
            self.mtu_initial..=1_472,
        )?;
        Ok(self)
    }

    pub(crate) fn quic(&self) -> Result<Arc<TransportConfig>, NetError> {
        let idle = IdleTimeout::try_from(self.idle_timeout).map_err(|_| {
            NetError::Transport(format!("idle_timeout {:?} is too long", self.idle_timeout))
        })?;
        let mut discovery = MtuDiscoveryConfig::default();
        // After a change of the way, a larger size is looked for again each minute.
        discovery
            .upper_bound(self.mtu_upper)
            .interval(Duration::from_secs(60))
            .black_hole_cooldown(BLACK_HOLE_COOLDOWN);
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(ACK_ELICITING_THRESHOLD))
            .max_ack_delay(Some(MAX_ACK_DELAY));
        let mut config = TransportConfig::default();
        config
            .max_idle_timeout(Some(idle))
            // Keepalives are the core's: one place decides when a path may speak.
            .keep_alive_interval(None)
            .initial_rtt(INITIAL_RTT)
            .initial_mtu(self.mtu_initial)
            .mtu_discovery_config(Some(discovery))
            .ack_frequency_config(Some(acks))
            .datagram_send_buffer_size(DATAGRAM_SEND_BYTES)
            .datagram_receive_buffer_size(Some(DATAGRAM_RECEIVE_BYTES))
            .max_concurrent_bidi_streams(VarInt::from_u32(1))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .stream_receive_window(VarInt::from_u32(CONTROL_STREAM_BYTES))
            .receive_window(VarInt::from_u32(CONTROL_STREAM_BYTES))
            .congestion_controller_factory(Arc::new(FlooredConfig::default()));
        Ok(Arc::new(config))
    }
}
