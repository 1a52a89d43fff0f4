//! The `quell` binary.
fn main() {}
