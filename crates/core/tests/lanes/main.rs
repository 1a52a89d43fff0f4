//! A lane's two ends against each other, over modelled links, in virtual time.
//!
//! The sender and the receiver each have their own tests of what they do when. Here it is proved what they do together,
//! whatever the path does: that each packet arrives once, in the order that matters, within its time, or is given up and
//! counted. [`pair`] is the driver and its books; everything else is one topic a file.
//!
//! | file | what is proved |
//! |---|---|
//! | `loss` | random and bursty loss, jitter, copies, displacement, a hundred seeds each |
//! | `order` | messages in strict order to the end or a named end; flows that do not wait for each other |
//! | `healthy` | degradation that changes nothing while acknowledgements flow (R-19) |
//! | `blackhole` | a day without a path, and healing at any point |
//! | `signal` | failures of a backend, from the report to the resend |
//! | `timelines` | one misfortune each, with its moments |
//! | `cap` | no pack is handed over more often than the cap, under any schedule |
//! | `liar` | what each end does about a peer that lies |
#![allow(clippy::unwrap_used)]

mod blackhole;
mod cap;
mod healthy;
mod liar;
mod loss;
mod order;
mod pair;
mod signal;
mod timelines;
