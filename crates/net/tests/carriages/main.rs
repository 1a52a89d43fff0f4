//! The simulator's two carriages beneath the same courses: a real QUIC with the driver's own settings, and the model.
//!
//! | module | holds |
//! |---|---|
//! | `agreement` | the model beside the real one, course by course, within stated tolerances |
//! | `course` | what happens: loads, cuts, and for how long |
//! | `fleet` | quell's core in whole worlds over either |
//! | `way` | a connection on a way of 25 ms each way: carries, cuts, counts |
//! | `truth` | what is expected of the real one alone: its course repeats, messages come whole, endings are told |
#![allow(clippy::unwrap_used)]

mod agreement;
mod course;
mod fleet;
mod truth;
mod way;

use std::sync::Arc;

use bytes::Bytes;
use quell_net::endpoint::{client_config, endpoint_config, server_config};
use quell_net::identity::Identity;
use quell_net::transport::TransportSettings;
use quell_sim::fleet::carriage::quic::{QuicCarriages, QuicSettings, Verbatim};
use quell_wire::key::SecretKey;

/// Datagrams that quinn's driver hands to a kernel with segmentation offload at a time.
const SEGMENTS_MAX: usize = 10;

/// Connections as the driver of production makes them.
fn real(seed: u64) -> QuicCarriages<Verbatim> {
    let client = Identity::from_secret(&SecretKey::from_bytes([1; 32])).unwrap();
    let server = Identity::from_secret(&SecretKey::from_bytes([2; 32])).unwrap();
    let transport = TransportSettings::default();
    let settings = QuicSettings {
        client_endpoint: Arc::new(endpoint_config(&client).unwrap()),
        client: client_config(&client, server.public_key(), &transport).unwrap(),
        server_endpoint: Arc::new(endpoint_config(&server).unwrap()),
        server: Arc::new(server_config(&server, &transport).unwrap()),
        grant: quell_net::congestion::grant,
        segments_max: SEGMENTS_MAX,
        seed,
    };
    QuicCarriages::new(settings, Verbatim)
}

fn zeros(len: u32) -> Bytes {
    Bytes::from(vec![0; len as usize])
}
