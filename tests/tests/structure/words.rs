//! Words that may not stand in the tree, or not in one part of it.
//!
//! The core and what lies under it know no clock, no task, no socket and no generator that was not handed in. Nowhere
//! stands a stub, a mark of work to come, a test that never runs, or code that nothing calls. Unsafe code stands in the
//! crates that talk to the system, and there alone.
//!
//! The words are put together from halves here, so that a plain search over the tree does not find this file.

use super::source::{Source, line_of, tree, words};

/// Folders whose code is without I/O.
const PURE: &[&str] = &["crates/core/", "crates/wire/", "crates/packet/"];
/// Halves of what those may not say, in comments neither.
const IMPURE_WORDS: &[[&str; 2]] = &[
    ["SystemTime", "::now"],
    ["thread", "_rng"],
    ["rand", "::rng("],
    ["tokio", "::"],
    ["quinn", "::"],
    ["quinn", "_proto::"],
    ["std::net::", "UdpSocket"],
    ["std::net::", "Tcp"],
    ["thread", "::spawn"],
];
/// The one of them that tests may say: there is no other way to a first `Instant`.
const CLOCK_WORD: [&str; 2] = ["Instant", "::now"];
/// Halves of what nobody may say.
const UNFINISHED_WORDS: &[[&str; 2]] = &[
    ["tod", "o!("],
    ["unimple", "mented!("],
    ["FIX", "ME"],
    ["TO", "DO"],
    ["XX", "X"],
    ["#[ign", "ore"],
];
/// Folders that may hold unsafe code, their tests included.
/// The bindings are exported functions, which nothing else can be.
const UNSAFE: &[&str] = &["crates/tun/", "crates/net/", "crates/ffi/"];

fn stands_in(source: &Source, folders: &[&str]) -> bool {
    folders.iter().any(|folder| source.path.starts_with(folder))
}

fn report(source: &Source, at: usize, what: &str) -> String {
    format!("{}:{}: {what}", source.path, line_of(&source.text, at))
}

fn check(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let mut forbid = |list: &[[&str; 2]]| {
        for halves in list {
            let word = halves.concat();
            found.extend(words(&source.text, &word).map(|at| report(source, at, &word)));
        }
    };
    forbid(UNFINISHED_WORDS);
    if source.is_rust() && stands_in(source, PURE) {
        forbid(IMPURE_WORDS);
        let word = CLOCK_WORD.concat();
        let clocks = words(&source.text, &word).filter(|at| *at < tests_begin(source));
        found.extend(clocks.map(|at| report(source, at, &word)));
    }
    if !stands_in(source, UNSAFE) {
        found.extend(words(&source.code, "unsafe").map(|at| report(source, at, "unsafe code")));
        found.extend(allowances(source, "unsafe_code"));
    }
    found.extend(allowances(source, "dead_code"));
    found
}

/// Where the tests of a file begin: at its top in a file of tests, else at its first module that only tests have.
fn tests_begin(source: &Source) -> usize {
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if source.path.contains("/tests/") || name.ends_with("tests.rs") {
        return 0;
    }
    let module = source.code.find("#[cfg(test)]\nmod tests {");
    module.unwrap_or(source.code.len())
}

/// Where an attribute allows or expects the lint, alone or in a list, at once or under a condition.
fn allowances(source: &Source, lint: &str) -> Vec<String> {
    let mut found = Vec::new();
    for verb in ["allow(", "expect("] {
        for at in words(&source.code, verb) {
            let list = &source.code[at..];
            let list = &list[..list.find(')').unwrap_or(list.len())];
            if words(list, lint).next().is_some() {
                found.push(report(source, at, &format!("{verb}{lint})")));
            }
        }
    }
    found
}

#[test]
fn no_word_stands_where_it_may_not() {
    let found: Vec<_> = tree().iter().flat_map(check).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

fn found(path: &str, text: &str) -> Vec<String> {
    check(&Source::new(path, text))
}

#[test]
fn the_core_says_no_clock_task_or_socket() {
    for halves in IMPURE_WORDS {
        let text = format!("//! A.\nlet a = {};\n", halves.concat());
        for path in [
            "crates/core/src/a.rs",
            "crates/wire/a.rs",
            "crates/packet/tests/a.rs",
        ] {
            assert_eq!(
                found(path, &text),
                [format!("{path}:2: {}", halves.concat())]
            );
        }
        assert_eq!(found("crates/net/src/a.rs", &text), [""; 0]);
    }
    assert_eq!(
        found("crates/core/src/a.rs", "use std::time::Instant;"),
        [""; 0]
    );
}

#[test]
fn only_tests_begin_with_the_clocks_instant() {
    let text = format!("//! A.\nfn a() {{\n    {}();\n}}\n", CLOCK_WORD.concat());
    let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
    let child = format!("#[cfg(test)]\nmod tests;\n{text}");
    let core = |text: &str| found("crates/core/src/a.rs", text).len();
    assert_eq!((core(&text), core(&child), core(&tests)), (1, 1, 0));
    assert_eq!(core(&format!("{text}{tests}")), 1);
    for path in ["src/a/tests.rs", "src/a_tests.rs", "tests/a.rs"] {
        assert_eq!(found(&format!("crates/core/{path}"), &text), [""; 0]);
    }
}

#[test]
fn nothing_unfinished_stands_anywhere() {
    for halves in UNFINISHED_WORDS {
        let word = halves.concat();
        assert_eq!(
            found("docs/a.md", &format!("a\n{word}")),
            [format!("docs/a.md:2: {word}")]
        );
    }
}

#[test]
fn no_lint_is_silenced_that_finds_unused_or_unsafe_code() {
    let text = |verb: &str, lint: &str| format!("//! A.\n#[{verb}(unused, {lint})]\nfn a() {{}}\n");
    for verb in ["allow", "expect"] {
        assert_eq!(found("crates/net/a.rs", &text(verb, "dead_code")).len(), 1);
        assert_eq!(
            found("crates/cli/a.rs", &text(verb, "unsafe_code")).len(),
            1
        );
        assert_eq!(
            found("crates/tun/a.rs", &text(verb, "unsafe_code")),
            [""; 0]
        );
    }
    let conditional = format!("//! A.\n#![cfg_attr(test, allow({}))]\n", "dead_code");
    assert_eq!(found("a.rs", &conditional).len(), 1);
    assert_eq!(found("a.rs", "#![deny(dead_code)]"), [""; 0]);
}

#[test]
fn unsafe_code_stands_in_two_crates() {
    let text = "//! unsafe words\nfn a() {\n    unsafe { b() }\n}\n";
    assert_eq!(
        found("crates/quell/src/a.rs", text),
        ["crates/quell/src/a.rs:3: unsafe code"]
    );
    assert_eq!(found("crates/tun/src/a.rs", text), [""; 0]);
    assert_eq!(found("crates/netx/src/a.rs", text).len(), 1);
}
