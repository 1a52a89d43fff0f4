//! A simulation asks for huge pages, and does so once: the real binary, for what is replaced is a process.
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used)]

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const WORDS: &str = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864";
const MARK: &str = "QUELL_HUGE_PAGES_ASKED";

/// One that outlives the test if it is let.
struct Simulation(Child);

impl Simulation {
    fn begin(set: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quell"));
        command.args(["sim", "run", "fleet-outage", "--json"]);
        command.env_remove("GLIBC_TUNABLES").env_remove(MARK);
        command.envs(set.iter().copied());
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().unwrap())
    }

    /// What the process was begun with the last time, a line each. The allocator ends each of its words where it stands
    /// once it has read them.
    fn environment(&self) -> String {
        let bytes = std::fs::read(format!("/proc/{}/environ", self.0.id())).unwrap();
        String::from_utf8_lossy(&bytes).replace('\0', "\n")
    }

    /// How much it holds, in pages: what has begun to simulate holds more than what has just begun.
    fn pages(&self) -> u64 {
        let words = std::fs::read_to_string(format!("/proc/{}/statm", self.0.id())).unwrap();
        words.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Waits until it simulates.
    fn simulates(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if self.pages() > 8_192 {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_simulation_is_replaced_once_and_goes_on() {
    let simulation = Simulation::begin(&[]);
    assert!(simulation.simulates(), "it never came to simulate");
    let environment = simulation.environment();
    assert!(environment.contains(&format!("GLIBC_TUNABLES={}", WORDS.replace(':', "\n"))));
    assert!(environment.contains(&format!("{MARK}=1")));
}

/// A program with capabilities of its file loses the word each time it begins.
#[test]
fn one_that_lost_the_word_goes_on_without() {
    let simulation = Simulation::begin(&[(MARK, "1")]);
    assert!(simulation.simulates(), "it never came to simulate");
    let environment = simulation.environment();
    assert!(!environment.contains("glibc.malloc"));
}
