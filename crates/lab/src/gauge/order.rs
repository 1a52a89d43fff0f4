//! What a gauge asks of its server: 16 bytes, of which four say that it is one.

use std::time::Duration;

use super::TIME_MAX;

/// The first bytes of each order, its version among them.
const MAGIC: [u8; 4] = *b"QGA1";
/// Bytes of an order.
pub(super) const ORDER_BYTES: usize = 16;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Count what comes on this connection until its end, and say how much it was.
    Sink,
    /// Send for so long.
    Source(Duration),
    /// Count datagrams.
    Count,
    /// Send datagrams back.
    Echo,
}

impl Order {
    pub(super) fn encode(self) -> [u8; ORDER_BYTES] {
        let (code, time) = match self {
            Self::Sink => (1, Duration::ZERO),
            Self::Source(time) => (2, time),
            Self::Count => (3, Duration::ZERO),
            Self::Echo => (4, Duration::ZERO),
        };
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mut bytes = [0; ORDER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = code;
        bytes[8..].copy_from_slice(&millis.to_be_bytes());
        bytes
    }

    /// `None`: it is none, or asks for more than there is.
    pub(super) fn decode(bytes: &[u8; ORDER_BYTES]) -> Option<Self> {
        let [m0, m1, m2, m3, code, 0, 0, 0, millis @ ..] = *bytes else {
            return None;
        };
        if [m0, m1, m2, m3] != MAGIC {
            return None;
        }
        let time = Duration::from_millis(u64::from_be_bytes(millis));
        match (code, time.is_zero()) {
            (1, true) => Some(Self::Sink),
            (2, false) if time <= TIME_MAX => Some(Self::Source(time)),
            (3, true) => Some(Self::Count),
            (4, true) => Some(Self::Echo),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_order_survives_its_bytes_up_to_the_longest_time() {
        let orders = [
            Order::Sink,
            Order::Source(TIME_MAX),
            Order::Count,
            Order::Echo,
        ];
        for order in orders {
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
        let longer = Order::Source(TIME_MAX + Duration::from_millis(1));
        assert_eq!(Order::decode(&longer.encode()), None);
    }

    #[test]
    fn what_is_no_order_is_none() {
        let sink = Order::Sink.encode();
        for place in 0..ORDER_BYTES {
            let mut bytes = sink;
            bytes[place] ^= 0x80;
            assert_eq!(Order::decode(&bytes), None, "byte {place}");
        }
    }
}
