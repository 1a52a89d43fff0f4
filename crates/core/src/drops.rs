//! Why a packet was dropped. One variant a place in the code, one counter each.
//!
//! The reason is what an operator sees in `quell_drops_total{reason}`, so each
//! says what is true of the packet, not which branch was taken (case B86). The
//! table is the single source: name for machines, words for people.

use std::fmt;
use std::ops::{AddAssign, Index};

use serde::{Serialize, Serializer, ser::SerializeMap};

macro_rules! drop_reasons {
    ($($variant:ident, $name:literal, $words:literal;)+) => {
        /// Why a packet, or a fragment of one, was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DropReason {
            $(#[doc = $words] $variant,)+
        }

        impl DropReason {
            /// All reasons, in the order of their counters.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The stable name, as in metrics and `status`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// One sentence for a person.
            pub fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)+ }
            }
        }
    };
}

drop_reasons! {
    Malformed, "malformed", "The packet's headers contradict its length or each other.";
    SourceNotAssigned, "source_not_assigned", "The source is not an address of this session.";
    OwnAddress, "own_address", "The destination is the TUN's own address: carrying it would loop.";
    UnderlayAddress, "underlay_address", "The destination carries the tunnel itself: carrying it would loop.";
    NotUnicast, "not_unicast", "Multicast, broadcast or unspecified: no exit can forward it.";
    NoTunnel, "no_tunnel", "No session is up to carry it.";
    NoSession, "no_session", "The destination belongs to no session.";
    Denied, "denied", "The rules of the exit deny its destination; `egress` counts by which class.";
    FlowClosed, "flow_closed", "Its client gave the flow up; another exit carries it, or none.";
    WrongDestination, "wrong_destination", "A provider sent a packet for an address that is not ours.";
    QueueFull, "queue_full", "The queue of this path is full.";
    Aged, "aged", "It waited longer than an unacknowledged packet may.";
    TooBig, "too_big", "Larger than the path carries, and must not be fragmented.";
    FragmentOrphaned, "fragment_orphaned", "Its packet can never be whole: a fragment of it was given up.";
    Skipped, "skipped", "It came after its sender had given it up.";
    PathStalled, "path_stalled", "The path does not answer, and the packet is worth nothing later.";
    Refused, "refused", "QUIC refused it: the path shrank, or the connection ended, at that moment.";
    PathClosed, "path_closed", "The session ended while it waited.";
    FlowLost, "flow_lost", "Its connection ran through an exit whose session is gone; the user was told by a reset.";
    RaceLost, "race_lost", "It came over an exit that lost the race for its connection.";
    RaceKept, "race_kept", "A refusal that is kept until no other exit may still answer.";
    RaceRefused, "race_refused", "Its connection was refused, which the user is told now.";
    FlowLimit, "flow_limit", "Its client holds as many flows as one client may.";
    DestinationLimit, "destination_limit", "Its client speaks to new destinations faster than one client may.";
    ShareFull, "share_full", "The queue for its client's share of the exit is full.";
    ShareAged, "share_aged", "It waited longer for its client's share of the exit than a packet may.";
    Unpaid, "unpaid", "Its session is paused: no contract allows it, or too much of what was carried is unsigned.";
    DeviceFull, "device_full", "The TUN took no more packets.";
    DeviceRefused, "device_refused", "The TUN refused the packet.";
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A counter for each reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Self([0; DropReason::ALL.len()])
    }
}

impl Drops {
    /// Counts one packet.
    pub fn count(&mut self, reason: DropReason) {
        self.add(reason, 1);
    }

    /// Counts `packets` packets.
    pub fn add(&mut self, reason: DropReason, packets: u64) {
        let slot = &mut self.0[reason as usize];
        *slot = slot.saturating_add(packets);
    }

    /// All drops together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let counted = |reason: &DropReason| (*reason, self[*reason]);
        DropReason::ALL.iter().map(counted).filter(|(_, n)| *n > 0)
    }
}

impl Index<DropReason> for Drops {
    type Output = u64;
    fn index(&self, reason: DropReason) -> &u64 {
        &self.0[reason as usize]
    }
}

impl AddAssign for Drops {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }
}

impl std::ops::Add for Drops {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Serialize for Drops {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (reason, count) in self.iter() {
            map.serialize_entry(reason.name(), &count)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_each_reason_has_its_own_counter() {
        // case B86
        let names: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            let mut drops = Drops::default();
            drops.count(reason);
            assert_eq!(drops.iter().collect::<Vec<_>>(), [(reason, 1)]);
        }
    }
}
