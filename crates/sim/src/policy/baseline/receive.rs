//! The receiving end of a sequence: packs in order, each once, and an ack for each arrival.
//!
//! ```text
//! number < next            seen before: its ack was lost, so it is acked once more
//! number = next            delivered, with what it held up
//! number > next            held, and acked selectively: the sender parks it
//! ```
//!
//! A pack of a later sequence begins anew and forgets what the earlier one held; one of an earlier sequence is too late.
//! A receiver that knows nothing begins at the sender's oldest pack: a provider that came back serves those who were there
//! before. Acks wait a moment for others; an ack of all that is below a number covers everything since the last.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::unit::{Body, Unit};
use crate::fleet::node::Item;

/// What is held for a gap, at most: as much as a sender may have unacknowledged.
const HELD_BYTES_MAX: u64 = 2 << 20;

/// The receiving end.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceiveSequence {
    sequence: u32,
    next: u32,
    held: BTreeMap<u32, Body>,
    held_bytes: u64,
    ack_next: bool,
    ack_selective: Vec<u32>,
    ack_at: Option<Instant>,
}

/// A pack as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) sequence: u32,
    pub(crate) number: u32,
    pub(crate) head: u32,
    pub(crate) body: Body,
}

impl ReceiveSequence {
    /// Takes a pack; what may be delivered is appended to `deliver`.
    pub(crate) fn handle(
        &mut self,
        pack: Arrival,
        ack_delay: Duration,
        now: Instant,
        deliver: &mut Vec<Item>,
    ) {
        if pack.sequence < self.sequence {
            return;
        }
        if pack.sequence > self.sequence {
            *self = Self {
                sequence: pack.sequence,
                next: pack.head,
                ..Self::default()
            };
        }
        if pack.number > self.next {
            if !self.hold(pack) {
                return;
            }
            self.ack_selective.push(pack.number);
        } else {
            if pack.number == self.next {
                self.deliver(pack.body, deliver);
            }
            self.ack_next = true;
        }
        self.ack_at.get_or_insert(now + ack_delay);
    }

    /// Whether it is held, or was already.
    fn hold(&mut self, pack: Arrival) -> bool {
        if self.held.contains_key(&pack.number) {
            return true;
        }
        let len = u64::from(pack.body.pack_len());
        if self.held_bytes + len > HELD_BYTES_MAX {
            return false;
        }
        self.held_bytes += len;
        self.held.insert(pack.number, pack.body);
        true
    }

    fn deliver(&mut self, first: Body, deliver: &mut Vec<Item>) {
        let mut ready = Some(first);
        while let Some(body) = ready {
            match body {
                Body::Item(item) => deliver.push(item),
                Body::Ping => {}
            }
            self.next += 1;
            ready = self.held.remove(&self.next);
            if let Some(held) = ready {
                self.held_bytes -= u64::from(held.pack_len());
            }
        }
    }

    /// When acks are due.
    pub(crate) fn ack_at(&self) -> Option<Instant> {
        self.ack_at
    }

    /// Takes the acks that are due.
    pub(crate) fn take_acks(&mut self, now: Instant, mut put: impl FnMut(Unit)) {
        if self.ack_at.is_none_or(|at| at > now) {
            return;
        }
        self.ack_at = None;
        let (sequence, next) = (self.sequence, self.next);
        if std::mem::take(&mut self.ack_next) {
            put(Unit::Ack { sequence, next });
        }
        self.ack_selective.sort_unstable();
        self.ack_selective.dedup();
        for number in std::mem::take(&mut self.ack_selective) {
            // What was held and is delivered since is below `next`.
            if number >= next {
                put(Unit::Selective { sequence, number });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fleet::node::Kind;

    fn pack(sequence: u32, number: u32, head: u32) -> Arrival {
        let body = Body::Item(Item {
            number,
            flow: 0,
            kind: Kind::Tcp,
            len_bytes: 1_200,
        });
        Arrival {
            sequence,
            number,
            head,
            body,
        }
    }

    struct End {
        receive: ReceiveSequence,
        now: Instant,
    }

    impl End {
        fn new() -> Self {
            Self {
                receive: ReceiveSequence::default(),
                now: Instant::now(),
            }
        }

        fn take(&mut self, pack: Arrival) -> Vec<u32> {
            let mut out = Vec::new();
            let delay = Duration::from_millis(10);
            self.receive.handle(pack, delay, self.now, &mut out);
            out.iter().map(|item| item.number).collect()
        }

        fn acks(&mut self) -> Vec<Unit> {
            let at = self.receive.ack_at().unwrap();
            let mut acks = Vec::new();
            self.receive.take_acks(at, |unit| acks.push(unit));
            acks
        }
    }

    #[test]
    fn packs_come_out_in_order_and_once() {
        let mut end = End::new();
        assert_eq!(end.take(pack(1, 0, 0)), [0]);
        assert!(end.take(pack(1, 2, 0)).is_empty());
        let (sequence, next, number) = (1, 1, 2);
        let both = [
            Unit::Ack { sequence, next },
            Unit::Selective { sequence, number },
        ];
        assert_eq!(end.acks(), both);
        assert_eq!(end.take(pack(1, 1, 1)), [1, 2]);
        assert!(end.take(pack(1, 2, 1)).is_empty());
        assert_eq!(end.acks(), [Unit::Ack { sequence, next: 3 }]);
        assert_eq!(end.receive.ack_at(), None);
    }

    #[test]
    fn acks_wait_for_each_other() {
        let mut end = End::new();
        for number in 0..5 {
            end.take(pack(1, number, 0));
        }
        assert_eq!(
            end.receive.ack_at(),
            Some(end.now + Duration::from_millis(10))
        );
        end.receive.take_acks(end.now, |_| panic!("early"));
        assert_eq!(
            end.acks(),
            [Unit::Ack {
                sequence: 1,
                next: 5
            }]
        );
    }

    #[test]
    fn a_later_sequence_begins_anew_and_an_earlier_one_is_too_late() {
        let mut end = End::new();
        end.take(pack(1, 0, 0));
        assert!(end.take(pack(1, 2, 1)).is_empty());
        assert_eq!(end.take(pack(2, 0, 0)), [0]);
        assert!(end.take(pack(1, 1, 1)).is_empty());
        assert!(end.receive.held.is_empty());
    }

    #[test]
    fn who_knows_nothing_begins_at_the_head() {
        let mut end = End::new();
        assert!(end.take(pack(3, 71, 70)).is_empty());
        assert_eq!(end.take(pack(3, 70, 70)), [70, 71]);
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut end = End::new();
        let most = u32::try_from(HELD_BYTES_MAX / 1_208).unwrap();
        for number in 1..=most {
            end.take(pack(1, number, 0));
        }
        assert_eq!(end.acks().len(), usize::try_from(most).unwrap());
        end.take(pack(1, most + 1, 0));
        assert_eq!(end.receive.ack_at(), None);
    }

    #[test]
    fn what_was_held_and_came_out_is_not_acked_by_itself() {
        let mut end = End::new();
        end.take(pack(1, 1, 0));
        end.take(pack(1, 0, 0));
        let (sequence, next) = (1, 2);
        assert_eq!(end.acks(), [Unit::Ack { sequence, next }]);
    }

    #[test]
    fn what_came_out_makes_room_for_what_is_held() {
        let mut end = End::new();
        let most = u32::try_from(HELD_BYTES_MAX / 1_208).unwrap();
        for round in 0..2 {
            let first = round * (most + 1);
            for number in 1..=most {
                end.take(pack(1, first + number, 0));
            }
            assert_eq!(
                end.take(pack(1, first, 0)).len(),
                usize::try_from(most).unwrap() + 1
            );
        }
    }
}
