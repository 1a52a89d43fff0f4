//! The verbs as a shell sees them: arguments in, exit code and two streams out.
//!
//! Most tests run the command in this process through [`quell_cli::run`]; those
//! about the system's own refusals (a full disk, a limit, a closed pipe) run the
//! real binary, since the standard streams are what they are about.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use quell::config::{self, Config};
use quell::control::{self, Command as Asked, Handler, Server};
use quell_cli::{Exit, Streams};
use quell_wire::key::{PublicKey, SecretKey};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_quell");

struct Said {
    exit: Exit,
    out: String,
    err: String,
}

/// Runs a command line with `input` as standard input.
fn quell_reading(input: &[u8], args: &[&dyn AsRef<std::ffi::OsStr>]) -> Said {
    let args = args.iter().map(|arg| arg.as_ref().to_owned());
    let args = std::iter::once(OsString::from("quell")).chain(args);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = quell_cli::run(
        args,
        &mut Streams {
            input: &mut &*input,
            out: &mut out,
            err: &mut err,
        },
    );
    Said {
        exit,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

fn quell(args: &[&dyn AsRef<std::ffi::OsStr>]) -> Said {
    quell_reading(b"", args)
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// A new key in `name`; its public half.
    fn key(&self, name: &str) -> String {
        let said = quell(&[&"keygen", &"--out", &self.path(name)]);
        assert_eq!(said.exit, Exit::Done, "{}", said.err);
        said.out.trim_end().to_owned()
    }

    /// Serves `name` with a fixed status.
    fn serve(&self, name: &str, status: Value) -> Server {
        let handler: Handler = Arc::new(move |_| {
            let status = status.clone();
            Box::pin(async move { Ok(status) })
        });
        control::serve(&self.path(name), handler).unwrap()
    }
}

/// One line, beginning as every error does, and no more.
fn assert_one_error(said: &Said) {
    assert!(said.err.starts_with("error: "), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    assert_eq!(said.out, "");
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::read_to_string(path.join(name)).unwrap()
}

// keygen and pubkey

#[test]
fn keygen_makes_a_file_of_mode_0600_and_prints_the_public_key() {
    let folder = Folder::new();
    let public = folder.key("own.key");
    public.parse::<PublicKey>().unwrap();
    let path = folder.path("own.key");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    text.parse::<SecretKey>().unwrap();
    assert!(text.ends_with('\n'));
    let said = quell(&[&"pubkey", &path]);
    assert_eq!(
        (said.exit, said.out.trim_end()),
        (Exit::Done, public.as_str())
    );
}

#[test]
fn keygen_prints_the_secret_where_no_file_is_named() {
    let said = quell(&[&"keygen"]);
    assert_eq!(said.exit, Exit::Done);
    said.out.parse::<SecretKey>().unwrap();
    said.err.parse::<PublicKey>().unwrap();
    let again = quell_reading(said.out.as_bytes(), &[&"pubkey"]);
    assert_eq!(again.out, said.err);
    let dashed = quell_reading(said.out.as_bytes(), &[&"pubkey", &"-"]);
    assert_eq!(dashed.out, said.err);
    assert_ne!(quell(&[&"keygen"]).out, said.out);
}

#[test]
fn keygen_never_overwrites() {
    let folder = Folder::new();
    let file = folder.write("file", "precious");
    let link = folder.path("link");
    symlink(folder.path("nowhere"), &link).unwrap();
    for taken in [&file, &link, &folder.0.path().to_owned()] {
        let said = quell(&[&"keygen", &"--out", taken]);
        assert_eq!(said.exit, Exit::Failed);
        assert_one_error(&said);
        assert!(said.err.contains("File exists"), "{}", said.err);
        assert!(said.err.contains(taken.to_str().unwrap()), "{}", said.err);
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "precious");
    assert!(!folder.path("nowhere").exists());
}

#[test]
fn keygen_into_a_folder_that_is_not_there_fails() {
    let folder = Folder::new();
    let said = quell(&[&"keygen", &"--out", &folder.path("no/own.key")]);
    assert_eq!(said.exit, Exit::Failed);
    assert_one_error(&said);
    assert!(said.err.contains("No such file"), "{}", said.err);
}

#[test]
fn a_full_disk_under_standard_output_is_an_error() {
    let folder = Folder::new();
    for args in [
        vec!["keygen"],
        vec!["keygen", "--out", "own.key"],
        vec!["--help"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = Command::new(BINARY)
            .args(&args)
            .current_dir(folder.0.path())
            .stdout(full)
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(1), "{args:?}");
        let err = String::from_utf8(done.stderr).unwrap();
        if args[0] == "keygen" {
            assert!(err.contains("No space left"), "{err}");
        }
    }
    // What went into the file is whole, and the message says how to go on.
    let said = quell(&[&"pubkey", &folder.path("own.key")]);
    assert_eq!(said.exit, Exit::Done);
}

#[test]
fn a_key_file_that_cannot_be_written_whole_is_removed() {
    let folder = Folder::new();
    // A file-size limit of zero stands for the full disk.
    let script = format!("trap '' XFSZ; ulimit -f 0; exec {BINARY} keygen --out own.key");
    let done = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.0.path())
        .output()
        .unwrap();
    let err = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{err}");
    assert!(
        err.contains("cannot write the key to own.key: File too large"),
        "{err}"
    );
    assert!(!folder.path("own.key").exists());
}

#[test]
fn a_reader_that_left_ends_the_run_without_a_word() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let done = Command::new(BINARY)
        .arg("keygen")
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(String::from_utf8(done.stderr).unwrap(), "");
}

#[test]
fn pubkey_refuses_what_is_no_secret_key_without_repeating_it() {
    let folder = Folder::new();
    let public = folder.key("own.key");
    let secret = fs::read_to_string(folder.path("own.key")).unwrap();
    let damaged = format!("{}q", secret.trim_end());
    let cases: [(&[u8], &str); 5] = [
        (b"", "not a quell key"),
        (
            public.as_bytes(),
            "this is a public key, a secret one is wanted",
        ),
        (damaged.as_bytes(), "checksum is wrong"),
        (b"\xff\xfe", "standard input"),
        (&[b'q'; 100_000], "not a quell key"),
    ];
    for (input, why) in cases {
        let said = quell_reading(input, &[&"pubkey"]);
        assert_eq!(said.exit, Exit::Failed);
        assert_one_error(&said);
        assert!(said.err.contains(why), "{}", said.err);
        assert!(!said.err.contains(&secret[20..40]), "{}", said.err);
    }
}

#[test]
fn pubkey_refuses_a_file_that_others_may_read() {
    let folder = Folder::new();
    folder.key("own.key");
    fs::set_permissions(folder.path("own.key"), Permissions::from_mode(0o644)).unwrap();
    let said = quell(&[&"pubkey", &folder.path("own.key")]);
    assert_eq!(said.exit, Exit::Failed);
    assert_one_error(&said);
    assert!(said.err.contains("run: chmod 600"), "{}", said.err);
}

// check

#[test]
fn the_example_files_are_good_and_say_the_defaults() {
    let folder = Folder::new();
    folder.key("client.key");
    folder.key("provider.key");
    let path = folder.write("client.toml", &example("client.toml"));
    let Config::Client(file) = config::load(&path).unwrap() else {
        panic!("not a client");
    };
    assert_eq!(file.tun, Default::default());
    assert_eq!(file.transport, Default::default());
    assert_eq!(file.log, Default::default());
    let said_socket = file.control_socket();
    let mut unsaid = file.clone();
    unsaid.control = Default::default();
    assert_eq!(unsaid.control_socket(), said_socket);

    let path = folder.write("provider.toml", &example("provider.toml"));
    let Config::Provider(file) = config::load(&path).unwrap() else {
        panic!("not a provider");
    };
    assert_eq!(file.egress, Default::default());
    assert_eq!(file.limits, Default::default());
    assert_eq!(file.transport, Default::default());
    assert_eq!(file.log, Default::default());
    let said_socket = file.control_socket();
    let mut unsaid = file.clone();
    unsaid.control = Default::default();
    assert_eq!(unsaid.control_socket(), said_socket);
}

#[test]
fn check_prints_what_it_understood() {
    let folder = Folder::new();
    let own = folder.key("client.key");
    let routes = r#"routes = ["192.0.2.0/24", "2001:db8::/32"]"#;
    let text = example("client.toml").replace("routes = []", routes);
    let path = folder.write("client.toml", &text);
    let said = quell(&[&"check", &path]);
    assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""));
    let parts = [
        "client.toml is good: a client\n",
        "vpn.example.net:6610",
        "provider's key  quellpub1",
        &own,
        "quell0, MTU up to 1420",
        "192.0.2.0/24, 2001:db8::/32",
        "/run/quell/quell0.sock",
    ];
    for part in parts {
        assert!(said.out.contains(part), "no «{part}» in: {}", said.out);
    }
    let secret = fs::read_to_string(folder.path("client.key")).unwrap();
    assert!(!said.out.contains(secret.trim_end()));
}

#[test]
fn check_prints_a_providers_clients_and_pools() {
    let folder = Folder::new();
    let own = folder.key("provider.key");
    let mut text = example("provider.toml");
    for tag in 2..=18_u8 {
        let key = PublicKey([tag; 32]);
        let entry = format!("[[clients]]\nname = \"client {tag}\"\npublic_key = \"{key}\"\n\n");
        text = text.replace("[addresses]\n", &format!("{entry}[addresses]\n"));
    }
    text = text.replace("allow = []", "allow = [\"10.1.2.3 tcp/443\"]");
    text = text.replace("deny = []", "deny = [\"udp/53\"]");
    let path = folder.write("provider.toml", &text);
    let said = quell(&[&"check", &path]);
    assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""));
    let parts = [
        "provider.toml is good: a provider\n",
        &own,
        "0.0.0.0:6610 (UDP)",
        "  laptop",
        "  client 2 ",
        "and 2 more",
        "10.85.0.0/16, the provider is 10.85.0.1",
        "fd71:6c6c::/64, the provider is fd71:6c6c::1",
        "65533 clients",
        "userspace, without privileges, MTU 1500",
        "  allowed       10.1.2.3/32 tcp/443",
        "  denied        udp/53",
    ];
    for part in parts {
        assert!(said.out.contains(part), "no «{part}» in: {}", said.out);
    }
}

#[test]
fn check_works_out_what_an_outage_costs() {
    let folder = Folder::new();
    folder.key("client.key");
    folder.key("provider.key");
    let client = folder.write("client.toml", &example("client.toml"));
    let said = quell(&[&"check", &client]);
    assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""));
    let parts = [
        "at a round trip of 50ms",
        "17 hand-overs at most",
        "4 resends of a lane until 1 s, then PINGs alone",
        "16,384: 12,000 a dial",
        "0.85 s when it was silent for less than 60s",
        "\nno warnings\n",
    ];
    for part in parts {
        assert!(said.out.contains(part), "no «{part}» in: {}", said.out);
    }
    let said = quell(&[&"check", &client, &"--json", &"--rtt", &"200ms"]);
    let object: Value = serde_json::from_str(&said.out).unwrap();
    let figures = &object["figures"];
    assert_eq!((said.exit, &object["role"]), (Exit::Done, &json!("client")));
    assert_eq!(figures["rtt_ms"], 200);
    assert_eq!(figures["copies"]["of_a_pack_max"], 17);
    assert_eq!(figures["silent_path"]["pto_ms"], 211);
    assert_eq!(figures["warnings"], json!([]));

    let provider = folder.write("provider.toml", &example("provider.toml"));
    let said = quell(&[&"check", &provider, &"--json"]);
    let object: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (said.exit, &object["role"]),
        (Exit::Done, &json!("provider"))
    );
    assert_eq!(object["figures"]["session_kept_ms"], 65_000);
}

#[test]
fn check_warns_of_what_does_not_fit_together_and_ends_with_0() {
    let folder = Folder::new();
    folder.key("client.key");
    let text = example("client.toml").replace("quiet_bytes = \"16KiB\"", "quiet_bytes = \"12KiB\"");
    let path = folder.write("client.toml", &text);
    let said = quell(&[&"check", &path]);
    assert_eq!(
        (said.exit, said.err.as_str()),
        (Exit::Done, ""),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("\nwarning: budget.quiet_bytes = 12288: "),
        "{}",
        said.out
    );
    assert!(!said.out.contains("no warnings"), "{}", said.out);
    let said = quell(&[&"check", &path, &"--json"]);
    let object: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        object["figures"]["warnings"][0]["setting"],
        "budget.quiet_bytes"
    );
}

#[test]
fn check_takes_round_trips_from_1_ms_to_10_s() {
    let folder = Folder::new();
    folder.key("client.key");
    let path = folder.write("client.toml", &example("client.toml"));
    for (rtt, exit) in [
        ("1ms", Exit::Done),
        ("10s", Exit::Done),
        ("999us", Exit::Usage),
        ("10001ms", Exit::Usage),
    ] {
        assert_eq!(
            quell(&[&"check", &path, &"--rtt", &rtt]).exit,
            exit,
            "{rtt}"
        );
    }
}

#[test]
fn check_of_a_bad_file_ends_with_2_and_one_line() {
    let folder = Folder::new();
    let bad = [
        ("", "write a [provider] table"),
        ("mtu = ", "not valid TOML"),
        (
            &example("client.toml"),
            "does not exist; create it with: quell keygen --out",
        ),
    ];
    for (text, why) in bad {
        let path = folder.write("quell.toml", text);
        let said = quell(&[&"check", &path]);
        assert_eq!(said.exit, Exit::Usage);
        assert_one_error(&said);
        assert!(said.err.contains(why), "{}", said.err);
    }
    folder.key("client.key");
    let text = example("client.toml").replace("mtu_max = 1420", "mtu_max = 1279");
    let path = folder.write("quell.toml", &text);
    let said = quell(&[&"check", &path]);
    assert_eq!(said.exit, Exit::Usage);
    assert_one_error(&said);
    assert!(
        said.err
            .contains(": tun.mtu_max = 1279: allowed is 1280 to 9000"),
        "{}",
        said.err
    );

    let said = quell(&[&"check", &folder.path("nowhere.toml")]);
    assert_eq!(said.exit, Exit::Usage);
    assert!(said.err.contains("No such file"), "{}", said.err);
}

// drill

#[test]
fn drill_refuses_by_name_what_it_cannot_do() {
    let refused = [
        ("ack-blackout", "acks-lost: what acknowledges is encrypted"),
        ("ack-blackout", "fleet.providers = 6: a drill has 1 to 3"),
        ("fleet-outage", ": a drill has one"),
        ("quiet", "nothing breaks in it"),
        (
            "no-such-thing",
            "no-such-thing is no scenario's name, nor a file",
        ),
    ];
    for (scenario, why) in refused {
        let said = quell(&[&"drill", &scenario]);
        assert_eq!(said.exit, Exit::Usage, "{scenario}: {}", said.err);
        assert_one_error(&said);
        assert!(said.err.contains(why), "{}", said.err);
    }
}

// status

#[test]
fn status_asks_the_socket_that_is_named() {
    let folder = Folder::new();
    let server = folder.serve("any.name", json!({"state": "up", "path": {"rtt_ms": 12.5}}));
    let said = quell(&[&"status", &"--socket", &server.path()]);
    assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""));
    assert_eq!(said.out, "state     up\npath\n  rtt_ms  12.5\n");
    let said = quell(&[&"status", &"--json", &"--socket", &server.path()]);
    assert_eq!(said.out, "{\"path\":{\"rtt_ms\":12.5},\"state\":\"up\"}\n");
}

#[test]
fn status_finds_the_only_socket_and_guesses_no_other() {
    let folder = Folder::new();
    let run = || quell(&[&"status", &"--run-dir", &folder.0.path()]);
    let said = run();
    assert_eq!(said.exit, Exit::Failed);
    assert_one_error(&said);
    assert!(said.err.contains("no control socket in"), "{}", said.err);

    let _one = folder.serve("quell0.sock", json!({"state": "up"}));
    assert_eq!(run().out, "state  up\n");

    let _two = folder.serve("quell1.sock", json!({"state": "down"}));
    let said = run();
    assert_eq!(said.exit, Exit::Usage);
    assert_one_error(&said);
    for part in ["--socket", "quell0.sock, ", "quell1.sock"] {
        assert!(said.err.contains(part), "{}", said.err);
    }
}

#[test]
fn status_says_when_nobody_answers() {
    let folder = Folder::new();
    let dead = folder.path("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    for path in [&dead, &folder.path("nowhere.sock")] {
        let said = quell(&[&"status", &"--socket", path]);
        assert_eq!(said.exit, Exit::Failed);
        assert_one_error(&said);
        assert!(said.err.contains("is quell running?"), "{}", said.err);
    }
}

#[test]
fn status_passes_on_what_quell_says() {
    let folder = Folder::new();
    let handler: Handler = Arc::new(|_| Box::pin(async { Err("stopping".into()) }));
    let server = control::serve(&folder.path("a.sock"), handler).unwrap();
    let said = quell(&[&"status", &"--socket", &server.path()]);
    assert_eq!(said.exit, Exit::Failed);
    assert_eq!(said.err, "error: quell answered: stopping\n");
}

// The command line itself

#[test]
fn bad_arguments_end_with_2_and_help_with_0() {
    for args in [
        &["--nonsense"][..],
        &["nonsense"],
        &["check"],
        &["status", "--json=7"],
        &[],
    ] {
        let args: Vec<&dyn AsRef<std::ffi::OsStr>> = args.iter().map(|a| a as _).collect();
        let said = quell(&args);
        assert_eq!((said.exit, said.out.as_str()), (Exit::Usage, ""));
        assert!(!said.err.is_empty());
    }
    for args in [&["--help"][..], &["--version"], &["keygen", "--help"]] {
        let args: Vec<&dyn AsRef<std::ffi::OsStr>> = args.iter().map(|a| a as _).collect();
        let said = quell(&args);
        assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""));
        assert!(!said.out.is_empty());
    }
}

#[test]
fn the_binary_ends_with_the_librarys_exit_codes() {
    let code = |args: &[&str]| {
        let done = Command::new(BINARY).args(args).output().unwrap();
        done.status.code()
    };
    assert_eq!(code(&["--version"]), Some(0));
    assert_eq!(code(&["status", "--socket", "/nowhere"]), Some(1));
    assert_eq!(code(&["check", "/nowhere"]), Some(2));
}

#[test]
fn the_binary_reads_standard_input() {
    let folder = Folder::new();
    let public = folder.key("own.key");
    let done = Command::new(BINARY)
        .arg("pubkey")
        .stdin(File::open(folder.path("own.key")).unwrap())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap().trim_end(), public);
}

// why

fn waiting() -> Value {
    json!({
        "state": "up",
        "main_exit": 0,
        "exits": [
            {"state": "up", "reason": "up", "is_usable": true},
            {
                "state": "waiting",
                "reason": "cannot find vpn.example.net",
                "next_dial_in_ms": 4_200,
                "dials": 7,
                "sessions": 1,
                "window": "a member for 9 s; kept: the backend is degraded",
                "dial_gate": {"state": "backoff", "failures": 3, "next_in_s": 4.2, "reason": "blocked for 4.2 s: the last 3 dials failed"},
            },
        ],
        "servers": [
            {"remote": "first.example.net:6610", "public_key": "quellpub1first"},
            {"remote": "vpn.example.net:6610", "public_key": "quellpub1abc", "address": "192.0.2.7:6610"},
        ],
        "backend": {"degraded": true, "reason": "degraded: probe failed 5 times", "backends": []},
    })
}

#[test]
fn why_says_what_stands_between_by_any_of_the_servers_names() {
    let folder = Folder::new();
    let dir = folder.0.path();
    let _exit = folder.serve("exit.sock", json!({"role": "provider", "sessions": []}));
    let _other = folder.serve(
        "a.sock",
        json!({"state": "up", "exits": [{"state": "up"}], "servers": [{"remote": "other:1"}]}),
    );
    let _client = folder.serve("quell0.sock", waiting());
    // A killed client's.
    drop(UnixListener::bind(folder.path("dead.sock")).unwrap());
    let names = [
        "vpn.example.net",
        "VPN.example.net:6610",
        "192.0.2.7",
        "quellpub1abc",
    ];
    for name in names {
        let said = quell(&[&"why", &name, &"--run-dir", &dir]);
        assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""), "{name}");
        let mut lines = said.out.lines();
        let first = "vpn.example.net:6610 is not connected: cannot find vpn.example.net";
        assert_eq!(lines.next(), Some(first));
        for row in [
            "next dial  in 5 s",
            "so far     7 dials, 1 sessions",
            "dial gate  blocked for 4.2 s: the last 3 dials failed",
            "backend    degraded: probe failed 5 times",
            "window     a member for 9 s; kept: the backend is degraded",
            "new flows  go elsewhere",
        ] {
            assert!(
                said.out.lines().any(|line| line == row),
                "{row}:\n{}",
                said.out
            );
        }
    }
    let said = quell(&[&"why", &"other:1", &"--run-dir", &dir]);
    assert!(
        said.out
            .starts_with("nothing stands in the way of other:1: the tunnel is up\n")
    );
    let said = quell(&[&"why", &"vpn.example.net:443", &"--run-dir", &dir]);
    assert_eq!(said.exit, Exit::Failed);
    assert_one_error(&said);
    let known = "no client here dials vpn.example.net:443: those that run dial other:1, first.example.net:6610, vpn.example.net:6610";
    assert_eq!(said.err, format!("error: {known}\n"));
}

#[test]
fn why_without_a_client_says_so_and_a_stalled_path_is_no_tunnel_that_is_up() {
    let folder = Folder::new();
    let run = || quell(&[&"why", &"a", &"--run-dir", &folder.0.path()]);
    assert!(run().err.contains("no control socket in"));
    let exit = folder.serve("exit.sock", json!({"role": "provider"}));
    let said = run();
    assert_eq!(said.exit, Exit::Failed);
    let words = "error: no client runs here that could dial a, and to a provider it is no destination such as";
    assert!(said.err.starts_with(words), "{}", said.err);
    drop(exit);
    let status = json!({
        "state": "up",
        "exits": [{"state": "up", "path": {"stalled": true}}],
        "servers": [{"remote": "a:6610"}],
    });
    let _client = folder.serve("quell0.sock", status);
    let said = run();
    let first = "a:6610 is connected, but the path to it does not answer\n";
    assert!(said.out.starts_with(first), "{}", said.out);
}

#[test]
fn why_asks_a_provider_about_a_destination_that_no_client_dials() {
    let folder = Folder::new();
    let serve = |name: &str| {
        let handler: Handler = Arc::new(|request| {
            Box::pin(async move {
                match request.command {
                    Asked::Judge(question) => Ok(json!({
                        "allowed": false,
                        "class": "private",
                        "reason": format!("denied: {question} is private"),
                        "denied_packets": 7,
                        "partial_rules": ["allow 10.1.2.3/32 udp/53"],
                    })),
                    Asked::Status | _ => Ok(json!({"role": "provider"})),
                }
            })
        });
        control::serve(&folder.path(name), handler).unwrap()
    };
    let _exit = serve("exit.sock");
    let _client = folder.serve("quell0.sock", waiting());
    let why = |what: &str| quell(&[&"why", &what, &"--run-dir", &folder.0.path()]);
    let said = why("10.1.2.3:443");
    assert_eq!((said.exit, said.err.as_str()), (Exit::Done, ""));
    let expected = "\
10.1.2.3 tcp/443: denied: 10.1.2.3 tcp/443 is private

so far    7 packets denied for it
see also  egress: allow 10.1.2.3/32 udp/53
";
    assert_eq!(said.out, expected);
    // A server that a client dials is asked about as such, and a name is none of a destination.
    assert!(
        why("192.0.2.7")
            .out
            .starts_with("vpn.example.net:6610 is not")
    );
    let said = why("10.0.0.0/8");
    assert!(
        said.err
            .starts_with("error: no client here dials 10.0.0.0/8"),
        "{}",
        said.err
    );
    // Of two exits it is said whose answer is whose.
    let _second = serve("exit2.sock");
    let said = why("tcp/25");
    assert_eq!(
        said.out.matches(".sock:\ntcp/25: denied").count(),
        2,
        "{}",
        said.out
    );
}

#[test]
fn status_shows_the_backend_in_one_line_to_people_and_whole_to_programs() {
    let folder = Folder::new();
    let server = folder.serve("quell0.sock", waiting());
    let said = quell(&[&"status", &"--socket", &server.path()]);
    let row = |line: &&str| line.starts_with("backend ");
    let rows: Vec<_> = said.out.lines().filter(row).collect();
    assert_eq!(rows.len(), 1, "{}", said.out);
    assert!(
        rows[0].ends_with("  degraded: probe failed 5 times"),
        "{rows:?}"
    );
    let said = quell(&[&"status", &"--json", &"--socket", &server.path()]);
    let status: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(status["backend"], waiting()["backend"]);
}
