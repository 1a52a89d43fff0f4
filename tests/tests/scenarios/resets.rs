//! Connections that are lost while both ends live: the session goes on over the next one (DESIGN §4, RESUME).
//!
//! Nothing but a transport error takes a QUIC connection and leaves both processes alive, and a stateless reset (RFC 9000
//! §10.3) is one that can be made to order. Its token is a keyed hash of the connection id that the client sends to, the key
//! follows from the provider's identity, and the relay stands where it sees that id in every packet. One forged datagram
//! takes the client's connection at once; the provider notices nothing, and goes on sending to a socket that is gone until
//! the client comes back with RESUME and fences it.
//!
//! The token is derived here a second time, from the key itself. So these tests hold that derivation, too: a provider that
//! derived it otherwise after an update could no longer tell its old clients that it had been restarted.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::{hkdf, hmac};
use libtest_mimic::Failed;
use quell_lab::http::{self, Download, Server};
use quell_lab::relay::Relay;
use quell_lab::topology::WORLD_V4;
use quell_lab::{LabError, content};
use quell_net::identity::Identity;
use quell_sim::link::LinkConfig;
use serde_json::Value;

use crate::fixture::{Outcome, World, balanced, trials, within};
use crate::links::relayed;

trials![
    a_reset_connection_is_resumed_and_an_open_download_goes_on,
    ten_resets_in_a_row_leave_one_session_and_one_download,
];

/// Bytes of the connection ids of ours.
const CONNECTION_ID_LEN: usize = 8;
/// RFC 9000 §10.3.
const RESET_TOKEN_LEN: usize = 16;
/// What stands before the token: enough not to be told from a packet.
const RESET_PADDING_LEN: usize = 40;
/// A session that lived this long is stable, and after one the next dial comes within [`REDIAL_MAX`].
const STABLE: Duration = Duration::from_secs(5);
const REDIAL_MAX: Duration = Duration::from_secs(1);
/// A dial, RESUME and the answer over 10 ms, on a busy machine.
const DIAL_MAX: Duration = Duration::from_secs(2);
/// What is in flight when a download ends arrives within this time.
const ARRIVE_MAX: Duration = Duration::from_secs(5);
/// 4 MB/s: the downloads here last as long as the resets do, whatever the machine can do.
const LINK_BYTES_S: u64 = 4_000_000;

/// The key of `provider`'s stateless resets.
fn reset_key(provider: &Identity) -> Result<hmac::Key, Failed> {
    let prk =
        hkdf::Salt::new(hkdf::HKDF_SHA256, b"quell").extract(provider.secret_key().as_bytes());
    let mut key = [0; 32];
    let label = [&b"quell stateless reset"[..]];
    let filled = prk
        .expand(&label, hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut key));
    filled.map_err(|_| "no key")?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &key))
}

/// A reset of the connection that `packet` belongs to; `None` for packets of a handshake (RFC 9000 §17.2, §17.3.1).
fn reset_of(packet: &[u8], key: &hmac::Key) -> Option<Vec<u8>> {
    let (first, rest) = packet.split_first()?;
    let short = first & 0xc0 == 0x40;
    let id = rest.get(..CONNECTION_ID_LEN).filter(|_| short)?;
    let mut reset = vec![0x5a; RESET_PADDING_LEN];
    reset.extend(&hmac::sign(key, id).as_ref()[..RESET_TOKEN_LEN]);
    Some(reset)
}

/// A tunnel over a link of 10 ms and [`LINK_BYTES_S`], and the key that ends its connections.
struct Stage {
    world: World,
    relay: Relay,
    key: hmac::Key,
    server: Server,
}

impl Stage {
    fn new() -> Result<Self, Failed> {
        let link = LinkConfig {
            delay: Duration::from_millis(5),
            rate_bytes_per_s: Some(LINK_BYTES_S),
            ..LinkConfig::default()
        };
        let (world, relay) = relayed(link)?;
        let server = world
            .net
            .world
            .run(|| Server::start(SocketAddr::new(WORLD_V4, 0)))??;
        Ok(Self {
            key: reset_key(&world.plan.provider)?,
            world,
            relay,
            server,
        })
    }

    /// Runs `act` while the client downloads `bytes`, which arrive as they were.
    fn downloading(&self, bytes: u64, act: impl FnOnce() -> Outcome) -> Result<Download, Failed> {
        let (client, address) = (&self.world.net.client, self.server.address());
        let download = || http::download(address, bytes, Duration::from_secs(200));
        let file = thread::scope(|scope| {
            let running = scope.spawn(|| client.run(download));
            act()?;
            if running.is_finished() {
                return Err("the download was over before the resets were".into());
            }
            let file = running.join().map_err(|_| "the download panicked")???;
            Ok::<_, Failed>(file)
        })?;
        assert_eq!(file.sha256, content::sha256(bytes));
        Ok(file)
    }

    /// Takes the client's connection and waits for the `nth` resumption; how long it took.
    fn reset(&self, nth: u64) -> Result<Duration, Failed> {
        let key = self.key.clone();
        let start = Instant::now();
        let forged: Result<(), LabError> = self.relay.forge(move |packet| reset_of(packet, &key));
        forged?;
        within(3 * STABLE, "the session is resumed", || {
            (count(&self.world.client.status().ok()?, "resumes") >= nth).then_some(())
        })?;
        Ok(start.elapsed())
    }

    /// All went on as one session, over one connection more than there were resets, and nothing is missing.
    fn held(self, resets: u64) -> Outcome {
        let (client, provider) =
            within(ARRIVE_MAX, "what each end accepted is at the other", || {
                let client = self.world.client.status().ok()?;
                let provider = self.world.provider.status().ok()?;
                let (near, far) = (
                    &client["exits"][0]["path"],
                    &provider["sessions"][0]["path"],
                );
                (crossed(near, far) && crossed(far, near)).then_some((client, provider))
            })?;
        println!(
            "{resets} resets: {} dials, {} sessions, {} resumed; the provider fenced {}; {} packets down, {} up",
            client["dials"],
            client["sessions"],
            client["resumes"],
            provider["refused"]["fenced"],
            client["delivered"],
            client["tun_packets"],
        );
        assert_eq!(
            ["dials", "sessions", "resumes"].map(|name| count(&client, name)),
            [1 + resets, 1, resets],
            "{client}"
        );
        let sessions = provider["sessions"].as_array().map(Vec::len);
        assert_eq!(
            (count(&provider, "sessions_total"), sessions),
            (1, Some(1)),
            "{provider}"
        );
        let (resumes, fenced) = (&provider["resumes"], &provider["refused"]["fenced"]);
        assert_eq!([resumes, fenced], [resets, resets], "{provider}");
        balanced(&client)?;
        balanced(&provider)?;
        self.world.finish()
    }
}

/// Whether all that `from` put on its lane and did not drop there was delivered by `to`, once.
fn crossed(from: &Value, to: &Value) -> bool {
    let drops = from["flow"]["send"]["dropped"].as_object();
    let drops: u64 = drops
        .into_iter()
        .flat_map(|table| table.values())
        .filter_map(Value::as_u64)
        .sum();
    let deliveries = count(&to["flow"]["receive"], "deliveries");
    deliveries > 0 && deliveries + drops == count(&from["counters"], "laned")
}

fn count(status: &Value, name: &str) -> u64 {
    status[name].as_u64().unwrap_or(0)
}

fn a_reset_connection_is_resumed_and_an_open_download_goes_on() -> Outcome {
    let stage = Stage::new()?;
    let file = stage.downloading(60_000_000, || {
        thread::sleep(STABLE + Duration::from_secs(1));
        let took = stage.reset(1)?;
        println!(
            "resumed {took:?} after the reset (bound {:?})",
            REDIAL_MAX + DIAL_MAX
        );
        assert!(took <= REDIAL_MAX + DIAL_MAX, "{took:?}");
        Ok(())
    })?;
    println!(
        "60 MB in {:?}, the longest gap {:?}",
        file.elapsed, file.longest_gap
    );
    stage.held(1)
}

fn ten_resets_in_a_row_leave_one_session_and_one_download() -> Outcome {
    const RESETS: u64 = 10;
    let stage = Stage::new()?;
    let file = stage.downloading(270_000_000, || {
        for nth in 1..=RESETS {
            thread::sleep(STABLE + Duration::from_millis(200));
            stage.reset(nth)?;
        }
        Ok(())
    })?;
    println!(
        "270 MB in {:?}, the longest gap {:?}",
        file.elapsed, file.longest_gap
    );
    stage.held(RESETS)
}
