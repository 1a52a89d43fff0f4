//! The bindings: generated for three languages from the compiled library, and those for Python driven against an exit.
//!
//! Kotlin's and Swift's are compiled where a compiler is at hand; a step that cannot run here says `skipped: why`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use quell::packet::{IpPacket, build};
use quell::{ChannelHandle, Config, Device, Identity, Provider};
use uniffi::{GenerateOptions, TargetLanguage};

/// The library that cargo built beside this test.
fn library() -> PathBuf {
    let name = format!(
        "{}quell_ffi{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let own = std::env::current_exe().unwrap();
    let mut folders = own.ancestors().skip(1).take(2);
    let found = folders.find_map(|folder| Some(folder.join(&name)).filter(|path| path.exists()));
    found.unwrap()
}

/// Bindings of `language` in `folder`, with the library beside them.
fn generate(language: TargetLanguage, folder: &Path) {
    let library = library();
    let options = GenerateOptions {
        languages: vec![language],
        source: library.to_str().unwrap().into(),
        out_dir: folder.to_str().unwrap().into(),
        ..GenerateOptions::default()
    };
    uniffi::generate(options).unwrap();
    fs::copy(&library, folder.join(library.file_name().unwrap())).unwrap();
}

/// Whether `program` can be run; else it is said why not.
fn has(program: &str) -> bool {
    let version = Command::new(program).arg("-version").output();
    if version.is_err() {
        println!("skipped: no {program} to compile with");
    }
    version.is_ok()
}

fn runs(command: &mut Command) {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
}

#[test]
fn kotlins_bindings_are_generated() {
    let folder = tempfile::tempdir().unwrap();
    generate(TargetLanguage::Kotlin, folder.path());
    let file = folder.path().join("uniffi/quell/quell.kt");
    let text = fs::read_to_string(&file).unwrap();
    for name in [
        "class Tunnel",
        "interface Protector",
        "fun `networkChanged`",
    ] {
        assert!(text.contains(name), "{name}");
    }
    if has("kotlinc") {
        println!("skipped: compiling needs JNA beside kotlinc");
    }
}

#[test]
fn swifts_bindings_are_generated() {
    let folder = tempfile::tempdir().unwrap();
    generate(TargetLanguage::Swift, folder.path());
    let text = fs::read_to_string(folder.path().join("quell.swift")).unwrap();
    for name in ["class Tunnel", "protocol Protector", "func networkChanged"] {
        assert!(text.contains(name), "{name}");
    }
    if has("swiftc") {
        let map = folder.path().join("quellFFI.modulemap");
        runs(
            Command::new("swiftc")
                .current_dir(folder.path())
                .args(["-typecheck", "quell.swift", "-Xcc"])
                .arg(format!("-fmodule-map-file={}", map.display())),
        );
    }
}

/// An exit that answers each datagram with itself, its ends exchanged.
struct Exit {
    provider: Provider,
    /// The device is there to the end.
    _world: ChannelHandle,
    is_over: Arc<AtomicBool>,
    echo: Option<JoinHandle<()>>,
}

fn echo(world: &ChannelHandle, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let Some(packet) = world.take_within(Duration::from_millis(20)) else {
            continue;
        };
        let view = IpPacket::parse(&packet).unwrap();
        let (from, to) = (view.source(), view.destination());
        let answer = build::udp((to, 53).into(), (from, 4_000).into(), &packet[28..]);
        world.inject_copy(&answer).unwrap();
    }
}

impl Exit {
    fn start(listen: SocketAddr, exit: &Identity, user: &Identity) -> Self {
        let (device, world) = Device::channel(256);
        let text = format!(
            "listen = \"{listen}\"\naddresses.ipv4_pool = \"10.86.0.0/24\"\negress.allow = [\"192.0.2.0/24\"]\ntransport.drain = \"0s\"\n\
             clients = [{{ name = \"phone\", public_key = \"{}\" }}]",
            user.public_key()
        );
        let provider = Provider::builder()
            .config(Config::from_text(&text).unwrap())
            .key(exit.secret_key().clone())
            .device(device)
            .start()
            .unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, far) = (Arc::clone(&is_over), world.clone());
        let echo = thread::spawn(move || echo(&far, &over));
        Self {
            provider,
            _world: world,
            is_over,
            echo: Some(echo),
        }
    }

    fn stop(mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.provider.shutdown(Duration::from_secs(5)).unwrap();
        self.echo.take().unwrap().join().unwrap();
    }
}

/// Ends the program, however the test does.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The rest of the next line that begins with `word`; all others are shown.
fn line(lines: &mut Lines<BufReader<ChildStdout>>, word: &str) -> String {
    loop {
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("it ended before {word:?}"))
            .unwrap();
        println!("python: {line}");
        if let Some(rest) = line.strip_prefix(word) {
            return rest.to_owned();
        }
    }
}

//
#[test]
fn python_connects_transfers_and_hears_of_an_outage() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    generate(TargetLanguage::Python, folder.path());
    let (user, exit) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let first = Exit::start("127.0.0.1:0".parse().unwrap(), &exit, &user);
    let address = first.provider.local_addr();
    let config = format!(
        "transport.reconnect_base = \"200ms\"\n[provider]\naddress = \"{address}\"\npublic_key = \"{}\"",
        exit.public_key()
    );
    let child = Command::new("python3")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drive.py"))
        .args([config, user.secret_key().to_text()])
        .env("PYTHONPATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Guard(child);
    let mut input = child.0.stdin.take().unwrap();
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    line(&mut lines, "transferred");
    first.stop();
    writeln!(input, "killed").unwrap();
    line(&mut lines, "stalled");
    let second = Exit::start(address, &exit, &user);
    writeln!(input, "restarted").unwrap();
    line(&mut lines, "back");
    line(&mut lines, "done");
    assert!(child.0.wait().unwrap().success());
    second.stop();
}
