//! Peers that lie, strangers, and packets that must not pass.
//!
//! The attacker speaks real QUIC with real keys; what it says on top is wrong.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use libtest_mimic::Failed;
use quell_lab::probe;
use quell_lab::topology::{FAR_PROVIDER_V4, WORLD_V4};
use quell_net::identity::Identity;
use quell_net::transport::TransportSettings;
use quell_net::{SocketWatch, endpoint};
use quell_packet::build;
use quell_wire::control::{Control, ControlDecoder, Hello};
use quell_wire::frame::{self, Credit, Frame, Frames, LaneProbes, Ping};
use quell_wire::key::PublicKey;
use quell_wire::registry::{ErrorCode, VERSION};
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream};
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::fixture::{Outcome, World, drops, trials, within};

trials![
    a_stranger_is_told_that_it_is_unknown,
    a_wrong_version_is_told_by_name,
    broken_control_messages_are_told_by_name,
    a_broken_datagram_is_told_by_name,
    a_client_that_expects_another_key_says_both,
    spoofed_and_malformed_packets_are_dropped_by_reason,
    garbage_on_the_port_changes_nothing,
    packets_that_would_loop_are_dropped_at_the_tun,
];

const PATIENCE: Duration = Duration::from_secs(10);
const MALLORY: &str = "mallory";

/// A hostile client's connection.
struct Attack {
    connection: Connection,
    control: SendStream,
    answers: RecvStream,
    decoder: ControlDecoder,
    _endpoint: Endpoint,
}

impl Attack {
    async fn connect(
        who: &Identity,
        provider: PublicKey,
        remote: SocketAddr,
    ) -> Result<Self, Failed> {
        let (endpoint, connecting) = endpoint::connect(
            who,
            remote,
            provider,
            &TransportSettings::default(),
            SocketWatch::default(),
        )?;
        let connection = timeout(PATIENCE, connecting).await??;
        let (control, answers) = connection.open_bi().await?;
        Ok(Self {
            connection,
            control,
            answers,
            decoder: ControlDecoder::new(),
            _endpoint: endpoint,
        })
    }

    async fn hello(&mut self, version: u64) -> Outcome {
        let mut bytes = BytesMut::new();
        Control::Hello(Hello {
            version,
            features: 0,
            agent: MALLORY.to_owned(),
            limits: Credit::FIRST,
        })
        .encode(&mut bytes)?;
        Ok(self.control.write_all(&bytes).await?)
    }

    /// Greets, and waits for the inner addresses.
    async fn welcome(&mut self) -> Result<(IpAddr, IpAddr), Failed> {
        self.hello(VERSION).await?;
        loop {
            if let Some(message) = self.decoder.next()? {
                let Control::Welcome(welcome) = message else {
                    return Err(format!("not a welcome: {message:?}").into());
                };
                let none = "an address is missing";
                return Ok((
                    welcome.ipv4.ok_or(none)?.0.into(),
                    welcome.ipv6.ok_or(none)?.0.into(),
                ));
            }
            let chunk = timeout(PATIENCE, self.answers.read_chunk(4_096, true)).await??;
            self.decoder
                .push(&chunk.ok_or("the control stream ended")?.bytes);
        }
    }

    fn send_packet(&self, packet: &[u8]) -> Outcome {
        let mut datagram = BytesMut::new();
        frame::write_dgram(&mut datagram, packet);
        Ok(self.connection.send_datagram(datagram.freeze())?)
    }

    /// Waits until everything sent before has been looked at.
    async fn ping(&self) -> Outcome {
        let mut datagram = BytesMut::new();
        let nonce = 7;
        Ping {
            nonce,
            lanes: LaneProbes::new(),
        }
        .write(&mut datagram);
        self.connection.send_datagram(datagram.freeze())?;
        loop {
            let answer = timeout(PATIENCE, self.connection.read_datagram()).await??;
            if Frames::new(&answer)
                .any(|frame| matches!(frame, Ok(Frame::Pong(pong)) if pong.nonce == nonce))
            {
                return Ok(());
            }
        }
    }

    /// The code that the provider closes with.
    async fn verdict(&self) -> Result<(ErrorCode, String), Failed> {
        let end = timeout(PATIENCE, self.connection.closed()).await?;
        let ConnectionError::ApplicationClosed(close) = end else {
            return Err(format!("closed without a code of ours: {end}").into());
        };
        let code = ErrorCode::from_code(close.error_code.into_inner()).ok_or("an unlisted code")?;
        Ok((code, String::from_utf8_lossy(&close.reason).into_owned()))
    }
}

/// Runs an attack from the client's namespace, as a listed client if `listed`.
fn attack<T: Send>(
    world: &World,
    listed: bool,
    act: impl AsyncFnOnce(Attack) -> Result<T, Failed> + Send,
) -> Result<T, Failed> {
    let stranger = Identity::generate()?;
    let who = if listed {
        &world.plan.more_clients[0].1
    } else {
        &stranger
    };
    let (provider, remote) = (world.plan.provider.public_key(), world.plan.dial);
    world.net.client.run(|| {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { act(Attack::connect(who, provider, remote).await?).await })
    })?
}

/// A world whose provider also lists the attacker.
fn world_with_mallory() -> Result<World, Failed> {
    World::with(1_500, |_, plan| {
        plan.more_clients
            .push((MALLORY.to_owned(), Identity::generate()?));
        Ok(())
    })
}

/// The provider closed by `code`, said so in its log, and serves on.
fn told(world: World, code: ErrorCode, verdict: &(ErrorCode, String)) -> Outcome {
    assert_eq!(verdict.0, code, "{verdict:?}");
    let logged = || world.provider.log().contains(code.name()).then_some(());
    within(PATIENCE, "a line in the provider's log", logged)?;
    let status = world.provider.status()?;
    assert!(
        status["refused"][code.name()].as_u64() >= Some(1),
        "{status}"
    );
    let ping = world
        .net
        .client
        .run(|| probe::ping(WORLD_V4, 56, 1, Duration::from_millis(1), PATIENCE))??;
    assert_eq!(ping.lost(), 0, "the honest client is served on");
    world.finish()
}

fn a_stranger_is_told_that_it_is_unknown() -> Outcome {
    let world = World::new(1_500)?;
    let verdict = attack(&world, false, async |attack| attack.verdict().await)?;
    told(world, ErrorCode::UnknownClient, &verdict)
}

fn a_wrong_version_is_told_by_name() -> Outcome {
    let world = world_with_mallory()?;
    let verdict = attack(&world, true, async |mut attack| {
        attack.hello(VERSION + 1).await?;
        attack.verdict().await
    })?;
    told(world, ErrorCode::UnsupportedVersion, &verdict)
}

fn broken_control_messages_are_told_by_name() -> Outcome {
    // A length prefix of 65,537 is refused before a byte of its message came.
    let one_too_many: &[u8] = &[0x80, 0x01, 0x00, 0x01];
    let garbage: &[u8] = &[0x04, 0xff, 0xff, 0xff, 0xff];
    for (bytes, code) in [
        (one_too_many, ErrorCode::ControlTooLarge),
        (garbage, ErrorCode::MalformedControl),
    ] {
        let world = world_with_mallory()?;
        let verdict = attack(&world, true, async |mut attack| {
            attack.control.write_all(bytes).await?;
            attack.verdict().await
        })?;
        told(world, code, &verdict)?;
    }
    Ok(())
}

fn a_broken_datagram_is_told_by_name() -> Outcome {
    let world = world_with_mallory()?;
    let verdict = attack(&world, true, async |mut attack| {
        attack.welcome().await?;
        attack
            .connection
            .send_datagram(Bytes::from_static(&[0x3f, 1, 2, 3]))?;
        attack.verdict().await
    })?;
    told(world, ErrorCode::MalformedFrame, &verdict)
}

fn a_client_that_expects_another_key_says_both() -> Outcome {
    let mut world = World::new(1_500)?;
    let real = world.plan.provider.public_key();
    world.client.stop()?;
    let mut wrong = world.plan.clone();
    wrong.provider = Identity::generate()?;
    std::fs::write(
        world.folder.path().join("client.toml"),
        wrong.client_file("client"),
    )?;
    world.client = world.plan.up(&world.net.client)?;
    let status = world
        .client
        .until("refusing", |status| status["state"] == "waiting")?;
    let reason = status["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains(&real.to_string())
            && reason.contains(&wrong.provider.public_key().to_string()),
        "{reason}"
    );
    let logged = || {
        world
            .provider
            .log()
            .contains("handshake failed")
            .then_some(())
    };
    within(PATIENCE, "a line in the provider's log", logged)
}

// case B78, case B79
fn spoofed_and_malformed_packets_are_dropped_by_reason() -> Outcome {
    let world = world_with_mallory()?;
    let victim = world.client_address("ipv4")?;
    let world_address = SocketAddr::new(WORLD_V4, 9);
    let (spoofed, malformed) = attack(&world, true, async |mut attack| {
        let (ipv4, _) = attack.welcome().await?;
        let forged: [SocketAddr; 2] = [SocketAddr::new(victim, 1), "10.85.0.1:1".parse()?];
        for source in forged {
            attack.send_packet(&build::udp(source, world_address, b"spoof"))?;
        }
        attack.send_packet(&build::udp(
            "[2001:db8::bad]:1".parse()?,
            "[2001:db8:113::1]:9".parse()?,
            b"spoof",
        ))?;
        let honest = build::udp(SocketAddr::new(ipv4, 1), world_address, b"honest");
        let mut malformed = 0;
        for end in 0..honest.len() {
            attack.send_packet(&honest[..end])?;
            malformed += 1;
        }
        for ihl in 0..=15 {
            let mut packet = honest.clone();
            packet[0] = 0x40 | ihl;
            if ihl != 5 {
                attack.send_packet(&packet)?;
                malformed += 1;
            }
        }
        attack.ping().await?;
        Ok((3, malformed))
    })?;
    let status = world.provider.status()?;
    let sessions = status["sessions"].as_array().cloned().unwrap_or_default();
    let none = Value::Null;
    let mallory = sessions
        .iter()
        .find(|session| session["client"] == MALLORY)
        .unwrap_or(&none);
    assert_eq!(
        drops(mallory, "received_drops", "source_not_assigned"),
        spoofed,
        "{mallory}"
    );
    // IHL 6, 7 and 8 are well-formed: of 34 bytes, 24, 28 or 32 are the header.
    let counted = drops(mallory, "received_drops", "malformed");
    let delivered = mallory["delivered"].as_u64().unwrap_or(0);
    assert_eq!(counted + delivered, malformed, "{mallory}");
    assert!(delivered <= 3, "{mallory}");
    world.finish()
}

fn garbage_on_the_port_changes_nothing() -> Outcome {
    let world = World::new(1_500)?;
    world.net.client.run(|| -> Outcome {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        for round in 0..2_000_u32 {
            let len = (round % 1_400) as usize;
            let noise: Vec<u8> = (0..len as u32)
                .map(|i| (i.wrapping_mul(2_654_435_761) ^ round) as u8)
                .collect();
            socket.send_to(&noise, world.plan.dial)?;
        }
        Ok(())
    })??;
    let ping = world
        .net
        .client
        .run(|| probe::ping(WORLD_V4, 56, 5, Duration::from_millis(5), PATIENCE))??;
    assert_eq!(ping.lost(), 0);
    world.finish()
}

// case B38
fn packets_that_would_loop_are_dropped_at_the_tun() -> Outcome {
    let world = World::new(1_500)?;
    let own = world.client_address("ipv4")?;
    let before = world.client.status()?;
    world.net.client.run(|| -> Outcome {
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255)))?;
        raw.bind_device(Some(b"quell0"))?;
        let send = |source: IpAddr, destination: IpAddr| -> Outcome {
            let packet = build::udp(
                SocketAddr::new(source, 1),
                SocketAddr::new(destination, 9),
                b"loop",
            );
            raw.send_to(&packet, &SocketAddr::new(destination, 0).into())?;
            Ok(())
        };
        send(own, FAR_PROVIDER_V4)?;
        send("192.0.2.66".parse()?, WORLD_V4)?;
        send(own, "224.0.0.251".parse()?)
    })??;
    let count = |status: &Value, reason: &str| drops(status, "tun_drops", reason);
    let grown = |reason: &str| {
        let now = world.client.status().ok()?;
        (count(&now, reason) > count(&before, reason)).then_some(())
    };
    for reason in ["underlay_address", "source_not_assigned", "not_unicast"] {
        within(PATIENCE, reason, || grown(reason))?;
    }
    world.finish()
}
