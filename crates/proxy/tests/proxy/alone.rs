//! Tests that look at what a process holds have a process of their own.

use std::process::Command;

const MARK: &str = "QUELL_TEST_ALONE";

/// Runs `body` in a process of its own, in which at most `files` descriptors may be open. `name` is the calling test's.
#[track_caller]
pub(crate) fn alone(name: &str, files: usize, body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    let program = std::env::current_exe().unwrap();
    let script = format!("ulimit -n {files} && exec \"$0\" --exact {name} --nocapture");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(program)
        .env(MARK, "1")
        .output()
        .unwrap();
    let words = [output.stdout, output.stderr].concat();
    let words = String::from_utf8_lossy(&words);
    assert!(output.status.success(), "{words}");
    assert!(
        words.contains("1 passed"),
        "no test is called {name}: {words}"
    );
    print_figures(&words);
}

/// What a test measured is its output.
#[allow(clippy::print_stdout)]
fn print_figures(words: &str) {
    for line in words.lines().filter(|line| line.starts_with("figure:")) {
        println!("{line}");
    }
}

/// Says what was measured.
#[allow(clippy::print_stdout)]
pub(crate) fn figure(words: &str) {
    println!("figure: {words}");
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1_024
}
