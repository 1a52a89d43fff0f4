//! A tunnel beside the kernel's own TCP on one narrow link: it takes its share and leaves the others theirs.
//!
//! The link is the router's interface towards the provider: 50 Mbit/s with a queue of 20 ms. Round trips come from that
//! queue alone, since these kernels have no delay to offer: 20 ms while it is full, next to nothing while it is empty. That
//! suits congestion controls which measure an empty path badly, so for comparison a sixth flow of the kernel takes the
//! tunnel's place afterwards, and its figures are printed beside the tunnel's.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use quell_lab::LabError;
use quell_lab::load::{TcpLoad, TcpLoadConfig, TcpSink};
use quell_lab::topology::{FAR_PROVIDER_V4, WORLD_V4};

use crate::fixture::{Outcome, World, trials};

trials![
    five_cubic_flows_keep_their_share_beside_a_tunnel,
    five_bbr_flows_keep_their_share_beside_a_tunnel,
];

/// 50 Mbit/s, whole frames.
const LINK_BYTES_S: u32 = 6_250_000;
/// 20 ms of it.
const QUEUE_BYTES: u32 = LINK_BYTES_S / 50;
const FLOWS: u64 = 5;
/// What the flows keep, at the least, of the share that six equals would leave five.
const KEPT_PERCENT_MIN: u64 = 60;
/// How long flows take to find their rates.
const SETTLE: Duration = Duration::from_secs(2);
const MEASURE: Duration = Duration::from_secs(12);
/// How long the comparison is measured, which is held to nothing.
const COMPARE: Duration = Duration::from_secs(6);

fn five_cubic_flows_keep_their_share_beside_a_tunnel() -> Outcome {
    beside("cubic")
}

fn five_bbr_flows_keep_their_share_beside_a_tunnel() -> Outcome {
    beside("bbr")
}

fn beside(congestion: &str) -> Outcome {
    let world = World::with(1_500, |net, _| {
        Ok(net.router_right.set_bottleneck(LINK_BYTES_S, QUEUE_BYTES)?)
    })?;
    let net = &world.net;
    let near = SocketAddr::new(FAR_PROVIDER_V4, 0);
    let (others, sixth) = net
        .provider
        .run(|| Ok::<_, LabError>((TcpSink::start(near)?, TcpSink::start(near)?)))??;
    let tunnelled = net
        .world
        .run(|| TcpSink::start(SocketAddr::new(WORLD_V4, 0)))??;
    let start = |sink: &TcpSink, congestion| {
        let config = TcpLoadConfig {
            congestion: Some(congestion),
            ..TcpLoadConfig::default()
        };
        let address = sink.address();
        net.client.run(|| TcpLoad::with_config(address, config))
    };
    let mut flows = Vec::new();
    for _ in 0..FLOWS {
        match start(&others, congestion)? {
            Err(LabError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                println!("skipped: this kernel has no {congestion}");
                return world.finish();
            }
            flow => flows.push(flow?),
        }
    }
    let tunnel = start(&tunnelled, "cubic")??;
    let beside_tunnel = Shares::measure(&others, &tunnelled, MEASURE);
    let quic = world.client.status()?["servers"][0]["quic"].clone();
    drop(tunnel);
    let flow = start(&sixth, "cubic")??;
    let beside_flow = Shares::measure(&others, &sixth, COMPARE);
    drop((flow, flows));
    println!(
        "five {congestion} flows at 50 Mbit/s: {} beside a tunnel, {} beside a sixth flow (cubic); tunnel at the end: \
         RTT {} us, cwnd {} B, {} of {} packets lost",
        beside_tunnel.words(),
        beside_flow.words(),
        quic["rtt_us"],
        quic["cwnd_bytes"],
        quic["packets_lost"],
        quic["packets_sent"],
    );
    beside_tunnel.check()?;
    world.finish()
}

/// Payload bytes per second.
struct Shares {
    flows: u64,
    other: u64,
}

impl Shares {
    fn measure(flows: &TcpSink, other: &TcpSink, time: Duration) -> Self {
        thread::sleep(SETTLE);
        let start = Instant::now();
        thread::sleep(time);
        let end = Instant::now();
        let rate = |sink: &TcpSink| sink.arrivals().bytes_between(start, end) / time.as_secs();
        Self {
            flows: rate(flows),
            other: rate(other),
        }
    }

    /// Of what five of six equals would have.
    fn kept_percent(&self) -> u64 {
        let fair = u64::from(LINK_BYTES_S) * FLOWS / (FLOWS + 1);
        100 * self.flows / fair
    }

    fn words(&self) -> String {
        format!(
            "{} B/s ({} % of their share) to {} B/s",
            self.flows,
            self.kept_percent(),
            self.other,
        )
    }

    fn check(&self) -> Result<(), Failed> {
        if self.kept_percent() >= KEPT_PERCENT_MIN {
            return Ok(());
        }
        Err(format!("the flows keep {} % of their share", self.kept_percent()).into())
    }
}
