//! How long packets towards each client may be: what "packet too big" said (RFC 8201, RFC 1191).
//!
//! All of a client's packets take the tunnel's one path, so what one of its flows is told holds for its next datagram from
//! any port; a TCP flow keeps its own, for segments that are cut already. What was told is forgotten after
//! [`KNOWN_FOR`]: the path may have grown, and a packet that is too long then says so once more.
//!
//! Bounded by the clients that were told; beyond [`PATHS_MAX`] all is forgotten, which costs a datagram each.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// RFC 8201 §4: an increase is looked for after 10 minutes.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Clients whose path is remembered: the most sessions that a provider takes.
const PATHS_MAX: usize = 65_536;

/// What is known of the paths.
#[derive(Debug)]
pub(super) struct Paths {
    /// Of a path of which nothing is known, in bytes.
    mtu: u16,
    told: HashMap<IpAddr, (u16, Instant)>,
}

impl Paths {
    pub(super) fn new(mtu: u16) -> Self {
        Self {
            mtu,
            told: HashMap::new(),
        }
    }

    /// The longest packet for the client, in bytes.
    pub(super) fn mtu(&self, client: IpAddr, now: Instant) -> u16 {
        match self.told.get(&client) {
            Some((mtu, at)) if now.saturating_duration_since(*at) < KNOWN_FOR => *mtu,
            Some(_) | None => self.mtu,
        }
    }

    /// The path takes packets of `mtu` bytes at most.
    pub(super) fn shrink(&mut self, client: IpAddr, mtu: u16, now: Instant) {
        if self.told.len() >= PATHS_MAX {
            self.told.clear();
        }
        let least = self.mtu(client, now).min(mtu);
        self.told.insert(client, (least, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_holds_for_10_minutes() {
        let (now, client) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        let mut paths = Paths::new(1_500);
        assert_eq!(paths.mtu(client, now), 1_500);
        paths.shrink(client, 1_400, now);
        paths.shrink(client, 1_450, now);
        assert_eq!(paths.mtu(client, now), 1_400, "the least counts");
        let last = now + KNOWN_FOR - Duration::from_millis(1);
        assert_eq!(paths.mtu(client, last), 1_400);
        assert_eq!(paths.mtu(client, now + KNOWN_FOR), 1_500);
        paths.shrink(client, 1_450, now + KNOWN_FOR);
        assert_eq!(paths.mtu(client, now + KNOWN_FOR), 1_450);
        paths.shrink(client, 9_000, now + 2 * KNOWN_FOR);
        assert_eq!(paths.mtu(client, now + 2 * KNOWN_FOR), 1_500);
    }

    #[test]
    fn no_more_clients_are_remembered_than_may_be() {
        let now = Instant::now();
        let mut paths = Paths::new(1_500);
        for client in 0..PATHS_MAX as u32 {
            paths.shrink(IpAddr::from(client.to_be_bytes()), 1_400, now);
        }
        assert_eq!(paths.told.len(), PATHS_MAX);
        paths.shrink(IpAddr::from([255; 4]), 1_400, now);
        assert_eq!(paths.told.len(), 1);
    }
}
