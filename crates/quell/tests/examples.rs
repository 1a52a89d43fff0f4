//! The examples are run, and the README's is one of them.
#![cfg(feature = "provider")]
#![allow(clippy::unwrap_used)]

#[path = "../examples/embed.rs"]
mod embed;
#[path = "../examples/own_driver.rs"]
mod own_driver;
#[path = "../examples/phone.rs"]
mod phone;

//
#[test]
fn a_client_is_embedded_with_a_channel() {
    embed::main().unwrap();
}

//
#[test]
fn a_loop_of_ones_own_drives_the_core() {
    own_driver::main().unwrap();
}

//
#[test]
fn a_phone_steers_its_client() {
    phone::main().unwrap();
}

/// The lines between the marks of an example, as a reader sees them.
fn excerpt(example: &str) -> String {
    let (_, rest) = example.split_once("// README: begin\n").unwrap();
    let (excerpt, _) = rest.split_once("    // README: end").unwrap();
    excerpt.trim_end().to_owned()
}

#[test]
fn the_readmes_example_is_the_one_that_runs() {
    let readme = include_str!("../../../README.md");
    let example = excerpt(include_str!("../examples/embed.rs"));
    assert!(readme.contains(&example), "README lacks:\n{example}");
}
