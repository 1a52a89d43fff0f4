//! A client under a ceiling of memory, in a process of its own, which is watched from outside.
//!
//! ```text
//! this process:  exit ── relay (20 ms there and back, loss, a cut) ──┐   samples RssAnon of the child
//! child process: client with 24 MiB, a channel, a load ─────────────┘
//! ```
//!
//! The child is this program again, with its one task in the environment. What counts is anonymous memory as the kernel
//! sees it (proc_pid_status(5)), the program's own and that of its test harness included: code is shared and can be read
//! again, and does not count on the systems whose ceiling this is.
//!
//! A debug build is some ten times slower and carries a tenth of what a release build does.
#![cfg(all(feature = "provider", target_os = "linux"))]
// Events are more than those that matter here, and may be more yet.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quell::packet::build;
use quell::packet::build::Segment;
use quell::packet::tcp::flags;
use quell::{ChannelHandle, Client, Config, Device, Event, Identity, Provider};
use quell_lab::relay::{Relay, RelayConfig};
use quell_sim::link::LinkConfig;

/// Who the child is told to be.
const ROLE: &str = "QUELL_TEST_MEMORY_CLIENT";
/// The ceiling.
const MEMORY_BYTES: usize = 24 << 20;
/// Bytes of the load each second and direction, in packets' payload: 20 Mbit/s, or what `QUELL_TEST_MEMORY_MBIT` says.
fn rate_bytes_per_s() -> u64 {
    let mbit = std::env::var("QUELL_TEST_MEMORY_MBIT");
    let default = if cfg!(debug_assertions) { 20 } else { 200 };
    mbit.map_or(default, |mbit| mbit.parse().unwrap()) * 125_000
}
/// Of it, what must cross while the path is there.
const CARRIED: f64 = 0.95;
/// The same after an outage: its end is noticed within a second.
const CARRIED_HEALED: f64 = 0.5;
/// Payload of a packet of the load.
const PAYLOAD_BYTES: usize = 1_200;
/// Flows of the load.
const FLOWS: u16 = 8;
/// How long each act takes.
const ACT: Duration = Duration::from_secs(4);
const CUT: Duration = Duration::from_secs(3);

/// Kills the child, however the test ends.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guard {
    fn anonymous_bytes(&self) -> usize {
        let path = format!("/proc/{}/status", self.0.id());
        let status = fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.unwrap().trim().trim_end_matches(" kB");
        kib.parse::<usize>().unwrap() * 1_024
    }
}

/// A TCP segment in the middle of a flow, as a sender sends them.
fn segment(from: SocketAddr, to: SocketAddr, sequence: u32) -> Vec<u8> {
    let segment = Segment {
        sequence,
        acknowledgement: 1,
        flags: flags::ACK,
        window: 64_240,
        ..Segment::default()
    };
    build::tcp(from, to, &segment, &[0x5a; PAYLOAD_BYTES])
}

/// Which way a load goes.
#[derive(Clone, Copy)]
enum Direction {
    Out,
    Back,
}

/// The ends of a flow: the client at `own`, and the far end.
fn ends(own: Ipv4Addr, flow: u16, direction: Direction) -> (SocketAddr, SocketAddr) {
    let (near, far) = ((own, 10_000 + flow).into(), (FAR, 443).into());
    match direction {
        Direction::Out => (near, far),
        Direction::Back => (far, near),
    }
}

/// Offers the load into `handle` until `is_over`.
fn offer(handle: &ChannelHandle, own: Ipv4Addr, direction: Direction, is_over: &AtomicBool) {
    let (began, rate) = (Instant::now(), rate_bytes_per_s());
    let mut sent = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        let due = began.elapsed().as_secs_f64() * to_f64(rate);
        while to_f64(sent * PAYLOAD_BYTES as u64) < due {
            let flow = u16::try_from(sent % u64::from(FLOWS)).unwrap();
            let sequence = u32::try_from(sent / u64::from(FLOWS)).unwrap();
            let (from, to) = ends(own, flow, direction);
            let sequence = sequence.wrapping_mul(u32::try_from(PAYLOAD_BYTES).unwrap());
            let packet = segment(from, to, sequence);
            // Full: what the tunnel does not take, the load loses, as an interface would.
            let _ = handle.inject_copy(&packet);
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of some seconds")]
fn to_f64(bytes: u64) -> f64 {
    bytes as f64
}

/// Counts what comes out of `handle`.
fn count(handle: ChannelHandle, bytes: Arc<AtomicU64>, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        if let Some(packet) = handle.take_within(Duration::from_millis(20)) {
            let payload = packet.len().saturating_sub(40) as u64;
            bytes.fetch_add(payload, Ordering::Relaxed);
        }
    }
}

/// The child: a client, and half of the load.
#[test]
fn client_of_the_test_beside() {
    let Ok(text) = std::env::var(ROLE) else {
        return;
    };
    let key = std::env::var("QUELL_TEST_MEMORY_KEY").unwrap();
    let (device, packets) = Device::channel(512);
    let client = Client::builder()
        .config(Config::from_text(&text).unwrap())
        .key(key.parse().unwrap())
        .memory_max(MEMORY_BYTES)
        .device(device)
        .start()
        .unwrap();
    let mut events = client.events();
    let mut own = None;
    while let Some(event) = events.next_within(Duration::from_secs(10)) {
        match event {
            Event::Tunnel { addresses, .. } => own = addresses.ipv4,
            Event::Up { .. } => break,
            _ => {}
        }
    }
    let own = own.unwrap().0;
    let is_over = Arc::new(AtomicBool::new(false));
    let bytes = Arc::new(AtomicU64::new(0));
    let (taken, over) = (Arc::clone(&bytes), Arc::clone(&is_over));
    let taker = packets.clone();
    let counting = thread::spawn(move || count(taker, taken, over));
    let mut out = std::io::stdout();
    writeln!(out, "\nup {own}").unwrap();
    out.flush().unwrap();
    let mut line = String::new();
    let mut input = BufReader::new(std::io::stdin());
    let over = Arc::clone(&is_over);
    let load = packets.clone();
    let offering = thread::spawn(move || offer(&load, own, Direction::Out, &over));
    while input.read_line(&mut line).unwrap() > 0 && line.trim() != "end" {
        line.clear();
        let report = client.status_within(Duration::from_secs(5)).unwrap();
        let (came, lost) = (bytes.load(Ordering::Relaxed), report.client.unaccounted);
        writeln!(out, "\nreport {came} {lost}").unwrap();
        out.flush().unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    offering.join().unwrap();
    counting.join().unwrap();
    client.shutdown(Duration::from_secs(2)).unwrap();
    // The device is there to the end.
    drop(packets);
}

const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

struct Stage {
    provider: Provider,
    relay: Relay,
    child: Guard,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    own: Ipv4Addr,
    world: ChannelHandle,
}

fn link(loss: f64) -> LinkConfig {
    LinkConfig {
        delay: Duration::from_millis(10),
        loss,
        ..LinkConfig::default()
    }
}

impl Stage {
    fn new() -> Self {
        let (me, exit) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let (device, world) = Device::channel(4_096);
        let text = format!(
            "listen = \"127.0.0.1:0\"\naddresses.ipv4_pool = \"10.86.0.0/24\"\n\
         egress.allow = [\"192.0.2.0/24\"]\n\
             clients = [{{ name = \"phone\", public_key = \"{}\" }}]",
            me.public_key()
        );
        let provider = Provider::builder()
            .config(Config::from_text(&text).unwrap())
            .key(exit.secret_key().clone())
            .device(device)
            .start()
            .unwrap();
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let mut relay = RelayConfig::new(listen, provider.local_addr());
        (relay.up, relay.down) = (link(0.0), link(0.0));
        let relay = Relay::start(relay).unwrap();
        let text = format!(
            "[provider]\naddress = \"{}\"\npublic_key = \"{}\"",
            relay.address(),
            exit.public_key()
        );
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["client_of_the_test_beside", "--exact", "--nocapture"])
            .env(ROLE, text)
            .env("QUELL_TEST_MEMORY_KEY", me.secret_key().to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stage = Self {
            provider,
            relay,
            child: Guard(child),
            lines,
            own: Ipv4Addr::UNSPECIFIED,
            world,
        };
        stage.own = stage.line("up ").parse().unwrap();
        stage
    }

    /// What follows `word` on a line of the child's.
    fn line(&mut self, word: &str) -> String {
        loop {
            let line = self.lines.next().unwrap().unwrap();
            if let Some(rest) = line.strip_prefix(word) {
                return rest.to_owned();
            }
        }
    }

    fn say(&mut self, word: &str) {
        let input = self.child.0.stdin.as_mut().unwrap();
        writeln!(input, "{word}").unwrap();
    }

    /// Payload that the child's side has taken.
    fn taken_by_child(&mut self) -> u64 {
        self.say("report");
        let report = self.line("report ");
        let (came, unaccounted) = report.split_once(' ').unwrap();
        assert_eq!(unaccounted, "0");
        came.parse().unwrap()
    }
}

/// What crossed in an act, each way, and the most memory in it.
#[derive(Debug)]
struct Act {
    up_bytes: u64,
    down_bytes: u64,
    anonymous_bytes: usize,
}

fn act(stage: &mut Stage, far: &AtomicU64, time: Duration) -> Act {
    let before = (far.load(Ordering::Relaxed), stage.taken_by_child());
    let mut anonymous_bytes = 0;
    let end = Instant::now() + time;
    while Instant::now() < end {
        anonymous_bytes = anonymous_bytes.max(stage.child.anonymous_bytes());
        thread::sleep(Duration::from_millis(20));
    }
    Act {
        up_bytes: far.load(Ordering::Relaxed) - before.0,
        down_bytes: stage.taken_by_child() - before.1,
        anonymous_bytes,
    }
}

// R-7, R-8, cases B64 and B67: 24 MiB carry the load both ways through loss and an outage.
#[test]
fn a_client_with_24_mib_carries_its_load_through_loss_and_an_outage() {
    let mut stage = Stage::new();
    let (far, is_over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (handle, bytes, over) = (stage.world.clone(), Arc::clone(&far), Arc::clone(&is_over));
    let counting = thread::spawn(move || count(handle, bytes, over));
    let (handle, own, over) = (stage.world.clone(), stage.own, Arc::clone(&is_over));
    let offering = thread::spawn(move || offer(&handle, own, Direction::Back, &over));
    let well = act(&mut stage, &far, ACT);
    stage.relay.set_up(link(0.01)).unwrap();
    stage.relay.set_down(link(0.01)).unwrap();
    let lossy = act(&mut stage, &far, ACT);
    stage.relay.cut();
    let cut = act(&mut stage, &far, CUT);
    stage.relay.heal();
    let healed = act(&mut stage, &far, ACT);
    is_over.store(true, Ordering::Relaxed);
    stage.say("end");
    let due = to_f64(rate_bytes_per_s() * ACT.as_secs());
    for (name, act, part) in [
        ("well", &well, CARRIED),
        ("lossy", &lossy, CARRIED),
        ("cut", &cut, 0.0),
        ("healed", &healed, CARRIED_HEALED),
    ] {
        let kib = act.anonymous_bytes >> 10;
        println!(
            "{name}: {kib} KiB, {} bytes up, {} down of {due}",
            act.up_bytes, act.down_bytes
        );
        assert!(act.anonymous_bytes <= MEMORY_BYTES, "{name}: {act:?}");
        let carried = act.up_bytes.min(act.down_bytes);
        assert!(to_f64(carried) >= due * part, "{name}: {act:?}");
    }
    counting.join().unwrap();
    offering.join().unwrap();
    stage.provider.shutdown(Duration::from_secs(10)).unwrap();
}
