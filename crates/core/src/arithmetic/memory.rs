//! Memory with everything full at once.
//!
//! A lane's sender is filled and asked what it holds. What a receiver holds is what credit admits, and a checksum a
//! number. Tables are counted by the size of their entries, which the settings' own words name.

use std::time::Instant;

use quell_wire::frame::{Credit, Lane, PackFlags};
use quell_wire::registry::BITMAP_NUMBERS;
use serde::Serialize;

use super::{ClientQuestion, ProviderQuestion, exits_kept};
use crate::config::{LaneConfig, PathConfig};
use crate::send::{AlwaysHealthy, Delivery, SendSequence, Unlimited};

/// A checksum a number (see `recv::fingerprint`).
const CHECKSUM_BYTES: u64 = 8;
/// An entry of a client's flow table: 3 MiB hold 32,768.
const CLIENT_FLOW_BYTES: u64 = 96;
/// A provider's entry of one flow: 400 KB hold 4,096.
const PROVIDER_FLOW_BYTES: u64 = 100;
/// A remembered destination: 500 KB hold 4,096.
const DESTINATION_BYTES: u64 = 124;
/// A closed flow: 32 KiB hold 256.
const CLOSED_FLOW_BYTES: u64 = 128;
/// A handshake under way.
const HANDSHAKE_BYTES: u64 = 24 * 1024;
/// A remembered prefix: 1 MiB holds 4,096.
const SOURCE_BYTES: u64 = 256;
/// A raced SYN: 100 KiB hold 1,024.
const RACE_BYTES: u64 = 100;
/// A remembered host: 1 MiB holds 4,096.
const HOST_BYTES: u64 = 256;

/// Bytes that one path holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PathMemory {
    /// Sent and not acknowledged, in all lanes, with what is remembered of it.
    pub sending_bytes: u64,
    /// Received and not passed on, in all lanes.
    pub receiving_bytes: u64,
    /// The queue of what is not acknowledged.
    pub queue_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

/// Bytes that a client holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClientMemory {
    /// Of each exit that is kept.
    pub of_a_path: PathMemory,
    /// How many there are.
    pub paths: u64,
    /// Flows, races and hosts.
    pub tables_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

/// Bytes that a provider holds at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ProviderMemory {
    /// Of each session's path.
    pub of_a_path: PathMemory,
    /// Of each session: its path, its flows, destinations and closed flows.
    pub of_a_session_bytes: u64,
    /// Sessions at once: what is allowed, and as many as there are clients and addresses for.
    pub sessions: u64,
    /// What waits for its share of the egress, in both directions.
    pub waiting_bytes: u64,
    /// Handshakes under way, and who asked for them.
    pub handshakes_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

/// What a full sender holds: as many packs as there may be, of as many bytes.
fn full_sender(config: &LaneConfig, origin: Instant) -> u64 {
    let endless = Credit {
        max_bytes: u64::MAX,
        max_number: u64::MAX,
    };
    let ends = (Unlimited, AlwaysHealthy);
    let config_of_lane = config.clone();
    let mut lane = SendSequence::new(
        Lane::FLOW,
        Delivery::Skipping,
        config_of_lane,
        endless,
        ends,
        0,
    );
    let pack = vec![0; config.window_bytes / config.window_numbers.max(1)];
    while lane.accept(PackFlags::WHOLE, 0, &pack, origin).is_ok() {}
    while lane.poll_transmit(usize::MAX, origin).is_some() {}
    lane.allocated_bytes() as u64
}

fn of_a_path(config: &PathConfig, origin: Instant) -> PathMemory {
    let lanes = Lane::COUNT as u64;
    let sending_bytes = lanes * full_sender(&config.lanes.send, origin);
    let received = config.lanes.receive.window_bytes + BITMAP_NUMBERS * CHECKSUM_BYTES;
    let receiving_bytes = lanes * received;
    let queue_bytes = config.dgram_queue_bytes_max as u64;
    PathMemory {
        sending_bytes,
        receiving_bytes,
        queue_bytes,
        total_bytes: sending_bytes + receiving_bytes + queue_bytes,
    }
}

pub(super) fn of_client(question: &ClientQuestion, origin: Instant) -> ClientMemory {
    let config = &question.config;
    let of_a_path = of_a_path(&config.path, origin);
    let paths = exits_kept(question) as u64;
    let tables_bytes = u64::from(config.flows.flows_max) * CLIENT_FLOW_BYTES
        + config.racer.races_max as u64 * RACE_BYTES
        + u64::from(config.flap.hosts_max) * HOST_BYTES;
    ClientMemory {
        of_a_path,
        paths,
        tables_bytes,
        total_bytes: paths * of_a_path.total_bytes + tables_bytes,
    }
}

pub(super) fn of_provider(question: &ProviderQuestion, origin: Instant) -> ProviderMemory {
    let config = &question.config;
    let of_a_path = of_a_path(&config.path, origin);
    let of_a_session_bytes = of_a_path.total_bytes
        + u64::from(config.client.client_flows_max) * PROVIDER_FLOW_BYTES
        + u64::from(config.client.client_destinations_max) * DESTINATION_BYTES
        + u64::from(config.closed_flows.closed_flows_max) * CLOSED_FLOW_BYTES;
    let sessions = config
        .sessions_max
        .min(question.clients)
        .min(question.addresses) as u64;
    let waiting_bytes = 2 * config.share.waiting_bytes_max as u64;
    let handshakes_bytes = config.doorman.handshakes_max as u64 * HANDSHAKE_BYTES
        + u64::from(config.doorman.sources_max) * SOURCE_BYTES;
    ProviderMemory {
        of_a_path,
        of_a_session_bytes,
        sessions,
        waiting_bytes,
        handshakes_bytes,
        total_bytes: sessions * of_a_session_bytes + waiting_bytes + handshakes_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::super::warnings::tests::{provider_question, question};
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_path_holds_its_windows_both_ways_and_what_is_remembered_of_them() {
        let origin = Instant::now();
        let path = of_a_path(&PathConfig::default(), origin);
        let windows = 2 * 2 * MIB;
        assert!(
            (windows..windows + 5 * MIB).contains(&path.sending_bytes),
            "{path:?}"
        );
        assert_eq!(path.receiving_bytes, windows + 2 * 64 * 1024);
        assert_eq!(path.queue_bytes, MIB / 2);
    }

    #[test]
    fn a_smaller_window_holds_less() {
        let (mut config, origin) = (PathConfig::default(), Instant::now());
        let full = of_a_path(&config, origin).sending_bytes;
        config.lanes.send.window_bytes /= 2;
        config.lanes.send.window_numbers /= 2;
        assert!(of_a_path(&config, origin).sending_bytes <= full / 2 + MIB / 4);
    }

    #[test]
    fn exits_and_sessions_multiply() {
        let origin = Instant::now();
        let one = of_client(&question(), origin);
        let two = of_client(
            &ClientQuestion {
                exits: 2,
                ..question()
            },
            origin,
        );
        let path = one.of_a_path.total_bytes;
        assert_eq!((one.paths, two.paths), (1, 2));
        assert_eq!(two.total_bytes - one.total_bytes, path);
        let mut asked = provider_question();
        asked.clients = 3;
        let three = of_provider(&asked, origin);
        asked.addresses = 2;
        let two = of_provider(&asked, origin);
        assert_eq!((three.sessions, two.sessions), (3, 2));
        assert_eq!(
            three.total_bytes - two.total_bytes,
            three.of_a_session_bytes
        );
    }
}
