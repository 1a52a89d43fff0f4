//! One file a verb.

pub(crate) mod check;
pub(crate) mod keygen;
pub(crate) mod pubkey;
pub(crate) mod status;
