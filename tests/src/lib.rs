//! Shared pieces of the scenarios, of the structure tests and of the runner of mutants.

pub mod mutants;
