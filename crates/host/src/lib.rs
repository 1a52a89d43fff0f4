//! How quell changes a host and puts it back: what an egress and a whole-machine tunnel have in common.
//!
//! Both install something that outlives a process that is killed, so both keep the same rules:
//!
//! ```text
//! lock ─> mend what a dead one left ─> write down what will be changed ─> change ─ … ─> put back ─> forget
//! ```
//!
//! | module | its part |
//! |---|---|
//! | `store` | the state file: complete on disk before the first change, gone after the last |
//! | `guard` | who lives: locks that the kernel releases with their process |
//! | `realm` | which boot and which network namespace a state file speaks of |
//! | `name` | a TUN's name, fit for rules, tables and file names |
//! | `program` | `nft`, `ip` and their like: a script in, words out when they refuse, a bounded time |
//!
//! Nothing here decides what is changed.

#![warn(missing_docs)]

mod error;
mod guard;
mod name;
mod program;
mod realm;
mod store;

pub use error::HostError;
pub use guard::Guard;
pub use name::TunName;
pub use program::Program;
pub use realm::Realm;
pub use store::{Store, Stored, write_beside};
