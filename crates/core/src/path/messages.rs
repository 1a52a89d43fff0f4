//! The embedder's messages: lane 0.
//!
//! A message arrives whole, once, and after those sent before it, or the lane ends
//! and says so. It is cut into packs of [`MESSAGE_PACK_LEN`], small enough for any
//! path that QUIC can use, so that a path that shrinks never ends the lane.
//! Messages that nobody takes hold the sender back through its credit.

use std::time::Instant;

use bytes::Bytes;
use quell_wire::frame::Lane;

use super::Path;
use super::cut::cut;
use crate::send::{Backpressure, Exhausted};

/// Payload of a message's packs in bytes, all but the last (DESIGN §4).
pub const MESSAGE_PACK_LEN: usize = 1_100;

/// Why a session carries no more messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessagesEnd {
    /// A pack was given up: what follows it can never be in order.
    #[error("pack {} was sent {} times and never acknowledged", .0.number, .0.sends)]
    ResendsExhausted(Exhausted),
    /// The session ended while packs were unacknowledged: some may have arrived.
    #[error("the session ended with {packs} packs unacknowledged")]
    DeliveryUnknown {
        /// How many packs.
        packs: u64,
    },
}

impl Path {
    /// Takes a message for the peer, of at most half the window.
    ///
    /// # Errors
    /// The bound that is in the way: nothing of the message was taken.
    /// [`Backpressure::TooLong`] and [`Backpressure::Ended`] never pass away.
    pub fn send_message(&mut self, message: &[u8], now: Instant) -> Result<(), Backpressure> {
        self.now = now;
        self.rest.wake();
        let len_max = self.config.lanes.send.window_bytes / 2;
        let pack_len = MESSAGE_PACK_LEN.min(self.pack_payload_len_max());
        let pieces = if pack_len == 0 {
            // Nothing is known of the path yet.
            cut(message.len(), MESSAGE_PACK_LEN, usize::MAX)
        } else {
            cut(message.len(), pack_len, usize::MAX)
        };
        let Some(cut) = pieces.filter(|_| message.len() <= len_max) else {
            return Err(Backpressure::TooLong);
        };
        let ordered = (false, |_, _| 0);
        let taken = self.lanes.accept(Lane::MESSAGE, message, cut, ordered, now);
        match taken {
            Ok(()) => self.counters.messages_sent += 1,
            Err(_) => self.ask_for_credit(),
        }
        taken
    }

    /// Whether [`Path::poll_message`] would yield one.
    pub fn has_message(&self) -> bool {
        self.lanes.receive[Lane::MESSAGE.index()].has_delivery()
    }

    /// The next message of the peer. Taking it is what lets the peer send more.
    pub fn poll_message(&mut self) -> Option<Bytes> {
        let delivery = self.lanes.receive[Lane::MESSAGE.index()].poll_deliver()?;
        self.counters.messages_received += 1;
        self.rest.wake();
        Some(delivery.bytes)
    }

    /// Why there are no more messages to the peer, once, when it is so.
    pub fn poll_messages_end(&mut self) -> Option<MessagesEnd> {
        if let Some(end) = self.messages_end.take() {
            return Some(end);
        }
        let exhausted = self.lanes.send[Lane::MESSAGE.index()].exhausted()?;
        if std::mem::replace(&mut self.messages_ended, true) {
            return None;
        }
        Some(MessagesEnd::ResendsExhausted(exhausted))
    }

    /// Notes what becomes of messages when the session ends.
    pub(super) fn end_messages(&mut self) {
        let counters = self.lanes.send[Lane::MESSAGE.index()].counters();
        let packs = counters.in_flight;
        if packs > 0 && !std::mem::replace(&mut self.messages_ended, true) {
            self.messages_end = Some(MessagesEnd::DeliveryUnknown { packs });
        }
    }
}
