//! The `quell` binary. Everything is in the library, so that tests can run it in their own process.

use std::process::ExitCode;

fn main() -> ExitCode {
    quell_cli::main()
}
