//! First packets of QUIC version 1 (RFC 9000 §17.2.2, RFC 9001 §5.2) from nobody.
//!
//! Each has connection ids of its own and is sealed with the keys that follow from
//! them, so that the provider has to take it for a new client's. Two kinds take turns:
//! one bears half of a ClientHello, whose handshake waits for the rest for ever; the
//! other bears a whole one that asks for certificates, whose handshake breaks off at once.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quell_wire::registry;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::quic::{ClientConnection, Suite, Version};
use rustls::{ClientConfig, RootCertStore, Side, SupportedCipherSuite};

const DATAGRAM_LEN: usize = 1_200;
const TAG_LEN: usize = 16;
const NUMBER_LEN: usize = 4;

/// Writes first packets.
pub(crate) struct Forger {
    hello: Vec<u8>,
    suite: Suite,
    number: u64,
}

impl Forger {
    pub(crate) fn new() -> Self {
        let mut provider = default_provider();
        // Without a post-quantum share a whole hello fits into one packet.
        provider.kx_groups = vec![kx_group::X25519];
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        config.alpn_protocols = vec![registry::ALPN.to_vec()];
        // initial_source_connection_id: RFC 9000 §18.2.
        let parameters = [&[0x0f, 8][..], &[0x5c; 8]].concat();
        let name = "quell".try_into().unwrap();
        let mut client =
            ClientConnection::new(Arc::new(config), Version::V1, name, parameters).unwrap();
        let mut hello = Vec::new();
        assert!(client.write_hs(&mut hello).is_none());
        // RFC 9001 §5.2: the suite of all first packets.
        let SupportedCipherSuite::Tls13(suite) = cipher_suite::TLS13_AES_128_GCM_SHA256;
        Self {
            hello,
            suite: suite.quic_suite().unwrap(),
            number: 0,
        }
    }

    pub(crate) fn whole_hello(&mut self) -> Vec<u8> {
        self.packet(self.hello.len())
    }

    pub(crate) fn half_a_hello(&mut self) -> Vec<u8> {
        self.packet(self.hello.len() / 2)
    }

    fn packet(&mut self, hello_len: usize) -> Vec<u8> {
        self.number += 1;
        let to = self
            .number
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_be_bytes();
        let mut packet = vec![0xc3, 0, 0, 0, 1, 8];
        packet.extend(to);
        packet.push(8);
        packet.extend([0x5c; 8]);
        // No token; then the length of all that follows it.
        packet.push(0);
        let rest = DATAGRAM_LEN - packet.len() - 2;
        packet.extend((0x4000 | rest as u16).to_be_bytes());
        let number_at = packet.len();
        packet.extend([0; NUMBER_LEN]);
        let payload_at = packet.len();
        // CRYPTO at offset 0, then PADDING.
        packet.extend([0x06, 0]);
        packet.extend((0x4000 | hello_len as u16).to_be_bytes());
        packet.extend(&self.hello[..hello_len]);
        packet.resize(DATAGRAM_LEN - TAG_LEN, 0);

        let keys = self.suite.keys(&to, Side::Client, Version::V1).local;
        let (header, payload) = packet.split_at_mut(payload_at);
        let tag = keys.packet.encrypt_in_place(0, header, payload).unwrap();
        packet.extend(tag.as_ref());
        let (header, sealed) = packet.split_at_mut(payload_at);
        let (first, number) = header.split_at_mut(number_at);
        keys.header
            .encrypt_in_place(&sealed[..16], &mut first[0], number)
            .unwrap();
        assert_eq!(packet.len(), DATAGRAM_LEN);
        packet
    }
}

/// Sends forged first packets from many addresses.
pub(crate) struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, Duration)>,
}

impl Flood {
    /// `per_s` packets a second to `provider`.
    pub(crate) fn start(provider: SocketAddr, per_s: u32) -> Self {
        const BURST: u32 = 50;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let bind =
                |n: u32| UdpSocket::bind((Ipv4Addr::from(0x7f01_0000 + n * 257), 0)).unwrap();
            let sockets: Vec<UdpSocket> = (1..=200).map(bind).collect();
            let mut forger = Forger::new();
            let start = Instant::now();
            let mut sent = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                for socket in sockets
                    .iter()
                    .cycle()
                    .skip(sent as usize % 200)
                    .take(BURST as usize)
                {
                    let packet = match sent % 2 {
                        0 => forger.half_a_hello(),
                        _ => forger.whole_hello(),
                    };
                    socket.send_to(&packet, provider).unwrap();
                    sent += 1;
                }
                let due = Duration::from_secs(1) * sent as u32 / per_s;
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
            (sent, start.elapsed())
        });
        Self { stop, thread }
    }

    /// How many were sent, in which time.
    pub(crate) fn stop(self) -> (u64, Duration) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}
