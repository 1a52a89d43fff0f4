//! What a service manager is told (sd_notify(3)): that a daemon stands, that it goes, and that it still lives.
//!
//! One datagram each to the socket of `$NOTIFY_SOCKET`; without that nothing is said. Nothing here can fail the daemon.
//! "Lives" is said at half the interval that the manager gave, and only when the engine has just answered a question: a
//! process whose engine is stuck is restarted by its manager (case B65).

use std::future::Future;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The daemon stands: what depends on it may start.
pub(crate) fn ready() {
    tell("READY=1");
}

/// The daemon ends.
pub(crate) fn stopping() {
    tell("STOPPING=1");
}

/// Says that the daemon lives, for as long as `answers` says so. Never resolves.
pub(crate) async fn watchdog<A: Future<Output = bool>>(answers: impl Fn() -> A) {
    let Some(interval) = interval(|name| std::env::var(name).ok()) else {
        return std::future::pending().await;
    };
    loop {
        if answers().await {
            tell("WATCHDOG=1");
        }
        tokio::time::sleep(interval).await;
    }
}

/// Half of what the manager gave this very process.
fn interval(variable: impl Fn(&str) -> Option<String>) -> Option<Duration> {
    let is_other = |pid: String| pid.parse() != Ok(std::process::id());
    if variable("WATCHDOG_PID").is_some_and(is_other) {
        return None;
    }
    let micros: u64 = variable("WATCHDOG_USEC")?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros) / 2)
}

fn tell(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match name.as_bytes().split_first() {
        // A name that is no file's.
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        Some(_) => SocketAddr::from_pathname(&name),
        None => return,
    };
    let told = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = told {
        tracing::debug!(%error, "the service manager was not told {state}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_is_fed_at_half_its_interval_and_only_by_whom_it_is_for() {
        let own = std::process::id().to_string();
        let with = |usec: Option<&str>, pid: Option<&str>| {
            let (usec, pid) = (usec.map(str::to_owned), pid.map(str::to_owned));
            interval(|name| match name {
                "WATCHDOG_USEC" => usec.clone(),
                "WATCHDOG_PID" => pid.clone(),
                _ => None,
            })
        };
        assert_eq!(with(Some("30000000"), None), Some(Duration::from_secs(15)));
        assert_eq!(with(Some("2"), Some(&own)), Some(Duration::from_micros(1)));
        for (usec, pid) in [
            (None, None),
            (Some("0"), None),
            (Some("x"), None),
            (Some("2"), Some("1")),
        ] {
            assert_eq!(with(usec, pid), None, "{usec:?} {pid:?}");
        }
    }
}
