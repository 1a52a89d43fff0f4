//! What an embedder's build draws in: cargo's own word on the tree of dependencies.
//!
//! A client in a phone is to carry no server, no database and no plots, and the command none of what bindings need.
//! The lists name what brings those with it; each is looked for where it must be, too, so that a name that is never found
//! is noticed.

use std::process::Command;

use super::source::root;

/// What serves HTTP, keeps tables, draws, reads command lines, or is the exit's.
const NOT_IN_A_CLIENT: &[&str] = &[
    "anyhow",
    "axum",
    "clap",
    "criterion",
    "quell-cli",
    "quell-egress",
    "quell-lab",
    "quell-sim",
    "redb",
    "sqlx",
    "tower",
    "tracing-subscriber",
    "uniffi",
];
/// Of these, what a build with the exit does have.
const IN_A_PROVIDER: &[&str] = &["quell-egress", "redb"];
/// What bindings need.
const NOT_IN_THE_COMMAND: &[&str] = &["quell-ffi", "uniffi", "uniffi_core"];

/// Names of all crates that a build of `package` with these arguments has, tests aside.
fn crates_of(package: &str, arguments: &[&str]) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
        .args(["--package", package])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| Some(line.split_whitespace().next()?.to_owned());
    tree.lines().filter_map(name).collect()
}

fn found<'n>(crates: &[String], names: &[&'n str]) -> Vec<&'n str> {
    let is_there = |name: &&&str| crates.iter().any(|found| found == **name);
    names.iter().filter(is_there).copied().collect()
}

//
#[test]
fn a_client_alone_draws_in_no_server_no_database_and_no_plots() {
    let client = crates_of("quell", &["--no-default-features", "--features", "client"]);
    assert_eq!(found(&client, NOT_IN_A_CLIENT), [""; 0]);
    assert!(client.iter().any(|name| name == "quell-net"), "{client:?}");
}

#[test]
fn what_is_looked_for_is_found_where_it_is() {
    let provider = crates_of("quell", &[]);
    assert_eq!(found(&provider, NOT_IN_A_CLIENT), IN_A_PROVIDER);
}

#[test]
fn the_command_carries_no_bindings() {
    let command = crates_of("quell-cli", &[]);
    assert_eq!(found(&command, NOT_IN_THE_COMMAND), [""; 0]);
    let bindings = crates_of("quell-ffi", &[]);
    assert_eq!(found(&bindings, NOT_IN_THE_COMMAND), NOT_IN_THE_COMMAND);
    assert_eq!(found(&bindings, IN_A_PROVIDER), [""; 0]);
}
