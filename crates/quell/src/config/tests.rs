//! Good files of both roles, and every kind of bad one.
//!
//! A bad file is a good one with one edit, so that nothing but the edit can be
//! what is refused. Each row states what the message has to name: the line (found
//! in the edited text by a mark), the key, the value and what is allowed.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use quell_core::config::DoormanConfig;
use quell_net::identity::Identity;
use quell_wire::key::{PublicKey, SecretKey};

use super::*;

mod backend;
mod exits;
mod proxy;
mod rules;

/// Marks the line that an error has to name; it is a comment to TOML.
const MARK: &str = "# <-";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("own.key", secret(), 0o600);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Loads `text` as a file without any variable set.
    fn load(&self, text: impl AsRef<[u8]>) -> Result<Config, LoadError> {
        load_with(&self.write("quell.toml", text, 0o644), &|_| None)
    }
}

fn secret() -> String {
    SecretKey::from_bytes([7; 32]).to_text()
}

fn public(tag: u8) -> String {
    PublicKey([tag; 32]).to_text()
}

fn client() -> String {
    format!(
        r#"private_key_file = "own.key"

[provider]
address = "vpn.example.net"
public_key = "{}"

[tun]
mtu_max = 1400
routes = ["10.0.0.0/8", "::/0"]

[transport]
keepalive_interval = "20s"
"#,
        public(1)
    )
}

fn provider() -> String {
    format!(
        r#"listen = "0.0.0.0:6610"
private_key_file = "own.key"

[[clients]]
name = "laptop"
public_key = "{}"

[[clients]]
name = "phone"
public_key = "{}"

[addresses]
ipv4_pool = "10.85.0.0/16"
ipv6_pool = "fd71:6c6c::/64"

[egress]
kind = "tun"

[limits]
sessions_max = 10

[transport]
hello_timeout = "10s"
"#,
        public(1),
        public(2)
    )
}

fn as_client(config: Config) -> ClientFile {
    match config {
        Config::Client(file) => *file,
        Config::Provider(_) => panic!("a provider"),
    }
}

fn as_provider(config: Config) -> ProviderFile {
    match config {
        Config::Provider(file) => *file,
        Config::Client(_) => panic!("a client"),
    }
}

/// The error's text and those of its causes.
fn words(error: &LoadError) -> String {
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        words = format!("{words}: {inner}");
        cause = inner.source();
    }
    words
}

#[test]
fn a_client_file_is_understood() {
    let folder = Folder::new();
    let file = as_client(folder.load(client()).unwrap());
    assert_eq!(
        file.providers[0].address.to_string(),
        "vpn.example.net:6610"
    );
    assert_eq!(file.providers[0].public_key, PublicKey([1; 32]));
    assert_eq!(file.private_key_file, folder.path("own.key"));
    assert_eq!(file.tun.routes.len(), 2);
    assert_eq!(file.control_socket(), Path::new("/run/quell/quell0.sock"));
    let key = read_private_key(&file.private_key_file).unwrap();
    assert_eq!(key.as_bytes(), &[7; 32]);
}

#[test]
fn a_provider_file_is_understood() {
    let folder = Folder::new();
    let file = as_provider(folder.load(provider()).unwrap());
    assert_eq!(file.listen.port(), 6610);
    assert_eq!(file.clients[1].name, "phone");
    assert_eq!(file.core().sessions_max, 10);
    let gateway = file.addresses.pool().unwrap().gateway();
    assert_eq!(gateway.gateway_ipv4, Some([10, 85, 0, 1].into()));
    assert_eq!(
        file.control_socket(),
        Path::new("/run/quell/quell-exit.sock")
    );
}

#[test]
fn what_is_left_out_has_the_cores_defaults() {
    let folder = Folder::new();
    let minimal = format!(
        "private_key_file = 'own.key'\nprovider = {{ address = '[::1]', public_key = '{}' }}\n",
        public(1)
    );
    let file = as_client(folder.load(minimal).unwrap());
    assert_eq!(file.core(), Default::default());
    assert_eq!(file.transport.quic(), Default::default());
    assert!(file.tun.routes.is_empty());

    let minimal =
        "listen = '[::]:1'\nprivate_key_file = 'own.key'\naddresses.ipv4_pool = '10.0.0.0/8'\n";
    let file = as_provider(folder.load(minimal).unwrap());
    assert_eq!(file.core(), Default::default());
    assert_eq!(file.transport.quic(), Default::default());
    assert!(file.clients.is_empty() && file.egress.masquerade);
}

#[test]
fn every_transport_setting_reaches_the_core_and_quic() {
    let folder = Folder::new();
    let all = r#"keepalive_interval = "21s"
dgram_age_max = "101ms"
dgram_queue = "1MiB"
dial_timeout = "16s"
reconnect_base = "6s"
reconnect_max = "1m 1s"
idle_timeout = "76s"
socket_buffer = 1048577
mtu_initial = 1201
mtu_upper = 1453
"#;
    let text = client().replace("keepalive_interval = \"20s\"\n", all);
    let file = as_client(folder.load(text).unwrap());
    let core = file.core();
    assert_eq!(core.path.keepalive_interval.as_secs(), 21);
    assert_eq!(core.path.dgram_age_max.as_millis(), 101);
    assert_eq!(core.path.dgram_queue_bytes_max, 1024 * 1024);
    assert_eq!(core.dial_timeout.as_secs(), 16);
    assert_eq!(core.reconnect_base.as_secs(), 6);
    assert_eq!(core.reconnect_max.as_secs(), 61);
    let quic = file.transport.quic();
    assert_eq!(quic.idle_timeout.as_secs(), 76);
    assert_eq!(quic.socket_buffer_bytes, 1_048_577);
    assert_eq!((quic.mtu_initial, quic.mtu_upper), (1201, 1453));

    let some = "hello_timeout = \"11s\"\ndgram_age_max = \"102ms\"\ndgram_queue = \"65536\"\nidle_timeout = \"80s\"\n";
    let text = provider().replace("hello_timeout = \"10s\"\n", some);
    let file = as_provider(folder.load(text).unwrap());
    assert_eq!(file.core().hello_timeout.as_secs(), 11);
    assert_eq!(file.core().path.dgram_age_max.as_millis(), 102);
    assert_eq!(file.core().path.dgram_queue_bytes_max, 65_536);
    assert_eq!(file.transport.quic().idle_timeout.as_secs(), 80);

    let limits = "[limits]\nhandshakes_free = 5\nhandshakes_max = 6\nsource_handshakes_per_s = 7\nsource_handshake_burst = 8\n";
    let some = "handshake_timeout = \"12s\"\ndrain = \"0s\"\n";
    let text = provider()
        .replace("[limits]\n", limits)
        .replace("hello_timeout = \"10s\"\n", some);
    let core = as_provider(folder.load(text).unwrap()).core();
    let doorman = DoormanConfig {
        handshakes_free: 5,
        handshakes_max: 6,
        handshake_timeout: Duration::from_secs(12),
        source_handshakes_per_s: 7,
        source_handshake_burst: 8,
        ..DoormanConfig::default()
    };
    assert_eq!((core.doorman, core.drain), (doorman, Duration::ZERO));
}

/// One edit of a good file, and what the message must hold.
struct Bad {
    from: &'static str,
    to: &'static str,
    /// Key, value, what is allowed.
    named: &'static [&'static str],
}

const fn bad(from: &'static str, to: &'static str, named: &'static [&'static str]) -> Bad {
    Bad { from, to, named }
}

fn refuses(good: &str, rows: &[Bad]) {
    let folder = Folder::new();
    folder.load(good).unwrap();
    for Bad { from, to, named } in rows {
        assert_eq!(good.matches(from).count(), 1, "{from}");
        let text = good.replace(from, to);
        let error = match folder.load(&text) {
            Ok(_) => panic!("accepted: {to}"),
            Err(error) => words(&error),
        };
        for part in *named {
            assert!(error.contains(part), "{to}: no «{part}» in: {error}");
        }
        let line = text.lines().position(|line| line.ends_with(MARK));
        if let Some(line) = line {
            let place = format!("quell.toml:{}: ", line + 1);
            assert!(error.contains(&place), "{to}: no «{place}» in: {error}");
        }
    }
}

#[test]
#[rustfmt::skip] // a table: a row a line
fn a_clients_mistake_is_named_with_line_key_value_and_what_is_allowed() {
    const KEEPALIVE: &str = "keepalive_interval = \"20s\"\n";
    refuses(
        &client(),
        &[
            // Keys.
            bad(KEEPALIVE, "keepalive = \"20s\" # <-", &["transport.keepalive = \"20s\"", "unknown field", "`keepalive_interval`"]),
            bad(KEEPALIVE, "hello_timeout = \"9s\" # <-", &["transport.hello_timeout", "unknown field"]),
            bad("[tun]", "[tunnel] # <-", &["tunnel: unknown field", "`tun`"]),
            bad("private_key_file = \"own.key\"\n", "", &["quell.toml: missing field `private_key_file`"]),
            bad("address = \"vpn.example.net\"\n", "", &["provider: missing field `address`"]),
            bad(KEEPALIVE, "keepalive_interval = \"20s\"\nkeepalive_interval = \"21s\" # <-", &["not valid TOML", "duplicate key"]),
            bad(KEEPALIVE, "keepalive_interval = 20s # <-", &["not valid TOML"]),
            // Types.
            bad("mtu_max = 1400", "mtu_max = \"big\" # <-", &["tun.mtu_max = \"big\"", "invalid type", "a whole number"]),
            bad(KEEPALIVE, "keepalive_interval = 20 # <-", &["transport.keepalive_interval = 20:", "invalid type", "a duration such as \"30s\""]),
            bad("[\"10.0.0.0/8\", \"::/0\"]", "\"::/0\" # <-", &["tun.routes = \"::/0\"", "invalid type"]),
            bad("[\"10.0.0.0/8\", \"::/0\"]", "[\"::/0\", 7] # <-", &["tun.routes[1] = 7", "an address prefix such as"]),
            bad(KEEPALIVE, "dgram_queue = true # <-", &["transport.dgram_queue = true", "a size such as \"2MiB\""]),
            bad("[tun]", "[metrics]\nlisten = \"0.0.0.0:9620\" # <-\n[tun]", &["metrics.listen = \"0.0.0.0:9620\"", "an address of the loopback"]),
            // Texts.
            bad(KEEPALIVE, "keepalive_interval = \"soon\" # <-", &["transport.keepalive_interval = \"soon\"", "allowed is a duration such as \"30s\""]),
            bad(KEEPALIVE, "keepalive_interval = \"20\" # <-", &["transport.keepalive_interval = \"20\"", "allowed is a duration such as \"30s\""]),
            bad(KEEPALIVE, "socket_buffer = \"4 lots\" # <-", &["transport.socket_buffer = \"4 lots\"", "allowed is a size such as \"2MiB\""]),
            bad("\"10.0.0.0/8\"", "\"10.0.0.0/33\"", &["tun.routes[0] = \"10.0.0.0/33\"", "allowed is an address prefix"]),
            bad("\"10.0.0.0/8\"", "\"10.0.0.1/8\"", &["tun.routes[0] = \"10.0.0.1/8\"", "10.0.0.0/8"]),
            bad("\"vpn.example.net\"", "\"vpn.example.net:0\" # <-", &["provider.address = \"vpn.example.net:0\"", "1 to 65535", "allowed is a server such as"]),
            bad("\"vpn.example.net\"", "\"https://vpn.example.net\" # <-", &["provider.address", "allowed is a server such as"]),
            bad(KEEPALIVE, "\n[log]\nlevel = \"loud\" # <-", &["log.level = \"loud\"", "`info`"]),
            // Ranges, at both ends.
            bad("mtu_max = 1400", "mtu_max = 1279 # <-", &["tun.mtu_max = 1279: allowed is 1280 to 9000"]),
            bad("mtu_max = 1400", "mtu_max = 9001 # <-", &["tun.mtu_max = 9001: allowed is 1280 to 9000"]),
            bad("mtu_max = 1400", "mtu_max = 70000 # <-", &["tun.mtu_max = 70000: allowed is 1280 to 9000"]),
            bad("mtu_max = 1400", "mtu_max = -1 # <-", &["tun.mtu_max = -1: allowed is 1280 to 9000"]),
            bad(KEEPALIVE, "keepalive_interval = \"4s\" # <-", &["transport.keepalive_interval = \"4s\": allowed is 5s to 600s"]),
            bad(KEEPALIVE, "keepalive_interval = \"11m\" # <-", &["transport.keepalive_interval = \"11m\": allowed is 5s to 600s"]),
            bad(KEEPALIVE, "keepalive_interval = \"38s\" # <-", &["transport.keepalive_interval = \"38s\": allowed is at most half of transport.idle_timeout (75s)"]),
            bad(KEEPALIVE, "idle_timeout = \"74s\" # <-", &["transport.idle_timeout = \"74s\": allowed is 75s to 600s"]),
            bad(KEEPALIVE, "idle_timeout = \"601s\" # <-", &["transport.idle_timeout = \"601s\": allowed is 75s to 600s"]),
            bad(KEEPALIVE, "dial_timeout = \"61s\" # <-", &["transport.dial_timeout = \"61s\": allowed is 1s to 60s"]),
            bad(KEEPALIVE, "reconnect_base = \"10s\"\nreconnect_max = \"9s\" # <-", &["transport.reconnect_max = \"9s\": allowed is 10s to 600s"]),
            bad(KEEPALIVE, "dgram_age_max = \"3s\" # <-", &["transport.dgram_age_max = \"3s\": allowed is 5ms to 2s"]),
            bad(KEEPALIVE, "dgram_queue = \"9MiB\" # <-", &["transport.dgram_queue = \"9MiB\": allowed is 65536 to 8388608 bytes"]),
            bad(KEEPALIVE, "dgram_queue = -1 # <-", &["transport.dgram_queue = -1: allowed is 65536 to 8388608 bytes"]),
            bad(KEEPALIVE, "socket_buffer = \"63KiB\" # <-", &["transport.socket_buffer = \"63KiB\": allowed is 64 KiB to 64 MiB"]),
            bad(KEEPALIVE, "socket_buffer = \"99999999EiB\" # <-", &["transport.socket_buffer = \"99999999EiB\": allowed is 64 KiB to 64 MiB"]),
            bad(KEEPALIVE, "mtu_initial = 1199 # <-", &["transport.mtu_initial = 1199: allowed is 1200 to 1452"]),
            bad(KEEPALIVE, "mtu_initial = 1453 # <-", &["transport.mtu_initial = 1453: allowed is 1200 to 1452"]),
            bad(KEEPALIVE, "mtu_initial = 1400\nmtu_upper = 1399 # <-", &["transport.mtu_upper = 1399: allowed is 1400 to 1472"]),
            bad(KEEPALIVE, "mtu_upper = 1473 # <-", &["transport.mtu_upper = 1473: allowed is 1200 to 1472"]),
            // Names and lists.
            bad("mtu_max = 1400", "name = \"sixteen-letters-\" # <-", &["tun.name = \"sixteen-letters-\": allowed is 1 to 15 letters"]),
            bad("mtu_max = 1400", "offload = true # <-", &["tun.offload = true"]),
            bad("mtu_max = 1400", "name = \"\" # <-", &["tun.name = \"\": allowed is 1 to 15 letters"]),
            bad("mtu_max = 1400", "name = \"a/b\" # <-", &["tun.name = \"a/b\": allowed is 1 to 15 letters"]),
            bad("mtu_max = 1400", "name = \"quell%d\" # <-", &["tun.name", "allowed is 1 to 15 letters"]),
            bad("mtu_max = 1400", "name = \"..\" # <-", &["tun.name", "allowed is 1 to 15 letters"]),
            bad("\"::/0\"", "\"10.0.0.0/8\"", &["tun.routes[1] = \"10.0.0.0/8\": allowed is each prefix once"]),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: a row a line
fn a_providers_mistake_is_named_with_line_key_value_and_what_is_allowed() {
    const POOLS: &str = "ipv4_pool = \"10.85.0.0/16\"\nipv6_pool = \"fd71:6c6c::/64\"\n";
    refuses(
        &provider(),
        &[
            bad("listen = \"0.0.0.0:6610\"", "listen = \"0.0.0.0\" # <-", &["listen = \"0.0.0.0\"", "allowed is an IP address and a port"]),
            bad("listen = \"0.0.0.0:6610\"", "listen = \"localhost:6610\" # <-", &["listen", "allowed is an IP address and a port"]),
            bad("listen = \"0.0.0.0:6610\"", "listen = \"0.0.0.0:65536\" # <-", &["listen", "allowed is an IP address and a port"]),
            bad("name = \"phone\"", "name = \"laptop\" # <-", &["clients[1].name = \"laptop\": allowed is a name of its own; clients[0]"]),
            bad("name = \"phone\"", "name = \"\" # <-", &["clients[1].name = \"\": allowed is 1 to 64 characters"]),
            bad("name = \"phone\"", "name = \"a\\u001bb\" # <-", &["clients[1].name = \"a\\u001bb\": allowed is 1 to 64 characters"]),
            bad("name = \"phone\"\n", "", &["clients[1]: missing field `name`"]),
            bad("name = \"phone\"", "nick = \"phone\" # <-", &["clients[1].nick", "unknown field", "`name`"]),
            bad(POOLS, "", &["addresses = no pool: allowed is at least one of ipv4_pool and ipv6_pool"]),
            bad("10.85.0.0/16", "10.0.0.0/7", &["addresses.ipv4_pool = \"10.0.0.0/7\": allowed is an IPv4 prefix from /8 to /30"]),
            bad("10.85.0.0/16", "10.85.0.0/31", &["addresses.ipv4_pool = \"10.85.0.0/31\": allowed is an IPv4 prefix from /8 to /30"]),
            bad("10.85.0.0/16", "fd00::/64", &["addresses.ipv4_pool = \"fd00::/64\": allowed is an IPv4 prefix"]),
            bad("10.85.0.0/16", "10.85.0.0/30", &["addresses.ipv4_pool = \"10.85.0.0/30\": allowed is a prefix with an address for each of the 2 clients; this one has 1"]),
            bad("fd71:6c6c::/64", "2001:db8::/64", &["addresses.ipv6_pool = \"2001:db8::/64\": allowed is a unique local IPv6 prefix (fc00::/7)"]),
            bad("fd71:6c6c::/64", "fd71:6c6c::/113", &["addresses.ipv6_pool = \"fd71:6c6c::/113\": allowed is", "/32 to /112"]),
            bad("fd71:6c6c::/64", "fd71::/31", &["addresses.ipv6_pool", "/32 to /112"]),
            bad("kind = \"tun\"", "kind = \"kernel\" # <-", &["egress.kind = \"kernel\"", "expected `userspace` or `tun`"]),
            bad("kind = \"tun\"", "masquerade = \"yes\" # <-", &["egress.masquerade = \"yes\"", "invalid type", "a boolean"]),
            bad("kind = \"tun\"", "tun_name = \"my exit\" # <-", &["egress.tun_name = \"my exit\": allowed is 1 to 15"]),
            bad("kind = \"tun\"", "offload = \"on\" # <-", &["egress.offload = \"on\"", "expected `auto` or `off`"]),
            bad("kind = \"tun\"", "mtu = 1279 # <-", &["egress.mtu = 1279: allowed is 1280 to 9000"]),
            bad("sessions_max = 10", "sessions_max = 0 # <-", &["limits.sessions_max = 0: allowed is 1 to 65536"]),
            bad("sessions_max = 10", "sessions_max = 65537 # <-", &["limits.sessions_max = 65537: allowed is 1 to 65536"]),
            bad("hello_timeout = \"10s\"", "hello_timeout = \"61s\" # <-", &["transport.hello_timeout = \"61s\": allowed is 1s to 60s"]),
            bad("hello_timeout = \"10s\"", "idle_timeout = \"74s\" # <-", &["transport.idle_timeout = \"74s\": allowed is 75s to 600s"]),
            bad("hello_timeout = \"10s\"", "dial_timeout = \"9s\" # <-", &["transport.dial_timeout", "unknown field"]),
        ],
    );
}

#[test]
fn the_ends_of_the_ranges_pass() {
    let folder = Folder::new();
    let edits = [
        ("mtu_max = 1400", "mtu_max = 1280"),
        ("mtu_max = 1400", "mtu_max = 9000"),
        ("mtu_max = 1400", "name = \"fifteen-letters\""),
        ("\"20s\"", "\"5s\""),
        ("\"20s\"", "\"37s 500ms\""),
        ("\"20s\"", "\"20s\"\nidle_timeout = \"75s\""),
        ("\"20s\"", "\"300s\"\nidle_timeout = \"10m\""),
        ("\"20s\"", "\"20s\"\nsocket_buffer = \"64KiB\""),
        ("\"20s\"", "\"20s\"\nsocket_buffer = \"64MiB\""),
        ("\"20s\"", "\"20s\"\nmtu_initial = 1452\nmtu_upper = 1452"),
        ("\"20s\"", "\"20s\"\nmtu_upper = 1472"),
        ("[\"10.0.0.0/8\", \"::/0\"]", "[]"),
    ];
    for (from, to) in edits {
        let text = client().replace(from, to);
        assert_ne!(text, client());
        if let Err(error) = folder.load(text) {
            panic!("{to}: {error}");
        }
    }
    let edits = [
        (
            "name = \"phone\"".to_owned(),
            format!("name = \"{}\"", "ä".repeat(64)),
        ),
        ("10.85.0.0/16".into(), "10.0.0.0/8".into()),
        // The smallest with room for two clients.
        ("10.85.0.0/16".into(), "10.85.0.0/29".into()),
        ("fd71:6c6c::/64".into(), "fd71:6c6c::/32".into()),
        ("fd71:6c6c::/64".into(), "fd71:6c6c::/112".into()),
        ("sessions_max = 10".into(), "sessions_max = 65536".into()),
        (
            "listen = \"0.0.0.0:6610\"".into(),
            "listen = \"[::1]:0\"".into(),
        ),
    ];
    for (from, to) in edits {
        let text = provider().replace(&from, &to);
        assert_ne!(text, provider());
        if let Err(error) = folder.load(text) {
            panic!("{to}: {error}");
        }
    }
    let long = provider().replace("phone", &"ä".repeat(65));
    let error = folder.load(long).unwrap_err().to_string();
    assert!(error.contains("allowed is 1 to 64 characters"), "{error}");
}

#[test]
fn more_routes_than_allowed_are_refused() {
    let folder = Folder::new();
    let with = |count: usize| {
        let routes: Vec<_> = (0..count)
            .map(|i| format!("\"10.{}.{}.0/24\"", i / 256, i % 256))
            .collect();
        client().replace("\"10.0.0.0/8\", \"::/0\"", &routes.join(", "))
    };
    folder.load(with(1024)).unwrap();
    let error = folder.load(with(1025)).unwrap_err().to_string();
    assert!(error.contains("tun.routes"), "{error}");
    assert!(error.contains("allowed is at most 1024"), "{error}");
}

#[test]
fn a_wrong_key_is_named_and_never_shown() {
    let folder = Folder::new();
    let key = public(1);
    let secret = secret();
    let mut mistyped = key.clone();
    mistyped.pop();
    mistyped.push(if key.ends_with('q') { 'p' } else { 'q' });
    let damaged = secret.replacen("quellsec", "quelsec", 1);
    let cases = [
        (mistyped, "checksum is wrong"),
        (key[..20].to_owned(), "checksum is wrong"),
        (
            secret.clone(),
            "this is a secret key, a public one is wanted",
        ),
        (
            secret.to_uppercase(),
            "this is a secret key, a public one is wanted",
        ),
        (
            format!("{secret}q"),
            "this is a secret key, a public one is wanted",
        ),
        (damaged, "a public key begins with `quellpub1`"),
        (String::new(), "a public key begins with `quellpub1`"),
    ];
    for (text, why) in cases {
        let error = folder.load(client().replace(&key, &text)).unwrap_err();
        let error = words(&error);
        assert!(
            error.contains("quell.toml:5: provider.public_key = "),
            "{error}"
        );
        assert!(error.contains(why), "{text}: {error}");
        assert!(
            error.contains("allowed is a public key as `quell pubkey` prints it"),
            "{error}"
        );
        assert_hidden(&error, &secret);
    }
    let twice = provider().replace(&public(2), &key);
    let error = words(&folder.load(twice).unwrap_err());
    assert!(error.contains("clients[1].public_key = "), "{error}");
    assert!(
        error.contains("allowed is a key of its own; clients[0]"),
        "{error}"
    );
}

/// No eight characters in a row of the secret's data part are in `error`.
fn assert_hidden(error: &str, secret: &str) {
    let error = error.to_lowercase();
    let data = &secret["quellsec1".len()..];
    for at in 0..data.len() - 8 {
        assert!(!error.contains(&data[at..at + 8]), "{error}");
    }
}

#[test]
fn a_secret_key_in_any_place_is_not_repeated() {
    let folder = Folder::new();
    let lower = secret();
    for secret in [lower.clone(), lower.to_uppercase()] {
        let places = [
            ("\"own.key\"", format!("\"{secret}\"")),
            ("\"vpn.example.net\"", format!("\"{secret}\"")),
            ("mtu_max = 1400", format!("mtu_max = \"{secret}\"")),
            ("mtu_max = 1400", format!("{secret} = 1")),
            ("mtu_max = 1400", format!("name = \"{secret}\"")),
            ("\"20s\"", format!("\"{secret}\"")),
            ("\"20s\"", secret.clone()),
        ];
        for (from, to) in places {
            let error = words(&folder.load(client().replace(from, &to)).unwrap_err());
            assert_hidden(&error, &lower);
        }
        let named = provider()
            .replace("laptop", &secret)
            .replace("phone", &secret);
        assert_hidden(&words(&folder.load(named).unwrap_err()), &lower);
    }
}

#[test]
fn a_file_has_exactly_one_role() {
    let folder = Folder::new();
    let both = format!("listen = \"0.0.0.0:6610\"\n{}", client());
    let error = folder.load(both).unwrap_err().to_string();
    assert!(error.contains("both `listen`"), "{error}");
    assert!(error.contains("write one file for each"), "{error}");
    for neither in ["", "# nothing\n", "private_key_file = \"own.key\"\n"] {
        let error = folder.load(neither).unwrap_err().to_string();
        assert!(error.contains("write a [provider] table"), "{error}");
        assert!(error.contains("listen = \"0.0.0.0:6610\""), "{error}");
    }
}

#[test]
fn a_file_that_is_no_configuration_is_refused_in_words() {
    let folder = Folder::new();
    let path = folder.path("quell.toml");
    let error = load_with(&path, &|_| None).unwrap_err();
    assert!(words(&error).contains("cannot read"), "{error}");
    assert!(words(&error).contains("No such file"), "{error}");

    let error = load_with(folder.0.path(), &|_| None).unwrap_err();
    assert!(words(&error).contains("is not a regular file"), "{error}");

    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let error = load_with(&path, &|_| None).unwrap_err();
    assert!(words(&error).contains("is not a regular file"), "{error}");
    fs::remove_file(&path).unwrap();

    let error = folder.load(b"a = 1\nb = \"\xff\"\n").unwrap_err();
    assert!(words(&error).contains("quell.toml:2: not UTF-8"), "{error}");

    for depth in [100, 100_000] {
        let error = folder
            .load(format!("a = {}", "[".repeat(depth)))
            .unwrap_err();
        assert!(words(&error).contains("not valid TOML"), "{error}");
    }
}

#[test]
fn one_mebibyte_passes_and_one_more_byte_does_not() {
    let folder = Folder::new();
    let padded = |bytes: usize| {
        let text = client();
        format!("{text}#{}", "x".repeat(bytes - text.len() - 1))
    };
    folder.load(padded(1024 * 1024)).unwrap();
    let error = folder.load(padded(1024 * 1024 + 1)).unwrap_err();
    assert!(words(&error).contains("at most 1048576 bytes"), "{error}");
}

#[test]
fn a_private_key_that_others_may_read_is_refused() {
    let folder = Folder::new();
    for mode in [0o600, 0o400, 0o700] {
        folder.write("own.key", secret(), mode);
        folder.load(client()).unwrap();
    }
    for mode in [0o640, 0o620, 0o610, 0o604, 0o602, 0o601, 0o644] {
        folder.write("own.key", secret(), mode);
        let error = words(&folder.load(client()).unwrap_err());
        assert!(
            error.contains(&format!(
                "private_key_file: {}",
                folder.path("own.key").display()
            )),
            "{error}"
        );
        assert!(error.contains(&format!("mode {mode:04o}")), "{error}");
        assert!(error.contains("allowed is 0600; run: chmod 600"), "{error}");
    }
}

#[test]
fn a_private_key_file_without_a_key_is_refused() {
    let folder = Folder::new();
    let cases = [
        (public(1), "this is a public key, a secret one is wanted"),
        (String::new(), "a secret key begins with `quellsec1`"),
        (format!("{}q", secret()), "checksum is wrong"),
        (format!("{}\n{}\n", secret(), secret()), "no usable key"),
        ("x".repeat(4097), "at most 4096 bytes"),
    ];
    for (text, why) in cases {
        folder.write("own.key", text, 0o600);
        let error = words(&folder.load(client()).unwrap_err());
        assert!(error.contains(why), "{error}");
        assert_hidden(&error, &secret());
    }
    folder.write("own.key", format!("  {}\r\n", secret()), 0o600);
    folder.load(client()).unwrap();

    fs::remove_file(folder.path("own.key")).unwrap();
    let error = words(&folder.load(provider()).unwrap_err());
    assert!(
        error.contains("does not exist; create it with: quell keygen --out"),
        "{error}"
    );
    fs::create_dir(folder.path("own.key")).unwrap();
    let error = words(&folder.load(provider()).unwrap_err());
    assert!(error.contains("is not a regular file"), "{error}");
}

#[test]
fn an_own_key_is_no_peers_key() {
    let folder = Folder::new();
    let secret = SecretKey::from_bytes([7; 32]);
    let own = Identity::from_secret(&secret).unwrap().public_key();
    let error = folder
        .load(client().replace(&public(1), &own.to_text()))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("quell.toml:5: provider.public_key = "),
        "{error}"
    );
    assert!(error.contains("private_key_file"), "{error}");
    let error = folder
        .load(provider().replace(&public(2), &own.to_text()))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("quell.toml:10: clients[1].public_key = "),
        "{error}"
    );
}

#[test]
fn paths_are_taken_from_the_files_folder() {
    let folder = Folder::new();
    let relative = client() + "\n[control]\nsocket = \"run/c.sock\"\n";
    let file = as_client(folder.load(relative).unwrap());
    assert_eq!(file.control_socket(), folder.path("run/c.sock"));
    let absolute = client() + "\n[control]\nsocket = \"/elsewhere/c.sock\"\n";
    let file = as_client(folder.load(absolute).unwrap());
    assert_eq!(file.control_socket(), Path::new("/elsewhere/c.sock"));
    let run_dir = format!("run_dir = \"run\"\n{}", provider());
    let file = as_provider(folder.load(run_dir).unwrap());
    assert_eq!(file.control_socket(), folder.path("run/quell-exit.sock"));
}

#[test]
fn variables_replace_what_the_file_says() {
    let folder = Folder::new();
    let other = folder.write("other.key", SecretKey::from_bytes([8; 32]).to_text(), 0o600);
    let text = client() + "\n[control]\nsocket = \"c.sock\"\n[log]\nlevel = \"warn\"\n";
    let path = folder.write("quell.toml", text, 0o644);
    let with = |wanted: &'static str, value: OsString| {
        load_with(&path, &move |name| (name == wanted).then(|| value.clone()))
    };
    let file = as_client(with("QUELL_LOG", "debug".into()).unwrap());
    assert_eq!(file.log.level, LogLevel::Debug);
    let file = as_client(with("QUELL_LOG", "".into()).unwrap());
    assert_eq!(file.log.level, LogLevel::Warn);
    let file = as_client(with("QUELL_CONTROL_SOCKET", "here.sock".into()).unwrap());
    assert_eq!(file.control_socket(), Path::new("here.sock"));
    let file = as_client(with("QUELL_PRIVATE_KEY_FILE", other.clone().into()).unwrap());
    assert_eq!(file.private_key_file, other);

    let error = with("QUELL_LOG", "loud".into()).unwrap_err().to_string();
    assert_eq!(
        error,
        "environment: QUELL_LOG = loud: allowed is off, error, warn, info or debug"
    );
    let error = with("QUELL_PRIVATE_KEY_FILE", "/nowhere".into()).unwrap_err();
    assert!(
        error.to_string().contains("/nowhere does not exist"),
        "{error}"
    );
}

#[test]
fn every_log_level_is_read_by_its_name() {
    let folder = Folder::new();
    for level in LogLevel::ALL {
        let text = format!("{}\n[log]\nlevel = \"{level}\"\n", client());
        assert_eq!(as_client(folder.load(text).unwrap()).log.level, level);
        assert_eq!(level.as_str().parse(), Ok(level));
    }
}
