//! One of three exits goes, under a crowd of short requests, and the user hardly sees it.
//!
//! | how it goes | new connections work again within |
//! |---|---|
//! | told to stop: it says so (GOAWAY) | 1 s |
//! | kill -9, or cut silently | 4 s |
//!
//! What is open through it is the only thing that may fail, and what is open elsewhere
//! keeps its exit; when the old one is back nothing moves.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_cli::stage::End;
use quell_lab::child::Signal;
use quell_lab::load::{HttpLoad, HttpLoadConfig, UdpLoad};
use quell_lab::netns::{Destination, Route, RouteTarget};
use quell_lab::topology::WORLD_V4;
use quell_packet::build;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use crate::fixture::{Outcome, drops, trials, within};
use crate::three::{EXITS, Fault, Three, moved, pass};

trials![
    an_exit_that_says_that_it_stops_is_left_within_a_second,
    an_exit_that_is_killed_is_left_within_four_seconds,
    an_exit_that_is_cut_off_is_left_within_four_seconds,
    without_races_an_exit_that_is_cut_off_is_left_in_time_too,
    streams_on_other_exits_are_not_touched,
    when_all_exits_are_silent_none_is_sent_away,
    no_providers_address_goes_through_the_tunnel,
    a_client_whose_only_way_is_its_tunnel_sends_nothing,
];

/// All three exits are kept, so that there is a wrong one to take.
const KEEP_ALL: &str = "[window]\nwindow_min = 3\n";
const TOLD: Duration = Duration::from_secs(1);
const SILENT: Duration = Duration::from_secs(4);
/// How soon what was open goes on after a heal.
const RESUME: Duration = Duration::from_secs(20);
/// A stream waits no longer than this for what happens to another exit.
const UNTOUCHED: Duration = Duration::from_secs(1);
/// A provider that was restarted is dialled within this at the latest.
const BACK: Duration = Duration::from_secs(120);

/// Whether a connection that was open through the exit goes on when that is back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlived {
    Yes,
    No,
}

/// Lets the first choice go and come back under requests.
fn leave(
    tables: &str,
    limit: Duration,
    outlived: Outlived,
    go: impl FnOnce(&mut Three, usize) -> Outcome,
    back: impl FnOnce(&mut Three, usize) -> Outcome,
) -> Result<Three, Failed> {
    let mut three = Three::new(tables, EXITS.into())?;
    let exit = three.main_exit()?;
    let old = three.address_of(exit);
    let stream = three.stream()?;
    let server = three.server.address();
    let config = HttpLoadConfig::default();
    let load = three.net.client.run(|| HttpLoad::start(server, config))??;
    pass(2);
    let fault = Fault::of(|| go(&mut three, exit))?;
    // Longer than a request's patience: what hangs is known to have failed.
    pass(12);
    back(&mut three, exit)?;
    let away = three.until_usable(exit, BACK)?;
    println!("the old exit is usable {away:?} after it was there again");
    pass(3);
    let new = moved(&load.asked(), old, fault, limit)?;
    let main = three.main_exit()?;
    assert_eq!(three.address_of(main), new, "no fail-back");
    // A provider that begins anew knows nothing of it, and its user is told so.
    assert_eq!(stream.load.is_broken(), outlived == Outlived::No);
    drop((load, stream));
    Ok(three)
}

fn an_exit_that_says_that_it_stops_is_left_within_a_second() -> Outcome {
    let stop = |three: &mut Three, exit: usize| -> Outcome {
        let provider = three.providers[exit].child();
        Ok(provider.signal(Signal::SIGTERM)?)
    };
    let three = leave(KEEP_ALL, TOLD, Outlived::No, stop, |three, exit| {
        let ended = three.providers[exit]
            .child()
            .wait(Duration::from_secs(15))?;
        assert!(ended.success(), "{ended}");
        three.restart(exit)
    })?;
    three.finish()
}

fn an_exit_that_is_killed_is_left_within_four_seconds() -> Outcome {
    let kill = |three: &mut Three, exit: usize| Ok(three.providers[exit].kill()?);
    leave(KEEP_ALL, SILENT, Outlived::No, kill, Three::restart)?.finish()
}

fn an_exit_that_is_cut_off_is_left_within_four_seconds() -> Outcome {
    let cut = |three: &mut Three, exit: usize| Ok(three.net.cut(exit)?);
    let heal = |three: &mut Three, exit: usize| Ok(three.net.heal(exit)?);
    leave(KEEP_ALL, SILENT, Outlived::Yes, cut, heal)?.finish()
}

/// A race finds another exit before anybody knows of the silence. Without one, it is the
/// silence that has to be noticed.
fn without_races_an_exit_that_is_cut_off_is_left_in_time_too() -> Outcome {
    let cut = |three: &mut Three, exit: usize| Ok(three.net.cut(exit)?);
    let heal = |three: &mut Three, exit: usize| Ok(three.net.heal(exit)?);
    let tables = format!("{KEEP_ALL}\n[race]\nrace = \"off\"\n");
    leave(&tables, SILENT, Outlived::Yes, cut, heal)?.finish()
}

/// Two streams, each on an exit of its own: the fate of the one is nothing to the other.
fn streams_on_other_exits_are_not_touched() -> Outcome {
    let mut three = Three::new(KEEP_ALL, EXITS.into())?;
    let first = three.main_exit()?;
    let on_first = three.stream()?;
    three.net.cut(first)?;
    within(SILENT * 3, "another exit is the first choice", || {
        (three.main_exit().ok()? != first).then_some(())
    })?;
    let second = three.main_exit()?;
    let on_second = three.stream()?;
    three.net.heal(first)?;
    let healed = Instant::now();
    let arrivals = on_first.sink.arrivals();
    let moves = within(RESUME * 3, "the first stream goes on", || {
        arrivals.first_after(healed)
    })?;
    println!("what was open goes on {:?} after the heal", moves - healed);
    three.until_usable(first, RESUME * 3)?;
    assert_eq!(three.main_exit()?, second, "no fail-back");

    let killed = Instant::now();
    three.providers[first].kill()?;
    pass(10);
    let gap = on_second
        .sink
        .arrivals()
        .gap_max_between(killed, Instant::now());
    println!("the other stream waited {gap:?} at most");
    assert!(gap < UNTOUCHED * 3, "{gap:?}");
    assert_eq!(three.main_exit()?, second);
    drop(on_first);
    on_second.until_whole(RESUME)?;
    three.finish()
}

fn when_all_exits_are_silent_none_is_sent_away() -> Outcome {
    let mut three = Three::new(KEEP_ALL, EXITS.into())?;
    let stream = three.stream()?;
    pass(2);
    let before = three.client.status()?;
    for exit in 0..usize::from(EXITS) {
        three.net.cut(exit)?;
    }
    pass(15);
    let silent = three.client.status()?;
    for exit in 0..usize::from(EXITS) {
        three.net.heal(exit)?;
    }
    let healed = Instant::now();
    let arrivals = stream.sink.arrivals();
    let moves = within(RESUME * 3, "the stream goes on", || {
        arrivals.first_after(healed)
    })?;
    println!("the open stream moves {:?} after the heal", moves - healed);
    pass(5);
    let after = three.client.status()?;
    for status in [&silent, &after] {
        for figure in ["members", "joins", "evictions", "departures"] {
            let of = |status: &Value| status["window"][figure].clone();
            assert_eq!(of(status), of(&before), "{figure}: {}", status["window"]);
        }
        assert_eq!(status["flap"], before["flap"]);
    }
    println!(
        "exit changes: {} → {}",
        before["exit_changes"], after["exit_changes"]
    );
    stream.until_whole(RESUME)?;
    three.finish()
}

// case B39
fn no_providers_address_goes_through_the_tunnel() -> Outcome {
    let three = Three::new(KEEP_ALL, EXITS.into())?;
    let own = three.client.status()?["addresses"]["ipv4"][0].clone();
    let own: IpAddr = own.as_str().ok_or("no address")?.parse()?;
    for site in &three.net.sites {
        let dropped = |status: &Value| drops(status, "tun_drops", "underlay_address");
        let before = dropped(&three.client.status()?);
        three.net.client.run(|| -> Outcome {
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))?;
            raw.bind_device(Some(b"quell0"))?;
            let to = SocketAddr::new(site.address, 9);
            let packet = build::udp(SocketAddr::new(own, 1), to, b"loop");
            raw.send_to(&packet, &SocketAddr::new(site.address, 0).into())?;
            Ok(())
        })??;
        within(Duration::from_secs(5), "it is dropped and counted", || {
            let now = dropped(&three.client.status().ok()?);
            (now == before + 1).then_some(())
        })?;
    }
    three.finish()
}

// case B40
fn a_client_whose_only_way_is_its_tunnel_sends_nothing() -> Outcome {
    let three = Three::new(KEEP_ALL, EXITS.into())?;
    let client = &three.net.client;
    let way = |target: RouteTarget| Route {
        destination: Destination::ALL_V4,
        target,
        mtu: None,
    };
    let looped = |status: &Value| drops(status, "tun_drops", "underlay_address");
    let arrived = || -> Result<Vec<Value>, Failed> {
        let statuses = three.providers.iter().map(End::status);
        let datagrams = statuses.map(|status| Ok(status?["udp"]["datagrams_in"].clone()));
        datagrams.collect()
    };
    client.add_route(&way(RouteTarget::Dev(client.iface("quell0")?)))?;
    let (before, sent) = (arrived()?, three.client.status()?);
    assert!(before.iter().all(|datagrams| datagrams.as_u64() > Some(0)));
    // A datagram that would go to a user's server makes paths ask whether they are heard.
    let asked = client.run(|| UdpLoad::start(SocketAddr::new(WORLD_V4, 9), 100, 8_000))??;
    pass(10);
    let after = three.client.status()?;
    println!("{} packets came back", looped(&after) - looped(&sent));
    assert!(
        looped(&after) >= looped(&sent) + 10,
        "{}",
        after["tun_drops"]
    );
    assert_eq!(arrived()?, before, "nothing leaves");
    let exits = || after["exits"].as_array().into_iter().flatten();
    let stalled: Vec<_> = exits().map(|exit| &exit["path"]["stalled"]).collect();
    println!(
        "stalled: {stalled:?}; {}, {}",
        after["state"], after["reason"]
    );
    assert!(stalled.contains(&&Value::Bool(true)), "it is seen");
    let says = |exit: &Value| {
        exit["reason"]
            .as_str()
            .is_some_and(|r| r.contains("no underlay"))
    };
    assert!(exits().any(says), "{}", after["exits"]);
    let main = three.main_exit()?;
    drop(asked);
    client.add_route(&way(RouteTarget::Via(three.net.gateway)))?;
    three.until_usable(main, RESUME * 3)?;
    three.finish()
}
