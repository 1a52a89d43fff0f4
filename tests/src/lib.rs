//! Shared pieces of the scenarios.
