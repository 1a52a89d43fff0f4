//! The whole life of an egress without privileges: order, roll-back, mending, several at once.

#![allow(clippy::unwrap_used)]

use std::fs;

use super::*;
use crate::testing::FakeHost;

/// An nft that notes each script, and what the switches were at that time.
const NFT: &str = r##"{ cat; echo "# ip_forward $(cat "${0%/*}/../proc/sys/net/ipv4/ip_forward")"; } >> "${0%/*}/nft.heard""##;

fn config(fake: &FakeHost, tun: &str) -> EgressConfig {
    EgressConfig {
        tun_name: tun.to_owned(),
        ipv4_pool: Some("10.7.0.0/16".parse().unwrap()),
        ipv6_pool: Some("fd00:7::/64".parse().unwrap()),
        masquerade: true,
        run_dir: fake.run_dir(),
    }
}

fn install(fake: &FakeHost, tun: &str) -> Result<KernelEgress, EgressError> {
    KernelEgress::install_on(fake.host(NFT), config(fake, tun))
}

/// As if the process were killed: locks are released, nothing else is done.
fn kill(mut egress: KernelEgress) {
    egress.owner = None;
}

fn state_files(fake: &FakeHost) -> usize {
    let files = fs::read_dir(fake.run_dir()).unwrap();
    files
        .filter(|f| {
            f.as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|e| e == "json")
        })
        .count()
}

#[test]
fn an_egress_comes_and_goes_and_the_host_is_as_before() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    let egress = install(&fake, "quell0").unwrap();
    assert!(egress.forwards_ipv4() && egress.forwards_ipv6());
    assert_eq!(fake.value("net/ipv4/ip_forward"), "1");
    assert_eq!(fake.value("net/ipv6/conf/all/forwarding"), "1");
    assert_eq!(fake.value("net/ipv6/conf/eth0/accept_ra"), "2");
    assert_eq!(state_files(&fake), 1);
    egress.remove().unwrap();
    assert_eq!(fake.snapshot(), before);
    assert_eq!(state_files(&fake), 0);

    // No packet is forwarded without rules: they come before forwarding, and go after it.
    let heard = fake.nft_heard();
    let forwarding: Vec<_> = heard.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(forwarding, ["# ip_forward 0", "# ip_forward 0"], "{heard}");
}

#[test]
fn dropping_an_egress_removes_it() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    drop(install(&fake, "quell0").unwrap());
    assert_eq!(fake.snapshot(), before);
    assert_eq!(state_files(&fake), 0);
}

#[test]
fn an_unclean_exit_is_mended_by_the_next_install() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    kill(install(&fake, "quell0").unwrap());
    assert_ne!(fake.snapshot(), before);
    let second = install(&fake, "quell0").unwrap();
    second.remove().unwrap();
    assert_eq!(fake.snapshot(), before, "what was before the first");
}

#[test]
fn an_unclean_exit_is_mended_on_demand_once() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    kill(install(&fake, "quell0").unwrap());
    let clean_up = || KernelEgress::clean_up_stale_on(&fake.host(NFT), &fake.run_dir(), "quell0");
    assert!(clean_up().unwrap());
    assert_eq!(fake.snapshot(), before);
    assert!(fake.nft_heard().contains("delete table inet quell_quell0"));
    assert!(!clean_up().unwrap());
}

#[test]
fn an_unclean_exit_under_another_name_is_mended_too() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    kill(install(&fake, "old0").unwrap());
    let renamed = install(&fake, "new0").unwrap();
    assert_eq!(state_files(&fake), 1);
    renamed.remove().unwrap();
    assert_eq!(fake.snapshot(), before);
}

#[test]
fn an_egress_in_use_is_left_alone() {
    let fake = FakeHost::new();
    let _first = install(&fake, "quell0").unwrap();
    let during = fake.snapshot();
    assert!(matches!(
        install(&fake, "quell0"),
        Err(EgressError::InUse { .. })
    ));
    let clean_up = KernelEgress::clean_up_stale_on(&fake.host(NFT), &fake.run_dir(), "quell0");
    assert!(matches!(clean_up, Err(EgressError::InUse { .. })));
    assert_eq!(fake.snapshot(), during);
    assert_eq!(state_files(&fake), 1);
}

#[test]
fn the_last_egress_turns_the_lights_off_whichever_leaves_first() {
    for first_leaves_first in [true, false] {
        let fake = FakeHost::new();
        let before = fake.snapshot();
        let first = install(&fake, "quell0").unwrap();
        let second = install(&fake, "quell1").unwrap();
        let (leaving, staying) = if first_leaves_first {
            (first, second)
        } else {
            (second, first)
        };
        leaving.remove().unwrap();
        assert_eq!(fake.value("net/ipv4/ip_forward"), "1", "one still needs it");
        assert_eq!(fake.value("net/ipv6/conf/eth0/accept_ra"), "2");
        staying.remove().unwrap();
        assert_eq!(fake.snapshot(), before);
    }
}

#[test]
fn mending_one_egress_does_not_cut_off_a_living_one() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    let first = install(&fake, "quell0").unwrap();
    let second = install(&fake, "quell1").unwrap();
    kill(first);
    let third = install(&fake, "quell0").unwrap();
    assert_eq!(fake.value("net/ipv4/ip_forward"), "1");
    third.remove().unwrap();
    assert_eq!(fake.value("net/ipv4/ip_forward"), "1");
    second.remove().unwrap();
    assert_eq!(fake.snapshot(), before);
}

#[test]
fn a_refusal_of_the_rules_changes_nothing() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    let refusing = fake.host("grep -q masquerade && { echo no such chain >&2; exit 1; }; exit 0");
    let error = KernelEgress::install_on(refusing, config(&fake, "quell0")).unwrap_err();
    assert!(error.to_string().contains("no such chain"), "{error}");
    assert_eq!(fake.snapshot(), before);
    assert_eq!(state_files(&fake), 0);
}

#[test]
fn a_setting_that_cannot_be_made_rolls_back_all() {
    let fake = FakeHost::new();
    // The IPv4 switch goes through, the one of IPv6 does not: it is a directory for who opens it to write.
    let host = fake.host(&format!(
        "{NFT}; p=\"${{0%/*}}/../proc/sys/net/ipv6/conf/all/forwarding\"; \
         rm -rf $p; mkdir -p $p"
    ));
    let error = KernelEgress::install_on(host, config(&fake, "quell0")).unwrap_err();
    assert!(
        error.to_string().contains("net.ipv6.conf.all.forwarding"),
        "{error}"
    );
    assert_eq!(fake.value("net/ipv4/ip_forward"), "0");
    assert_eq!(fake.value("net/ipv6/conf/eth0/accept_ra"), "1");
}

#[test]
fn what_cannot_be_rolled_back_is_kept_for_the_next_start() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    let broken = KernelEgress::install_on(fake.host("exit 1"), config(&fake, "quell0"));
    assert!(matches!(broken, Err(EgressError::Nft { .. })));
    assert_eq!(state_files(&fake), 1, "the table could not be removed");
    install(&fake, "quell0").unwrap().remove().unwrap();
    assert_eq!(fake.snapshot(), before);
    assert_eq!(state_files(&fake), 0);
}

#[test]
fn a_damaged_state_file_stops_the_installation_before_it_changes_anything() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    fs::create_dir_all(fake.run_dir()).unwrap();
    fs::write(fake.run_dir().join("egress-quell0.json"), "{").unwrap();
    let error = install(&fake, "quell0").unwrap_err();
    assert!(matches!(error, EgressError::StateCorrupt { .. }), "{error}");
    assert_eq!(fake.snapshot(), before);
    assert_eq!(fake.nft_heard(), "");

    // Another TUN's damaged file is not this one's trouble.
    install(&fake, "quell1").unwrap().remove().unwrap();
    assert_eq!(fake.snapshot(), before);
}

#[test]
fn a_run_directory_that_cannot_be_made_is_named() {
    let fake = FakeHost::new();
    fs::write(fake.run_dir(), "a file").unwrap();
    let error = install(&fake, "quell0").unwrap_err();
    assert!(error.to_string().contains("/run"), "{error}");
}

#[test]
fn a_file_of_an_earlier_boot_or_another_namespace_is_not_obeyed() {
    for change_realm in [
        (|fake: &FakeHost| fake.set("kernel/random/boot_id", "boot-2")) as fn(&FakeHost),
        |fake| fake.enter_namespace("net:[2]"),
    ] {
        let fake = FakeHost::new();
        kill(install(&fake, "quell0").unwrap());
        change_realm(&fake);
        // Since then somebody has made the host a router.
        assert_eq!(fake.value("net/ipv4/ip_forward"), "1");
        install(&fake, "quell0").unwrap().remove().unwrap();
        assert_eq!(fake.value("net/ipv4/ip_forward"), "1");
        assert_eq!(state_files(&fake), 0);
    }
}

#[test]
fn an_egress_of_another_namespace_is_left_for_it() {
    let fake = FakeHost::new();
    kill(install(&fake, "quell0").unwrap());
    fake.enter_namespace("net:[2]");
    install(&fake, "quell1").unwrap().remove().unwrap();
    assert_eq!(state_files(&fake), 1);
}

#[test]
fn without_masquerade_nft_is_not_needed() {
    let fake = FakeHost::new();
    let before = fake.snapshot();
    let mut host = fake.host("");
    host.nft = quell_host::Program::at("nft", []);
    let with = KernelEgress::install_on(host.clone(), config(&fake, "quell0"));
    assert!(matches!(with, Err(EgressError::NftMissing)));
    fs::remove_dir_all(fake.run_dir()).unwrap();
    assert_eq!(fake.snapshot(), before);

    let plain = EgressConfig {
        masquerade: false,
        ..config(&fake, "quell0")
    };
    let egress = KernelEgress::install_on(host, plain).unwrap();
    assert_eq!(fake.value("net/ipv4/ip_forward"), "1");
    egress.remove().unwrap();
    assert_eq!(fake.snapshot(), before);
}

// case B88
#[test]
fn a_host_without_ipv6_is_an_egress_for_ipv4() {
    for switch_off in [
        (|fake: &FakeHost| fake.remove_setting("net/ipv6")) as fn(&FakeHost),
        |fake| fake.set("net/ipv6/conf/all/disable_ipv6", "1"),
    ] {
        let fake = FakeHost::new();
        switch_off(&fake);
        let before = fake.snapshot();
        let egress = install(&fake, "quell0").unwrap();
        assert!(egress.forwards_ipv4() && !egress.forwards_ipv6());
        assert!(!fake.nft_heard().contains("ip6 saddr"));
        egress.remove().unwrap();
        assert_eq!(fake.snapshot(), before);

        let only_ipv6 = EgressConfig {
            ipv4_pool: None,
            ..config(&fake, "quell0")
        };
        let error = KernelEgress::install_on(fake.host(NFT), only_ipv6).unwrap_err();
        assert!(matches!(error, EgressError::Ipv6Unavailable));
    }
}

// case B88
#[test]
fn each_family_alone_touches_nothing_of_the_other() {
    let fake = FakeHost::new();
    let only = |ipv4: bool| EgressConfig {
        ipv4_pool: config(&fake, "quell0").ipv4_pool.filter(|_| ipv4),
        ipv6_pool: config(&fake, "quell0").ipv6_pool.filter(|_| !ipv4),
        ..config(&fake, "quell0")
    };
    let egress = KernelEgress::install_on(fake.host(NFT), only(true)).unwrap();
    assert_eq!(fake.value("net/ipv6/conf/all/forwarding"), "0");
    assert_eq!(fake.value("net/ipv6/conf/eth0/accept_ra"), "1");
    drop(egress);
    let egress = KernelEgress::install_on(fake.host(NFT), only(false)).unwrap();
    assert_eq!(fake.value("net/ipv4/ip_forward"), "0");
    assert!(!egress.forwards_ipv4() && egress.forwards_ipv6());
}

#[test]
fn pools_are_checked_before_anything_else() {
    let fake = FakeHost::new();
    let with = |ipv4: Option<&str>, ipv6: Option<&str>| {
        let parse = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        let pools = EgressConfig {
            ipv4_pool: parse(ipv4),
            ipv6_pool: parse(ipv6),
            ..config(&fake, "quell0")
        };
        KernelEgress::install_on(fake.host(NFT), pools).map(drop)
    };
    assert!(matches!(with(None, None), Err(EgressError::NoPool)));
    for (ipv4, ipv6) in [
        (Some("10.0.0.0/7"), None),
        (Some("0.0.0.0/0"), None),
        (None, Some("fc00::/7")),
        (Some("fd00::/8"), None),
        (None, Some("10.0.0.0/8")),
    ] {
        assert!(
            matches!(with(ipv4, ipv6), Err(EgressError::InvalidPool { .. })),
            "{ipv4:?} {ipv6:?}"
        );
    }
    assert!(!fake.run_dir().exists());
    with(Some("10.0.0.0/8"), Some("fd00::/8")).unwrap();
    with(Some("10.0.0.1/32"), Some("fd00::1/128")).unwrap();
}

#[test]
fn a_bad_name_is_refused() {
    let fake = FakeHost::new();
    for name in ["", "a b", "a\"", "../x", "sixteen-bytes-xx"] {
        assert!(
            matches!(install(&fake, name), Err(EgressError::InvalidName { .. })),
            "{name}"
        );
    }
}
