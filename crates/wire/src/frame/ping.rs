//! PING and PONG: is anybody there, and what of it arrived?
//!
//! A PING names each lane that has unacknowledged packs, with the largest number sent and the next `tx` of the lane.
//! The answer is, in one datagram, an ACK for each lane named and then the PONG: the `tx` that the PING spent shows up
//! there as seen, so that loss detection has its evidence after a silence (RFC 8985) without sending any payload.
//!
//! The nonce is eight raw bytes, as in PATH_CHALLENGE (RFC 9000 §19.17): nobody does arithmetic on it.

use bytes::BufMut;

use super::{Fields, FrameError, Lane};
use crate::{registry, varint};

/// One lane in a PING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneProbe {
    /// The lane.
    pub lane: Lane,
    /// The largest number sent so far.
    pub largest_number: u64,
    /// The lane's `tx` that this PING takes.
    pub tx: u64,
}

/// The lanes of a PING: none to all, each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneProbes {
    by_lane: [Option<LaneProbe>; Lane::COUNT],
}

impl LaneProbes {
    /// No lane: a PING that asks only whether the path lives.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            by_lane: [None; Lane::COUNT],
        }
    }

    /// Names a lane, in place of what was said of it before, which is handed back.
    pub const fn insert(&mut self, probe: LaneProbe) -> Option<LaneProbe> {
        self.by_lane[probe.lane.index()].replace(probe)
    }

    /// What is said of one lane.
    #[must_use]
    pub const fn of(&self, lane: Lane) -> Option<LaneProbe> {
        self.by_lane[lane.index()]
    }

    /// The lanes named, by number.
    pub fn iter(&self) -> impl Iterator<Item = LaneProbe> + '_ {
        self.by_lane.iter().flatten().copied()
    }

    /// How many lanes are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether no lane is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<LaneProbe> for LaneProbes {
    /// The last one of a lane counts.
    fn from_iter<I: IntoIterator<Item = LaneProbe>>(probes: I) -> Self {
        probes.into_iter().fold(Self::new(), |mut all, probe| {
            all.insert(probe);
            all
        })
    }
}

/// Asks for a PONG, and for an ACK of each lane named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Comes back in the PONG.
    pub nonce: u64,
    /// The lanes to acknowledge.
    pub lanes: LaneProbes,
}

impl Ping {
    /// Bytes of the longest PING: type, nonce, count, and lane, number (8) and `tx` (8) of each lane.
    pub const ENCODED_LEN_MAX: usize = 1 + 8 + 1 + Lane::COUNT * (1 + 8 + 8);

    /// Bytes that [`Ping::write`] writes.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let lanes = self
            .lanes
            .iter()
            .map(|p| 1 + varint::len(p.largest_number) + varint::len(p.tx));
        10 + lanes.sum::<usize>()
    }

    /// Writes the frame, the lanes by number.
    pub fn write(&self, buf: &mut impl BufMut) {
        varint::write(buf, registry::frame::PING);
        buf.put_u64(self.nonce);
        varint::write(buf, self.lanes.len() as u64);
        for probe in self.lanes.iter() {
            probe.lane.write(buf);
            varint::write(buf, probe.largest_number);
            varint::write(buf, probe.tx);
        }
    }

    pub(super) fn parse(fields: &mut Fields<'_, '_>) -> Result<Self, FrameError> {
        let nonce = fields.u64("nonce")?;
        let count = fields.varint("lane_count")?;
        if count > Lane::COUNT as u64 {
            return Err(FrameError::TooManyLanes { count });
        }
        let mut lanes = LaneProbes::new();
        for _ in 0..count {
            let lane = fields.lane()?;
            let probe = LaneProbe {
                lane,
                largest_number: fields.varint("largest_number")?,
                tx: fields.varint("tx")?,
            };
            if lanes.insert(probe).is_some() {
                return Err(FrameError::DuplicateLane {
                    lane: lane.number(),
                });
            }
        }
        Ok(Self { nonce, lanes })
    }
}

/// Answers a PING, after the ACKs it asked for and in the same datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The PING's nonce.
    pub nonce: u64,
}

impl Pong {
    /// Bytes that [`Pong::write`] writes.
    pub const ENCODED_LEN: usize = 9;

    /// Writes the frame.
    pub fn write(&self, buf: &mut impl BufMut) {
        varint::write(buf, registry::frame::PONG);
        buf.put_u64(self.nonce);
    }

    pub(super) fn parse(fields: &mut Fields<'_, '_>) -> Result<Self, FrameError> {
        Ok(Self {
            nonce: fields.u64("nonce")?,
        })
    }
}
