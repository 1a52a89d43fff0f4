//! One file a verb.

pub(crate) mod arguments;
pub(crate) mod backend;
pub(crate) mod bench;
pub(crate) mod bugreport;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod drain;
pub(crate) mod drill;
pub(crate) mod enrol;
pub(crate) mod import;
pub(crate) mod invite;
pub(crate) mod keygen;
pub(crate) mod metrics;
pub(crate) mod portal;
pub(crate) mod provide;
pub(crate) mod pubkey;
pub(crate) mod reload;
pub(crate) mod show;
pub(crate) mod sim;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod why;
