//! Paths that lose, copy and reorder.
//!
//! The `dgram` lane promises nothing: what the path loses is lost, and what the path copies is delivered twice, as on any IP
//! path. It has no memory of what came and so cannot tell a copy; lane `flow` can, and repairs what is lost. What is demanded
//! here is that quell adds nothing of its own to either, and that every packet and pack is accounted for at both ends.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use quell_sim::pair::{End, Way, World, WorldConfig, for_seeds};

use crate::common::*;

const PACKETS: usize = 150;

/// Sends packets with a number in them both ways over a bad path; the world when all is at rest.
fn run(seed: u64, loss: f64, datagram_len_max: usize) -> (World, [Vec<Bytes>; 2]) {
    let mut world = World::up(WorldConfig {
        seed,
        ..WorldConfig::default()
    });
    world.set_datagram_len_max(datagram_len_max);
    world.set_carrier(Way::Both, |carrier| {
        carrier.link.loss = loss;
        carrier.link.jitter = Duration::from_millis(8);
        carrier.link.duplicate = 0.05;
        carrier.link.reorder = 0.1;
    });
    let mut delivered = [Vec::new(), Vec::new()];
    for number in 0..PACKETS {
        let len = 40 + number * 7;
        let (out, back) = (outwards(&world, 0, len), inwards(&world, 0, len));
        world.inject(End::Client(0), out);
        world.inject(End::Provider, back);
        world.run_for(MS);
        collect(&mut world, &mut delivered);
    }
    // Longer than a repair takes, shorter than a keepalive.
    world.set_carrier(Way::Both, |carrier| carrier.link.loss = 0.0);
    world.run_for(2 * S);
    collect(&mut world, &mut delivered);
    (world, delivered)
}

fn collect(world: &mut World, delivered: &mut [Vec<Bytes>; 2]) {
    for (_, event) in world.take_events() {
        if let quell_sim::pair::Event::Deliver(end, packet) = event {
            delivered[usize::from(end != End::Provider)].push(packet);
        }
    }
}

/// How often the packet that was delivered most often was.
fn copies_max(packets: &[Bytes]) -> u64 {
    let mut counts = HashMap::new();
    for packet in packets {
        *counts.entry(packet).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

#[test]
fn whole_packets_arrive_once_are_lost_or_copied_by_the_path_alone() {
    for_seeds(
        "session::lossy::whole_packets_arrive_once_are_lost_or_copied_by_the_path_alone",
        100,
        |seed| {
            let loss = [0.01, 0.05, 0.2][(seed % 3) as usize];
            let (world, delivered) = run(seed, loss, 1_414);
            world.expect_rest();
            for ((fate, link), delivered) in
                world.fates().into_iter().zip(world.links()).zip(delivered)
            {
                assert_eq!(fate.sent.packets, PACKETS as u64);
                assert_eq!(fate.lost.datagrams, link.lost(), "{link:?}");
                assert_eq!(fate.copies.datagrams, link.duplicated);
                let arrived = fate.arrived.packets + fate.copies.packets;
                assert_eq!(
                    delivered.len() as u64,
                    arrived,
                    "as many as came, not one more"
                );
                assert!(copies_max(&delivered) <= 2);
            }
        },
    );
}

#[test]
fn what_crosses_in_pieces_arrives_exactly_once_whatever_the_path_loses() {
    for_seeds(
        "session::lossy::what_crosses_in_pieces_arrives_exactly_once_whatever_the_path_loses",
        100,
        |seed| {
            let loss = [0.01, 0.05, 0.2][(seed % 3) as usize];
            let (world, delivered) = run(seed, loss, 500);
            world.expect_rest();
            let (client, provider) = (
                world.client_status(0).path().unwrap().clone(),
                world.provider_status(),
            );
            let ends = [
                (&client, &provider.sessions[0].path),
                (&provider.sessions[0].path, &client),
            ];
            for ((sender, receiver), delivered) in ends.into_iter().zip(delivered) {
                let (send, receive) = (sender.flow.send, receiver.flow.receive);
                assert!(send.accepted > 100, "{send:?}");
                assert_eq!((send.in_flight, send.given_up(), receive.held), (0, 0, 0));
                assert_eq!(send.acked, receive.delivered);
                let laned = delivered.iter().filter(|packet| packet.len() > 497);
                assert_eq!(laned.clone().count() as u64, sender.counters.laned);
                assert_eq!(copies_max(&laned.cloned().collect::<Vec<_>>()), 1);
            }
        },
    );
}

#[test]
fn a_perfect_path_delivers_everything_once_and_in_order() {
    for datagram_len_max in [300, 500, 1_162, 1_414] {
        let mut world = World::up(WorldConfig::default());
        world.set_datagram_len_max(datagram_len_max);
        let packets: Vec<_> = (0..200)
            .map(|number| outwards(&world, 0, 60 + number * 6))
            .collect();
        for packet in &packets {
            world.inject(End::Client(0), packet.clone());
            world.run_for(MS);
        }
        world.run_for(S);
        assert_eq!(world.take_delivered(End::Provider), packets);
        world.expect_rest();
    }
}

#[test]
fn one_seed_is_one_course() {
    let (one, delivered) = run(5, 0.2, 500);
    let (two, again) = run(5, 0.2, 500);
    assert_eq!(
        (one.fates(), one.links(), delivered),
        (two.fates(), two.links(), again)
    );
}
