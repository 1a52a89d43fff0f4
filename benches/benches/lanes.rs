//! What an acknowledged pack costs at either end, with few and with many under way.
//!
//! At 1 Gbit/s of 1,400-byte packets, about 89,000 a second, a microsecond a pack is 9 % of a core; both ends of a lane
//! together should stay well below that, and must not cost more the more is under way. `send_ack` takes a pack in, hands it
//! over and settles it by an ACK for eight. `receive` takes packs in order, delivers them and answers every eighth; `ragged`
//! is the worst that an honest path does to it: every other number comes a whole window late, so that each ACK finds its 64
//! ranges among thousands. The payload is copied once by the sender and read once by the receiver (its fingerprint), which
//! is most of what a full-sized pack costs; `small` shows the rest alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quell_core::config::LaneConfig;
use quell_core::config::receive::ReceiveConfig;
use quell_core::recv::ReceiveSequence;
use quell_core::send::{AlwaysHealthy, Delivery, SendSequence, Unlimited};
use quell_wire::frame::{Ack, AckRanges, Credit, Lane, Pack, PackFlags};

/// A full-sized packet's pack, and one of an acknowledgement of the user's TCP.
const PAYLOADS: [(&str, usize); 2] = [("full", 1_160), ("small", 40)];
/// Packs that an ACK settles (DESIGN §4).
const PACKS_AN_ACK: u64 = 8;
const GAP: Duration = Duration::from_micros(100);

const PLENTY: Credit = Credit {
    max_bytes: u64::MAX >> 2,
    max_number: u64::MAX >> 2,
};

struct Sending {
    lane: SendSequence<Unlimited, AlwaysHealthy>,
    payload: Vec<u8>,
    now: Instant,
    acked: u64,
}

impl Sending {
    /// A lane with `in_flight` packs under way.
    fn new(payload_bytes: usize, in_flight: u64) -> Self {
        let config = LaneConfig {
            window_bytes: 16 * 1024 * 1024,
            ..LaneConfig::default()
        };
        let shared = (Unlimited, AlwaysHealthy);
        let lane = SendSequence::new(Lane::FLOW, Delivery::Skipping, config, PLENTY, shared, 1);
        let mut sending = Self {
            lane,
            payload: vec![7; payload_bytes],
            now: Instant::now(),
            acked: 0,
        };
        (0..in_flight).for_each(|_| sending.send());
        sending
    }

    fn send(&mut self) {
        let taken = self
            .lane
            .accept(PackFlags::WHOLE, 1, &self.payload, self.now);
        assert!(taken.is_ok(), "{taken:?}");
        if let Some(transmit) = self.lane.poll_transmit(1_200, self.now) {
            let tx = black_box(transmit).pack.tx;
            self.lane.on_departed(tx, self.now);
        }
    }

    /// An ACK for the eight eldest, then eight new ones.
    fn round(&mut self) {
        self.now += GAP;
        self.acked += PACKS_AN_ACK;
        let ack = Ack {
            lane: Lane::FLOW,
            cumulative: self.acked,
            ranges: AckRanges::EMPTY,
            largest_tx: self.acked,
            delay_us: 0,
            dup_tx: None,
            credit: PLENTY,
        };
        assert!(black_box(self.lane.handle_ack(&ack, self.now)).is_ok());
        self.lane.handle_timeout(self.now);
        (0..PACKS_AN_ACK).for_each(|_| self.send());
        black_box(self.lane.poll_timeout());
    }
}

struct Receiving {
    lane: ReceiveSequence,
    payload: Bytes,
    buffer: Vec<u8>,
    now: Instant,
    tx: u64,
    step: u64,
}

impl Receiving {
    fn new(payload_bytes: usize) -> Self {
        let config = ReceiveConfig {
            window_bytes: 8 * 1024 * 1024,
            ..ReceiveConfig::default()
        };
        let now = Instant::now();
        Self {
            lane: ReceiveSequence::new(Lane::FLOW, config, now),
            payload: vec![7; payload_bytes].into(),
            buffer: Vec::with_capacity(2_048),
            now,
            tx: 0,
            step: 0,
        }
    }

    fn arrive(&mut self, number: u64) {
        self.tx += 1;
        let pack = Pack {
            lane: Lane::FLOW,
            number,
            tx: self.tx,
            flags: PackFlags::WHOLE,
            dep: 0,
            data: &self.payload,
        };
        let taken = self.lane.handle_pack(&pack, self.payload.clone(), self.now);
        assert!(taken.is_ok(), "{taken:?}");
        while let Some(delivery) = self.lane.poll_deliver() {
            black_box(delivery);
        }
        if let Some(ack) = self.lane.poll_ack(1_200, self.now) {
            self.buffer.clear();
            ack.write(&mut self.buffer);
            black_box(&self.buffer);
        }
    }

    /// Eight packs in order.
    fn in_order(&mut self) {
        self.now += GAP;
        for _ in 0..PACKS_AN_ACK {
            self.arrive(self.step);
            self.step += 1;
        }
    }

    /// Eight packs, of which every other one is `late` numbers late.
    fn ragged(&mut self, late: u64) {
        self.now += GAP;
        for _ in 0..PACKS_AN_ACK / 2 {
            self.arrive(2 * self.step);
            if let Some(number) = (2 * self.step + 1).checked_sub(late) {
                self.arrive(number);
            }
            self.step += 1;
        }
    }
}

fn send_ack(c: &mut Criterion) {
    let mut group = c.benchmark_group("lanes/send_ack");
    group.throughput(Throughput::Elements(PACKS_AN_ACK));
    for (name, bytes) in PAYLOADS {
        for in_flight in [10, 100, 1_000, 8_192] {
            group.bench_function(BenchmarkId::new(name, in_flight), |b| {
                let mut sending = Sending::new(bytes, in_flight);
                b.iter(|| sending.round());
            });
        }
    }
    group.finish();
}

fn receive(c: &mut Criterion) {
    let mut group = c.benchmark_group("lanes/receive");
    group.throughput(Throughput::Elements(PACKS_AN_ACK));
    for (name, bytes) in PAYLOADS {
        group.bench_function(BenchmarkId::new(name, "in_order"), |b| {
            let mut receiving = Receiving::new(bytes);
            b.iter(|| receiving.in_order());
        });
        for late in [10, 100, 1_000, 8_180] {
            group.bench_function(BenchmarkId::new(format!("{name}_ragged"), late), |b| {
                let mut receiving = Receiving::new(bytes);
                // Until the first late ones have come.
                (0..late).for_each(|_| receiving.ragged(late));
                b.iter(|| receiving.ragged(late));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, send_ack, receive);
criterion_main!(benches);
