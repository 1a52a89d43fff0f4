//! Provider and backend die as by kill -9 under traffic, again and again, and no byte that was signed for is lost or counted
//! twice.
//!
//! A client fetches files without a pause. In each round the provider or the backend dies at a moment that no one chose,
//! and starts again. Between death and start the disk is read: what was durable then stays, and grows. At the end all
//! books say the same.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::content;
use quell_lab::http;
use rand::RngExt as _;

use super::books::{Totals, durable, durable_beyond_signed, none_fell, signed};
use super::is_long;
use super::postgres::Cluster;
use super::stage::{READY, SOCKS, Stage, WEB, address, is_up};
use crate::fixture::{Outcome, trials, within};

trials![no_receipt_is_lost_or_counted_twice_over_either_store,];

/// Deaths of each of the two.
const KILLS: usize = 20;
const KILLS_LONG: usize = 200;
/// How long both live between two deaths, in milliseconds.
const LIFE_MS: std::ops::Range<u64> = 100..900;
/// A client rests from an exit that died three times in a row within seconds, for longer each time. One that starts anew
/// does not know; so the client starts anew, in good order, before that.
const FLAPS_BEFORE_REST: usize = 2;
const FILE_BYTES: u64 = 256 << 10;
/// What a provider may bear of one death: bytes that were carried and not signed for, or signed for and not yet durable
/// (DESIGN §7).
const BORNE_BYTES_MAX: u64 = 1 << 20;
/// Inner packets are larger than what they carry, and acknowledgements come back.
const OVERHEAD_PERCENT_MAX: u64 = 15;

/// Files that come without a pause.
struct Fetching {
    stop: Arc<AtomicBool>,
    /// Bytes of files that came whole, with the right hash.
    whole: Arc<AtomicU64>,
    files: Arc<AtomicU64>,
    broken: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<quell_lab::Result<()>>>,
}

impl Fetching {
    fn start(stage: &Stage) -> Result<Self, Failed> {
        let stop = Arc::new(AtomicBool::new(false));
        let counters: [Arc<AtomicU64>; 3] = std::array::from_fn(|_| Arc::default());
        let [whole, files, broken] = counters.clone();
        let told = Arc::clone(&stop);
        let wanted = content::sha256(FILE_BYTES);
        let thread = stage.net.spawn_thread(move || {
            let [whole, files, broken] = counters;
            while !told.load(Ordering::Relaxed) {
                // A flow that was cut says nothing: it is given up soon, and another tried.
                let limit = Duration::from_secs(1);
                match http::download_via(address(SOCKS), address(WEB), FILE_BYTES, limit) {
                    Ok(got) => {
                        assert_eq!(got.sha256, wanted);
                        whole.fetch_add(FILE_BYTES, Ordering::Relaxed);
                        files.fetch_add(1, Ordering::Relaxed);
                        // Some 10 MB/s at most: the machine is others' too.
                        thread::sleep(Duration::from_millis(20));
                    }
                    Err(_) => {
                        broken.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(50));
                    }
                }
            }
        })?;
        Ok(Self {
            stop,
            whole,
            files,
            broken,
            thread: Some(thread),
        })
    }

    fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    fn end(mut self) -> Result<(u64, u64), Failed> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| "a file had another hash")??;
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok((count(&self.whole), count(&self.broken)))
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Both stores at once: each is mostly waiting for a process to come back.
// case B30
fn no_receipt_is_lost_or_counted_twice_over_either_store() -> Outcome {
    let postgresql = thread::spawn(with_postgresql);
    let redb = Stage::new().and_then(kills);
    let postgresql = postgresql
        .join()
        .map_err(|_| "the kills over PostgreSQL panicked")?;
    redb.and(postgresql)
}

fn with_postgresql() -> Outcome {
    let Some(cluster) = Cluster::start()? else {
        println!("skipped: no PostgreSQL");
        return Ok(());
    };
    let mut stage = Stage::new()?;
    stage.configure_backend("", Some(&cluster.store()))?;
    stage.cluster = Some(cluster);
    kills(stage)
}

/// A client that dials again as fast as it may: the waits of R-17 would grow to a minute over these deaths.
fn dial_at_once(stage: &Stage) -> Outcome {
    let file = stage.path("client/client.toml");
    let text = fs::read_to_string(&file)?;
    let dials = "\n[transport]\nreconnect_base = \"100ms\"\nreconnect_max = \"200ms\"\n";
    fs::write(&file, text + dials)?;
    Ok(())
}

fn life() {
    thread::sleep(Duration::from_millis(rand::rng().random_range(LIFE_MS)));
}

fn kills(stage: Stage) -> Outcome {
    let kills = if is_long() { KILLS_LONG } else { KILLS };
    let mut cast = stage.cast_with(&[], dial_at_once)?;
    let fetching = Fetching::start(&stage)?;
    let (mut totals, mut settled) = (Totals::new(), [0; 2]);
    let mut back_max = Duration::ZERO;
    let began = Instant::now();
    for round in 0..kills {
        if round > 0 && round % FLAPS_BEFORE_REST == 0 {
            cast.client.stop()?;
            cast.client = stage.up()?;
            cast.client.until("up", READY, is_up)?;
        }
        life();
        cast.provider.kill()?;
        let found = durable(&stage.path("provider"))?;
        none_fell(&totals, &found)
            .map_err(|error| format!("round {round}: {}", error.message().unwrap_or_default()))?;
        totals = found;
        cast.provider = stage.provide()?;
        let files = fetching.files();
        let killed = Instant::now();
        life();
        cast.backend.kill()?;
        cast.backend = stage.backend()?;
        let now = stage.settled()?;
        assert!(
            now[0] >= settled[0] && now[1] >= settled[1],
            "round {round}: sums fell from {settled:?} to {now:?}"
        );
        let durable_bytes: u64 = totals.values().sum();
        settled = now;
        println!("round {round}: durable {durable_bytes}, settled {settled:?}, {files} files",);
        let back = || (fetching.files() > files).then_some(());
        within(READY, "the client's traffic returns", back).map_err(|error| {
            format!(
                "round {round}: {}\n{}",
                error.message().unwrap_or_default(),
                cast.client.log()
            )
        })?;
        back_max = back_max.max(killed.elapsed());
    }
    let took = began.elapsed();
    let (whole, broken) = fetching.end()?;
    println!("{kills} deaths of each in {took:?}; traffic back within {back_max:?}");
    the_books_agree(&stage, cast, whole, broken, kills, &totals)
}

/// All that was signed for is durable at the provider and settled at the backend, once; and it is what was carried.
fn the_books_agree(
    stage: &Stage,
    cast: super::stage::Cast,
    whole: u64,
    broken: u64,
    kills: usize,
    totals: &Totals,
) -> Outcome {
    // The last receipts of a client that is quiet: a second, and a filing's interval.
    let mut last = [0; 2];
    let mut same_since = Instant::now();
    let quiet = |now| {
        if now != last {
            (last, same_since) = (now, Instant::now());
        }
        same_since.elapsed() > Duration::from_secs(12)
    };
    stage.until_settled(Duration::from_secs(90), quiet)?;
    cast.client.stop()?;
    cast.provider.stop()?;
    let durable = durable(&stage.path("provider"))?;
    none_fell(totals, &durable)?;
    let held = signed(&stage.path("client"))?;
    let beyond = durable_beyond_signed(&stage.path("provider"), &held)?;
    assert!(
        beyond.is_empty(),
        "durable beyond what was signed for: {beyond:02x?}"
    );
    let of = |(id, total): (&[u8; 16], &u64)| held.get(id).copied().unwrap_or(*total);
    let signed: u64 = durable.iter().map(of).sum();
    let durable: u64 = durable.values().sum();
    let settled = stage.settled()?;
    println!(
        "{whole} bytes of files came whole, {broken} attempts broke; signed {signed}, durable {durable}, settled {settled:?}"
    );
    assert_eq!(settled[0], settled[1], "both accounts say the same");
    assert_eq!(settled[0], durable, "all that is durable is settled, once");
    // What was carried is at most what came whole and one file for each attempt that broke.
    let carried_max = (whole + broken * FILE_BYTES) * (100 + OVERHEAD_PERCENT_MAX) / 100;
    assert!(
        signed <= carried_max,
        "{signed} signed, {carried_max} carried"
    );
    assert!(
        settled[0] + kills as u64 * BORNE_BYTES_MAX >= whole,
        "what came whole is paid for, but for what a death may cost"
    );
    cast.backend.stop()
}
