//! What an installation does to a real host's settings and rules, and that all of it is undone.

use quell_egress::{EgressError, KernelEgress};

use crate::namespace::{
    RunDir, all_settings, config, differences, in_namespace, ruleset, run, set_sysctl, sysctl,
};

/// Interfaces of several kinds: forwarding on its own, believing advertisements or not.
fn furnish() {
    run(
        "ip link add eth0 type veth peer name eth1; ip link add eth2 type veth peer name eth3; \
         for i in eth0 eth1 eth2 eth3; do ip link set $i up; done",
    );
    set_sysctl("net/ipv4/conf/eth0/forwarding", "1");
    set_sysctl("net/ipv6/conf/eth1/forwarding", "1");
    set_sysctl("net/ipv6/conf/eth2/accept_ra", "0");
    set_sysctl("net/ipv4/conf/all/accept_redirects", "0");
}

#[test]
fn every_setting_is_as_before_and_no_rule_is_left() {
    in_namespace(|| async {
        furnish();
        let run_dir = RunDir::new();
        let before = all_settings();
        assert_eq!(ruleset(), "");
        let egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        assert!(egress.forwards_ipv4() && egress.forwards_ipv6());
        assert_eq!(sysctl("net/ipv4/ip_forward"), "1");
        assert_eq!(sysctl("net/ipv6/conf/all/forwarding"), "1");
        assert_eq!(sysctl("net/ipv6/conf/eth0/accept_ra"), "2");
        assert_eq!(
            sysctl("net/ipv6/conf/eth1/accept_ra"),
            "1",
            "a router already"
        );
        assert_eq!(sysctl("net/ipv6/conf/eth2/accept_ra"), "0", "switched off");
        assert!(
            ruleset().contains("table inet quell_quell0"),
            "{}",
            ruleset()
        );
        egress.remove().unwrap();
        assert_eq!(differences(&before, &all_settings()), [] as [String; 0]);
        assert_eq!(ruleset(), "");
    });
}

#[test]
fn a_host_that_is_a_router_is_not_changed_at_all() {
    in_namespace(|| async {
        furnish();
        set_sysctl("net/ipv4/ip_forward", "1");
        set_sysctl("net/ipv6/conf/all/forwarding", "1");
        let run_dir = RunDir::new();
        let before = all_settings();
        let egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        assert_eq!(differences(&before, &all_settings()), [] as [String; 0]);
        drop(egress);
        assert_eq!(differences(&before, &all_settings()), [] as [String; 0]);
    });
}

#[test]
fn what_somebody_else_changed_meanwhile_stays() {
    in_namespace(|| async {
        furnish();
        let run_dir = RunDir::new();
        let egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        set_sysctl("net/ipv6/conf/eth0/accept_ra", "0");
        run("nft add table ip others");
        egress.remove().unwrap();
        assert_eq!(sysctl("net/ipv6/conf/eth0/accept_ra"), "0");
        assert_eq!(sysctl("net/ipv4/ip_forward"), "0");
        assert!(ruleset().contains("table ip others"));
        assert!(!ruleset().contains("quell"));
    });
}

#[test]
fn rules_that_are_there_already_are_replaced_and_not_doubled() {
    in_namespace(|| async {
        let run_dir = RunDir::new();
        run(
            "nft add table inet quell_quell0; nft add chain inet quell_quell0 forward; \
             nft add rule inet quell_quell0 forward counter drop; \
             nft 'add set inet quell_quell0 old { type ipv4_addr; }'",
        );
        let egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        let rules = ruleset();
        assert!(!rules.contains("set old"), "{rules}");
        assert_eq!(rules.matches("masquerade").count(), 2, "{rules}");
        assert_eq!(rules.matches("drop").count(), 2, "{rules}");
        egress.remove().unwrap();
        assert_eq!(ruleset(), "");
    });
}

#[test]
fn two_egresses_share_a_host_and_the_last_one_turns_the_lights_off() {
    in_namespace(|| async {
        furnish();
        let run_dir = RunDir::new();
        let before = all_settings();
        let first = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        let second = KernelEgress::install(config(run_dir.path(), "quell1")).unwrap();
        let refused = KernelEgress::install(config(run_dir.path(), "quell1"));
        assert!(matches!(refused, Err(EgressError::InUse { .. })));
        first.remove().unwrap();
        assert_eq!(sysctl("net/ipv4/ip_forward"), "1");
        assert!(ruleset().contains("quell_quell1") && !ruleset().contains("quell_quell0"));
        second.remove().unwrap();
        assert_eq!(differences(&before, &all_settings()), [] as [String; 0]);
        assert_eq!(ruleset(), "");
    });
}

// case B88
#[test]
fn with_ipv6_switched_off_the_host_is_an_egress_for_ipv4() {
    in_namespace(|| async {
        set_sysctl("net/ipv6/conf/all/disable_ipv6", "1");
        set_sysctl("net/ipv6/conf/default/disable_ipv6", "1");
        let run_dir = RunDir::new();
        let before = all_settings();
        let egress = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap();
        assert!(egress.forwards_ipv4() && !egress.forwards_ipv6());
        assert_eq!(sysctl("net/ipv6/conf/all/forwarding"), "0");
        egress.remove().unwrap();
        assert_eq!(differences(&before, &all_settings()), [] as [String; 0]);
    });
}

/// The disk is full: a file system of one page, used up.
#[test]
fn a_full_disk_is_said_and_nothing_is_changed() {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    in_namespace(|| async {
        let run_dir = RunDir::new();
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(
            None::<&str>,
            "/",
            None::<&str>,
            MsFlags::MS_REC | MsFlags::MS_PRIVATE,
            None::<&str>,
        )
        .unwrap();
        let size = Some("size=4096");
        mount(
            Some("tmpfs"),
            run_dir.path(),
            Some("tmpfs"),
            MsFlags::empty(),
            size,
        )
        .unwrap();
        std::fs::write(run_dir.path().join("used-up"), [0; 4_096]).unwrap();

        let before = all_settings();
        let error = KernelEgress::install(config(run_dir.path(), "quell0")).unwrap_err();
        let words = error.to_string();
        assert!(matches!(error, EgressError::State { .. }), "{words}");
        assert!(
            words.contains("No space left") && words.contains("egress-quell0"),
            "{words}"
        );
        assert_eq!(differences(&before, &all_settings()), [] as [String; 0]);
        assert_eq!(ruleset(), "");

        // With room again it works.
        std::fs::remove_file(run_dir.path().join("used-up")).unwrap();
        KernelEgress::install(config(run_dir.path(), "quell0"))
            .unwrap()
            .remove()
            .unwrap();
        nix::mount::umount(run_dir.path()).unwrap();
    });
}
