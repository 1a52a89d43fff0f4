//! Both ends of a model together, over a way that loses what it is told to.
#![allow(clippy::unwrap_used)]

use super::*;

const ONE_WAY: Duration = Duration::from_millis(25);

/// A connection, and what came to each end.
struct Pair {
    model: Model<u32>,
    now: Instant,
    came: [Vec<CarriageEvent<u32>>; 2],
}

impl Pair {
    fn new() -> Self {
        let now = Instant::now();
        let model = Carriages::<u32>::dial(&mut Models, 0, now);
        let came = [Vec::new(), Vec::new()];
        Self { model, now, came }
    }

    /// So many turns: timers, and then a one-way time each for what left. `lost`: whose datagrams are.
    fn turns(&mut self, count: usize, lost: Option<Side>) {
        for _ in 0..count {
            let mut under_way = Vec::new();
            for side in [Side::Client, Side::Server] {
                if self
                    .model
                    .poll_timeout(side)
                    .is_some_and(|at| at <= self.now)
                {
                    self.model.handle_timeout(side, self.now);
                }
                while let Some(udp) = self.model.poll_udp(side, self.now) {
                    if lost != Some(side) {
                        under_way.push((side.other(), udp));
                    }
                }
            }
            self.now += ONE_WAY;
            for (side, udp) in under_way {
                self.model.handle(side, udp, self.now);
            }
            for side in [Side::Client, Side::Server] {
                let events = std::iter::from_fn(|| self.model.poll_event(side));
                self.came[side as usize].extend(events);
            }
        }
    }

    fn standing() -> Self {
        let mut pair = Self::new();
        pair.turns(8, None);
        for came in &mut pair.came {
            assert_eq!(came.first(), Some(&CarriageEvent::Connected));
            came.clear();
        }
        pair
    }
}

#[test]
fn nothing_is_taken_before_the_handshake_and_too_much_never() {
    let mut pair = Pair::new();
    let now = pair.now;
    assert!(!pair.model.send_datagram(Side::Client, 1, 100, now));
    assert_eq!(pair.model.facts(Side::Client), None);
    let mut pair = Pair::standing();
    let facts = pair.model.facts(Side::Client).unwrap();
    let max = u32::try_from(facts.datagram_len_max).unwrap();
    assert!(pair.model.send_datagram(Side::Client, 1, max, pair.now));
    assert!(!pair.model.send_datagram(Side::Client, 2, max + 1, pair.now));
    pair.turns(4, None);
    assert_eq!(pair.came[1], [CarriageEvent::Datagram(1)]);
}

#[test]
fn a_lost_datagram_stays_lost_and_control_messages_come_once_in_order() {
    let mut pair = Pair::standing();
    assert!(pair.model.send_datagram(Side::Client, 1, 100, pair.now));
    for message in [10, 11, 12] {
        pair.model.send_control(Side::Client, message, 50, pair.now);
    }
    pair.turns(1, Some(Side::Client));
    assert_eq!(pair.came[1], []);
    pair.turns(200, None);
    let control = [10, 11, 12].map(CarriageEvent::Control);
    assert_eq!(pair.came[1], control);
}

#[test]
fn a_close_is_heard_and_a_death_is_not() {
    let mut pair = Pair::standing();
    pair.model.close(Side::Server, pair.now);
    pair.turns(2, None);
    assert_eq!(pair.came[0], [CarriageEvent::Closed(Ended::Closed)]);

    let mut pair = Pair::standing();
    pair.model.kill(Side::Server);
    let begun = pair.now;
    // Up to the idle time nothing says that it is over.
    pair.turns(2_900, None);
    assert!(pair.now - begun < Duration::from_nanos(IDLE_NS));
    assert_eq!(pair.came[0], []);
    pair.turns(200, None);
    assert_eq!(pair.came[0], [CarriageEvent::Closed(Ended::TimedOut)]);
}
