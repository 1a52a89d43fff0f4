//! Lanes and their credit.
//!
//! A lane is one numbered sequence of packs on a path (DESIGN §4). The two of version 1 are all there are: a [`Lane`]
//! cannot hold another, so that an array of [`Lane::COUNT`] indexed by [`Lane::index`] needs no check. On the wire a
//! lane is a varint; both take one byte.

use bytes::BufMut;

use crate::{registry, varint};

/// One numbered sequence of packs on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(u8);

impl Lane {
    /// The embedder's messages, strictly ordered.
    pub const MESSAGE: Self = Self(registry::lane::MESSAGE);
    /// TCP: a pack waits for its own flow's predecessor only.
    pub const FLOW: Self = Self(registry::lane::FLOW);
    /// All lanes, by number.
    pub const ALL: [Self; Self::COUNT] = [Self::MESSAGE, Self::FLOW];
    /// How many lanes there are.
    pub const COUNT: usize = 2;

    /// The lane of a number on the wire, if version 1 knows it.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        if number < Self::COUNT as u64 {
            Some(Self::ALL[number as usize])
        } else {
            None
        }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The place in an array of [`Lane::COUNT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// A stable name for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            registry::lane::MESSAGE => "message",
            _ => "flow",
        }
    }

    pub(super) fn write(self, buf: &mut impl BufMut) {
        varint::write(buf, u64::from(self.0));
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a lane's sender may go, counted from the lane's beginning: absolute and monotone, so that a lost or late
/// grant does no harm. The receiver of a grant keeps the larger of each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Payload bytes of all distinct numbers from 0, skipped ones included; at most this many may be sent.
    pub max_bytes: u64,
    /// Numbers below this one may be sent.
    pub max_number: u64,
}

impl Credit {
    /// What a lane starts with unless HELLO or WELCOME says otherwise: 2 MiB and 8,192 numbers.
    pub const FIRST: Self = Self {
        max_bytes: registry::FIRST_CREDIT_BYTES,
        max_number: registry::FIRST_CREDIT_NUMBERS,
    };
}

impl Default for Credit {
    fn default() -> Self {
        Self::FIRST
    }
}
