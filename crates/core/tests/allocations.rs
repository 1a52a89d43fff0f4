//! At steady state a pack costs no allocation, at either end of a lane.
//!
//! Rings grow to the lane's high-water mark and stay; what is measured begins after they have. A pack's payload is copied
//! into the sender's ring and leaves the receiver as a slice of its datagram, an ACK stands in an array. What may allocate
//! is a packet that waits at the receiver, held or in pieces: it must own its bytes, or it would pin its datagram.
//!
//! The same of all of the core together, from a client's TUN to the provider's egress and back: datagrams are cut out of
//! buffers that take turns, and neither the tables of flows nor the rounds of a driver's turn allocate.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quell_core::budget::{ProcessBudget, SilenceBudget};
use quell_core::config::receive::ReceiveConfig;
use quell_core::config::{ClientConfig, ContractsConfig, LaneConfig, ProviderConfig};
use quell_core::contract::{Books, Carried, Meter, Trusted, Verifier, seal};
use quell_core::multi::{self, Client, ExitId};
use quell_core::path::CarrierFacts;
use quell_core::provider::{self, AddressPool, Provider, Roster, SessionId};
use quell_core::recv::ReceiveSequence;
use quell_core::send::{AlwaysHealthy, Delivery, SendSequence};
use quell_packet::build::{self, Segment};
use quell_packet::tcp::flags;
use quell_wire::contract::{ContractId, ContractTerms};
use quell_wire::frame::{Credit, Frame, Frames, Lane, Pack, PackFlags};
use quell_wire::key::{PublicKey, SecretKey};

const PACK_BYTES: usize = 200;
/// Time between two packs.
const GAP: Duration = Duration::from_micros(10);
/// Packs that are measured.
const PACKS: u64 = 20_000;

/// Both ends, with as many packs under way as a test wants.
struct Ends {
    sender: SendSequence<SilenceBudget, AlwaysHealthy>,
    receiver: ReceiveSequence,
    payload: Bytes,
    /// Number and `tx` of what is under way.
    way: VecDeque<(u64, u64)>,
    ack: Vec<u8>,
    now: Instant,
    /// Each how-manieth first send is lost; 0 for none.
    lost_each: u64,
    delivered: u64,
}

impl Ends {
    fn new(lost_each: u64) -> Self {
        let now = Instant::now();
        Self {
            sender: SendSequence::new(
                Lane::FLOW,
                Delivery::Skipping,
                LaneConfig::default().try_new().unwrap(),
                Credit::FIRST,
                (ProcessBudget::default().path(), AlwaysHealthy),
                1,
            ),
            receiver: ReceiveSequence::new(
                Lane::FLOW,
                ReceiveConfig::default().try_new().unwrap(),
                now,
            ),
            payload: vec![7; PACK_BYTES].into(),
            way: VecDeque::with_capacity(3 * 8_192),
            ack: Vec::with_capacity(2_048),
            now,
            lost_each,
            delivered: 0,
        }
    }

    /// Sends what may be sent; the oldest arrives where more than `in_flight` are under way.
    fn step(&mut self, in_flight: usize) {
        self.now += GAP;
        self.sender.handle_timeout(self.now);
        let _ = self
            .sender
            .accept(PackFlags::WHOLE, 0, &self.payload, self.now);
        while let Some(transmit) = self.sender.poll_transmit(1_200, self.now) {
            let (number, tx) = (transmit.pack.number, transmit.pack.tx);
            let is_first = transmit.kind == quell_core::send::Kind::First;
            self.sender.on_departed(tx, self.now);
            let is_lost = is_first && self.lost_each > 0 && number % self.lost_each == 0;
            if !is_lost {
                self.way.push_back((number, tx));
            }
        }
        if self.way.len() >= in_flight
            && let Some((number, tx)) = self.way.pop_front()
        {
            self.arrive(number, tx);
        }
        self.answer();
    }

    fn arrive(&mut self, number: u64, tx: u64) {
        let pack = Pack {
            lane: Lane::FLOW,
            number,
            tx,
            flags: PackFlags::WHOLE,
            dep: 0,
            data: &self.payload,
        };
        let data = self.payload.clone();
        self.receiver.handle_pack(&pack, data, self.now).unwrap();
        while self.receiver.poll_deliver().is_some() {
            self.delivered += 1;
        }
    }

    fn answer(&mut self) {
        self.receiver.handle_timeout(self.now);
        let Some(ack) = self.receiver.poll_ack(1_200, self.now) else {
            return;
        };
        self.ack.clear();
        ack.write(&mut self.ack);
        for frame in Frames::new(&self.ack) {
            if let Ok(Frame::Ack(ack)) = frame {
                self.sender.handle_ack(&ack, self.now).unwrap();
            }
        }
    }
}

/// Allocations of `PACKS` steps, after as many as it takes to have seen every number of the bitmap twice.
fn allocations(in_flight: usize, lost_each: u64) -> (u64, u64) {
    let mut lane = Ends::new(lost_each);
    for _ in 0..3 * 8_192 {
        lane.step(in_flight);
    }
    let before = lane.delivered;
    let info = allocation_counter::measure(|| {
        for _ in 0..PACKS {
            lane.step(in_flight);
        }
    });
    (info.count_total, lane.delivered - before)
}

#[test]
fn in_order_nothing_is_allocated_at_any_depth() {
    for in_flight in [1, 10, 100, 1_000, 8_000] {
        let (count, delivered) = allocations(in_flight, 0);
        assert_eq!(count, 0, "{in_flight} in flight");
        assert!(delivered > PACKS / 2, "{delivered} packs came out");
    }
}

#[test]
fn with_losses_and_resends_nothing_is_allocated_either() {
    for in_flight in [10, 100, 1_000] {
        let (count, delivered) = allocations(in_flight, 20);
        assert_eq!(count, 0, "{in_flight} in flight");
        assert!(delivered > PACKS / 2, "{delivered} packs came out");
    }
}

/// Looks at the books as often as packets come with a rate of 100 MB/s and a look each 50 ms.
#[test]
fn a_billed_session_allocates_nothing_for_a_packet_or_a_look() {
    let (now, key) = (Instant::now(), |of| SecretKey::from_bytes([of; 32]));
    let terms = ContractTerms {
        key_id: seal::key_id(&seal::public_key(&key(1))),
        contract_id: ContractId([1; 16]),
        client_key: seal::public_key(&key(3)),
        provider_key: seal::public_key(&key(2)),
        bytes: 1 << 40,
        not_before_s: 1_900_000_000,
        not_after_s: 1_900_003_600,
        grace_bytes: 0,
        grace_s: 0,
    };
    let client = terms.client_key;
    let verifier = Verifier {
        trusted: Trusted::try_new(&[seal::public_key(&key(1))]).unwrap(),
        provider_key: terms.provider_key,
        clock_skew: Duration::from_secs(300),
    };
    let config = ContractsConfig {
        exposure_bytes: 1 << 30,
        ..ContractsConfig::default()
    };
    let mut books = Books::new(config, verifier, 1, 1_900_000_000, now);
    let form = seal::sign_contract(&key(1), terms).encode();
    books.on_contract(&client, &form, now).unwrap();
    let mut meter = Meter::default();
    books.judge(&client, &mut meter, now);
    let info = allocation_counter::measure(|| {
        for packet in 0..PACKS {
            assert!(meter.admit(Carried::Known, PACK_BYTES));
            if packet % 1_000 == 0 {
                books.judge(&client, &mut meter, now);
            }
        }
    });
    assert_eq!(info.count_total, 0);
}

const EXIT: ExitId = ExitId(0);

/// A client and a provider, between whom nothing is lost.
struct Tunnel {
    client: Client,
    provider: Provider,
    id: SessionId,
    now: Instant,
    delivered: u64,
}

impl Tunnel {
    /// One that is up, with a packet of the client's TCP and one of its peer's.
    fn up(packet_bytes: usize) -> (Self, [Bytes; 2]) {
        let (now, key) = (Instant::now(), PublicKey([1; 32]));
        let roster = Roster::try_new([("one".to_owned(), key)]).unwrap();
        let pool = AddressPool::try_new(Some("10.85.0.0/16".parse().unwrap()), None).unwrap();
        let mut provider = Provider::new(ProviderConfig::default(), roster, pool, 1_500, 7);
        let mut client = Client::new(ClientConfig::default(), "test", 1_500, 7, now);
        let id = provider.on_connection(key, now).unwrap();
        client.on_connected(EXIT, 1, now);
        let mut tunnel = Self {
            client,
            provider,
            id,
            now,
            delivered: 0,
        };
        tunnel.settle();
        let addresses = tunnel.provider.status().sessions[0].addresses;
        let (own, _) = addresses.and_then(|all| all.ipv4).unwrap();
        let (inside, outside) = ((own, 40_000).into(), ([198, 51, 100, 7], 443).into());
        let segment = Segment {
            flags: flags::ACK,
            ..Segment::default()
        };
        let data = vec![7; packet_bytes - 40];
        let packets = [(inside, outside), (outside, inside)];
        let packets = packets.map(|(from, to)| build::tcp(from, to, &segment, &data).into());
        (tunnel, packets)
    }

    /// Turns of both ends until neither has a datagram.
    fn settle(&mut self) {
        let facts = CarrierFacts {
            datagram_len_max: 1_414,
            backlog_bytes: 0,
            cwnd_bytes: 10_000_000,
            rtt: Duration::from_millis(1),
        };
        let mut is_idle = false;
        while !is_idle {
            is_idle = true;
            // A round trip takes time: without one nothing is measured, and nothing judged.
            self.now += GAP;
            let now = self.now;
            self.client.handle_timeout(now);
            self.client.on_carrier(EXIT, 1, facts, now);
            while let Some(output) = self.client.poll_output(now) {
                if let multi::Output::Datagram { bytes, .. } = &output {
                    self.provider.handle_datagram(self.id, bytes, now);
                    is_idle = false;
                } else if let multi::Output::Control { bytes, .. } = &output {
                    self.provider.handle_control(self.id, bytes, now);
                } else if let multi::Output::Deliver(_) = &output {
                    self.delivered += 1;
                }
            }
            // All has left before an answer comes.
            self.client.on_carrier(EXIT, 1, facts, now);
            self.now += GAP;
            let now = self.now;
            self.provider.handle_timeout(self.id, now);
            self.provider.on_carrier(self.id, facts, now);
            while let Some(output) = self.provider.poll_output(self.id, now) {
                if let provider::Output::Datagram(bytes) = &output {
                    self.client.handle_datagram(EXIT, 1, bytes, now);
                    is_idle = false;
                } else if let provider::Output::Control(bytes) = &output {
                    self.client.handle_control(EXIT, 1, bytes, now);
                } else if let provider::Output::Deliver(_) = &output {
                    self.delivered += 1;
                }
            }
            self.provider.on_carrier(self.id, facts, now);
        }
    }

    /// A turn of ten packets each way.
    fn turn(&mut self, [outward, inward]: &[Bytes; 2]) {
        self.now += 10 * GAP;
        for _ in 0..10 {
            self.client.handle_packet(outward.clone(), self.now);
            self.provider.handle_packet(inward.clone(), self.now);
        }
        while self.provider.poll_ready().is_some() {}
        self.settle();
    }
}

#[test]
fn a_packet_costs_no_allocation_from_tun_to_egress_and_back() {
    for packet_bytes in [52, 1_368] {
        let (mut tunnel, packets) = Tunnel::up(packet_bytes);
        for _ in 0..2 * 8_192 / 10 {
            tunnel.turn(&packets);
        }
        let before = tunnel.delivered;
        let info = allocation_counter::measure(|| {
            for _ in 0..PACKS / 20 {
                tunnel.turn(&packets);
            }
        });
        assert_eq!(tunnel.delivered - before, PACKS, "{packet_bytes} bytes");
        assert_eq!(info.count_total, 0, "{packet_bytes} bytes");
    }
}

#[test]
fn what_allocates_is_counted() {
    let info = allocation_counter::measure(|| drop(vec![1_u8; 100]));
    assert_eq!(info.count_total, 1);
    let mut lane = Ends::new(0);
    let first = allocation_counter::measure(|| (0..100).for_each(|_| lane.step(10)));
    assert!(first.count_total > 0, "the rings grow in the beginning");
}
