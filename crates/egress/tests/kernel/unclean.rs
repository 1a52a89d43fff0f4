//! A provider that is killed: the next one mends the host.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quell_egress::{EgressError, KernelEgress};

use crate::namespace::{
    RunDir, all_settings, config, differences, in_namespace, ruleset, run, sysctl,
};

/// Tells the test program that it is the child, and where.
const RUN_DIR: &str = "QUELL_EGRESS_TEST_RUN_DIR";

/// Not a test of its own: the process that is killed. It holds an egress until then.
#[test]
fn child_that_holds_an_egress() {
    let Some(run_dir) = std::env::var_os(RUN_DIR).map(PathBuf::from) else {
        return;
    };
    let _egress = KernelEgress::install(config(&run_dir, "quell0")).unwrap();
    std::fs::write(run_dir.join("ready"), "").unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

/// Starts the child in this thread's network namespace, and waits until it holds its egress.
fn start_child(run_dir: &RunDir) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "unclean::child_that_holds_an_egress"])
        .env(RUN_DIR, run_dir.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !run_dir.path().join("ready").exists() {
        assert!(Instant::now() < deadline, "the child did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// SIGKILL.
fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_provider_is_mended_by_the_next_install() {
    in_namespace(|| async {
        run("ip link add eth0 type veth peer name eth1; ip link set eth0 up");
        let run_dir = RunDir::new();
        let before = all_settings();
        let child = start_child(&run_dir);
        let held = KernelEgress::install(config(run_dir.path(), "quell0"));
        assert!(matches!(held, Err(EgressError::InUse { .. })));
        let held = KernelEgress::clean_up_stale(run_dir.path(), "quell0");
        assert!(matches!(held, Err(EgressError::InUse { .. })));
        kill(child);
        assert_eq!(sysctl("net/ipv4/ip_forward"), "1", "left behind");
        assert!(ruleset().contains("quell_quell0"));

        let egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        assert_eq!(ruleset().matches("masquerade").count(), 2);
        egress.remove().unwrap();
        assert_eq!(differences(&before, &all_settings()), [] as [String; 0]);
        assert_eq!(ruleset(), "");
    });
}

#[test]
fn a_killed_provider_is_mended_on_demand() {
    in_namespace(|| async {
        run("ip link add eth0 type veth peer name eth1; ip link set eth0 up");
        let run_dir = RunDir::new();
        let before = all_settings();
        kill(start_child(&run_dir));
        assert!(KernelEgress::clean_up_stale(run_dir.path(), "quell0").unwrap());
        assert_eq!(differences(&before, &all_settings()), [] as [String; 0]);
        assert_eq!(ruleset(), "");
        assert!(!KernelEgress::clean_up_stale(run_dir.path(), "quell0").unwrap());
    });
}
