//! Why a destination is denied: the classes, their names and their words.
//!
//! A class says what is true of the destination, not which rule matched, so that the counter of it means the same on every
//! provider. There is a fixed handful of them: each is a label of `quell_egress_denied_total{reason}`, a member of
//! `status`, and the word in which `quell why` answers. Where several are true of an address, the one that says most about
//! it is named: the order of the table. A metadata service is link-local too, and nobody looking at the counter would guess.

use std::fmt;
use std::ops::{AddAssign, Index};

use serde::{Serialize, Serializer, ser::SerializeMap};

macro_rules! classes {
    ($($variant:ident, $name:literal, $words:literal;)+) => {
        /// Why a destination is denied. The first of several that are true is what is said.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Class {
            $(#[doc = $words] $variant,)+
        }

        impl Class {
            /// All classes, in the order of precedence.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The stable name, as in metrics and `status`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What it is, for a person.
            pub fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)+ }
            }
        }
    };
}

classes! {
    NotUnicast, "not_unicast", "multicast, broadcast, unspecified or reserved: no host has such an address";
    SourceRoute, "source_route", "packet that names its own way, so that its destination is not the last one (RFC 7126, RFC 5095)";
    Metadata, "metadata", "metadata service of a cloud: it gives the host's credentials to whoever asks";
    Loopback, "loopback", "loopback address (RFC 1122, RFC 4291)";
    OwnAddress, "own_address", "the provider's own address";
    Clients, "clients", "address of another client: clients do not reach each other";
    OnLink, "on_link", "neighbour of the provider's host: on a link that it is on";
    LinkLocal, "link_local", "link-local address (RFC 3927, RFC 4291)";
    Private, "private", "private address (RFC 1918, RFC 6598, RFC 4193)";
    Reserved, "reserved", "special-purpose address that is not routed (RFC 6890)";
    Smtp, "smtp", "TCP port 25: mail from an exit is spam";
    Operator, "operator", "`egress.deny` names it";
}

impl Class {
    /// Whether `egress.allow` opens it. What the operator denies stays denied, what no host has is sent to nobody, and of a
    /// packet that goes on from its destination nobody knows where to.
    pub fn is_opened_by_allow(self) -> bool {
        !matches!(self, Self::NotUnicast | Self::SourceRoute | Self::Operator)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A counter for each class, in packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denials([u64; Class::ALL.len()]);

impl Default for Denials {
    fn default() -> Self {
        Self([0; Class::ALL.len()])
    }
}

impl Denials {
    /// Counts one packet.
    pub fn count(&mut self, class: Class) {
        self.add(class, 1);
    }

    /// Counts `packets` packets.
    pub fn add(&mut self, class: Class, packets: u64) {
        let slot = &mut self.0[class as usize];
        *slot = slot.saturating_add(packets);
    }

    /// All denials together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<Class> for Denials {
    type Output = u64;
    fn index(&self, class: Class) -> &u64 {
        &self.0[class as usize]
    }
}

impl AddAssign for Denials {
    fn add_assign(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }
}

impl Serialize for Denials {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for class in Class::ALL.into_iter().filter(|class| self[*class] > 0) {
            map.serialize_entry(class.name(), &self[class])?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_each_class_has_its_own_counter() {
        let names: BTreeSet<_> = Class::ALL.iter().map(|class| class.name()).collect();
        assert_eq!(names.len(), Class::ALL.len());
        for (index, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index);
            let mut denials = Denials::default();
            denials.count(class);
            denials += denials;
            assert_eq!((denials[class], denials.total()), (2, 2));
        }
    }
}
