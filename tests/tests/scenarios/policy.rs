//! Whom a provider's clients may speak to, end to end. The addresses of the provider and of its link have servers that would
//! answer, so nothing but the rules stands in the way; what is denied otherwise is told by its counter and by `quell why`.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use quell_lab::probe;
use quell_lab::topology::{CLIENT_V4, PROVIDER_WORLD_V4, PROVIDER_WORLD_V6, WORLD_V4};
use serde_json::Value;

use crate::commands::quell;
use crate::fixture::{Outcome, ROUTES, World, drops, trials, within};

trials![
    what_trusts_the_provider_does_not_trust_its_clients,
    nor_where_sockets_of_the_provider_speak_for_them,
    an_address_that_the_host_gets_is_denied_from_then_on,
    the_provider_is_pinged_and_nothing_else,
];

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A port that is allowed on one host of the provider's link, and one that is not.
const PORTS: [u16; 2] = [8_081, 8_082];
/// The world's end of the provider's link.
const NEIGHBOUR: &str = "198.51.100.1";

/// How a connection of the client fares: `None` where it is made, else by what it fails.
fn connect(
    world: &World,
    to: SocketAddr,
    patience: Duration,
) -> Result<Option<ErrorKind>, libtest_mimic::Failed> {
    let connect = || TcpStream::connect_timeout(&to, patience);
    Ok(world
        .net
        .client
        .run(connect)?
        .err()
        .map(|error| error.kind()))
}

fn denied(world: &World, class: &str) -> Result<u64, libtest_mimic::Failed> {
    let status = world.provider.status()?;
    Ok(status["egress"]["denied"][class].as_u64().unwrap_or(0))
}

/// What `quell why` says of it to the provider's operator.
fn why(world: &World, destination: &str) -> Result<String, libtest_mimic::Failed> {
    let socket = world.folder.path().join("provider.sock");
    let output = quell()?
        .args(["why", destination, "--socket"])
        .arg(socket)
        .output()?;
    assert!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

// DESIGN §8
fn what_trusts_the_provider_does_not_trust_its_clients() -> Outcome {
    denials("tun")
}

fn nor_where_sockets_of_the_provider_speak_for_them() -> Outcome {
    denials("userspace")
}

fn denials(kind: &str) -> Outcome {
    let world = World::with(1_500, |net, plan| {
        plan.egress_kind = kind.to_owned();
        net.provider
            .iface("lo")?
            .add_address("169.254.169.254".parse()?, 32)?;
        net.provider
            .iface("lo")?
            .add_address("192.168.9.9".parse()?, 32)?;
        plan.allow = vec![format!("{NEIGHBOUR} tcp/{}", PORTS[0])];
        let more = [
            "169.254.169.254/32",
            "192.168.0.0/16",
            "198.51.100.0/24",
            "2001:db8:100::/64",
            "64:ff9b::/96",
        ];
        plan.routes = ROUTES.into_iter().chain(more).map(str::to_owned).collect();
        Ok(())
    })?;
    let listen = |port| move || TcpListener::bind(("::", port));
    let _served = [
        world.net.provider.run(listen(PORTS[1]))??,
        world.net.world.run(listen(PORTS[0]))??,
        world.net.world.run(listen(PORTS[1]))??,
    ];
    for (destination, class) in [
        ("169.254.169.254".parse::<IpAddr>()?, "metadata"),
        ("192.168.9.9".parse()?, "own_address"),
        ("192.168.9.10".parse()?, "private"),
        (PROVIDER_WORLD_V4, "own_address"),
        (PROVIDER_WORLD_V6, "own_address"),
        (NEIGHBOUR.parse()?, "on_link"),
        ("2001:db8:100::1".parse()?, "on_link"),
        ("64:ff9b::127.0.0.1".parse()?, "loopback"),
        ("64:ff9b::169.254.169.254".parse()?, "metadata"),
        ("64:ff9b::10.77.1.254".parse()?, "on_link"),
    ] {
        let before = denied(&world, class)?;
        let refused = connect(&world, SocketAddr::new(destination, PORTS[1]), PATIENCE)?;
        assert_eq!(refused, Some(ErrorKind::ConnectionRefused), "{destination}");
        let after = denied(&world, class)?;
        assert!(after > before, "{destination}: {after} of class {class}");
        let said = why(&world, &SocketAddr::new(destination, PORTS[1]).to_string())?;
        let count = format!("{after} packets denied for it");
        assert!(
            said.contains("denied: ") && said.contains("`egress.allow` opens it"),
            "{said}"
        );
        assert!(said.contains(&count), "{destination}, {count}: {said}");
    }
    // What is no TCP hears it as well: no answer would be a timeout.
    let told = world.net.client.run(|| -> std::io::Result<ErrorKind> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect((NEIGHBOUR, PORTS[1]))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.send(b"anybody there?")?;
        Ok(socket
            .recv(&mut [0; 16])
            .map_or_else(|error| error.kind(), |_| ErrorKind::Other))
    })??;
    assert_eq!(told, ErrorKind::HostUnreachable);
    // What the operator opened, and the world.
    for to in [
        SocketAddr::new(NEIGHBOUR.parse()?, PORTS[0]),
        SocketAddr::new(WORLD_V4, PORTS[1]),
    ] {
        assert_eq!(connect(&world, to, PATIENCE)?, None, "{to}");
        assert!(why(&world, &to.to_string())?.contains(": allowed"));
    }
    let mail = connect(&world, SocketAddr::new(WORLD_V4, 25), PATIENCE)?;
    assert_eq!(mail, Some(ErrorKind::ConnectionRefused));
    assert!(why(&world, "tcp/25")?.contains("TCP port 25"));
    assert_eq!(denied(&world, "smtp")?, 1);
    world.finish()
}

// DESIGN §8, case B78
fn an_address_that_the_host_gets_is_denied_from_then_on() -> Outcome {
    let world = World::new(1_500)?;
    let _served = world
        .net
        .world
        .run(|| TcpListener::bind(("0.0.0.0", PORTS[0])))??;
    let late = SocketAddr::new("203.0.113.77".parse()?, PORTS[0]);
    world.net.world.iface("lo")?.add_address(late.ip(), 32)?;
    assert_eq!(connect(&world, late, PATIENCE)?, None, "it is anybody's");
    world.net.provider.iface("lo")?.add_address(late.ip(), 32)?;
    within(PATIENCE, "a denial of the host's new address", || {
        let refused = connect(&world, late, PATIENCE).ok()?;
        let counted = denied(&world, "own_address").ok()?;
        (refused == Some(ErrorKind::ConnectionRefused) && counted > 0).then_some(())
    })?;
    // A source that is not the client's own leaves not even its own end.
    let before = drops(&world.client.status()?, "tun_drops", "source_not_assigned");
    world.net.client.run(|| -> std::io::Result<usize> {
        UdpSocket::bind((CLIENT_V4, 0))?.send_to(b"spoofed", (WORLD_V4, 9))
    })??;
    within(PATIENCE, "a drop of what is spoofed", || {
        let status = world.client.status().ok()?;
        (drops(&status, "tun_drops", "source_not_assigned") > before).then_some(())
    })?;
    world.finish()
}

// DESIGN §8
fn the_provider_is_pinged_and_nothing_else() -> Outcome {
    let world = World::with(1_500, |_, plan| {
        plan.routes.push("10.85.0.0/16".to_owned());
        plan.routes.push("fd71:7175:656c::/64".to_owned());
        Ok(())
    })?;
    let _served = world
        .net
        .provider
        .run(|| TcpListener::bind(("::", PORTS[0])))??;
    for gateway in ["10.85.0.1".parse::<IpAddr>()?, "fd71:7175:656c::1".parse()?] {
        let ping = || probe::ping(gateway, 1_000, 5, Duration::from_millis(5), PATIENCE);
        assert_eq!(world.net.client.run(ping)??.lost(), 0, "{gateway}");
        let refused = connect(&world, SocketAddr::new(gateway, PORTS[0]), PATIENCE)?;
        assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
    }
    let status = world.provider.status()?;
    assert_eq!(status["egress"]["echoes_answered"], 10, "{status}");
    let none = Value::Null;
    let sessions = status["sessions"].as_array().cloned().unwrap_or_default();
    let session = sessions.first().unwrap_or(&none);
    assert_eq!(
        drops(session, "received_drops", "denied"),
        denied(&world, "own_address")?
    );
    world.finish()
}
