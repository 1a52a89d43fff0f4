//! Seeded models of the network that quell is tested against.
