//! Huge pages for a process that walks through gigabytes.
//!
//! A fleet of 100,000 clients is some gigabytes of which each event touches a few lines, no two of them close together. With
//! pages of 4 KiB nearly each of these is looked for in the page tables first: an hour of 2,000 clients takes 30 s of
//! processor time with them and 18 s with pages of 2 MiB.
//!
//! The allocator of glibc asks the kernel for huge pages when it is told so, and it is told by its environment, which it
//! reads when a process begins. So the process is replaced by itself, once, with a few words more in the environment.
//!
//! ```text
//! begun without the words ──exec──▶ begun with them ──▶ goes on
//!           └── cannot be replaced: goes on with small pages
//! ```
//!
//! One more word is needed, since policies run on threads, each of which has memory of its own in pieces of 64 MiB: the
//! allocator makes a piece usable by a few pages at a time, and asks for huge ones only where it does so by as much as one of
//! them. Told to keep 64 MiB ahead it takes a whole piece at once. What nobody has touched costs nothing. One memory for all
//! threads gets huge pages too, and makes them wait for each other: two policies side by side took 1.4 times as long.
//!
//! What the process is, its number, its files, who waits for it, stays the same. Where the first of the words is there
//! already, whatever it says, nothing is done: whoever runs it has decided. A process that was replaced has a mark of its own
//! besides: where a program has capabilities of its file, the loader takes the allocator's words out of its environment, and
//! without the mark it would replace itself for ever. Other allocators than glibc's are not asked.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// What glibc reads: `name=value`, several of them separated by colons.
const VARIABLE: &str = "GLIBC_TUNABLES";
/// Set to 1 in a process that was replaced.
const MARK: &str = "QUELL_HUGE_PAGES_ASKED";
/// Asks for transparent huge pages (glibc 2.35).
const NAME: &str = "glibc.malloc.hugetlb";
/// Huge pages, and a whole piece of a thread's memory at a time, in bytes (`HEAP_MAX_SIZE` of glibc).
const WORDS: &str = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864";

/// Replaces the process by itself with huge pages asked for. Returns where they are asked for already, or cannot be.
pub(crate) fn restart() {
    let before = env::var_os(VARIABLE).unwrap_or_default();
    let was_replaced = env::var_os(MARK).is_some();
    let tunables = with_huge_pages(&before, was_replaced);
    let (Some(tunables), Ok(program)) = (tunables, env::current_exe()) else {
        return;
    };
    let mut args = env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    // It returns only where it failed, and all that is lost then is time.
    let _ = command
        .args(args)
        .env(VARIABLE, tunables)
        .env(MARK, "1")
        .exec();
}

/// The variable with the words added; `None`: it is there, or was and is not heard, or nobody would.
fn with_huge_pages(before: &OsStr, was_replaced: bool) -> Option<OsString> {
    let is_heard = cfg!(all(target_os = "linux", target_env = "gnu"));
    if !is_heard || was_replaced || before.to_string_lossy().contains(NAME) {
        return None;
    }
    let mut tunables = before.to_owned();
    if !tunables.is_empty() {
        tunables.push(":");
    }
    tunables.push(WORDS);
    Some(tunables)
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_added_once_and_never_changed() {
        let with = |before: &str| with_huge_pages(OsStr::new(before), false);
        assert_eq!(with(""), Some(WORDS.into()));
        assert!(WORDS.starts_with(NAME));
        let other = with("glibc.malloc.tcache_count=9");
        let both = format!("glibc.malloc.tcache_count=9:{WORDS}");
        assert_eq!(other, Some(both.clone().into()));
        assert_eq!(with(&both), None, "a process that was replaced stays");
        assert_eq!(with("glibc.malloc.hugetlb=0"), None);
    }

    #[test]
    fn a_process_whose_word_was_taken_away_stays_as_it_is() {
        assert_eq!(with_huge_pages(OsStr::new(""), true), None);
    }
}
