//! The settings: what is allowed, up to where, and what is not shown.

#![allow(clippy::unwrap_used)]

use super::*;

fn listening(address: &str) -> ProxyConfig {
    ProxyConfig {
        socks5: Some(address.parse().unwrap()),
        ..ProxyConfig::default()
    }
}

fn named() -> Option<Credentials> {
    Some(Credentials {
        username: "ada".into(),
        password: Zeroizing::new("secret".into()),
    })
}

fn refused(config: ProxyConfig) -> &'static str {
    let error = config.try_new().unwrap_err();
    let ProxyError::InvalidSetting { key, .. } = error else {
        panic!("{error}");
    };
    key
}

#[test]
fn the_network_is_let_in_with_a_password_alone() {
    for address in ["127.0.0.1:0", "127.8.0.1:1080", "[::1]:1080"] {
        assert!(listening(address).try_new().is_ok(), "{address}");
    }
    for address in [
        "0.0.0.0:1080",
        "[::]:1080",
        "192.0.2.1:1080",
        "[::ffff:127.0.0.1]:1",
    ] {
        assert_eq!(refused(listening(address)), "proxy.socks5", "{address}");
        let http = ProxyConfig {
            http: listening(address).socks5,
            ..ProxyConfig::default()
        };
        assert_eq!(refused(http), "proxy.http", "{address}");
        let protected = ProxyConfig {
            credentials: named(),
            ..listening(address)
        };
        assert!(protected.try_new().is_ok(), "{address}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert_eq!(refused(ProxyConfig::default()), "proxy");
    let with = |change: fn(&mut ProxyConfig)| {
        let mut config = ProxyConfig {
            credentials: named(),
            ..listening("127.0.0.1:0")
        };
        change(&mut config);
        config
    };
    let credentials = |username: String, password: String| {
        let mut config = listening("127.0.0.1:0");
        config.credentials = Some(Credentials {
            username,
            password: Zeroizing::new(password),
        });
        config
    };
    assert!(
        credentials("a".repeat(255), "b".repeat(255))
            .try_new()
            .is_ok()
    );
    assert_eq!(
        refused(credentials("a".repeat(256), "b".into())),
        "proxy.username"
    );
    assert_eq!(
        refused(credentials("a:b".into(), "b".into())),
        "proxy.username"
    );
    assert_eq!(
        refused(credentials(String::new(), "b".into())),
        "proxy.username"
    );
    assert_eq!(
        refused(credentials("a".into(), "b".repeat(256))),
        "proxy.password_file"
    );
    assert_eq!(
        refused(credentials("a".into(), String::new())),
        "proxy.password_file"
    );
    assert_eq!(refused(with(|c| c.dns_servers.clear())), "proxy.dns");
    let eight = |c: &mut ProxyConfig| c.dns_servers = vec![DNS_SERVERS[0]; 8];
    assert!(with(eight).try_new().is_ok());
    assert_eq!(
        refused(with(|c| c.dns_servers = vec![DNS_SERVERS[0]; 9])),
        "proxy.dns"
    );
    let multicast = |c: &mut ProxyConfig| c.dns_servers = vec!["224.0.0.251:53".parse().unwrap()];
    assert_eq!(refused(with(multicast)), "proxy.dns");
}

#[test]
fn a_password_is_not_shown() {
    let shown = format!("{:?}", named());
    assert!(
        !shown.contains("secret") && !shown.contains("ada"),
        "{shown}"
    );
}

type Change = fn(&mut ProxyLimits);

#[test]
fn each_range_ends_where_it_says() {
    let s = Duration::from_secs;
    assert_eq!(s(30), ProxyLimits::default().connect_timeout);
    let cases: [(&str, Change, Change); 13] = [
        (
            "connections_max",
            |c| c.connections_max = 65_536,
            |c| c.connections_max = 65_537,
        ),
        ("flows_max", |c| c.flows_max = 1, |c| c.flows_max = 0),
        (
            "associations_max",
            |c| c.associations_max = 4_096,
            |c| c.associations_max = 4_097,
        ),
        (
            "tcp_buffer_bytes",
            |c| c.tcp_buffer_bytes = 16_384,
            |c| c.tcp_buffer_bytes = 16_383,
        ),
        (
            "handshake_timeout",
            |c| c.handshake_timeout = Duration::from_secs(60),
            |c| c.handshake_timeout = Duration::from_secs(61),
        ),
        (
            "session_wait",
            |c| c.session_wait = Duration::ZERO,
            |c| c.session_wait = Duration::from_secs(61),
        ),
        (
            "connect_timeout",
            |c| c.connect_timeout = Duration::from_secs(1),
            |c| c.connect_timeout = Duration::from_millis(999),
        ),
        (
            "connect_head_start",
            |c| c.connect_head_start = Duration::from_millis(100),
            |c| c.connect_head_start = Duration::from_millis(99),
        ),
        (
            "tcp_idle",
            |c| c.tcp_idle = Duration::from_secs(60),
            |c| c.tcp_idle = Duration::from_secs(59),
        ),
        (
            "tcp_idle_transitory",
            |c| c.tcp_idle_transitory = Duration::from_secs(3_600),
            |c| c.tcp_idle_transitory = Duration::from_secs(3_601),
        ),
        (
            "dns_timeout",
            |c| c.dns_timeout = Duration::from_secs(30),
            |c| c.dns_timeout = Duration::from_secs(31),
        ),
        ("dns_tries", |c| c.dns_tries = 8, |c| c.dns_tries = 9),
        (
            "dns_cache_max",
            |c| c.dns_cache_max = 0,
            |c| c.dns_cache_max = 65_537,
        ),
    ];
    for (name, inside, outside) in cases {
        let changed = |change: Change| {
            let mut limits = ProxyLimits::default();
            change(&mut limits);
            limits.try_new()
        };
        assert!(changed(inside).is_ok(), "{name}");
        match changed(outside) {
            Err(ProxyError::InvalidSetting { key, .. }) => assert_eq!(key, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}
