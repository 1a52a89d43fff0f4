//! Reassembly of fragments (RFC 791 §3.2, RFC 8200 §4.5), for who has to see datagrams whole.
//!
//! ```text
//! fragment ──→ Held ──→ … ──→ Whole(packet)
//!          └─→ Refused     a piece that fits no datagram, or overlaps another: with it goes all that is held of its own
//! ```
//!
//! What comes out is a packet with a plain header, without options and extension headers: what those said of the
//! fragments is no news to the upper layer. A first fragment with extension headers behind its fragment header is never
//! completed, and expires.
//!
//! **Overlaps** are no accident (RFC 5722): the datagram is given up at once. An exact repetition is the network's doing
//! and is ignored, as RFC 8200 allows.
//!
//! **Bounds.** Whoever sends fragments decides how many there are, so what is held is bounded three ways:
//! [`DATAGRAMS_MAX`] datagrams, [`HELD_BYTES_MAX`] bytes of them, and [`AGE_MAX`] for each. The datagram that began first
//! goes first. Each call does work for one datagram, and for those that it ends. Held pieces are copies: they pin no buffer.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::build::Header;
use crate::{IpPacket, PACKET_BYTES_MAX};

/// Datagrams that may be incomplete at a time. Some dozens of clients may each have a few large ones under way.
pub const DATAGRAMS_MAX: usize = 64;
/// Bytes of fragments that are held: sixteen of the largest datagrams, or all 64 of 16 KiB.
pub const HELD_BYTES_MAX: usize = 1024 * 1024;
/// How long a datagram may be incomplete. 30 s, as Linux has it for IPv4; RFC 8200 allows 60 s at most.
pub const AGE_MAX: Duration = Duration::from_secs(30);

/// What became of a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It waits for others.
    Held,
    /// It was the last one missing. Pieces that were held for this are free.
    Whole {
        /// The datagram, as one packet.
        packet: Vec<u8>,
        /// Fragments that were held for it, this one not counted.
        pieces: usize,
    },
    /// It fits no datagram.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    identification: u32,
    /// IPv4 only: there the number is unique for each protocol, in IPv6 it stands in the first fragment.
    protocol: u8,
}

#[derive(Debug)]
struct Partial {
    began_at: Instant,
    /// By where they begin.
    pieces: BTreeMap<usize, Vec<u8>>,
    bytes: usize,
    /// The upper layer, out of the first fragment.
    protocol: Option<u8>,
    /// Where the datagram ends, out of the last fragment.
    end: Option<usize>,
}

/// The incomplete datagrams.
#[derive(Debug, Default)]
pub struct Reassembly {
    partials: HashMap<Key, Partial>,
    /// The one first that began first. A key that is gone is skipped.
    order: VecDeque<(Key, Instant)>,
    held_bytes: usize,
    /// Fragments dropped with a datagram that was given up, since last asked.
    given_up: usize,
}

impl Reassembly {
    /// Takes a fragment: a packet of which [`IpPacket::is_fragment`] is true.
    pub fn take(&mut self, ip: &IpPacket<'_>, now: Instant) -> Fate {
        self.expire(now);
        let offset = usize::from(ip.fragment_offset());
        let data = ip.payload();
        let end = offset + data.len();
        let is_ragged = ip.more_fragments() && !data.len().is_multiple_of(8);
        if data.is_empty() || is_ragged || end > PACKET_BYTES_MAX {
            return Fate::Refused;
        }
        let key = key(ip);
        self.make_room(&key, data.len());
        let partial = self.partials.entry(key.clone()).or_insert_with(|| {
            self.order.push_back((key.clone(), now));
            Partial::new(now)
        });
        match partial.add(ip, offset, data) {
            Added::Again => return Fate::Refused,
            Added::Wrong => {
                self.give_up(&key);
                return Fate::Refused;
            }
            Added::New => self.held_bytes += data.len(),
        }
        match self.partials.get(&key).and_then(Partial::protocol) {
            None => Fate::Held,
            Some(protocol) => self.join(&key, ip, protocol),
        }
    }

    fn join(&mut self, key: &Key, ip: &IpPacket<'_>, protocol: u8) -> Fate {
        let Some(partial) = self.remove(key) else {
            return Fate::Refused;
        };
        let pieces = partial.pieces.len() - 1;
        let data: Vec<u8> = partial.pieces.into_values().flatten().collect();
        let header = Header::new(ip.source(), ip.destination());
        Fate::Whole {
            packet: header.packet(protocol, &data),
            pieces,
        }
    }

    /// Fragments dropped because their datagram was given up: too old, overlapping, or in the way of others. Each is
    /// told once.
    pub fn take_given_up(&mut self) -> usize {
        std::mem::take(&mut self.given_up)
    }

    /// Fragments that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.partials
            .values()
            .map(|partial| partial.pieces.len())
            .sum()
    }

    /// When to call [`Reassembly::expire`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        // A name that is not current costs one look at most each.
        self.order.front().map(|(_, began_at)| *began_at + AGE_MAX)
    }

    /// Gives up what is too old.
    pub fn expire(&mut self, now: Instant) {
        while let Some((key, began_at)) = self.order.front() {
            let is_old = now.saturating_duration_since(*began_at) >= AGE_MAX;
            if !is_old && self.is_current(key, *began_at) {
                return;
            }
            self.drop_oldest();
        }
    }

    fn is_current(&self, key: &Key, began_at: Instant) -> bool {
        let partial = self.partials.get(key);
        partial.is_some_and(|partial| partial.began_at == began_at)
    }

    fn drop_oldest(&mut self) {
        if let Some((key, began_at)) = self.order.pop_front()
            && self.is_current(&key, began_at)
        {
            self.give_up(&key);
        }
    }

    /// Gives up others until `bytes` more of `key` are within the bounds.
    fn make_room(&mut self, key: &Key, bytes: usize) {
        let more = usize::from(!self.partials.contains_key(key));
        while self.partials.len() + more > DATAGRAMS_MAX || self.held_bytes + bytes > HELD_BYTES_MAX
        {
            self.drop_oldest();
        }
        // Of datagrams that were completed the order remembers a name each.
        while self.order.len() > 2 * DATAGRAMS_MAX {
            let partials = &self.partials;
            self.order.retain(|(key, began_at)| {
                let partial = partials.get(key);
                partial.is_some_and(|partial| partial.began_at == *began_at)
            });
        }
    }

    fn give_up(&mut self, key: &Key) {
        if let Some(partial) = self.remove(key) {
            self.given_up += partial.pieces.len();
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Partial> {
        let partial = self.partials.remove(key)?;
        self.held_bytes -= partial.bytes;
        Some(partial)
    }
}

enum Added {
    New,
    Again,
    Wrong,
}

impl Partial {
    fn new(now: Instant) -> Self {
        Self {
            began_at: now,
            pieces: BTreeMap::new(),
            bytes: 0,
            protocol: None,
            end: None,
        }
    }

    fn add(&mut self, ip: &IpPacket<'_>, offset: usize, data: &[u8]) -> Added {
        let end = offset + data.len();
        if self.pieces.get(&offset).is_some_and(|held| held == data) {
            return Added::Again;
        }
        let before = self.pieces.range(..end).next_back();
        if before.is_some_and(|(at, held)| at + held.len() > offset) {
            return Added::Wrong;
        }
        // Nothing may stand behind the last piece, and only one end.
        let last = self.pieces.last_key_value();
        let reach = last.map_or(0, |(at, held)| at + held.len());
        let is_beyond = self.end.is_some_and(|known| end > known);
        if is_beyond || !ip.more_fragments() && (self.end.is_some() || reach > end) {
            return Added::Wrong;
        }
        if !ip.more_fragments() {
            self.end = Some(end);
        }
        if offset == 0 {
            self.protocol = Some(ip.protocol());
        }
        self.bytes += data.len();
        self.pieces.insert(offset, data.to_vec());
        Added::New
    }

    /// The upper layer of a datagram that is whole.
    fn protocol(&self) -> Option<u8> {
        let is_whole = self.end == Some(self.bytes);
        self.protocol.filter(|_| is_whole)
    }
}

fn key(ip: &IpPacket<'_>) -> Key {
    let (identification, protocol) = match ip {
        IpPacket::V4(view) => (u32::from(view.identification()), ip.protocol()),
        IpPacket::V6(view) => (view.fragment().map_or(0, |f| f.identification), 0),
    };
    Key {
        source: ip.source(),
        destination: ip.destination(),
        identification,
        protocol,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::{FlowKey, UdpView, build, fragment, protocol};

    fn datagram(bytes: usize, identification: u16) -> Vec<u8> {
        let header = Header {
            dont_fragment: false,
            identification,
            ..Header::new([10, 0, 0, 1].into(), [192, 0, 2, 1].into())
        };
        let data: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        header.udp(7, 9, &data)
    }

    fn pieces(packet: &[u8]) -> Vec<Vec<u8>> {
        fragment::ipv4(packet, 1_280).unwrap().collect()
    }

    fn take(reassembly: &mut Reassembly, piece: &[u8], now: Instant) -> Fate {
        reassembly.take(&IpPacket::parse(piece).unwrap(), now)
    }

    fn v6_piece(identification: u32, offset: u16, more: bool, data: &[u8]) -> Vec<u8> {
        let at = (offset | u16::from(more)).to_be_bytes();
        let [a, b, c, d] = identification.to_be_bytes();
        let body = [at[0], at[1], a, b, c, d];
        let extensions = [(protocol::FRAGMENT, &body[..])];
        let [from, to] = ["fd00::1", "2001:db8::1"].map(|address| address.parse().unwrap());
        let header = Header {
            extensions: &extensions,
            ..Header::new(from, to)
        };
        header.packet(protocol::UDP, data)
    }

    fn whole_payload(fate: Fate) -> Vec<u8> {
        let Fate::Whole { packet, .. } = fate else {
            panic!("not whole: {fate:?}");
        };
        let ip = IpPacket::parse(&packet).unwrap();
        assert!(!ip.is_fragment());
        assert_eq!(crate::checksum::upper_layer_valid(&ip), Some(true));
        assert_eq!(FlowKey::of(&ip).destination_port, 9);
        UdpView::parse(ip.payload()).unwrap().payload().to_vec()
    }

    proptest! {
        #[test]
        fn in_any_order_the_pieces_are_the_whole(bytes in 1_300_usize..60_000, order in any::<u64>()) {
            let packet = datagram(bytes, 1);
            let mut pieces = pieces(&packet);
            let count = pieces.len();
            // A rotation and a reversal reach every first and every last piece.
            pieces.rotate_left(order as usize % count);
            if order & 1 == 1 {
                pieces.reverse();
            }
            let (mut reassembly, now) = (Reassembly::default(), Instant::now());
            let last = pieces.pop().unwrap();
            for piece in &pieces {
                prop_assert_eq!(take(&mut reassembly, piece, now), Fate::Held);
                prop_assert_eq!(take(&mut reassembly, piece, now), Fate::Refused, "said twice");
            }
            prop_assert_eq!(reassembly.held(), count - 1);
            let fate = take(&mut reassembly, &last, now);
            let joined = match &fate {
                Fate::Whole { pieces, .. } => *pieces,
                Fate::Held | Fate::Refused => 0,
            };
            prop_assert_eq!(joined, count - 1);
            prop_assert_eq!(whole_payload(fate).len(), bytes);
            prop_assert_eq!((reassembly.held(), reassembly.held_bytes), (0, 0));
        }
    }

    #[test]
    fn ipv6_is_joined_by_its_number() {
        let [from, to] = ["[fd00::1]:7", "[2001:db8::1]:9"].map(|a| a.parse().unwrap());
        let packet = build::udp(from, to, &[5; 2_000]);
        let upper = &packet[40..];
        let (mut reassembly, now) = (Reassembly::default(), Instant::now());
        let other = v6_piece(8, 0, true, &upper[..1_200]);
        assert_eq!(take(&mut reassembly, &other, now), Fate::Held);
        let last = v6_piece(7, 1_200, false, &upper[1_200..]);
        assert_eq!(take(&mut reassembly, &last, now), Fate::Held);
        let first = v6_piece(7, 0, true, &upper[..1_200]);
        let payload = whole_payload(take(&mut reassembly, &first, now));
        assert_eq!(payload, [5; 2_000]);
        assert_eq!(reassembly.held(), 1);
    }

    #[test]
    fn an_overlap_gives_the_datagram_up() {
        for (offset, more, len) in [(1_192, true, 16), (800, true, 8), (0, true, 1_208)] {
            let (mut reassembly, now) = (Reassembly::default(), Instant::now());
            let first = v6_piece(7, 0, true, &[1; 1_200]);
            assert_eq!(take(&mut reassembly, &first, now), Fate::Held);
            let piece = v6_piece(7, offset, more, &vec![2; len]);
            assert_eq!(
                take(&mut reassembly, &piece, now),
                Fate::Refused,
                "{offset}"
            );
            assert_eq!((reassembly.held(), reassembly.take_given_up()), (0, 1));
            assert_eq!(reassembly.take_given_up(), 0);
        }
    }

    #[test]
    fn a_datagram_has_one_end() {
        // A second end, and a piece behind the end.
        for (offset, more) in [(1_600, false), (2_400, true)] {
            let (mut reassembly, now) = (Reassembly::default(), Instant::now());
            let end = v6_piece(7, 1_600, false, &[1; 100]);
            assert_eq!(take(&mut reassembly, &end, now), Fate::Held);
            let piece = v6_piece(7, offset, more, &[2; 104]);
            assert_eq!(take(&mut reassembly, &piece, now), Fate::Refused);
            assert_eq!(reassembly.held(), 0);
        }
        let (mut reassembly, now) = (Reassembly::default(), Instant::now());
        let far = v6_piece(7, 1_600, true, &[1; 104]);
        assert_eq!(take(&mut reassembly, &far, now), Fate::Held);
        let end = v6_piece(7, 800, false, &[1; 100]);
        assert_eq!(take(&mut reassembly, &end, now), Fate::Refused);
    }

    #[test]
    fn what_no_datagram_can_hold_is_refused() {
        let (mut reassembly, now) = (Reassembly::default(), Instant::now());
        let ragged = v6_piece(7, 0, true, &[1; 1_201]);
        assert_eq!(take(&mut reassembly, &ragged, now), Fate::Refused);
        let empty = v6_piece(7, 8, true, &[]);
        assert_eq!(take(&mut reassembly, &empty, now), Fate::Refused);
        // 65,528 is the furthest offset: 7 bytes fit there, 8 do not.
        let beyond = v6_piece(7, 65_528, false, &[1; 8]);
        assert_eq!(take(&mut reassembly, &beyond, now), Fate::Refused);
        let within = v6_piece(7, 65_528, false, &[1; 7]);
        assert_eq!(take(&mut reassembly, &within, now), Fate::Held);
    }

    #[test]
    fn an_incomplete_datagram_lives_for_30_s() {
        let (mut reassembly, now) = (Reassembly::default(), Instant::now());
        let pieces = pieces(&datagram(2_000, 1));
        assert_eq!(take(&mut reassembly, &pieces[0], now), Fate::Held);
        assert_eq!(reassembly.poll_timeout(), Some(now + AGE_MAX));
        reassembly.expire(now + AGE_MAX - Duration::from_millis(1));
        assert_eq!(reassembly.held(), 1);
        reassembly.expire(now + AGE_MAX);
        assert_eq!(reassembly.poll_timeout(), None);
        assert_eq!((reassembly.held(), reassembly.take_given_up()), (0, 1));
        assert_eq!(take(&mut reassembly, &pieces[1], now + AGE_MAX), Fate::Held);
    }

    #[test]
    fn beyond_each_bound_the_oldest_goes() {
        let (mut reassembly, now) = (Reassembly::default(), Instant::now());
        let first = |number| pieces(&datagram(2_000, number))[0].clone();
        for number in 1..=DATAGRAMS_MAX as u16 {
            assert_eq!(take(&mut reassembly, &first(number), now), Fate::Held);
        }
        assert_eq!((reassembly.held(), reassembly.take_given_up()), (64, 0));
        assert_eq!(take(&mut reassembly, &first(65), now), Fate::Held);
        assert_eq!((reassembly.held(), reassembly.take_given_up()), (64, 1));

        let mut reassembly = Reassembly::default();
        // Sixteen datagrams of 65,472 bytes of which the end is missing, and one more fragment.
        for number in 1..=17 {
            let packet = datagram(65_472 - 8, number);
            let mut pieces: Vec<Vec<u8>> = fragment::ipv4(&packet, 9_000).unwrap().collect();
            pieces.pop();
            for piece in pieces {
                let _ = take(&mut reassembly, &piece, now);
            }
            assert!(reassembly.held_bytes <= HELD_BYTES_MAX);
        }
        assert!(reassembly.take_given_up() > 0);
    }

    #[test]
    fn names_of_what_was_completed_are_forgotten() {
        let (mut reassembly, now) = (Reassembly::default(), Instant::now());
        for number in 0..1_000 {
            for piece in pieces(&datagram(2_000, number)) {
                let _ = take(&mut reassembly, &piece, now);
            }
        }
        assert!(reassembly.order.len() <= 2 * DATAGRAMS_MAX + 1);
        assert_eq!(reassembly.held(), 0);
    }
}
