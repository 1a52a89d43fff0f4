//! Namespaces as the kernel makes them. Without root each test says that it was skipped.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use super::*;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::child::die_with_parent;
use crate::probe::{udp_echo_server, udp_round_trip};

const SECOND: Duration = Duration::from_secs(1);

fn skip() -> bool {
    let reason = unavailable();
    if let Some(reason) = &reason {
        eprintln!("skipped: {reason}");
    }
    reason.is_some()
}

fn inode() -> u64 {
    own_namespace().unwrap().metadata().unwrap().ino()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Runs the test named `name` of this binary as a program of its own, in `role`.
fn this_binary(name: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env("QUELL_LAB_TEST_ROLE", role);
    command
}

fn role() -> Option<String> {
    std::env::var("QUELL_LAB_TEST_ROLE").ok()
}

#[test]
fn work_runs_inside_and_the_caller_stays_outside() {
    if skip() {
        return;
    }
    let outside = inode();
    let namespace = Namespace::new("a").unwrap();
    let inside = namespace.run(inode).unwrap();
    assert_ne!(inside, outside);
    assert_eq!(inode(), outside);
    assert_eq!(namespace.run(inode).unwrap(), inside);
    // Threads started inside stay inside.
    assert_eq!(
        namespace
            .run(|| thread::spawn(inode).join().unwrap())
            .unwrap(),
        inside
    );
    assert_eq!(
        namespace
            .spawn_thread(inode)
            .unwrap()
            .join()
            .unwrap()
            .unwrap(),
        inside
    );
    assert_ne!(Namespace::new("b").unwrap().run(inode).unwrap(), inside);
    assert_eq!(
        Namespace::current("c").unwrap().run(inode).unwrap(),
        outside
    );
}

#[test]
fn a_panic_inside_goes_on_in_the_caller() {
    if skip() {
        return;
    }
    let namespace = Namespace::new("a").unwrap();
    let result = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        namespace.run(|| panic!("inside"))
    }));
    assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "inside");
    assert_eq!(namespace.run(|| 7).unwrap(), 7);
}

#[test]
fn the_loopback_is_up_in_both_families() {
    if skip() {
        return;
    }
    let namespace = Namespace::new("a").unwrap();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let echo = namespace.run(|| udp_echo_server(address)).unwrap().unwrap();
        let server = echo.address();
        namespace
            .run(|| udp_round_trip(server, 100, SECOND))
            .unwrap()
            .unwrap();
        // The same port of the host is another one.
        assert!(udp_round_trip(server, 100, Duration::from_millis(50)).is_err());
    }
}

#[test]
fn a_veth_pair_carries_both_families_and_counts() {
    if skip() {
        return;
    }
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let (end_a, end_b) = veth(&a, "left", &b, "right").unwrap();
    assert_eq!((end_a.name(), end_b.name()), ("left", "right"));
    for (end, v4, v6) in [
        (&end_a, "192.0.2.1", "fd00::1"),
        (&end_b, "192.0.2.2", "fd00::2"),
    ] {
        end.set_mtu(9_000).unwrap();
        end.add_address(ip(v4), 24).unwrap();
        end.add_address(ip(v6), 64).unwrap();
    }
    let before = end_b.counters().unwrap();
    for server in ["192.0.2.2:0", "[fd00::2]:0"] {
        let server: SocketAddr = server.parse().unwrap();
        let echo = b.run(|| udp_echo_server(server)).unwrap().unwrap();
        let server = echo.address();
        a.run(|| udp_round_trip(server, 8_000, SECOND))
            .unwrap()
            .unwrap();
    }
    let after = end_b.counters().unwrap();
    assert!(
        after.rx_packets >= before.rx_packets + 2 && after.rx_bytes >= before.rx_bytes + 16_000,
        "{after:?}"
    );
    assert!(
        after.tx_packets >= before.tx_packets + 2 && after.tx_bytes >= before.tx_bytes + 16_000,
        "{after:?}"
    );
    // A jumbo MTU means whole packets: fragments would be six each.
    assert!(after.rx_packets < before.rx_packets + 12, "{after:?}");

    end_a.delete().unwrap();
    assert!(matches!(
        b.iface("right"),
        Err(LabError::NoInterface { .. })
    ));
    assert!(matches!(
        end_b.counters(),
        Err(LabError::NoInterface { .. })
    ));
}

#[test]
fn an_end_that_is_down_carries_nothing_and_up_again_it_does() {
    if skip() {
        return;
    }
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let (end_a, end_b) = veth(&a, "v", &b, "v").unwrap();
    end_a.add_address(ip("192.0.2.1"), 24).unwrap();
    end_b.add_address(ip("192.0.2.2"), 24).unwrap();
    let server: SocketAddr = "192.0.2.2:0".parse().unwrap();
    let echo = b.run(|| udp_echo_server(server)).unwrap().unwrap();
    let round_trip = || {
        a.run(|| udp_round_trip(echo.address(), 10, SECOND / 4))
            .unwrap()
    };
    round_trip().unwrap();
    end_b.down().unwrap();
    round_trip().unwrap_err();
    let no_carrier = |end: &Iface| {
        matches!(
            end.wait_for_carrier(Duration::ZERO),
            Err(LabError::TimedOut { .. })
        )
    };
    eventually("the other end sees the carrier go", || no_carrier(&end_a));
    end_b.up().unwrap();
    end_a.wait_for_carrier(10 * SECOND).unwrap();
    end_b.wait_for_carrier(10 * SECOND).unwrap();
    round_trip().unwrap();
}

#[test]
fn names_are_bounded_and_taken_names_refused() {
    if skip() {
        return;
    }
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let fifteen = "x".repeat(15);
    veth(&a, &fifteen, &b, "ok").unwrap();
    assert!(veth(&a, &"y".repeat(16), &b, "long").is_err());
    assert!(b.iface("long").is_err(), "no half of a pair is left");
    assert!(veth(&a, &fifteen, &b, "again").is_err());
}

#[test]
fn routes_lead_on_nowhere_and_away() {
    if skip() {
        return;
    }
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let (end_a, end_b) = veth(&a, "v", &b, "v").unwrap();
    end_a.add_address(ip("192.0.2.1"), 24).unwrap();
    end_b.add_address(ip("192.0.2.2"), 24).unwrap();
    let far = ip("203.0.113.9");
    b.iface("lo").unwrap().add_address(far, 32).unwrap();
    let echo = b
        .run(|| udp_echo_server(SocketAddr::new(far, 0)))
        .unwrap()
        .unwrap();
    let round_trip = || {
        a.run(|| udp_round_trip(echo.address(), 10, SECOND / 4))
            .unwrap()
    };

    assert!(matches!(round_trip(), Err(LabError::Io { .. })), "no route");
    a.default_route(ip("192.0.2.2")).unwrap();
    round_trip().unwrap();
    let hole = Route {
        destination: Destination::host(far),
        target: RouteTarget::Blackhole,
        mtu: None,
    };
    a.add_route(&hole).unwrap();
    round_trip().unwrap_err();
    a.delete_route(&hole).unwrap();
    round_trip().unwrap();
    assert!(a.delete_route(&hole).is_err());
    let mixed = Route {
        destination: Destination::ALL_V6,
        target: RouteTarget::Via(far),
        mtu: None,
    };
    assert!(a.add_route(&mixed).is_err());
    assert!(
        a.default_route(ip("198.51.100.1")).is_err(),
        "a gateway that is not on-link"
    );
}

#[test]
fn sysctls_belong_to_the_namespace_and_to_net_alone() {
    if skip() {
        return;
    }
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    sysctl(&a, "net.ipv4.ip_forward", "1").unwrap();
    assert_eq!(sysctl_value(&a, "net.ipv4.ip_forward").unwrap(), "1");
    assert_eq!(sysctl_value(&b, "net.ipv4.ip_forward").unwrap(), "0");
    for key in [
        "kernel.hostname",
        "net.",
        "net..x",
        "net.../x",
        "net.ipv4/ip_forward",
        "vm.swappiness",
    ] {
        assert!(
            matches!(sysctl(&a, key, "1"), Err(LabError::Invalid(_))),
            "{key}"
        );
    }
}

#[test]
fn dropping_a_namespace_frees_its_sockets_and_the_other_end_of_its_links() {
    if skip() {
        return;
    }
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let (_, end_b) = veth(&a, "v", &b, "v").unwrap();
    drop(end_b);
    drop(b);
    eventually("the other end goes", || a.iface("v").is_err());
    a.run(|| TcpListener::bind("127.0.0.1:80").unwrap())
        .unwrap();
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < 10 * SECOND, "{what}: not within 10 s");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A role, not a test: what the next tests start as processes of their own.
#[test]
fn helper_process() {
    match role().as_deref() {
        // Reports where it is, then waits for the end of its input.
        Some("reader") => {
            eprintln!("netns {}", inode());
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        }
        // Ignores its input, as a program would that knows nothing of lifelines, but asks to die with its parent.
        Some("bound") => {
            assert!(die_with_parent().unwrap());
            eprintln!("pid {}", std::process::id());
            thread::sleep(60 * SECOND);
        }
        Some("orphan") => {
            // The variable of a parent that is not ours.
            assert!(matches!(die_with_parent(), Err(LabError::ParentGone)));
            eprintln!("refused");
        }
        // A whole lab in one process: a link into the starter's namespace, and a child inside.
        Some("lab") => {
            let here = Namespace::current("here").unwrap();
            let inside = Namespace::new("inside").unwrap();
            veth(&here, "held", &inside, "v").unwrap();
            let mut command = this_binary("netns::tests::helper_process", "bound");
            command.stderr(Stdio::inherit());
            let _child = inside.spawn(command).unwrap();
            thread::sleep(60 * SECOND);
        }
        _ => {}
    }
}

fn helper(namespace: &Namespace, role: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command = this_binary("netns::tests::helper_process", role);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = namespace.spawn(command).unwrap();
    let lines = BufReader::new(child.take_stderr().unwrap())
        .lines()
        .map_while(Result::ok);
    (child, lines)
}

fn is_running(pid: u32) -> bool {
    // A zombie is not running; whoever reaps it is none of our business.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('Z'))
    })
}

#[test]
fn a_child_lives_inside_and_ends_with_its_lifeline() {
    if skip() {
        return;
    }
    let namespace = Namespace::new("a").unwrap();
    let (child, mut lines) = helper(&namespace, "reader");
    let inside = format!("netns {}", namespace.run(inode).unwrap());
    assert!(lines.any(|line| line == inside));
    // SIGTERM would end it too, so the lifeline alone is tried: an orderly end, not one by a signal.
    let mut child = child;
    assert!(matches!(
        child.wait(Duration::from_millis(50)),
        Err(LabError::TimedOut { .. })
    ));
    child.close_lifeline();
    assert!(child.wait(10 * SECOND).unwrap().success());
}

#[test]
fn dropping_the_guard_or_the_namespace_ends_the_child() {
    if skip() {
        return;
    }
    let namespace = Namespace::new("a").unwrap();
    let (child, mut lines) = helper(&namespace, "bound");
    assert!(lines.any(|line| line.starts_with("pid ")));
    let pid = child.id();
    assert!(is_running(pid));
    drop(child);
    assert!(!is_running(pid));

    let (child, mut lines) = helper(&namespace, "bound");
    assert!(lines.any(|line| line.starts_with("pid ")));
    drop(namespace);
    eventually("the child goes with the namespace's thread", || {
        !is_running(child.id())
    });
}

#[test]
fn a_child_is_asked_before_it_is_killed() {
    if skip() {
        return;
    }
    let namespace = Namespace::new("a").unwrap();
    let (child, mut lines) = helper(&namespace, "bound");
    assert!(lines.any(|line| line.starts_with("pid ")));
    let status = child.stop(10 * SECOND).unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
    assert!(namespace.spawn(Command::new("/no/such/program")).is_err());
}

#[test]
fn one_whose_parent_is_gone_is_told_so() {
    let mut command = this_binary("netns::tests::helper_process", "orphan");
    let output = command.env("QUELL_LAB_PARENT", "1").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("refused"));
    assert!(
        !die_with_parent().unwrap(),
        "this process was not started by a lab"
    );
}

#[test]
fn kill_9_leaves_nothing_behind() {
    if skip() {
        return;
    }
    let outer = Namespace::new("outer").unwrap();
    let (mut lab, mut lines) = helper(&outer, "lab");
    let pid: u32 = lines
        .find_map(|line| line.strip_prefix("pid ")?.parse().ok())
        .unwrap();
    assert!(outer.iface("held").is_ok());
    assert!(is_running(pid));
    lab.signal(crate::child::Signal::SIGKILL).unwrap();
    eventually("the child inside goes", || !is_running(pid));
    eventually("the namespace goes, and its link with it", || {
        outer.iface("held").is_err()
    });
    // Nothing of ours was ever in the file system.
    let named = fs::read_dir("/var/run/netns").map_or(0, |entries| {
        entries
            .flatten()
            .filter(|entry| {
                ["outer", "inside"]
                    .iter()
                    .any(|label| entry.file_name() == *label)
            })
            .count()
    });
    assert_eq!(named, 0);
}
