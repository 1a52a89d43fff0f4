//! A host without privileges: a directory that looks like `/proc`, and a script that is called `nft`.
//!
//! The directory does not do what a kernel does: writing a switch changes no other setting. Side effects are tested
//! against the kernel, in `tests/`.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use quell_host::Program;

use crate::host::Host;
use crate::sysctl::Sysctls;

/// A directory of its own for each test, removed at its end.
#[derive(Debug)]
pub(crate) struct FakeHost {
    root: PathBuf,
}

impl FakeHost {
    /// Forwards nothing; has loopback, `eth0` that believes router advertisements, and a program `nft` that succeeds.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("quell-egress-{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(root.join("bin")).unwrap();
        let host = Self { root };
        host.set("kernel/random/boot_id", "boot-1");
        host.enter_namespace("net:[1]");
        host.set("net/ipv4/ip_forward", "0");
        for interface in ["all", "default", "lo", "eth0"] {
            host.set(&format!("net/ipv4/conf/{interface}/forwarding"), "0");
            host.set(&format!("net/ipv4/conf/{interface}/accept_redirects"), "1");
            host.set(&format!("net/ipv6/conf/{interface}/forwarding"), "0");
            host.set(&format!("net/ipv6/conf/{interface}/accept_ra"), "1");
            host.set(&format!("net/ipv6/conf/{interface}/disable_ipv6"), "0");
        }
        host
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    pub(crate) fn sysctls(&self) -> Sysctls {
        Sysctls::new(&self.root.join("proc/sys"))
    }

    /// The host, with an `nft` that runs this shell script. What it writes to `nft.heard` beside itself is read by [`nft_heard`](Self::nft_heard).
    pub(crate) fn host(&self, nft_script: &str) -> Host {
        Host::new(&self.root.join("proc"), self.nft(nft_script))
    }

    pub(crate) fn nft(&self, script: &str) -> Program {
        fs::write(self.root.join("bin/nft"), format!("{script}\n")).unwrap();
        let program = self.root.join("bin/launch");
        if !program.exists() {
            let launcher =
                Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src/testing/program.sh");
            std::os::unix::fs::symlink(launcher, &program).unwrap();
        }
        Program::at("nft", [program])
    }

    pub(crate) fn nft_heard(&self) -> String {
        fs::read_to_string(self.root.join("bin/nft.heard")).unwrap_or_default()
    }

    pub(crate) fn set(&self, setting: &str, value: &str) {
        let path = self.root.join("proc/sys").join(setting);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    pub(crate) fn value(&self, setting: &str) -> String {
        fs::read_to_string(self.root.join("proc/sys").join(setting))
            .unwrap()
            .trim()
            .to_owned()
    }

    pub(crate) fn remove_setting(&self, path: &str) {
        let path = self.root.join("proc/sys").join(path);
        if path.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        }
        .unwrap();
    }

    pub(crate) fn enter_namespace(&self, name: &str) {
        let path = self.root.join("proc/thread-self/ns/net");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(name, path).unwrap();
    }

    /// All settings, as one text, to compare before and after.
    pub(crate) fn snapshot(&self) -> String {
        let mut lines = Vec::new();
        collect(&self.root.join("proc/sys"), &mut lines);
        lines.sort();
        lines.join("\n")
    }
}

fn collect(directory: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, lines);
        } else {
            lines.push(format!(
                "{} {}",
                path.display(),
                fs::read_to_string(&path).unwrap().trim()
            ));
        }
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}
