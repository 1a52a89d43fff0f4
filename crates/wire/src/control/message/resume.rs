//! RESUME and RESUMED: how a suspended session goes on over a new connection (DESIGN §4, RESUME).
//!
//! The client presents the session's id, an `epoch` one above the last, and what each lane's *receiver* at its end
//! holds; the provider answers with the same of its own. The higher epoch fences the older connection, however late
//! that one's last bytes arrive. Both are one form, [`Resume`], in two directions.
//!
//! A lane stands in the message as a map without a type, so that a later version can say more of it.

use minicbor::Decoder;

use super::finish;
use crate::control::ControlError;
use crate::control::cbor::{self, At, Body, Fields, Written};
use crate::frame::{AckRange, Credit, Lane};
use crate::registry::{ACK_RANGES_MAX, field};
use crate::varint;

/// The name of a session, chosen by the provider at random.
pub type SessionId = [u8; 16];

/// What one end holds of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The session, from WELCOME.
    pub session_id: SessionId,
    /// Counts the session's connections; the higher one holds.
    pub epoch: u64,
    /// What the sender of this message has received, each lane at most once.
    pub lanes: Vec<ResumeLane>,
}

/// The provider's answer to RESUME: the epoch accepted, and what the provider holds.
pub type Resumed = Resume;

/// What one end has received on a lane; the fields are those of [`crate::frame::Ack`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeLane {
    /// The lane.
    pub lane: Lane,
    /// The next number expected.
    pub cumulative: u64,
    /// Received above `cumulative`: ascending, apart by at least one number, at most [`ACK_RANGES_MAX`].
    pub ranges: Vec<AckRange>,
    /// What the lane's sender may send, absolute.
    pub credit: Credit,
}

const LANE: &str = "RESUME lane";

const fn at(field: crate::registry::Field) -> At {
    At {
        message: LANE,
        field: field.name,
    }
}

impl Resume {
    pub(in crate::control) fn encode(
        &self,
        message: &'static str,
        number: u64,
    ) -> Result<Vec<u8>, ControlError> {
        let at = At {
            message,
            field: field::resume::LANES.name,
        };
        at.at_most(self.lanes.len() as u64, Lane::COUNT)?;
        check_distinct(&self.lanes, at)?;
        self.lanes.iter().try_for_each(ResumeLane::check)?;
        let body = Body::message(number, 3).and_then(|mut body| {
            body.bytes_field(field::resume::SESSION_ID, &self.session_id)?;
            body.field(field::resume::EPOCH, self.epoch)?;
            body.key(field::resume::LANES)?;
            body.array(self.lanes.len())?;
            self.lanes
                .iter()
                .try_for_each(|lane| lane.write(&mut body))?;
            Ok(body)
        });
        finish(message, body)
    }

    pub(in crate::control) fn decode(mut fields: Fields<'_, '_>) -> Result<Self, ControlError> {
        let resume = Self {
            session_id: fields.required(field::resume::SESSION_ID, cbor::byte_array)?,
            epoch: fields.required(field::resume::EPOCH, cbor::u64)?,
            lanes: fields.required(field::resume::LANES, lanes)?,
        };
        fields.finish()?;
        Ok(resume)
    }
}

fn lanes(decoder: &mut Decoder<'_>, at: At) -> Result<Vec<ResumeLane>, ControlError> {
    let count = cbor::array(decoder, at, Lane::COUNT)?;
    let lanes = (0..count)
        .map(|_| ResumeLane::decode(decoder))
        .collect::<Result<Vec<_>, _>>()?;
    check_distinct(&lanes, at)?;
    Ok(lanes)
}

fn check_distinct(lanes: &[ResumeLane], at: At) -> Result<(), ControlError> {
    let twice = lanes
        .iter()
        .enumerate()
        .any(|(i, lane)| lanes[..i].iter().any(|other| other.lane == lane.lane));
    if twice {
        Err(at.invalid("names a lane twice"))
    } else {
        Ok(())
    }
}

impl ResumeLane {
    fn check(&self) -> Result<(), ControlError> {
        let too_large = "is above 2^62 - 1";
        if self.cumulative > varint::MAX {
            return Err(at(field::resume_lane::CUMULATIVE).invalid(too_large));
        }
        at(field::resume_lane::RANGES).at_most(self.ranges.len() as u64, ACK_RANGES_MAX)?;
        check_order(self.cumulative, &self.ranges)?;
        if self.credit.max_bytes.max(self.credit.max_number) > varint::MAX {
            return Err(at(field::resume_lane::CREDIT).invalid(too_large));
        }
        Ok(())
    }

    fn write(&self, body: &mut Body) -> Written {
        body.map(4)?;
        body.field(field::resume_lane::LANE, self.lane.number())?;
        body.field(field::resume_lane::CUMULATIVE, self.cumulative)?;
        body.key(field::resume_lane::RANGES)?;
        body.array(2 * self.ranges.len())?;
        for range in &self.ranges {
            body.u64(range.first)?;
            body.u64(range.last)?;
        }
        body.credit_field(field::resume_lane::CREDIT, self.credit)
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, ControlError> {
        let mut fields = Fields::open(decoder, LANE)?;
        let lane = Self {
            lane: fields.required(field::resume_lane::LANE, |d, at| {
                Lane::from_number(cbor::u64(d, at)?)
                    .ok_or_else(|| at.invalid("is not a lane of this version"))
            })?,
            cumulative: fields.required(field::resume_lane::CUMULATIVE, cbor::varint)?,
            ranges: fields.required(field::resume_lane::RANGES, ranges)?,
            credit: fields.required(field::resume_lane::CREDIT, cbor::credit)?,
        };
        fields.finish()?;
        check_order(lane.cumulative, &lane.ranges)?;
        Ok(lane)
    }
}

fn ranges(decoder: &mut Decoder<'_>, at: At) -> Result<Vec<AckRange>, ControlError> {
    let ends = cbor::array(decoder, at, 2 * ACK_RANGES_MAX)?;
    if ends % 2 != 0 {
        return Err(at.invalid("has a first number without a last one"));
    }
    let mut range = |_| {
        Ok(AckRange {
            first: cbor::varint(decoder, at)?,
            last: cbor::varint(decoder, at)?,
        })
    };
    (0..ends / 2).map(&mut range).collect()
}

fn check_order(cumulative: u64, ranges: &[AckRange]) -> Result<(), ControlError> {
    let mut next = cumulative;
    for range in ranges {
        if range.first <= next || range.last < range.first || range.last > varint::MAX {
            return Err(
                at(field::resume_lane::RANGES).invalid("do not ascend with gaps between them")
            );
        }
        next = range.last + 1;
    }
    Ok(())
}
