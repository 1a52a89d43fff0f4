//! A database client's dial gate: nothing of quell but the gate, in simulated time.
//!
//! A pool of eight workers needs a connection to a database that goes away at 10 s and
//! comes back at 40 s. Each worker asks ten times a second. Without a gate that is eighty
//! dials a second for half a minute, and a herd when the database is back. With it there
//! are a few single dials, each further from the last.
//!
//! ```text
//! cargo run -p quell-sim --example dial_gate
//! ```

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use quell_core::config::DialGateConfig;
use quell_core::health::dial_gate::{DialGate, DialPermit};
use rand::SeedableRng as _;
use rand::rngs::SmallRng;

const TICK: Duration = Duration::from_millis(100);
const WORKERS: u32 = 8;

/// What the pool knows.
struct Pool {
    gate: DialGate,
    connected_since: Option<Instant>,
    dials: u32,
    asked: u32,
}

impl Pool {
    /// One worker needs a connection. A real client would dial here, and report later.
    fn connect(&mut self, database_is_up: bool, now: Instant) -> Option<String> {
        if self.connected_since.is_some() {
            return None;
        }
        self.asked += 1;
        let permit = match self.gate.try_acquire(now) {
            Ok(permit) => permit,
            Err(_fail_fast) => return None,
        };
        self.dials += 1;
        self.report(permit, database_is_up, now);
        Some(self.gate.status(now).to_string())
    }

    fn report(&mut self, permit: DialPermit, connected: bool, now: Instant) {
        if connected {
            self.gate.succeeded(permit, now);
            self.connected_since = Some(now);
        } else {
            self.gate.failed(permit, now);
        }
    }

    fn connection_lost(&mut self, now: Instant) {
        if let Some(since) = self.connected_since.take() {
            self.gate.on_connection_ended(now - since, now);
        }
    }
}

fn main() -> io::Result<()> {
    let config = DialGateConfig::default()
        .try_new()
        .map_err(io::Error::other)?;
    let mut out = io::stdout().lock();
    let start = Instant::now();
    let mut pool = Pool {
        gate: DialGate::new(config, SmallRng::seed_from_u64(7)),
        connected_since: None,
        dials: 0,
        asked: 0,
    };
    for tick in 0..800 {
        let now = start + TICK * tick;
        let is_up = !(100..400).contains(&tick);
        if !is_up {
            pool.connection_lost(now);
        }
        for _worker in 0..WORKERS {
            if let Some(words) = pool.connect(is_up, now) {
                let seconds = (now - start).as_secs_f64();
                writeln!(out, "{seconds:5.1} s  dialled; {words}")?;
            }
        }
    }
    let (asked, dials) = (pool.asked, pool.dials);
    writeln!(
        out,
        "{asked} times somebody wanted to dial, {dials} dials were made"
    )
}
