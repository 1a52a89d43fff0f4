//! The client, three exits, and a world that says through which of them it was asked.
//!
//! The exits do not translate, for which a bare machine would need `nft`. Each has a
//! pool of its own and the world knows the way to each, so the source that a service
//! of the world sees is the client's address at the exit that carried the connection.
//!
//! An exit that freezes is stopped (SIGSTOP), one that dies is killed (SIGKILL), and
//! silence is a router that drops.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use quell_lab::child::Signal;
use quell_lab::http::Server;
use quell_lab::load::{HttpLoad, HttpLoadConfig, TcpLoad, TcpSink};
use quell_lab::topology::{self, Fan, WORLD_V4, pool};
use quell_net::identity::Identity;
use quell_wire::registry::DEFAULT_PORT;
use serde_json::Value;

use super::super::exits::{self, EXITS, Figures, Stage, Stream, usable};
use super::WIRE_MTU;
use crate::Failure;
use crate::stage::{AnotherProvider, End, Plan};

/// Of each stream.
const STREAM_BIT_S: u64 = 500_000;

/// The pools are 10.85.0.0/16 and those that follow.
const FIRST_POOL: u8 = 85;

/// Plays the second act.
pub(in super::super) fn measure(folder: &Path, talk: &mut dyn Write) -> Result<Figures, Failure> {
    writeln!(talk, "a client and three exits, each in a namespace …")?;
    let mut scene = Scene::set(folder)?;
    let figures = exits::measure(&mut scene, talk)?;
    scene.clear()?;
    Ok(figures)
}

/// Everything, running.
struct Scene {
    // Dropped in this order: processes before the namespaces they live in.
    client: End,
    providers: Vec<End>,
    server: Server,
    net: Fan,
}

impl Scene {
    /// Sets everything up and waits until all exits can take new connections.
    fn set(folder: &Path) -> Result<Self, Failure> {
        let net = topology::fan(EXITS as u8, WIRE_MTU)?;
        let plan = plan(folder, &net)?;
        plan.write()?;
        let providers = plan.provide_all(net.sites.iter().map(|site| &site.provider))?;
        let any = SocketAddr::new(WORLD_V4, 0);
        let server = net.world.run(|| Server::start(any))??;
        let mut client = plan.up(&net.client)?;
        client.until("up with all exits", |status| {
            status["interface_ready"] == true && usable(status) == EXITS
        })?;
        Ok(Self {
            client,
            providers,
            server,
            net,
        })
    }

    /// Ends in good order what still runs.
    fn clear(&mut self) -> Result<(), Failure> {
        self.client.stop()?;
        for provider in &mut self.providers {
            if provider.child().try_wait()?.is_none() {
                provider.stop()?;
            }
        }
        Ok(())
    }
}

impl Stage for Scene {
    fn client_status(&self) -> Result<Value, Failure> {
        Ok(self.client.status()?)
    }

    fn exit_of(address: IpAddr) -> Option<usize> {
        exit_of(address)
    }

    fn crowd(&self) -> Result<HttpLoad, Failure> {
        let server = self.server.address();
        let load = || HttpLoad::start(server, HttpLoadConfig::default());
        Ok(self.net.client.run(load)??)
    }

    fn stream(&self) -> Result<Stream, Failure> {
        let any = SocketAddr::new(WORLD_V4, 0);
        let sink = self.net.world.run(|| TcpSink::start(any))??;
        let to = sink.address();
        let load = self.net.client.run(|| TcpLoad::start(to, STREAM_BIT_S))??;
        Ok(Stream { load, sink })
    }

    fn freeze(&mut self, exit: usize) -> Result<(), Failure> {
        Ok(self.providers[exit].child().signal(Signal::SIGSTOP)?)
    }

    fn thaw(&mut self, exit: usize) -> Result<(), Failure> {
        Ok(self.providers[exit].child().signal(Signal::SIGCONT)?)
    }

    fn kill(&mut self, exit: usize) -> Result<(), Failure> {
        Ok(self.providers[exit].kill()?)
    }

    fn silence(&mut self) -> Result<(), Failure> {
        for site in 0..EXITS {
            self.net.cut(site)?;
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<(), Failure> {
        for site in 0..EXITS {
            self.net.heal(site)?;
        }
        Ok(())
    }

    fn provider_statuses(&mut self) -> Result<Vec<Value>, Failure> {
        let mut statuses = Vec::new();
        for provider in &mut self.providers {
            if provider.child().try_wait()?.is_none() {
                statuses.push(provider.status()?);
            }
        }
        Ok(statuses)
    }
}

fn plan(folder: &Path, net: &Fan) -> Result<Plan, Failure> {
    let mut plan = Plan::new(folder, SocketAddr::new(net.sites[0].address, DEFAULT_PORT))?;
    plan.routes = vec!["203.0.113.0/24".to_owned()];
    plan.ipv6_pool = String::new();
    // All are kept, so that whichever goes has two to choose from.
    plan.client_tables = format!("[window]\nwindow_min = {EXITS}\n");
    for (number, site) in (0..).zip(&net.sites) {
        net.route_back(usize::from(number), pool(10, FIRST_POOL + number))?;
        if number > 0 {
            plan.more_providers.push(AnotherProvider {
                role: format!("provider{number}"),
                identity: Identity::generate()?,
                address: SocketAddr::new(site.address, DEFAULT_PORT),
                ipv4_pool: format!("10.{}.0.0/16", FIRST_POOL + number),
                ipv6_pool: String::new(),
            });
        }
    }
    Ok(plan)
}

/// Which exit knows the client by `address`.
fn exit_of(address: IpAddr) -> Option<usize> {
    let IpAddr::V4(address) = address else {
        return None;
    };
    let [10, second, ..] = address.octets() else {
        return None;
    };
    let exit = usize::from(second.checked_sub(FIRST_POOL)?);
    (exit < EXITS).then_some(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_exit_of_its_pool() {
        let of = |a, b| exit_of(IpAddr::from([a, b, 3, 4]));
        assert_eq!([of(10, 85), of(10, 87)], [Some(0), Some(2)]);
        assert_eq!([of(10, 84), of(10, 88), of(11, 85)], [None; 3]);
        assert_eq!(exit_of(IpAddr::from([0_u16; 8])), None);
    }
}
