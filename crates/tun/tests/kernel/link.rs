//! MTU, addresses and routes over rtnetlink, each family on its own.

use std::net::IpAddr;

use quell_tun::TunError;
use quell_tun::link::{HostAddress, Link, host_addresses};
use quell_tun::os::TunDevice;

use crate::namespace::{create, in_namespace, v4, v6};

async fn up(name: &str) -> (TunDevice, Link) {
    let device = create(name, 1_500);
    let link = Link::open(name).await.unwrap();
    link.up().await.unwrap();
    link.up().await.unwrap();
    (device, link)
}

/// What the kernel would do with a packet to the address: the interface it leaves by.
fn route_interface(destination: &str) -> String {
    let output = std::process::Command::new("ip")
        .args(["-o", "route", "get", destination])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split_whitespace().skip_while(|word| *word != "dev");
    words.nth(1).unwrap_or("none").to_owned()
}

#[test]
fn the_mtu_follows_and_its_lower_bound_holds() {
    in_namespace(|| async {
        let (_device, link) = up("quell0").await;
        assert_eq!(link.mtu().await.unwrap(), 1_500);
        for mtu in [1_280, 9_000, 65_535, 1_400, 1_400] {
            link.set_mtu(mtu).await.unwrap();
            assert_eq!(link.mtu().await.unwrap(), u32::from(mtu));
        }
        assert!(matches!(
            link.set_mtu(1_279).await,
            Err(TunError::InvalidMtu { mtu: 1_279 })
        ));
        assert_eq!(link.mtu().await.unwrap(), 1_400);
    });
}

#[test]
fn an_unknown_interface_is_named_as_such() {
    in_namespace(|| async {
        for name in ["quell9", "", "a-name-of-sixteen"] {
            let error = Link::open(name).await.unwrap_err();
            assert!(matches!(error, TunError::NoSuchInterface { .. }), "{error}");
        }
        let (device, link) = up("quell0").await;
        drop(device);
        assert!(matches!(
            link.up().await,
            Err(TunError::NoSuchInterface { .. })
        ));
        assert!(matches!(
            link.mtu().await,
            Err(TunError::NoSuchInterface { .. })
        ));
    });
}

#[test]
fn an_address_is_added_once_and_removed_once_however_often_it_is_asked() {
    in_namespace(|| async {
        let (_device, link) = up("quell0").await;
        let wanted: [(IpAddr, u8); 2] = [(v4("10.9.0.1").into(), 24), (v6("fd00:9::1").into(), 64)];
        for (address, prefix_length) in wanted {
            link.add_address(address, prefix_length).await.unwrap();
            link.add_address(address, prefix_length).await.unwrap();
            let expected = HostAddress {
                interface_index: link.index(),
                address,
                prefix_length,
            };
            let count = |all: Vec<HostAddress>| all.iter().filter(|a| **a == expected).count();
            assert_eq!(count(link.addresses().await.unwrap()), 1);
            assert_eq!(count(host_addresses().await.unwrap()), 1);
        }
        // Loopback belongs to the host's addresses too.
        let all = host_addresses().await.unwrap();
        assert!(
            all.iter()
                .any(|a| a.address == IpAddr::from(v4("127.0.0.1")))
        );
        assert!(link.addresses().await.unwrap().len() < all.len());

        for (address, prefix_length) in wanted {
            link.remove_address(address, prefix_length).await.unwrap();
            link.remove_address(address, prefix_length).await.unwrap();
            assert!(
                !host_addresses()
                    .await
                    .unwrap()
                    .iter()
                    .any(|a| a.address == address)
            );
        }
    });
}

#[test]
fn an_address_with_another_prefix_length_is_no_duplicate() {
    in_namespace(|| async {
        let (_device, link) = up("quell0").await;
        link.add_address(v6("fd00:9::1").into(), 64).await.unwrap();
        let error = link
            .add_address(v6("fd00:9::1").into(), 80)
            .await
            .unwrap_err();
        assert!(matches!(error, TunError::Link { .. }), "{error}");
        let too_long = link.add_address(v4("10.9.0.1").into(), 33).await;
        assert!(matches!(
            too_long,
            Err(TunError::InvalidPrefix {
                prefix_length: 33,
                ..
            })
        ));
        link.add_address(v4("10.9.0.1").into(), 32).await.unwrap();
    });
}

// case B88
#[test]
fn with_ipv6_switched_off_ipv4_works_and_ipv6_says_why_not() {
    in_namespace(|| async {
        for scope in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
            std::fs::write(path, "1").unwrap();
        }
        let (_device, link) = up("quell0").await;
        let error = link
            .add_address(v6("fd00:9::1").into(), 64)
            .await
            .unwrap_err();
        assert!(matches!(error, TunError::Ipv6Disabled { .. }), "{error}");
        let error = link
            .replace_route((v6("fd00:a::").into(), 64), None)
            .await
            .unwrap_err();
        assert!(matches!(error, TunError::Ipv6Disabled { .. }), "{error}");
        link.remove_route((v6("fd00:a::").into(), 64), None)
            .await
            .unwrap();

        link.add_address(v4("10.9.0.1").into(), 24).await.unwrap();
        link.replace_route((v4("192.0.2.0").into(), 24), None)
            .await
            .unwrap();
        assert_eq!(route_interface("192.0.2.1"), "quell0");
        assert!(
            host_addresses()
                .await
                .unwrap()
                .iter()
                .all(|a| a.address.is_ipv4())
        );
    });
}

// case B88: and the other way round.
#[test]
fn with_ipv6_alone_ipv6_works() {
    in_namespace(|| async {
        let (_device, link) = up("quell0").await;
        link.add_address(v6("fd00:9::1").into(), 64).await.unwrap();
        link.replace_route((v6("::").into(), 0), None)
            .await
            .unwrap();
        assert_eq!(route_interface("2001:db8::1"), "quell0");
        assert!(
            link.addresses()
                .await
                .unwrap()
                .iter()
                .all(|a| a.address.is_ipv6())
        );
    });
}

#[test]
fn routes_come_go_and_are_idempotent() {
    in_namespace(|| async {
        let (_device, link) = up("quell0").await;
        link.add_address(v4("10.9.0.1").into(), 32).await.unwrap();
        link.add_address(v6("fd00:9::1").into(), 128).await.unwrap();
        let routes: [((IpAddr, u8), &str); 6] = [
            ((v4("0.0.0.0").into(), 1), "9.9.9.9"),
            ((v4("128.0.0.0").into(), 1), "192.0.2.1"),
            ((v4("198.51.100.77").into(), 24), "198.51.100.1"),
            ((v4("203.0.113.5").into(), 32), "203.0.113.5"),
            ((v6("::").into(), 1), "2001:db8::1"),
            ((v6("fd00:a::1").into(), 128), "fd00:a::1"),
        ];
        for (destination, probe) in routes {
            for metric in [None, Some(50)] {
                link.replace_route(destination, metric).await.unwrap();
                link.replace_route(destination, metric).await.unwrap();
                assert_eq!(route_interface(probe), "quell0", "{destination:?}");
                link.remove_route(destination, metric).await.unwrap();
                link.remove_route(destination, metric).await.unwrap();
                assert_ne!(route_interface(probe), "quell0", "{destination:?}");
            }
        }
        let too_long = link.replace_route((v4("10.0.0.0").into(), 33), None).await;
        assert!(matches!(too_long, Err(TunError::InvalidPrefix { .. })));
    });
}

#[test]
fn a_route_of_another_interface_is_never_overwritten() {
    in_namespace(|| async {
        let (_host, host) = up("eth-host").await;
        let (_device, link) = up("quell0").await;
        for (default, probe) in [
            (IpAddr::from(v4("0.0.0.0")), "192.0.2.1"),
            (IpAddr::from(v6("::")), "2001:db8::1"),
        ] {
            host.replace_route((default, 0), None).await.unwrap();
            let error = link.replace_route((default, 0), None).await.unwrap_err();
            assert!(matches!(error, TunError::RouteTaken { .. }), "{error}");
            assert_eq!(route_interface(probe), "eth-host");
            link.remove_route((default, 0), None).await.unwrap();
            assert_eq!(route_interface(probe), "eth-host", "only ours is removed");

            // Half the size wins by its length.
            link.replace_route((default, 1), None).await.unwrap();
            link.remove_route((default, 1), None).await.unwrap();
            host.remove_route((default, 0), None).await.unwrap();
        }
    });
}
