//! What both halves say to each other, and how long it is.
//!
//! A unit is a few numbers: a fleet has millions of them in the air. Lengths are those of quell's framing, so that a
//! difference in bytes is one in behaviour: about 8 bytes before an item, 10 for an ack.

use crate::fleet::node::{Causes, Item};

/// Frame type, number, the head of the queue and the item's length.
const PACK_HEADER_BYTES: u32 = 8;
/// A pack that asks whether anybody is there.
const PING_BYTES: u32 = 16;
/// One acknowledgement.
const ACK_BYTES: u32 = 10;
/// A client's first words: who it is, what it may.
pub(crate) const HELLO_BYTES: u32 = 96;
/// The answer to them.
pub(crate) const WELCOME_BYTES: u32 = 32;

/// What a pack carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// A user's packet, or the world's answer.
    Item(Item),
    /// Nothing: its ack is all that is wanted.
    Ping,
}

impl Body {
    /// Length of the pack that carries it.
    pub(crate) fn pack_len(self) -> u32 {
        match self {
            Self::Item(item) => PACK_HEADER_BYTES + u32::from(item.len_bytes),
            Self::Ping => PING_BYTES,
        }
    }
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// One numbered pack.
    Pack {
        /// Which sequence of the sender's, counted from 1.
        sequence: u32,
        /// Its number there, counted from 0.
        number: u32,
        /// The oldest number that the sender still holds: where a receiver that knows nothing begins.
        head: u32,
        /// What it carries.
        body: Body,
    },
    /// The first half of a pack that no datagram takes whole; the other half comes as [`Unit::Pack`].
    Part,
    /// All numbers below `next` arrived.
    Ack {
        /// In which sequence.
        sequence: u32,
        /// The first that did not.
        next: u32,
    },
    /// This one arrived, one before it did not.
    Selective {
        /// In which sequence.
        sequence: u32,
        /// Which.
        number: u32,
    },
    /// A session begins.
    Hello,
    /// It stands.
    Welcome,
}

/// A unit that is ready to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) unit: Unit,
    pub(crate) causes: Causes,
}

impl Parcel {
    pub(crate) fn ack(unit: Unit) -> Self {
        let causes = Causes {
            ack: ACK_BYTES,
            ..Causes::default()
        };
        Self { unit, causes }
    }
}

/// What the bytes of a pack are for: its first copy's first send, a race copy's first send, or a resend of either.
pub(crate) fn causes_of_pack(
    body: Body,
    len_bytes: u32,
    is_first: bool,
    is_resend: bool,
) -> Causes {
    let mut causes = Causes::default();
    match body {
        Body::Ping => causes.ping = len_bytes,
        Body::Item(_) if is_resend => causes.resend = len_bytes,
        Body::Item(_) if is_first => causes.first_send = len_bytes,
        Body::Item(_) => causes.race = len_bytes,
    }
    causes
}
