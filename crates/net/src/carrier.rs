//! The seam between the engine and QUIC: batches of datagrams in and out.
//!
//! Everything that the packet path wants of QUIC stands here, so that another
//! state machine than quinn-proto's can take its place without the engine noticing.
//! What is handed over waits for the [`flush`](Carrier::flush), and leaves in batches.

use std::cell::Cell;
use std::future::poll_fn;
use std::time::Instant;

use bytes::Bytes;
use quell_core::path::CarrierFacts;
use quinn_proto::{ConnectionError, SendDatagramError};
use serde::Serialize;

use crate::congestion;
use crate::quic::Connection;
use crate::transport::DATAGRAM_SEND_BYTES;

/// Most datagrams taken at a time: bounds how long the engine looks away from
/// its other inputs.
const RECEIVE_BATCH_MAX: usize = 128;

/// What QUIC says of its path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct QuicReport {
    /// The UDP payload that the path carries, in bytes.
    pub udp_payload_bytes: u16,
    /// The congestion window, in bytes.
    pub cwnd_bytes: u64,
    /// The smoothed round trip, in microseconds.
    pub rtt_us: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets that are taken for lost.
    pub packets_lost: u64,
    /// How often the path was found to swallow what it had carried before.
    pub black_holes: u64,
}

#[derive(Debug)]
pub(crate) struct Carrier {
    connection: Connection,
    /// The window before it was opened, in bytes; `None` while it is QUIC's own.
    cwnd_before: Cell<Option<u64>>,
}

impl Carrier {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            cwnd_before: Cell::new(None),
        }
    }

    /// What the connection can take; `None` when the peer takes no datagrams.
    pub(crate) fn facts(&self) -> Option<CarrierFacts> {
        let datagram_len_max = self.connection.max_datagram_size()?;
        let space = self.connection.datagram_send_buffer_space();
        let path = self.connection.stats().path;
        Some(CarrierFacts {
            datagram_len_max,
            backlog_bytes: DATAGRAM_SEND_BYTES.saturating_sub(space + BOOKKEEPING_BYTES),
            cwnd_bytes: self.cwnd_before.get().unwrap_or(path.cwnd),
            rtt: path.rtt,
        })
    }

    /// Lets what is handed over leave whatever the congestion window says, or not.
    pub(crate) fn grant(&self, granted: bool, now: Instant) {
        if granted == self.cwnd_before.get().is_some() {
            return;
        }
        let cwnd = self.connection.stats().path.cwnd;
        self.cwnd_before.set(granted.then_some(cwnd));
        congestion::grant(self.connection.congestion_state(), granted, now);
    }

    pub(crate) fn report(&self) -> QuicReport {
        let path = self.connection.stats().path;
        QuicReport {
            udp_payload_bytes: path.current_mtu,
            cwnd_bytes: self.cwnd_before.get().unwrap_or(path.cwnd),
            rtt_us: u64::try_from(path.rtt.as_micros()).unwrap_or(u64::MAX),
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            black_holes: path.black_holes_detected,
        }
    }

    /// Hands a datagram over; whether QUIC took it.
    ///
    /// The core offers only what the facts allow, so a refusal means that the
    /// path shrank in between, or that the connection is over.
    pub(crate) fn send(&self, datagram: Bytes) -> bool {
        match self.connection.send_datagram(datagram) {
            Ok(()) => true,
            Err(
                SendDatagramError::TooLarge
                | SendDatagramError::Blocked(_)
                | SendDatagramError::UnsupportedByPeer
                | SendDatagramError::Disabled,
            ) => false,
        }
    }

    /// Waits for datagrams and takes all that are there, up to a batch.
    /// Cancelling it loses nothing.
    pub(crate) async fn receive(&self, batch: &mut Vec<Bytes>) -> Result<(), ConnectionError> {
        poll_fn(|cx| self.connection.poll_datagrams(cx, batch, RECEIVE_BATCH_MAX)).await
    }

    /// Lets what was handed over leave.
    pub(crate) fn flush(&self) {
        self.connection.flush();
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// quinn charges an empty queue with the bookkeeping of one datagram.
const BOOKKEEPING_BYTES: usize = 32;
