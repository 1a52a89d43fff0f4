//! The resolver's file in a folder that stands for `/etc`.

#![allow(clippy::unwrap_used)]

use quell_host::Program;
use tempfile::TempDir;

use super::*;

const BEFORE: &str =
    "# of the network\nsearch example.net\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n";

fn resolver(folder: &TempDir) -> Resolver {
    let root = folder.path();
    let none = |name| Program::at(name, []);
    Resolver {
        host: Host {
            proc_root: root.join("proc"),
            resolved: root.join("resolve"),
            ip: none("ip"),
            nft: none("nft"),
            resolvectl: none("resolvectl"),
        },
        store: Some(Store::open(&root.join("state"), "names").unwrap()),
        tun: TunName::new("quell-none0").unwrap(),
        path: root.join("resolv.conf"),
    }
}

fn dns() -> Vec<IpAddr> {
    vec!["9.9.9.9".parse().unwrap(), "2620:fe::fe".parse().unwrap()]
}

fn text(resolver: &Resolver) -> String {
    fs::read_to_string(&resolver.path).unwrap()
}

#[test]
fn a_file_is_replaced_and_comes_back_byte_by_byte_with_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let resolver = resolver(&folder);
    let bytes = b"nameserver 192.0.2.53\n# \xff not text\n";
    fs::write(&resolver.path, bytes).unwrap();
    fs::set_permissions(&resolver.path, Permissions::from_mode(0o640)).unwrap();
    resolver.set(&dns()).unwrap();
    assert!(text(&resolver).ends_with("\nnameserver 9.9.9.9\nnameserver 2620:fe::fe\n"));
    // Set again, by a process that follows one that was killed: what was first is not lost.
    resolver.set(&dns()).unwrap();
    assert!(resolver.restore().unwrap());
    assert_eq!(fs::read(&resolver.path).unwrap(), bytes);
    let mode = fs::metadata(&resolver.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert!(!resolver.restore().unwrap(), "there is nothing left to do");
    assert_eq!(
        fs::read_dir(folder.path().join("state")).unwrap().count(),
        0
    );
}

#[test]
fn a_link_comes_back_as_the_link_that_it_was_and_its_target_is_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let resolver = resolver(&folder);
    let target = folder.path().join("elsewhere");
    fs::write(&target, BEFORE).unwrap();
    symlink("elsewhere", &resolver.path).unwrap();
    resolver.set(&dns()).unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), BEFORE);
    assert!(text(&resolver).contains("9.9.9.9"));
    assert_eq!(
        resolver.servers(),
        servers(BEFORE),
        "the tunnel asks as before"
    );
    resolver.restore().unwrap();
    assert_eq!(
        fs::read_link(&resolver.path).unwrap(),
        Path::new("elsewhere")
    );
}

#[test]
fn where_there_was_no_file_there_is_none_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let resolver = resolver(&folder);
    resolver.set(&dns()).unwrap();
    assert!(resolver.path.exists());
    resolver.restore().unwrap();
    assert!(!resolver.path.exists());
}

#[test]
fn what_somebody_else_wrote_since_stays() {
    let folder = tempfile::tempdir().unwrap();
    let resolver = resolver(&folder);
    fs::write(&resolver.path, BEFORE).unwrap();
    resolver.set(&dns()).unwrap();
    fs::write(&resolver.path, "nameserver 203.0.113.53\n").unwrap();
    resolver.restore().unwrap();
    assert_eq!(text(&resolver), "nameserver 203.0.113.53\n");
}

#[test]
fn the_tunnel_asks_whom_the_host_asked_before() {
    let folder = tempfile::tempdir().unwrap();
    let resolver = resolver(&folder);
    fs::write(&resolver.path, BEFORE).unwrap();
    let before = resolver.servers();
    let expected: Vec<SocketAddr> = vec![
        "192.0.2.53:53".parse().unwrap(),
        "[2001:db8::53]:53".parse().unwrap(),
    ];
    assert_eq!(before, expected);
    resolver.set(&dns()).unwrap();
    assert_eq!(resolver.servers(), before);
}

#[test]
fn where_resolved_runs_the_link_is_told_and_the_file_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut resolver = resolver(&folder);
    let run = folder.path().join("resolve");
    fs::create_dir(&run).unwrap();
    fs::write(run.join("io.systemd.Resolve"), "").unwrap();
    fs::write(run.join("resolv.conf"), BEFORE).unwrap();
    let stub = "nameserver 127.0.0.53\n";
    fs::write(&resolver.path, stub).unwrap();
    fs::write(
        folder.path().join("nft"),
        "echo \"$@\" >> \"${0%/*}/heard\"\n",
    )
    .unwrap();
    let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/src/testing/program.sh");
    let program = folder.path().join("resolvectl");
    symlink(launcher, &program).unwrap();
    resolver.host.resolvectl = Program::at("resolvectl", [program]);
    resolver.set(&dns()).unwrap();
    assert_eq!(text(&resolver), stub);
    assert_eq!(
        fs::read_to_string(folder.path().join("heard")).unwrap(),
        "dns quell-none0 9.9.9.9 2620:fe::fe\ndomain quell-none0 ~.\ndefault-route quell-none0 yes\n"
    );
    assert_eq!(resolver.servers(), servers(BEFORE));
    assert!(
        !resolver.restore().unwrap(),
        "the link is gone, and what it knew"
    );
}

#[test]
fn lines_that_name_no_server_are_passed_over() {
    let hostile = "nameserver\nnameserver x\n nameserver 192.0.2.1 \n#nameserver 192.0.2.2\n\
                   nameserver fe80::1%eth0\nnameservers 192.0.2.3\noptions ndots:1\n";
    let found: Vec<_> = servers(hostile).iter().map(SocketAddr::ip).collect();
    let expected: Vec<IpAddr> = ["192.0.2.1", "fe80::1"]
        .map(|ip| ip.parse().unwrap())
        .into();
    assert_eq!(found, expected);
}
