//! Both directions of a path between two hosts, A and B.
//!
//! The two links share nothing but the name: each has its own settings, its own queue and its own random numbers, so that a
//! path can be slow one way, lossy the other way, or dead in one direction while the other still delivers (the case in which
//! a sender hears acks of old data and nothing new, or is heard and never answered).
//!
//! One seed serves both. They get distinct generators from it, or else the losses of both directions would fall together.

use std::time::Instant;

use crate::link::{Link, LinkConfig};

/// Spreads the second direction's seed away from the first one's; the golden ratio in 64 bits.
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A path: one link each way.
#[derive(Debug)]
pub struct Duplex<T> {
    /// What A sends, B polls.
    pub a_to_b: Link<T>,
    /// What B sends, A polls.
    pub b_to_a: Link<T>,
}

impl<T> Duplex<T> {
    /// A path with settings of its own each way.
    #[must_use]
    pub fn new(a_to_b: LinkConfig, b_to_a: LinkConfig, seed: u64) -> Self {
        Self {
            a_to_b: Link::new(a_to_b, seed),
            b_to_a: Link::new(b_to_a, seed.wrapping_add(SEED_STEP)),
        }
    }

    /// A path with the same settings both ways.
    #[must_use]
    pub fn symmetric(config: LinkConfig, seed: u64) -> Self {
        Self::new(config, config, seed)
    }

    /// The earliest due time of both directions.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.a_to_b.poll_timeout(), self.b_to_a.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Changes the settings of both directions; see [`Link::set_config`].
    pub fn set_config(&mut self, config: LinkConfig) {
        self.a_to_b.set_config(config);
        self.b_to_a.set_config(config);
    }

    /// Cuts or heals both directions; see [`Link::set_blackhole`].
    pub fn set_blackhole(&mut self, blackhole: bool) {
        self.a_to_b.set_blackhole(blackhole);
        self.b_to_a.set_blackhole(blackhole);
    }

    /// Whether nothing is on its way in either direction.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.poll_timeout().is_none()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::time::Duration;

    #[test]
    fn the_directions_do_not_touch_each_other() {
        let t0 = Instant::now();
        let slow = LinkConfig {
            delay: Duration::from_millis(30),
            ..LinkConfig::default()
        };
        let mut path = Duplex::new(slow, LinkConfig::default(), 1);
        path.a_to_b.send('a', 100, t0);
        path.b_to_a.send('b', 100, t0);
        assert_eq!(path.poll_timeout(), Some(t0));
        assert_eq!(path.b_to_a.poll(t0), Some('b'));
        assert_eq!(path.a_to_b.poll(t0), None);
        assert_eq!(path.poll_timeout(), Some(t0 + slow.delay));
        assert_eq!(path.a_to_b.poll(t0 + slow.delay), Some('a'));
        assert!(path.is_idle());
    }

    #[test]
    fn a_cut_one_way_leaves_the_other_way_alone() {
        let t0 = Instant::now();
        let delayed = LinkConfig {
            delay: Duration::from_millis(10),
            ..LinkConfig::default()
        };
        let mut path = Duplex::symmetric(delayed, 1);
        path.a_to_b.send(1, 100, t0);
        path.b_to_a.send(2, 100, t0);
        path.a_to_b.set_blackhole(true);
        path.a_to_b.send(3, 100, t0);
        let t1 = t0 + delayed.delay;
        assert_eq!(path.a_to_b.poll(t1), None);
        assert_eq!(path.b_to_a.poll(t1), Some(2));
        assert_eq!(path.a_to_b.counters().lost_blackhole, 2);
        assert_eq!(path.b_to_a.counters().lost_blackhole, 0);
    }

    #[test]
    fn losses_of_the_two_directions_do_not_fall_together() {
        let t0 = Instant::now();
        let mut path = Duplex::symmetric(
            LinkConfig {
                loss: 0.5,
                ..LinkConfig::default()
            },
            7,
        );
        let mut same = 0;
        for n in 0..1_000 {
            path.a_to_b.send(n, 1, t0);
            path.b_to_a.send(n, 1, t0);
            same += u32::from(path.a_to_b.poll(t0).is_some() == path.b_to_a.poll(t0).is_some());
        }
        assert!(
            (400..=600).contains(&same),
            "{same} of 1,000 alike, where 500 are expected"
        );
    }
}
