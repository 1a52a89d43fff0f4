//! What a client asks its driver to do, and what it tells people.
//!
//! Outputs are orders, in the order in which they are to be carried out: the
//! addresses come before the first packet to deliver, and what was written
//! before a [`Output::Close`] belongs to the connection that it closes.

use std::time::Duration;

use bytes::Bytes;
use quell_wire::registry::ErrorCode;

use super::exit_id::ExitId;
use crate::path::{MessagesEnd, Violation};
use crate::status::TunnelAddresses;

/// What the driver has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Connect to this provider; answer with `on_connected` or `on_closed`.
    Dial {
        /// Which.
        exit: ExitId,
        /// The number that every fact about this connection carries.
        attempt: u64,
    },
    /// Write these bytes to the control stream.
    Control {
        /// Of which provider's connection.
        exit: ExitId,
        /// A whole message.
        bytes: Bytes,
    },
    /// Send this QUIC datagram.
    Datagram {
        /// Over which provider's connection.
        exit: ExitId,
        /// Its content.
        bytes: Bytes,
    },
    /// Hand this packet to the TUN.
    Deliver(Bytes),
    /// The session carries no more messages to this provider.
    MessagesEnded {
        /// Which.
        exit: ExitId,
        /// Why.
        end: MessagesEnd,
    },
    /// Give the TUN these addresses.
    Configure(TunnelAddresses),
    /// Set the TUN's MTU, in bytes.
    Mtu(u16),
    /// Close this provider's connection with a code and a reason in words, or stop
    /// dialling it.
    Close {
        /// Which.
        exit: ExitId,
        /// What to say.
        violation: Violation,
    },
    /// Something a person may want to read.
    Notice {
        /// About which provider.
        exit: ExitId,
        /// What happened.
        notice: Notice,
    },
}

/// Why a dial failed, or how its connection was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// For people.
    pub words: String,
    /// What the peer closed with; `None` where no peer spoke.
    pub code: Option<ErrorCode>,
}

impl Loss {
    /// The peer closed with this.
    pub fn said(violation: &Violation) -> Self {
        Self {
            words: format!("{}: {}", violation.code.name(), violation.words),
            code: Some(violation.code),
        }
    }
}

impl<T: Into<String>> From<T> for Loss {
    fn from(words: T) -> Self {
        Self {
            words: words.into(),
            code: None,
        }
    }
}

/// What happened, for logs and embedders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The session is up.
    Up {
        /// Dials that failed before this one, in a row.
        failures_before: u32,
    },
    /// The session goes on over another connection.
    Resumed,
    /// The connection is gone; the session waits for another, for `ack_timeout` at most.
    Suspended {
        /// Why.
        words: String,
        /// When the next dial starts.
        next_dial_in: Duration,
    },
    /// A session that was up ended.
    Down {
        /// Why.
        words: String,
        /// When the next dial starts.
        next_dial_in: Duration,
    },
    /// A dial failed.
    DialFailed {
        /// Why.
        words: String,
        /// Failed dials in a row, this one included.
        failures: u32,
        /// When the next dial starts.
        next_dial_in: Duration,
    },
}
