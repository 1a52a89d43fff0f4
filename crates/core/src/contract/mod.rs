//! Who may have how many bytes of whom, and who says that they were had (DESIGN §7).
//!
//! | file | question |
//! |---|---|
//! | `seal` | is this signature right |
//!
//! The forms are in [`quell_wire::contract`]. Times are wall-clock seconds that the driver hands in, since a contract
//! is between parties that share no other clock; what is decided by them allows for clocks that differ.

pub mod seal;
