//! What must stay true of the project as a whole, and no compiler checks: one program, without root and without network.
//!
//! | module | holds |
//! |---|---|
//! | `defaults` | the page of all defaults |
//! | `graph` | which crate may depend on which, where the named libraries stand, lints, the dependency table |
//! | `lean` | what an embedder's build draws in |
//! | `limits` | sizes of files and functions, a doc on each file |
//! | `mutants` | the table guard → test that fails without it |
//! | `operator` | metrics, alerts, dashboard and runbook belong together |
//! | `probes` | the page of who asks whom, and of all timers |
//! | `words` | what may not be said: clocks in the core, stubs, unsafe code |
//! | `requirements` | the table requirement → test |
//! | `source` | the files as text, and Rust text without comments and literals |
//!
//! Each check is a function over text that returns what it found. One test runs it over the tree, others feed it a small
//! wrong input and see it complain: a check that cannot fail is worth nothing.

#![allow(clippy::unwrap_used)]

mod defaults;
mod graph;
mod lean;
mod limits;
mod mutants;
mod operator;
mod probes;
mod requirements;
mod source;
mod words;
