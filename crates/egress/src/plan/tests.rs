//! Planning, applying and putting back, against a directory of settings without a kernel's side effects.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::testing::FakeHost;

const BOTH: [Family; 2] = [Family::V4, Family::V6];

fn change(key: Key, previous: i32, set: i32) -> Change {
    Change { key, previous, set }
}

#[test]
fn a_host_that_forwards_nothing_gets_both_switches_in_the_right_order() {
    let host = FakeHost::new();
    let changes = plan(&host.sysctls(), &BOTH, "quell0").unwrap();
    let expected = [
        change(Key::forward_all(Family::V4), 0, 1),
        change(Key::accept_redirects_all(), 1, 0),
        // Router advertisements before the switch that would delete what they brought.
        change(Key::accept_ra("default"), 1, 2),
        change(Key::accept_ra("eth0"), 1, 2),
        change(Key::forward_all(Family::V6), 0, 1),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn only_what_was_believed_until_then_is_believed_on() {
    let host = FakeHost::new();
    for (interface, accept_ra, forwarding) in [
        ("off0", "0", "0"),
        ("two0", "2", "0"),
        ("router0", "1", "1"),
        ("quell0", "1", "0"),
    ] {
        host.set(&format!("net/ipv6/conf/{interface}/accept_ra"), accept_ra);
        host.set(&format!("net/ipv6/conf/{interface}/forwarding"), forwarding);
    }
    let changes = plan(&host.sysctls(), &[Family::V6], "quell0").unwrap();
    let believed: Vec<_> = changes.iter().filter(|change| change.set == 2).collect();
    assert_eq!(
        believed,
        [
            &change(Key::accept_ra("default"), 1, 2),
            &change(Key::accept_ra("eth0"), 1, 2)
        ]
    );
    // One interface was a router before, and is again when the switch goes back.
    assert!(changes.contains(&change(Key::forward(Family::V6, "router0"), 1, 1)));
}

#[test]
fn a_switch_that_is_on_is_remembered_and_nothing_is_written() {
    let host = FakeHost::new();
    host.set("net/ipv4/ip_forward", "1");
    host.set("net/ipv6/conf/all/forwarding", "1");
    let changes = plan(&host.sysctls(), &BOTH, "quell0").unwrap();
    assert_eq!(changes.len(), 2);
    let before = host.snapshot();
    apply(&host.sysctls(), &changes).unwrap();
    assert_eq!(host.snapshot(), before);
    restore(&host.sysctls(), &changes).unwrap();
    assert_eq!(host.snapshot(), before);
}

// case B88
#[test]
fn a_kernel_without_ipv6_is_planned_for_ipv4() {
    let host = FakeHost::new();
    host.remove_setting("net/ipv6");
    let changes = plan(&host.sysctls(), &BOTH, "quell0").unwrap();
    assert_eq!(changes.len(), 2);
    apply(&host.sysctls(), &changes).unwrap();
    assert_eq!(host.value("net/ipv4/ip_forward"), "1");
}

#[test]
fn what_is_applied_is_put_back() {
    let host = FakeHost::new();
    host.set("net/ipv4/conf/eth0/forwarding", "1");
    let before = host.snapshot();
    let changes = plan(&host.sysctls(), &BOTH, "quell0").unwrap();
    apply(&host.sysctls(), &changes).unwrap();
    assert_ne!(host.snapshot(), before);
    apply(&host.sysctls(), &changes).unwrap();
    restore(&host.sysctls(), &changes).unwrap();
    assert_eq!(host.snapshot(), before);
    restore(&host.sysctls(), &changes).unwrap();
    assert_eq!(host.snapshot(), before, "twice is once");
}

#[test]
fn what_somebody_else_changed_meanwhile_stays() {
    let host = FakeHost::new();
    let changes = plan(&host.sysctls(), &BOTH, "quell0").unwrap();
    apply(&host.sysctls(), &changes).unwrap();
    host.set("net/ipv6/conf/eth0/accept_ra", "0");
    host.set("net/ipv4/ip_forward", "2");
    restore(&host.sysctls(), &changes).unwrap();
    assert_eq!(host.value("net/ipv6/conf/eth0/accept_ra"), "0");
    assert_eq!(host.value("net/ipv4/ip_forward"), "2");
    assert_eq!(
        host.value("net/ipv6/conf/default/accept_ra"),
        "1",
        "the rest is put back"
    );
}

#[test]
fn an_interface_that_is_gone_is_no_trouble() {
    let host = FakeHost::new();
    let changes = plan(&host.sysctls(), &BOTH, "quell0").unwrap();
    apply(&host.sysctls(), &changes).unwrap();
    host.remove_setting("net/ipv6/conf/eth0");
    restore(&host.sysctls(), &changes).unwrap();
    assert_eq!(host.value("net/ipv4/ip_forward"), "0");
}

#[test]
fn an_error_does_not_keep_the_rest_from_being_put_back() {
    let host = FakeHost::new();
    let changes = plan(&host.sysctls(), &BOTH, "quell0").unwrap();
    apply(&host.sysctls(), &changes).unwrap();
    host.set("net/ipv4/ip_forward", "damaged");
    assert!(restore(&host.sysctls(), &changes).is_err());
    assert_eq!(host.value("net/ipv6/conf/all/forwarding"), "0");
    assert_eq!(host.value("net/ipv6/conf/eth0/accept_ra"), "1");
}

#[test]
fn the_older_memory_of_a_setting_is_handed_over() {
    let switch = Key::forward_all(Family::V4);
    let redirects = Key::accept_redirects_all();
    let first = vec![
        change(switch.clone(), 0, 1),
        change(redirects.clone(), 1, 0),
    ];
    let second = vec![change(switch.clone(), 1, 1)];

    // The first leaves: the second learns what was there before either.
    let mut staying = second.clone();
    hand_over(&first, &mut staying);
    assert_eq!(
        staying,
        [change(switch.clone(), 0, 1), change(redirects, 1, 0)]
    );
    hand_over(&first, &mut staying);
    assert_eq!(staying, first, "twice is once");

    // The second leaves: the first knows more already.
    let mut staying = first.clone();
    hand_over(&second, &mut staying);
    assert_eq!(staying, first);
}
