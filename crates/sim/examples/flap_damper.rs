//! The flap damper alone, in front of a catalog of services.
//!
//! Twenty hosts serve. One of them flaps ten times a second for two minutes; after
//! one minute a rack of six loses its power, which is hard evidence. Until then bad
//! weather makes half of all probes of the others fail, which is none. The catalog
//! shows its watchers what the damper lets pass.
//!
//! Time is simulated: two minutes take a moment, and each run prints the same.
//!
//! ```text
//! cargo run -p quell-sim --example flap_damper
//! ```

use std::io;
use std::time::{Duration, Instant};

use quell_core::config::{ConfigError, FlapConfig};
use quell_core::flap::{Evidence, FlapDamper};

const HOSTS: usize = 20;
const TICK: Duration = Duration::from_millis(50);
const END: Duration = Duration::from_secs(120);

/// What watchers see.
struct Catalog {
    names: Vec<String>,
    is_healthy: Vec<bool>,
    damper: FlapDamper<String>,
    /// Changes that watchers were told of, and those that they would have been.
    told: u32,
    undamped: u32,
    was_up: Vec<bool>,
}

impl Catalog {
    fn new(config: FlapConfig) -> Self {
        Self {
            names: (1..=HOSTS).map(|n| format!("exit-{n:02}")).collect(),
            is_healthy: vec![true; HOSTS],
            damper: FlapDamper::new(config, 42),
            told: 0,
            undamped: 0,
            was_up: vec![true; HOSTS],
        }
    }

    /// A probe says whether a host is up; `evidence` is what speaks against it if not.
    fn on_probe(&mut self, host: usize, is_up: bool, evidence: Evidence, now: Instant) {
        self.undamped += u32::from(self.was_up[host] != is_up);
        self.was_up[host] = is_up;
        let name = &self.names[host];
        let is_shown = if is_up {
            self.damper.on_healthy(name);
            true
        } else if self.is_healthy[host] {
            !self.damper.decide(name, evidence, now).is_allowed()
        } else {
            false
        };
        self.told += u32::from(self.is_healthy[host] != is_shown);
        self.is_healthy[host] = is_shown;
    }
}

fn run(catalog: &mut Catalog, start: Instant) {
    let mut at = Duration::ZERO;
    let mut round = 0_usize;
    while at < END {
        let now = start + at;
        catalog.on_probe(0, round % 2 == 1, Evidence::Soft, now);
        let has_power = at < END / 2;
        for host in 1..=6 {
            catalog.on_probe(host, has_power, Evidence::Hard, now);
        }
        if round.is_multiple_of(20) {
            for host in 7..HOSTS {
                let is_answered = !has_power || (host + round / 20).is_multiple_of(2);
                catalog.on_probe(host, is_answered, Evidence::Soft, now);
            }
        }
        at += TICK;
        round += 1;
    }
}

fn report(catalog: &Catalog, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "host      allowed  by host  by catalog  hard  shown")?;
    for (host, name) in catalog.names.iter().enumerate() {
        let Some(status) = catalog.damper.host(name) else {
            continue;
        };
        let c = status.counters;
        let shown = match (catalog.is_healthy[host], status.is_held) {
            (true, true) => "held healthy",
            (true, false) => "healthy",
            (false, _) => "unhealthy",
        };
        writeln!(
            out,
            "{name}   {:>7}  {:>7}  {:>10}  {:>4}  {shown}",
            c.allowed, c.denied_host, c.denied_catalog, c.hard
        )?;
    }
    writeln!(
        out,
        "watchers were told of {} changes, and would have been of {}",
        catalog.told, catalog.undamped
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config: Result<FlapConfig, ConfigError> = FlapConfig {
        host_interval: Duration::from_secs(60),
        host_burst: 2,
        catalog_interval: Duration::from_secs(5),
        catalog_burst: 20,
        hosts_max: 1_000,
    }
    .try_new();
    let mut catalog = Catalog::new(config?);
    run(&mut catalog, Instant::now());
    report(&catalog, &mut io::stdout().lock())?;
    Ok(())
}
