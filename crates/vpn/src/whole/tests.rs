//! The order of things, with programs that only write down what they were told.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use quell_host::Program;
use tempfile::TempDir;

use super::*;

struct Fake {
    folder: TempDir,
    host: Host,
}

impl Fake {
    /// A host with both families, strict about the way back, whose programs succeed.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src/testing/program.sh");
        let program = |name: &'static str| {
            let bin = root.join(name);
            fs::create_dir(&bin).unwrap();
            let heard = root.join("heard").display().to_string();
            let script = format!("{{ echo \"{name} $@\"; cat; }} >> {heard}\n");
            fs::write(bin.join("nft"), script).unwrap();
            symlink(&launcher, bin.join("launch")).unwrap();
            Program::at(name, [bin.join("launch")])
        };
        let host = Host {
            proc_root: root.join("proc"),
            resolved: root.join("resolve"),
            ip: program("ip"),
            nft: program("nft"),
            resolvectl: program("resolvectl"),
        };
        let fake = Self { folder, host };
        fake.write("proc/sys/kernel/random/boot_id", "boot-1");
        fake.write("proc/sys/net/ipv6/conf/all/disable_ipv6", "0");
        fake.write("proc/sys/net/ipv4/conf/all/src_valid_mark", "0");
        fake.write("proc/sys/net/ipv4/conf/eth0/rp_filter", "1");
        fake.write("resolv.conf", "nameserver 192.0.2.53");
        fs::create_dir_all(fake.folder.path().join("proc/thread-self/ns")).unwrap();
        symlink(
            "net:[1]",
            fake.folder.path().join("proc/thread-self/ns/net"),
        )
        .unwrap();
        fake
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn read(&self, path: &str) -> String {
        let text = fs::read_to_string(self.folder.path().join(path));
        text.unwrap_or_default().trim().to_owned()
    }

    /// What the programs were told since the last call.
    fn heard(&self) -> String {
        let heard = self.read("heard");
        let _ = fs::remove_file(self.folder.path().join("heard"));
        heard
    }

    fn config(&self, fail_closed: bool) -> VpnConfig {
        VpnConfig {
            tun_name: "quell-none0".to_owned(),
            routes: ["0.0.0.0/0", "::/0"]
                .map(|route| route.parse().unwrap())
                .into(),
            exclude: Vec::new(),
            providers: None,
            dns: vec!["9.9.9.9".parse().unwrap()],
            fail_closed,
            allow_lan: false,
            mark: 6_610,
            resolv_conf: self.folder.path().join("resolv.conf"),
            run_dir: self.folder.path().join("run"),
            state_dir: self.folder.path().join("state"),
        }
    }

    fn install(&self, config: &VpnConfig) -> Result<Vpn, VpnError> {
        Vpn::install_on(self.host.clone(), config)
    }

    fn take_back(&self, config: &VpnConfig) -> Result<bool, VpnError> {
        take_back_on(&self.host, config, Duration::ZERO)
    }

    fn state_files(&self) -> usize {
        let folder = fs::read_dir(self.folder.path().join("run")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".json")).count()
    }
}

fn carried() -> Carried {
    Carried {
        ipv4: Some("10.85.0.2".parse().unwrap()),
        ipv6: None,
    }
}

fn order(text: &str, parts: &[&str]) {
    let at = |part: &&str| {
        text.find(part)
            .unwrap_or_else(|| panic!("{part} in {text}"))
    };
    let found: Vec<_> = parts.iter().map(at).collect();
    assert!(found.is_sorted(), "{parts:?} in {text}");
}

#[test]
fn a_host_that_is_not_closed_is_led_with_its_first_session_and_put_back_at_the_end() {
    let fake = Fake::new();
    let mut vpn = fake.install(&fake.config(false)).unwrap();
    let installed = fake.heard();
    assert!(!installed.contains("rule add") && !installed.contains("policy drop"));
    assert_eq!(fake.read("proc/sys/net/ipv4/conf/all/src_valid_mark"), "1");
    vpn.follow(carried()).unwrap();
    order(
        &fake.heard(),
        &[
            "inside4 { 10.85.0.2 }",
            "rule add not fwmark 6610",
            "route replace 0.0.0.0/0 dev quell-none0 table 6610",
            "route replace default dev quell-none0 metric 4000 table 6610",
        ],
    );
    assert!(fake.read("resolv.conf").contains("9.9.9.9"));
    vpn.end().unwrap();
    order(
        &fake.heard(),
        &[
            "rule del not fwmark",
            "route flush table",
            "delete table inet",
        ],
    );
    assert_eq!(fake.read("resolv.conf"), "nameserver 192.0.2.53");
    assert_eq!(fake.read("proc/sys/net/ipv4/conf/all/src_valid_mark"), "0");
    assert_eq!(fake.state_files(), 0);
}

#[test]
fn a_closed_host_is_closed_before_all_else_and_stays_so_until_it_is_taken_back() {
    let fake = Fake::new();
    let config = fake.config(true);
    let vpn = fake.install(&config).unwrap();
    order(
        &fake.heard(),
        &[
            "policy drop",
            "route replace unreachable",
            "rule add not fwmark",
        ],
    );
    assert!(matches!(
        fake.take_back(&config),
        Err(VpnError::InUse { .. })
    ));
    vpn.end().unwrap();
    assert_eq!(fake.heard(), "", "an end is no wish to be seen");
    assert_eq!(fake.state_files(), 1);
    assert!(fake.take_back(&config).unwrap());
    order(
        &fake.heard(),
        &["rule del", "delete table inet quellvpn_quell_2dnone0"],
    );
    assert_eq!(fake.state_files(), 0);
    assert!(!fake.take_back(&config).unwrap(), "there is nothing left");
}

#[test]
fn between_one_that_was_killed_and_the_next_the_firewall_is_never_away() {
    let fake = Fake::new();
    let config = fake.config(true);
    let mut killed = fake.install(&config).unwrap();
    killed.follow(carried()).unwrap();
    drop(killed);
    fake.heard();
    let next = fake.install(&config).unwrap();
    let heard = fake.heard();
    // Each removal of the table stands in a transaction that installs it anew.
    let scripts = heard.split("nft -f -\n").skip(1);
    for script in scripts.filter(|script| script.contains("delete table")) {
        assert!(script.contains("policy drop"), "{script}");
    }
    order(&heard, &["policy drop", "rule del", "rule add"]);
    assert_eq!(fake.read("resolv.conf"), "nameserver 192.0.2.53");
    // One whose start fails leaves it closed, since it was.
    next.abandon().unwrap();
    assert!(!fake.heard().contains("delete table"));
    assert!(fake.take_back(&config).unwrap());
    assert_eq!(fake.read("proc/sys/net/ipv4/conf/all/src_valid_mark"), "0");
}

#[test]
fn a_first_start_that_fails_leaves_the_host_as_it_was() {
    let fake = Fake::new();
    let config = fake.config(true);
    fake.install(&config).unwrap().abandon().unwrap();
    assert!(
        fake.heard()
            .ends_with("delete table inet quellvpn_quell_2dnone0")
    );
    assert_eq!(fake.state_files(), 0);
    // So does one that the host refuses half-way.
    fs::write(
        fake.folder.path().join("ip/nft"),
        "echo 'Operation not permitted' >&2; exit 1\n",
    )
    .unwrap();
    let refused = fake.install(&config).unwrap_err();
    assert!(refused.to_string().contains("not permitted"), "{refused}");
}

#[test]
fn without_nft_a_closed_host_is_refused_and_an_open_one_goes_on() {
    let mut fake = Fake::new();
    fake.host.nft = Program::at("nft", []);
    assert!(matches!(
        fake.install(&fake.config(true)),
        Err(VpnError::NoFirewall)
    ));
    let mut vpn = fake.install(&fake.config(false)).unwrap();
    vpn.follow(carried()).unwrap();
    vpn.end().unwrap();
    assert_eq!(fake.state_files(), 0);
}

#[test]
fn routes_beside_the_provider_need_no_rules_and_no_firewall() {
    let fake = Fake::new();
    let config = VpnConfig {
        routes: vec!["198.51.100.0/24".parse().unwrap()],
        providers: Some(vec!["192.0.2.1".parse().unwrap()]),
        dns: Vec::new(),
        ..fake.config(false)
    };
    let mut vpn = fake.install(&config).unwrap();
    assert_eq!(vpn.mark(), None);
    // Nothing is remembered, so another of that name (in another namespace) is not in its way.
    assert_eq!(fake.state_files(), 0);
    fake.install(&config).unwrap().end().unwrap();
    vpn.follow(carried()).unwrap();
    let route = "198.51.100.0/24 dev quell-none0";
    let heard =
        format!("ip -4 -force -batch -\nroute del {route}\nip -4 -batch -\nroute add {route}");
    assert_eq!(fake.heard(), heard);
    vpn.end().unwrap();
    assert_eq!(fake.heard(), "");
    assert!(!config.state_dir.exists());
}

#[test]
fn a_second_tunnel_that_leads_by_rules_is_refused() {
    let fake = Fake::new();
    let first = fake.install(&fake.config(false)).unwrap();
    let second = VpnConfig {
        tun_name: "quell-none1".to_owned(),
        ..fake.config(false)
    };
    assert!(matches!(fake.install(&second), Err(VpnError::Taken { .. })));
    first.end().unwrap();
    fake.install(&second).unwrap().end().unwrap();
}

#[test]
fn what_another_boot_left_is_forgotten_and_the_resolver_put_back() {
    let fake = Fake::new();
    let config = fake.config(true);
    let mut cut_off = fake.install(&config).unwrap();
    cut_off.follow(carried()).unwrap();
    drop(cut_off);
    fake.write("proc/sys/kernel/random/boot_id", "boot-2");
    fake.heard();
    assert!(fake.take_back(&config).unwrap());
    assert_eq!(fake.heard(), "", "rules and firewall went with the boot");
    assert_eq!(fake.read("resolv.conf"), "nameserver 192.0.2.53");
}

#[test]
fn a_portal_is_opened_beside_the_tunnel_and_closed_when_it_is_dropped() {
    let fake = Fake::new();
    let config = fake.config(true);
    let open = |limit| open_portal_on(fake.host.clone(), &config, limit);
    assert!(matches!(open(Duration::ZERO), Err(VpnError::NotInstalled)));
    let vpn = fake.install(&config).unwrap();
    fake.heard();
    let portal = open(Duration::from_secs(60)).unwrap();
    order(
        &fake.heard(),
        &[
            "rule add pref 6606 ipproto tcp dport 80",
            "tcp . 80 timeout 60s",
        ],
    );
    drop(portal);
    order(&fake.heard(), &["rule del pref 6606", "flush set inet"]);
    drop(vpn);
}
