//! A world with three exits, and what a crowd of short requests makes of one that goes.
//!
//! Each provider translates to an address of its own, and the web server answers with
//! the address that it sees: so each request tells which exit it took.

use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_cli::stage::{AnotherProvider, End, Plan};
use quell_lab::http::Server;
use quell_lab::load::{Asked, TcpLoad, TcpSink};
use quell_lab::topology::{self, Fan, WORLD_V4};
use quell_net::identity::Identity;
use quell_wire::registry::DEFAULT_PORT;
use serde_json::Value;
use tempfile::TempDir;

use crate::fixture::{Outcome, balanced, folder, plan, within};

/// Exits of the world.
pub(crate) const EXITS: u8 = 3;

/// By how much a busy machine may miss a bound of time.
const CLOCK_SLACK: u32 = 3;

/// One client, three providers, and the world behind them.
pub(crate) struct Three {
    // Dropped in this order: processes before the namespaces they live in.
    pub(crate) client: End,
    pub(crate) providers: Vec<End>,
    pub(crate) plan: Plan,
    pub(crate) server: Server,
    pub(crate) net: Fan,
    _folder: TempDir,
}

impl Three {
    /// All running, `usable` exits ready for new flows, with more tables in the client's file.
    pub(crate) fn new(client_tables: &str, usable: usize) -> Result<Self, Failed> {
        let net = topology::fan(EXITS, 1_500)?;
        let folder = folder()?;
        let mut plan = plan(&folder, net.sites[0].address)?;
        plan.routes = vec!["203.0.113.0/24".to_owned()];
        plan.ipv6_pool = String::new();
        // As the default file of a provider has it; a flow that is open has so long to end.
        plan.drain = Duration::from_secs(5);
        plan.client_tables = client_tables.to_owned();
        for (number, site) in net.sites.iter().enumerate().skip(1) {
            plan.more_providers.push(AnotherProvider {
                role: format!("provider{number}"),
                identity: Identity::generate()?,
                address: SocketAddr::new(site.address, DEFAULT_PORT),
                ipv4_pool: format!("10.{}.0.0/16", 85 + number),
                ipv6_pool: String::new(),
            });
        }
        plan.write()?;
        let providers = plan.provide_all(net.sites.iter().map(|site| &site.provider))?;
        let any = SocketAddr::new(WORLD_V4, 0);
        let server = net.world.run(|| Server::start(any))??;
        let mut client = plan.up(&net.client)?;
        client.until("up with its exits", |status| {
            status["interface_ready"] == true && usable_exits(status) >= usable
        })?;
        Ok(Self {
            client,
            providers,
            plan,
            server,
            net,
            _folder: folder,
        })
    }

    /// The exit that is the first choice.
    pub(crate) fn main_exit(&self) -> Result<usize, Failed> {
        let main = self.client.status()?["main_exit"].as_u64();
        Ok(usize::try_from(main.ok_or("no main exit")?)?)
    }

    /// The address that the world sees of an exit.
    pub(crate) fn address_of(&self, exit: usize) -> IpAddr {
        self.net.sites[exit].world_address
    }

    /// Starts a provider that had ended.
    pub(crate) fn restart(&mut self, exit: usize) -> Outcome {
        let role = &self.plan.provider_roles()[exit];
        self.providers[exit] = self.plan.provide_as(role, &self.net.sites[exit].provider)?;
        self.providers[exit].until_ready()?;
        Ok(())
    }

    /// Waits until an exit can take new flows again.
    pub(crate) fn until_usable(&self, exit: usize, limit: Duration) -> Result<Duration, Failed> {
        let start = Instant::now();
        within(limit, "the exit is usable again", || {
            let status = self.client.status().ok()?;
            (status["exits"][exit]["is_usable"] == true).then_some(())
        })?;
        Ok(start.elapsed())
    }

    /// A slow stream into the world, over the exit that is the first choice.
    pub(crate) fn stream(&self) -> Result<Stream, Failed> {
        let any = SocketAddr::new(WORLD_V4, 0);
        let sink = self.net.world.run(|| TcpSink::start(any))??;
        let to = sink.address();
        let load = self.net.client.run(|| TcpLoad::start(to, 200_000))??;
        Ok(Stream { load, sink })
    }

    /// Stops everything, with the client's books closed.
    pub(crate) fn finish(mut self) -> Outcome {
        books_close(&self.client.status()?)?;
        self.client.stop()?;
        for mut provider in self.providers {
            // One that was told to stop has done so already.
            if provider.child().try_wait()?.is_none() {
                balanced(&provider.status()?)?;
                provider.stop()?;
            }
        }
        Ok(())
    }
}

/// A stream, and where it comes out.
pub(crate) struct Stream {
    pub(crate) load: TcpLoad,
    pub(crate) sink: TcpSink,
}

impl Stream {
    /// Ends it, and waits until all of it has arrived.
    pub(crate) fn until_whole(self, limit: Duration) -> Outcome {
        let (sent, arrivals) = (self.load.stop()?, self.sink.arrivals());
        within(limit, "the whole stream has arrived", || {
            (arrivals.bytes() >= sent).then_some(())
        })?;
        assert_eq!(arrivals.bytes(), sent);
        Ok(())
    }
}

fn usable_exits(status: &Value) -> usize {
    let exits = status["exits"].as_array().into_iter().flatten();
    exits.filter(|exit| exit["is_usable"] == true).count()
}

/// Every packet of the TUN, and every further copy of one, is on an exit's books or was
/// dropped by reason; and so is every one of those.
pub(crate) fn books_close(status: &Value) -> Outcome {
    balanced(status)?;
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let drops = status["tun_drops"].as_object().into_iter().flatten();
    let drops: u64 = drops.map(|(_, packets)| count(packets)).sum();
    let exits = status["exits"].as_array().into_iter().flatten();
    let paths = exits.map(|exit| &exit["path"]["counters"]["accepted"]);
    let accepted: u64 =
        paths.map(count).sum::<u64>() + count(&status["ended"]["counters"]["accepted"]);
    let (packets, copies) = (
        count(&status["tun_packets"]),
        count(&status["extra_copies"]),
    );
    println!(
        "{packets} packets and {copies} copies: {accepted} on exits, {drops} dropped by reason"
    );
    if packets == 0 || packets + copies != accepted + drops {
        return Err(format!("the books of the TUN do not close: {status}").into());
    }
    Ok(())
}

/// When an exit went: between these two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) began: Instant,
    pub(crate) done: Instant,
}

impl Fault {
    pub(crate) fn of(act: impl FnOnce() -> Outcome) -> Result<Self, Failed> {
        let began = Instant::now();
        act()?;
        Ok(Self {
            began,
            done: Instant::now(),
        })
    }
}

/// Holds requests against what was promised of an exit that goes: new ones work again
/// within `limit`, over one other exit for good, and only those fail that were open.
/// Returns the address of that other exit.
pub(crate) fn moved(
    asked: &[Asked],
    old: IpAddr,
    fault: Fault,
    limit: Duration,
) -> Result<IpAddr, Failed> {
    let before = asked.iter().filter(|asked| asked.ended < fault.began);
    let mut count = 0;
    for asked in before {
        assert_eq!(asked.answer, Ok(old), "before the fault");
        count += 1;
    }
    assert!(
        count >= 20,
        "{count} requests before the fault show nothing"
    );

    let failed: Vec<_> = asked.iter().filter(|asked| asked.answer.is_err()).collect();
    for failed in &failed {
        let since = failed.began.saturating_duration_since(fault.done);
        assert!(
            failed.began <= fault.done,
            "a request that began {since:?} after the fault ended in {:?} after {:?}",
            failed.answer,
            failed.ended - failed.began
        );
    }
    let later = || asked.iter().filter(|asked| asked.began > fault.done);
    let other = |asked: &&Asked| asked.answer.is_ok_and(|address| address != old);
    let first = later().filter(other).min_by_key(|asked| asked.ended);
    let first = first.ok_or("no request ever took another exit")?;
    let after = first.ended - fault.began;
    let slowest = later().map(|asked| asked.ended - asked.began).max();
    println!(
        "first over another exit {after:?} after the fault; {} of {} requests failed; the slowest that began later took {:?}",
        failed.len(),
        asked.len(),
        slowest.unwrap_or_default(),
    );
    assert!(after <= CLOCK_SLACK * limit, "{after:?}");
    let new = first.answer;
    let settled = asked.iter().filter(|asked| asked.began > first.ended);
    let addresses: Vec<_> = settled.map(|asked| asked.answer).collect();
    assert!(
        addresses.len() >= 20,
        "{} requests after the move",
        addresses.len()
    );
    let strays = addresses.iter().filter(|answer| **answer != new).count();
    assert_eq!(strays, 0, "requests that took a third exit, or the old one");
    new.map_err(|kind| format!("{kind}").into())
}

/// Lets the requests run.
pub(crate) fn pass(seconds: u64) {
    thread::sleep(Duration::from_secs(seconds));
}
