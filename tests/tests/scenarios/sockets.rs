//! A provider without privileges: what it carries over sockets is what one with a TUN carries through the kernel.

mod endings;
mod many;
mod narrow;

use libtest_mimic::{Failed, Trial};
use quell_lab::netns::sysctl;

use crate::carries;
use crate::fixture::{Outcome, World, trials};

trials![
    ping_where_the_host_allows_it,
    files_of_200_mb_come_and_go_with_the_right_hash,
    sixty_four_downloads_at_once,
    names_are_resolved_over_udp,
    udp_of_every_size_up_to_fragments,
    icmp_errors_come_back,
];

/// These trials and those of the parts.
pub(crate) fn all_trials() -> Vec<Trial> {
    let parts = [
        trials(),
        endings::trials(),
        many::trials(),
        narrow::trials(),
    ];
    parts.into_iter().flatten().collect()
}

fn world() -> Result<World, Failed> {
    world_with("")
}

/// Both ends over links of 1,500 bytes, the provider with sockets for an egress, and these lines in its file.
fn world_with(lines: &str) -> Result<World, Failed> {
    World::with(1_500, |net, plan| {
        plan.egress_kind = "userspace".to_owned();
        plan.provider_egress = lines.to_owned();
        // What Debian sets at boot; a namespace is born without.
        sysctl(&net.provider, "net.ipv4.ping_group_range", "0 2147483647")?;
        Ok(())
    })
}

fn ping_where_the_host_allows_it() -> Outcome {
    carries::ping(world()?)
}

// without privileges, too.
fn files_of_200_mb_come_and_go_with_the_right_hash() -> Outcome {
    carries::files(world()?)
}

fn sixty_four_downloads_at_once() -> Outcome {
    carries::downloads(world()?)
}

fn names_are_resolved_over_udp() -> Outcome {
    carries::names(world()?)
}

fn udp_of_every_size_up_to_fragments() -> Outcome {
    carries::sizes_of_udp(world()?)
}

fn icmp_errors_come_back() -> Outcome {
    carries::errors(world()?)
}
