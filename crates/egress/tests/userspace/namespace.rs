//! Hosts of their own, for what depends on a host's settings.

use nix::sched::{CloneFlags, unshare};

/// A thread in a network namespace of its own, whose groups 0 to `last` may have echo sockets.
pub(crate) fn in_namespace(last: &str, body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
                skipped(&format!("no network namespace: {error}"));
                return;
            }
            let up = std::process::Command::new("ip")
                .args(["link", "set", "lo", "up"])
                .status();
            if !up.is_ok_and(|status| status.success()) {
                skipped("no program `ip`");
                return;
            }
            std::fs::write("/proc/sys/net/ipv4/ping_group_range", last).unwrap();
            body();
        });
        thread.join().unwrap();
    });
}

#[allow(clippy::print_stdout)]
fn skipped(why: &str) {
    println!("skipped: {why}");
}
