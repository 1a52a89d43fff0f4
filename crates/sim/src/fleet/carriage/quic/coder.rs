//! How units become the bytes of QUIC datagrams, and units again.
//!
//! A datagram may be lost or come twice, so what it says must be in it. A unit that is bytes is sent as it is
//! ([`Verbatim`]). Any other kind stays here while its datagram is under way, and the datagram carries where it stays
//! ([`Table`]), padded to the length that the unit claims: QUIC encrypts it, and knows lengths alone.
//!
//! What a lost datagram stood for is never asked for again, so a table forgets the oldest beyond [`KEPT_MAX`]. QUIC
//! keeps at most 256 KiB of datagrams that wait, and a way rarely more than a second's worth of them: far fewer.

use std::collections::VecDeque;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// Units under way that a table remembers, a direction.
const KEPT_MAX: usize = 65_536;
/// Bytes of a place in the table: the least length of a datagram from a [`Table`].
const PLACE_BYTES: usize = 4;

/// Both halves of the mapping, for one direction of one connection.
pub trait Coder<U> {
    /// The datagram for `unit`, of `len_bytes` where the unit allows that.
    fn encode(&mut self, unit: U, len_bytes: u32) -> Bytes;
    /// What `datagram` stands for; `None`: nothing that is known any more.
    fn decode(&mut self, datagram: Bytes) -> Option<U>;
}

/// Bytes are sent as they are; the length is theirs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verbatim;

impl Coder<Bytes> for Verbatim {
    fn encode(&mut self, unit: Bytes, _: u32) -> Bytes {
        unit
    }

    fn decode(&mut self, datagram: Bytes) -> Option<Bytes> {
        Some(datagram)
    }
}

/// Units stay here while their datagrams are under way. A datagram of less than four bytes becomes one of four.
#[derive(Debug, Clone)]
pub struct Table<U> {
    /// Taken out where they have arrived.
    kept: VecDeque<Option<U>>,
    /// The place of the first of them.
    first: u32,
}

impl<U> Default for Table<U> {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            first: 0,
        }
    }
}

impl<U> Table<U> {
    fn forget_first(&mut self) {
        self.kept.pop_front();
        self.first = self.first.wrapping_add(1);
    }
}

impl<U> Coder<U> for Table<U> {
    fn encode(&mut self, unit: U, len_bytes: u32) -> Bytes {
        // A table holds fewer than 2³² units, so a place is unique among them.
        let place = self.first.wrapping_add(self.kept.len() as u32);
        self.kept.push_back(Some(unit));
        if self.kept.len() > KEPT_MAX {
            self.forget_first();
        }
        let mut datagram = BytesMut::with_capacity(PLACE_BYTES.max(len_bytes as usize));
        datagram.put_u32(place);
        datagram.resize(PLACE_BYTES.max(len_bytes as usize), 0);
        datagram.freeze()
    }

    fn decode(&mut self, mut datagram: Bytes) -> Option<U> {
        let place = datagram.try_get_u32().ok()?;
        let index = place.wrapping_sub(self.first) as usize;
        let unit = self.kept.get_mut(index)?.take();
        while self.kept.front().is_some_and(Option::is_none) {
            self.forget_first();
        }
        unit
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn bytes_are_themselves() {
        let unit = Bytes::from_static(b"pack");
        let datagram = Verbatim.encode(unit.clone(), 4);
        assert_eq!(datagram, unit);
        assert_eq!(Verbatim.decode(datagram), Some(unit));
    }

    #[test]
    fn a_unit_comes_out_once_in_any_order_and_its_datagram_has_its_length() {
        let mut table = Table::default();
        let datagrams: Vec<_> = [(1, 40), (2, 1_200), (3, 4), (4, 0)]
            .map(|(unit, len)| table.encode(unit, len))
            .into();
        let lens: Vec<_> = datagrams.iter().map(Bytes::len).collect();
        assert_eq!(lens, [40, 1_200, 4, 4]);
        for (index, unit) in [(2, 3), (0, 1), (3, 4), (1, 2)] {
            assert_eq!(table.decode(datagrams[index].clone()), Some(unit));
            assert_eq!(table.decode(datagrams[index].clone()), None);
        }
        assert!(table.kept.is_empty());
        assert_eq!(table.decode(Bytes::from_static(b"abc")), None);
    }

    #[test]
    fn what_is_lost_is_forgotten_and_the_places_may_wrap() {
        let mut table = Table {
            kept: VecDeque::new(),
            first: u32::MAX - 1,
        };
        let first = table.encode(0, 4);
        let second = table.encode(1, 4);
        for unit in 2..=KEPT_MAX {
            let _lost = table.encode(unit, 4);
        }
        assert_eq!(table.kept.len(), KEPT_MAX);
        assert_eq!(table.decode(first), None);
        assert_eq!(table.decode(second), Some(1));
    }
}
