//! Each address family is optional and independent (case B88).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use quell_lab::netns::sysctl;
use quell_lab::probe;
use quell_lab::topology::{FAR_PROVIDER_V4, FAR_PROVIDER_V6, Routed, WORLD_V4, WORLD_V6};
use quell_wire::registry::DEFAULT_PORT;

use crate::fixture::{Outcome, ROUTES, World, trials};

trials![
    the_tunnel_carries_the_families_of_its_pools,
    the_underlay_may_be_ipv6,
    one_socket_serves_both_families,
    a_client_without_ipv6_goes_on_with_ipv4,
    a_provider_without_ipv6_goes_on_with_ipv4,
];

fn pings(world: &World, target: IpAddr) -> bool {
    let ping = || {
        probe::ping(
            target,
            56,
            3,
            Duration::from_millis(5),
            Duration::from_millis(800),
        )
    };
    matches!(world.net.client.run(ping), Ok(Ok(report)) if report.lost() == 0)
}

// R-8, case B88
fn the_tunnel_carries_the_families_of_its_pools() -> Outcome {
    for (ipv4, ipv6) in [(true, false), (false, true)] {
        let world = World::with(1_500, |_, plan| {
            if !ipv4 {
                plan.ipv4_pool.clear();
                plan.routes = vec![ROUTES[1].to_owned()];
            }
            if !ipv6 {
                plan.ipv6_pool.clear();
                plan.routes = vec![ROUTES[0].to_owned()];
            }
            Ok(())
        })?;
        assert_eq!(
            (pings(&world, WORLD_V4), pings(&world, WORLD_V6)),
            (ipv4, ipv6)
        );
        world.finish()?;
    }
    Ok(())
}

fn the_underlay_may_be_ipv6() -> Outcome {
    let world = World::with(1_500, |_, plan| {
        plan.listen = SocketAddr::new(FAR_PROVIDER_V6, DEFAULT_PORT);
        plan.dial = plan.listen;
        Ok(())
    })?;
    assert!(pings(&world, WORLD_V4) && pings(&world, WORLD_V6));
    world.finish()
}

fn one_socket_serves_both_families() -> Outcome {
    for provider in [FAR_PROVIDER_V4, FAR_PROVIDER_V6] {
        let world = World::with(1_500, |_, plan| {
            plan.listen = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DEFAULT_PORT);
            plan.dial = SocketAddr::new(provider, DEFAULT_PORT);
            Ok(())
        })?;
        assert!(pings(&world, WORLD_V4), "{provider}");
        world.finish()?;
    }
    Ok(())
}

fn without_ipv6(net: &Routed, at_client: bool) -> Outcome {
    let namespace = if at_client {
        &net.client
    } else {
        &net.provider
    };
    for scope in ["all", "default"] {
        sysctl(
            namespace,
            &format!("net.ipv6.conf.{scope}.disable_ipv6"),
            "1",
        )?;
    }
    Ok(())
}

fn a_client_without_ipv6_goes_on_with_ipv4() -> Outcome {
    let world = World::with(1_500, |net, _| without_ipv6(net, true))?;
    assert!(pings(&world, WORLD_V4));
    assert!(
        world.client.log().contains("without IPv6"),
        "{}",
        world.client.log()
    );
    world.finish()
}

fn a_provider_without_ipv6_goes_on_with_ipv4() -> Outcome {
    let world = World::with(1_500, |net, _| without_ipv6(net, false))?;
    assert!(pings(&world, WORLD_V4));
    world.finish()
}
