//! Which provider of a client's list is meant.
//!
//! A plain index. It crosses the seam to the driver with every fact and every order,
//! so that neither end has to look anything up.

use std::fmt;

use serde::Serialize;

/// The index of a provider in the client's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ExitId(pub u16);

impl ExitId {
    /// The place in a list.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for ExitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit {}", self.0)
    }
}
