//! Who is served next: deficit round robin (Shreedhar and Varghese, 1996).
//!
//! Messages, flows and datagrams each have a queue, and each gets the same share
//! of bytes while it has something to send, whatever the sizes of its packets. A
//! ping beside a download waits for one turn of the others, not for their queue.
//!
//! A class that waits gains a *quantum* when its turn comes and spends it by what
//! it sends; what it cannot spend because its next frame is larger is kept, what
//! it leaves because its queue is empty is lost.

/// Bytes of a class's turn: a full datagram, so that each turn sends something.
const QUANTUM_BYTES: usize = 1_500;

/// What is served in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Message,
    Flow,
    Dgram,
}

impl Class {
    const ALL: [Self; 3] = [Self::Message, Self::Flow, Self::Dgram];

    const fn index(self) -> usize {
        self as usize
    }
}

/// The turns of the classes.
#[derive(Debug, Default)]
pub(super) struct Turns {
    deficit_bytes: [usize; Class::ALL.len()],
    turn: usize,
    /// The class whose turn it is has its quantum.
    begun: bool,
}

impl Turns {
    /// Whose frame is next, of those whose next frame has this many bytes.
    pub(super) fn next(&mut self, heads: [Option<usize>; Class::ALL.len()]) -> Option<Class> {
        if heads.iter().all(Option::is_none) {
            *self = Self::default();
            return None;
        }
        // Each round adds a quantum to a class that waits, and no frame is larger
        // than 64 KiB, so this ends.
        loop {
            let class = Class::ALL[self.turn];
            let deficit = &mut self.deficit_bytes[self.turn];
            if let Some(len) = heads[self.turn] {
                if !self.begun {
                    *deficit += QUANTUM_BYTES;
                    self.begun = true;
                }
                if len <= *deficit {
                    return Some(class);
                }
            } else {
                *deficit = 0;
            }
            self.begun = false;
            self.turn = (self.turn + 1) % Class::ALL.len();
        }
    }

    /// The class's frame of `len` bytes was sent.
    pub(super) fn served(&mut self, class: Class, len: usize) {
        let deficit = &mut self.deficit_bytes[class.index()];
        *deficit = deficit.saturating_sub(len);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shares(heads: [Option<usize>; 3], rounds: usize) -> [usize; 3] {
        let mut turns = Turns::default();
        let mut bytes = [0; 3];
        for _ in 0..rounds {
            let class = turns.next(heads).unwrap();
            let len = heads[class.index()].unwrap();
            turns.served(class, len);
            bytes[class.index()] += len;
        }
        bytes
    }

    #[test]
    fn those_who_wait_get_equal_bytes_whatever_their_sizes() {
        let [message, flow, dgram] = shares([Some(1_119), Some(1_400), Some(90)], 20_000);
        let mean = (message + flow + dgram) / 3;
        for bytes in [message, flow, dgram] {
            assert!(bytes.abs_diff(mean) <= 3_000, "{bytes} of {mean}");
        }
    }

    #[test]
    fn who_waits_alone_gets_all() {
        assert_eq!(shares([None, Some(1_400), None], 100), [0, 140_000, 0]);
        assert_eq!(Turns::default().next([None; 3]), None);
    }

    #[test]
    fn a_small_packet_waits_for_one_turn_of_the_others() {
        let mut turns = Turns::default();
        for _ in 0..50 {
            turns.next([None, Some(1_400), None]).unwrap();
            turns.served(Class::Flow, 1_400);
        }
        let heads = [Some(1_119), Some(1_400), Some(90)];
        let waits = (0..10)
            .position(|_| {
                let class = turns.next(heads).unwrap();
                turns.served(class, heads[class.index()].unwrap());
                class == Class::Dgram
            })
            .unwrap();
        assert!(waits <= 3, "{waits}");
    }

    #[test]
    fn a_frame_larger_than_a_quantum_comes_in_a_later_turn() {
        let mut turns = Turns::default();
        let heads = [Some(60_000), Some(100), None];
        let first = (0..2_000)
            .position(|_| {
                let class = turns.next(heads).unwrap();
                turns.served(class, heads[class.index()].unwrap());
                class == Class::Message
            })
            .unwrap();
        assert!(
            (500..=700).contains(&first),
            "after 60,000 bytes of the other: {first}"
        );
    }
}
