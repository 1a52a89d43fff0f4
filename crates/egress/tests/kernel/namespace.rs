//! A network namespace for each test, and what is looked at in it.
//!
//! Devices, netlink, `/proc/sys/net` and the children of a thread follow the thread's namespace, so each test runs in a
//! thread of its own and leaves the namespace behind with it.

#![allow(clippy::print_stderr)]

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use quell_egress::EgressConfig;
use quell_tun::link::Link;

/// Runs a test in a fresh network namespace with loopback up, or says why not.
pub(crate) fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    if Command::new("nft").arg("--version").output().is_err() {
        eprintln!("skipped: needs the program nft");
        return;
    }
    let thread = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            Link::open("lo").await.unwrap().up().await.unwrap();
            test().await;
        });
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A directory that is removed with its test.
#[derive(Debug)]
pub(crate) struct RunDir(PathBuf);

impl RunDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("egress-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn config(run_dir: &Path, tun: &str) -> EgressConfig {
    EgressConfig {
        tun_name: tun.to_owned(),
        ipv4_pool: Some("10.7.0.0/16".parse().unwrap()),
        ipv6_pool: Some("fd00:7::/64".parse().unwrap()),
        masquerade: true,
        run_dir: run_dir.to_owned(),
    }
}

/// A command's output; it has to succeed.
pub(crate) fn run(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn ruleset() -> String {
    run("nft list ruleset")
}

pub(crate) fn sysctl(setting: &str) -> String {
    fs::read_to_string(Path::new("/proc/sys").join(setting))
        .unwrap()
        .trim()
        .to_owned()
}

pub(crate) fn set_sysctl(setting: &str, value: &str) {
    fs::write(Path::new("/proc/sys").join(setting), value).unwrap();
}

/// Every readable setting of both families and of each interface, to compare before and after.
pub(crate) fn all_settings() -> BTreeMap<PathBuf, String> {
    let mut settings = BTreeMap::new();
    for root in ["/proc/sys/net/ipv4", "/proc/sys/net/ipv6"] {
        collect(Path::new(root), &mut settings);
    }
    assert!(settings.len() > 200, "{}", settings.len());
    settings
}

fn collect(directory: &Path, settings: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, settings);
        } else if let Ok(value) = fs::read_to_string(&path) {
            settings.insert(path, value);
        }
    }
}

/// The settings that differ, in words.
pub(crate) fn differences(
    before: &BTreeMap<PathBuf, String>,
    after: &BTreeMap<PathBuf, String>,
) -> Vec<String> {
    let changed = before
        .iter()
        .filter(|(path, value)| after.get(*path) != Some(value));
    changed
        .map(|(path, value)| format!("{}: {value:?} -> {:?}", path.display(), after.get(path)))
        .collect()
}
