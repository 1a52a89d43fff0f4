//! The `quell` binary. Everything is in the library, so that tests can run it in their own process.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A process that the demo started must not outlive it.
    match quell_lab::child::die_with_parent() {
        Ok(_) => quell_cli::main(),
        Err(_) => ExitCode::FAILURE,
    }
}
