//! A network namespace for each test.
//!
//! A network namespace belongs to a thread: devices, netlink and `/proc/sys/net` follow the thread that asks. So each test
//! runs in a thread of its own, which leaves its namespace behind when it ends, and no test sees another's interfaces.

#![allow(clippy::print_stderr)]

use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr};

use quell_tun::os::{TunConfig, TunDevice};

/// Runs a test in a fresh network namespace with loopback up, or says why not.
pub(crate) fn in_namespace<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let thread = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            quell_tun::link::Link::open("lo")
                .await
                .unwrap()
                .up()
                .await
                .unwrap();
            test().await;
        });
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

pub(crate) fn create(name: &str, mtu: u16) -> TunDevice {
    TunDevice::create(TunConfig {
        name: Some(name.to_owned()),
        mtu,
        ..TunConfig::default()
    })
    .unwrap()
}

pub(crate) fn v4(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

pub(crate) fn v6(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}
