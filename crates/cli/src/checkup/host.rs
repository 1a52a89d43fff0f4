//! What the host itself gives: TUN, marks, echo sockets, files, nftables, time, folders.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, getrlimit};
use quell_tun::os::{TunConfig, TunDevice};
use quell_tun::{OffloadStats, TunError};
use socket2::{Domain, Protocol, Socket, Type};

use super::{Finding, Level, Need, Needs};

/// The interface that is tried.
const TRIED: &str = "quell-doctor";
/// A clock before this (2026-01-01) has not been set since the machine was built.
const BUILT_S: u64 = 1_767_225_600;
/// The marks of ECN in the traffic class: ECT(0) (RFC 3168 §5).
const ECT_0: u32 = 0b10;

/// Makes a TUN, and says what the kernel does for it.
pub(super) fn tun(needs: &Needs) -> Vec<Finding> {
    if needs.tun == Need::Not {
        return vec![
            Finding::ok("tun", "not needed"),
            Finding::ok("offload", "not needed"),
        ];
    }
    // A namespace of this thread's own, where that is allowed: then nobody sees the interface.
    let _ = unshare(CloneFlags::CLONE_NEWNET);
    let made = TunDevice::create(TunConfig {
        name: Some(TRIED.to_owned()),
        ..TunConfig::default()
    });
    match made {
        Ok(tun) => vec![
            Finding::ok("tun", "an interface can be made"),
            judge_offload(&tun.offload().stats()),
        ],
        Err(error) => vec![judge_tun(
            needs.tun,
            Path::new("/dev/net/tun").exists(),
            &error,
        )],
    }
}

fn judge_tun(need: Need, has_device: bool, error: &TunError) -> Finding {
    let todo = match has_device {
        false => {
            "load the module (`modprobe tun`), or give the container the device (--device /dev/net/tun)"
        }
        true => {
            "run as root or with CAP_NET_ADMIN; a client needs neither with `quell up FILE --socks5 127.0.0.1:1080`"
        }
    };
    let seen = format!("no interface can be made: {error}");
    Finding::bad("tun", need.missing(), seen, todo)
}

fn judge_offload(stats: &OffloadStats) -> Finding {
    let all = [
        ("reading several packets at once", stats.reads_super),
        ("writing runs of TCP", stats.merges_tcp),
        ("writing runs of UDP", stats.merges_udp),
    ];
    let without: Vec<_> = all
        .iter()
        .filter(|(_, is)| !is)
        .map(|(what, _)| *what)
        .collect();
    match without.as_slice() {
        [] => Finding::ok("offload", "the kernel splits and merges TCP and UDP"),
        ["writing runs of UDP"] => Finding::ok(
            "offload",
            "the kernel splits and merges TCP; UDP since Linux 6.2",
        ),
        some => {
            let seen = format!("the kernel does without: {}", some.join(", "));
            let todo = "nothing must be done; a newer kernel costs less CPU";
            Finding::bad("offload", Level::Warning, seen, todo)
        }
    }
}

/// Whether datagrams may carry marks, and the inner TCP asks for them.
pub(super) fn ecn(_: &Needs) -> Vec<Finding> {
    let marks = || -> io::Result<u32> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        socket.set_tos_v4(ECT_0)?;
        socket.tos_v4()
    };
    let finding = match marks() {
        Ok(tos) if tos & ECT_0 == ECT_0 => {
            let inner = match read_trimmed("/proc/sys/net/ipv4/tcp_ecn").as_deref() {
                Some("0") => "; this host's TCP does not use them (net.ipv4.tcp_ecn = 0)",
                Some(_) | None => "",
            };
            Finding::ok("ecn", format!("datagrams carry marks{inner}"))
        }
        Ok(_) | Err(_) => {
            let todo = "nothing must be done; congestion is then known by loss alone";
            let seen = "the system takes the marks off datagrams";
            Finding::bad("ecn", Level::Warning, seen, todo)
        }
    };
    vec![finding]
}

/// Whether clients' pings may leave through sockets.
pub(super) fn ping(needs: &Needs) -> Vec<Finding> {
    if needs.ping == Need::Not {
        return vec![Finding::ok("ping", "not needed")];
    }
    let opened = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4));
    let range = read_trimmed("/proc/sys/net/ipv4/ping_group_range").unwrap_or_default();
    vec![judge_ping(opened.err().map(|error| error.kind()), &range)]
}

fn judge_ping(refused: Option<ErrorKind>, range: &str) -> Finding {
    match refused {
        None => Finding::ok("ping", "a provider of sockets carries pings"),
        Some(kind) => {
            let seen = format!(
                "a provider of sockets carries no pings: {kind}; net.ipv4.ping_group_range is \"{}\"",
                range.replace('\t', " ")
            );
            let todo = "sysctl -w net.ipv4.ping_group_range=\"0 2147483647\", and the same line in /etc/sysctl.d";
            Finding::bad("ping", Level::Warning, seen, todo)
        }
    }
}

/// How many files a process may have open.
pub(super) fn files(needs: &Needs) -> Vec<Finding> {
    let finding = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((_, hard)) => judge_files(hard, needs.files_min),
        Err(error) => Finding::bad(
            "files",
            Level::Warning,
            format!("the limit of open files cannot be read: {error}"),
            "see `ulimit -n -H`",
        ),
    };
    vec![finding]
}

fn judge_files(hard: u64, files_min: u64) -> Finding {
    let seen = format!("a process may have {hard} files open");
    if hard >= files_min {
        return Finding::ok("files", seen);
    }
    let todo = format!(
        "each flow through a socket is a file: allow {files_min} (LimitNOFILE= in the unit, or limits.conf)"
    );
    Finding::bad("files", Level::Warning, seen, todo)
}

/// Whether nftables can be asked.
pub(super) fn nft(needs: &Needs) -> Vec<Finding> {
    if needs.nft == Need::Not {
        return vec![Finding::ok("nft", "not needed")];
    }
    let asked = Command::new("nft")
        .args(["list", "tables"])
        .stdin(Stdio::null())
        .output();
    let asked = asked.map(|output| match output.status.success() {
        true => None,
        false => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
    });
    vec![judge_nft(needs.nft, asked)]
}

fn judge_nft(need: Need, asked: io::Result<Option<String>>) -> Finding {
    let what = "for egress.kind = \"tun\" with egress.masquerade";
    match asked {
        Ok(None) => Finding::ok("nft", "nftables answers"),
        Ok(Some(said)) => {
            let said = said.lines().next().unwrap_or_default().to_owned();
            let seen = format!("nft is refused ({what}): {said}");
            let todo = "run as root or with CAP_NET_ADMIN, on a kernel with nf_tables";
            Finding::bad("nft", need.missing(), seen, todo)
        }
        Err(error) => {
            let seen = format!("the program nft does not run ({what}): {error}");
            let todo = "install it (Debian: `apt-get install nftables`)";
            Finding::bad("nft", need.missing(), seen, todo)
        }
    }
}

/// Whether the clock has been set. How far it is from a control plane's shows with that.
pub(super) fn clock(_: &Needs) -> Vec<Finding> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = since.map_or(0, |since| since.as_secs());
    let is_kept = [
        "/run/systemd/timesync/synchronized",
        "/run/chrony/chronyd.pid",
        "/run/ntpd.pid",
    ]
    .iter()
    .any(|path| Path::new(path).exists());
    vec![judge_clock(now_s, is_kept)]
}

fn judge_clock(now_s: u64, is_kept: bool) -> Finding {
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now_s));
    let seen = format!("it is {date}");
    if now_s < BUILT_S {
        let todo = "set the clock: contracts and receipts are refused by one that is wrong";
        return Finding::bad("clock", Level::Problem, seen, todo);
    }
    match is_kept {
        true => Finding::ok("clock", format!("{seen}, and something keeps it")),
        false => Finding::ok("clock", format!("{seen}; nothing is seen to keep it")),
    }
}

/// Whether what has to outlive a restart can be written.
pub(super) fn folders(needs: &Needs) -> Vec<Finding> {
    if needs.folders.is_empty() {
        return vec![Finding::ok("folders", "nothing is kept")];
    }
    let all = needs.folders.iter();
    all.map(|folder| judge_folder(folder, writable(folder)))
        .collect()
}

/// Tries the folder, or where it would be made.
fn writable(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|path| path.is_dir());
    let there = there.unwrap_or(Path::new("/"));
    tempfile::tempfile_in(there).map(drop)
}

fn judge_folder(folder: &Path, tried: io::Result<()>) -> Finding {
    let folder = folder.display();
    match tried {
        Ok(()) => Finding::ok("folders", format!("{folder} can be written")),
        Err(error) => {
            let seen = format!("{folder} cannot be written: {error}");
            let todo =
                "give the user that quell runs as the right to it, or choose another state_dir";
            Finding::bad("folders", Level::Problem, seen, todo)
        }
    }
}

fn read_trimmed(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_files_is_enough_or_one_too_few() {
        assert_eq!(judge_files(65_536, 65_536).level, Level::Ok);
        let few = judge_files(65_535, 65_536);
        assert_eq!(few.level, Level::Warning);
        assert!(few.todo.is_some_and(|todo| todo.contains("LimitNOFILE")));
    }

    #[test]
    fn a_clock_that_was_never_set_is_a_problem() {
        assert_eq!(judge_clock(BUILT_S - 1, true).level, Level::Problem);
        assert_eq!(judge_clock(BUILT_S, false).level, Level::Ok);
    }

    #[test]
    fn nft_is_as_bad_as_it_is_needed() {
        let missing = || Err(io::Error::from(ErrorKind::NotFound));
        assert_eq!(judge_nft(Need::Must, missing()).level, Level::Problem);
        assert_eq!(judge_nft(Need::Perhaps, missing()).level, Level::Warning);
        let refused = judge_nft(Need::Must, Ok(Some("Operation not permitted\nmore".into())));
        assert!(
            refused.seen.ends_with("Operation not permitted"),
            "{}",
            refused.seen
        );
        assert_eq!(judge_nft(Need::Must, Ok(None)).level, Level::Ok);
    }

    #[test]
    fn pings_that_are_refused_come_with_the_line_that_allows_them() {
        assert_eq!(judge_ping(None, "").level, Level::Ok);
        let refused = judge_ping(Some(ErrorKind::PermissionDenied), "1\t0");
        assert!(refused.seen.ends_with("is \"1 0\""), "{}", refused.seen);
        assert!(refused.todo.is_some_and(|todo| todo.contains("sysctl -w")));
    }

    #[test]
    fn an_old_kernel_costs_and_works() {
        let all = OffloadStats {
            reads_super: true,
            merges_tcp: true,
            merges_udp: true,
            ..OffloadStats::default()
        };
        assert_eq!(judge_offload(&all).level, Level::Ok);
        let old = OffloadStats {
            merges_udp: false,
            ..all
        };
        assert_eq!(judge_offload(&old).level, Level::Ok);
        assert_eq!(
            judge_offload(&OffloadStats::default()).level,
            Level::Warning
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_tried_where_it_would_be_made() {
        let folder = tempfile::tempdir().map(|folder| writable(&folder.path().join("a/b")));
        assert!(matches!(folder, Ok(Ok(()))));
        let refused = judge_folder(
            Path::new("/x"),
            Err(io::Error::from(ErrorKind::PermissionDenied)),
        );
        assert_eq!(refused.level, Level::Problem);
    }
}
