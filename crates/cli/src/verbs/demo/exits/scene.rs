//! The client, three exits, and a world that says through which of them it was asked.
//!
//! The exits do not translate, for which a bare machine would need `nft`. Each has a
//! pool of its own and the world knows the way to each, so the source that a service
//! of the world sees is the client's address at the exit that carried the connection.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::anyhow;
use quell_lab::http::Server;
use quell_lab::load::TcpSink;
use quell_lab::topology::{self, Fan, WORLD_V4, pool};
use quell_net::identity::Identity;
use quell_wire::registry::DEFAULT_PORT;
use serde_json::Value;

use super::super::WIRE_MTU;
use super::EXITS;
use crate::Failure;
use crate::stage::{AnotherProvider, End, Plan};

/// The pools are 10.85.0.0/16 and those that follow.
const FIRST_POOL: u8 = 85;

/// Everything, running.
pub(super) struct Scene {
    // Dropped in this order: processes before the namespaces they live in.
    pub(super) client: End,
    pub(super) providers: Vec<End>,
    pub(super) server: Server,
    pub(super) net: Fan,
}

impl Scene {
    /// Sets everything up and waits until all exits can take new connections.
    pub(super) fn set(folder: &Path) -> Result<Self, Failure> {
        let net = topology::fan(EXITS as u8, WIRE_MTU)?;
        let plan = plan(folder, &net)?;
        plan.write()?;
        let providers = plan.provide_all(net.sites.iter().map(|site| &site.provider))?;
        let any = SocketAddr::new(WORLD_V4, 0);
        let server = net.world.run(|| Server::start(any))??;
        let mut client = plan.up(&net.client)?;
        client.until("up with all exits", |status| {
            let exits = status["exits"].as_array().into_iter().flatten();
            let usable = exits.filter(|exit| exit["is_usable"] == true).count();
            status["interface_ready"] == true && usable == EXITS
        })?;
        Ok(Self {
            client,
            providers,
            server,
            net,
        })
    }

    /// The exit that takes new connections.
    pub(super) fn main_exit(&self) -> Result<usize, Failure> {
        let main = self.client.status()?["main_exit"].as_u64();
        let main = main.and_then(|main| usize::try_from(main).ok());
        main.filter(|main| *main < EXITS)
            .ok_or_else(|| Failure::Failed(anyhow!("the client does not say main_exit")))
    }

    /// A sink in the world.
    pub(super) fn sink(&self) -> Result<TcpSink, Failure> {
        let any = SocketAddr::new(WORLD_V4, 0);
        Ok(self.net.world.run(|| TcpSink::start(any))??)
    }

    pub(super) fn each_site(
        &mut self,
        mut act: impl FnMut(&mut Fan, usize) -> quell_lab::Result<()>,
    ) -> Result<(), Failure> {
        for site in 0..EXITS {
            act(&mut self.net, site)?;
        }
        Ok(())
    }

    /// What the client says last, and what the exits that live cannot account for.
    pub(super) fn ask(&mut self) -> Result<(Value, u64), Failure> {
        let mut unaccounted = 0_u64;
        for provider in &mut self.providers {
            if provider.child().try_wait()?.is_none() {
                let missing = provider.status()?["unaccounted"].as_i64();
                let missing = missing.map_or(u64::MAX, i64::unsigned_abs);
                unaccounted = unaccounted.saturating_add(missing);
            }
        }
        Ok((self.client.status()?, unaccounted))
    }

    /// Ends in good order what still runs.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        self.client.stop()?;
        for provider in &mut self.providers {
            if provider.child().try_wait()?.is_none() {
                provider.stop()?;
            }
        }
        Ok(())
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
pub(super) fn exit_of(address: IpAddr) -> Option<usize> {
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
