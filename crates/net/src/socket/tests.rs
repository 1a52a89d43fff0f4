//! What the system refuses, from one call up to real connections.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nix::errno::Errno;
use parking_lot::Mutex;
use quell_core::health::refusal::{GRACE, WAIT_MIN};
use quell_underlay::Underlay;
use quinn::udp::Transmit;
use tokio::time::Instant;

use super::sending::Outgoing;
use super::{CountingSocket, Protect, SocketCounters, SocketWatch};
use crate::identity::Identity;
use crate::quic::{Connection, connect, listen};
use crate::transport::TransportSettings;

/// Answers that the system is made to give.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    /// Of the next sends, in turn.
    next: VecDeque<Errno>,
    /// Of all batches of several datagrams.
    batches: Option<Errno>,
    /// Of all sends.
    all: Option<Errno>,
}

impl Faults {
    pub(super) fn next(&self, part: &Transmit<'_>) -> io::Result<()> {
        let mut plan = self.0.lock();
        let batch = plan.batches.filter(|_| part.segment_size.is_some());
        let fault = plan.next.pop_front().or(plan.all).or(batch);
        fault.map_or(Ok(()), |errno| Err(errno.into()))
    }
}

#[tokio::test]
async fn a_socket_is_shown_before_it_is_used_and_not_used_where_that_fails() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let shown = Arc::clone(&seen);
    let mut watch = SocketWatch::default();
    watch.protect = Some(Protect::new(move |socket| {
        // Not bound yet: it has no port.
        let name =
            nix::sys::socket::getsockname::<nix::sys::socket::SockaddrIn>(socket.as_raw_fd());
        shown.lock().push(name?.port());
        match shown.lock().len() {
            1 => Err(io::Error::other("not now")),
            _ => Ok(()),
        }
    }));
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let open = || CountingSocket::bind(any, 65_536, watch.clone(), &Underlay::default());
    assert!(open().unwrap_err().to_string().contains("127.0.0.1:0"));
    open().unwrap();
    assert_eq!(*seen.lock(), [0, 0]);
}

fn batch(contents: &[u8]) -> Transmit<'_> {
    Transmit {
        destination: (Ipv4Addr::LOCALHOST, 1).into(),
        ecn: None,
        contents,
        segment_size: Some(100),
        src_ip: None,
    }
}

/// Sends a batch while `answers` last, then with success; what the system took.
fn send(
    outgoing: &mut Outgoing,
    watch: &SocketWatch,
    now: std::time::Instant,
    answers: &[Errno],
) -> (io::Result<()>, Vec<usize>) {
    let contents: Vec<u8> = (0..250).map(|n| n as u8).collect();
    let (mut answers, mut taken) = (answers.iter(), Vec::new());
    let result = outgoing.send(&batch(&contents), now, watch, |part| {
        if let Some(errno) = answers.next() {
            return Err((*errno).into());
        }
        taken.push(part.contents.len());
        Ok(())
    });
    (result, taken)
}

fn would_block(result: &io::Result<()>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[test]
fn a_batch_that_the_device_cannot_cut_leaves_datagram_by_datagram_at_once() {
    // case B50
    for errno in [Errno::EIO, Errno::EINVAL] {
        let (mut outgoing, watch) = (Outgoing::default(), SocketWatch::default());
        let now = Instant::now().into_std();
        let (result, taken) = send(&mut outgoing, &watch, now, &[errno]);
        assert!(result.is_ok());
        assert_eq!(taken, [100, 100, 50]);
        let counters = watch.counters();
        assert_eq!((counters.gso_fallbacks, counters.lost_out), (1, 0));
        assert_eq!((counters.datagrams_out, counters.bytes_out), (3, 250));
        let (_, taken) = send(&mut outgoing, &watch, now, &[]);
        assert_eq!(taken, [250], "the next batch is tried whole");
    }
}

#[test]
fn what_was_refused_in_the_middle_of_a_split_batch_goes_on_from_there() {
    let (mut outgoing, watch) = (Outgoing::default(), SocketWatch::default());
    let now = Instant::now().into_std();
    let contents = [7; 250];
    let mut calls = 0;
    let mut taken = Vec::new();
    let mut system = |part: &Transmit<'_>| {
        calls += 1;
        match calls {
            1 => Err(Errno::EIO.into()),
            3 => Err(Errno::ENOBUFS.into()),
            _ => {
                taken.push(part.contents.len());
                Ok(())
            }
        }
    };
    let first = outgoing.send(&batch(&contents), now, &watch, &mut system);
    assert!(would_block(&first));
    assert_eq!(outgoing.take_wait(), Some(WAIT_MIN));
    let again = outgoing.send(&batch(&contents), now, &watch, &mut system);
    assert!(again.is_ok());
    assert_eq!(taken, [100, 100, 50], "each once");
    assert_eq!(watch.counters().refused_full, 1);
}

#[test]
fn a_refusal_waits_for_the_grace_and_is_lost_after_it() {
    let kinds = [
        (Errno::ENOBUFS, 0),
        (Errno::ENETUNREACH, 1),
        (Errno::EHOSTUNREACH, 1),
        (Errno::ENETDOWN, 1),
        (Errno::EPERM, 2),
    ];
    for (errno, place) in kinds {
        let (mut outgoing, watch) = (Outgoing::default(), SocketWatch::default());
        let start = Instant::now().into_std();
        let (result, _) = send(&mut outgoing, &watch, start, &[errno]);
        assert!(would_block(&result), "{errno}");
        assert_eq!(outgoing.take_wait(), Some(WAIT_MIN), "{errno}");
        assert_eq!(outgoing.take_wait(), None, "said once");
        let (result, _) = send(&mut outgoing, &watch, start + GRACE, &[errno]);
        assert!(result.is_ok(), "{errno}: quinn takes it for sent");
        let c = watch.counters();
        let refused = [c.refused_full, c.refused_unreachable, c.refused_other];
        assert_eq!(refused[place], 2, "{errno}");
        assert_eq!((c.lost_out, c.datagrams_out, c.bytes_out), (3, 0, 0));
    }
}

#[test]
fn a_datagram_too_large_is_lost_at_once() {
    let (mut outgoing, watch) = (Outgoing::default(), SocketWatch::default());
    let now = Instant::now().into_std();
    let (result, taken) = send(&mut outgoing, &watch, now, &[Errno::EMSGSIZE]);
    assert!(result.is_ok() && taken.is_empty());
    let counters = watch.counters();
    assert_eq!((counters.refused_too_large, counters.lost_out), (1, 3));
}

/// Both ends of a connection over loopback, and the sender's books.
async fn pair() -> (Connection, Connection, SocketWatch, impl Sized) {
    let (server, client) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let transport = TransportSettings::default();
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let listening = listen(&server, any, &transport, SocketWatch::default()).unwrap();
    let remote = listening.local_addr().unwrap();
    let watch = SocketWatch::default();
    let key = server.public_key();
    let (endpoint, dialled) = connect(
        &client,
        remote,
        key,
        &transport,
        watch.clone(),
        &Underlay::default(),
    )
    .unwrap();
    let accepted = listening.accept().await.unwrap().accept().unwrap();
    dialled.connected().await.unwrap();
    accepted.connected().await.unwrap();
    (dialled, accepted, watch, (endpoint, listening))
}

/// Runs `body` as an engine runs.
fn run(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, body);
}

/// Sends `count` datagrams in one turn and receives until nothing more comes.
async fn cross(from: &Connection, to: &Connection, count: u8) -> usize {
    for n in 0..count {
        from.send_datagram(Bytes::from(vec![n; 1_000])).unwrap();
    }
    from.flush();
    let patience = Duration::from_secs(2);
    let mut received = Vec::new();
    while received.len() < usize::from(count) {
        let batch = &mut received;
        let more = std::future::poll_fn(|cx| to.poll_datagrams(cx, batch, 1));
        match tokio::time::timeout(patience, more).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => break,
        }
    }
    received.len()
}

fn since(watch: &SocketWatch, before: SocketCounters) -> (u64, u64) {
    let now = watch.counters();
    (
        now.lost_out - before.lost_out,
        now.gso_fallbacks - before.gso_fallbacks,
    )
}

#[test]
fn segmentation_that_fails_later_costs_a_connection_nothing() {
    run(async {
        // case B50
        let (from, to, watch, _endpoints) = pair().await;
        assert_eq!(cross(&from, &to, 8).await, 8);
        let before = watch.counters();
        watch.faults.0.lock().batches = Some(Errno::EIO);
        assert_eq!(cross(&from, &to, 8).await, 8);
        let (lost, fallbacks) = since(&watch, before);
        assert!(fallbacks >= 1, "nothing was sent in batches");
        assert_eq!(lost, 0);
        assert_eq!(from.stats().path.lost_packets, 0, "nothing was resent");
    });
}

#[test]
fn refusals_that_pass_cost_a_connection_nothing() {
    run(async {
        for errno in [Errno::ENOBUFS, Errno::ENETUNREACH, Errno::EPERM] {
            let (from, to, watch, _endpoints) = pair().await;
            let before = watch.counters();
            watch.faults.0.lock().next.extend([errno; 4]);
            assert_eq!(cross(&from, &to, 8).await, 8, "{errno}");
            assert_eq!(since(&watch, before), (0, 0), "{errno}");
            assert_eq!(from.stats().path.lost_packets, 0, "{errno}");
            assert!(watch.faults.0.lock().next.is_empty(), "{errno}: not used");
        }
    });
}

#[test]
fn refusals_that_last_end_no_connection() {
    run(async {
        // case B51, case B74
        for errno in [Errno::ENETUNREACH, Errno::EMSGSIZE, Errno::EIO] {
            let (from, to, watch, _endpoints) = pair().await;
            watch.faults.0.lock().all = Some(errno);
            for n in 0..20 {
                from.send_datagram(Bytes::from(vec![n; 1_000])).unwrap();
                from.flush();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert!(watch.counters().lost_out > 0, "{errno}");
            watch.faults.0.lock().all = None;
            assert_eq!(from.close_reason(), None, "{errno}");
            // What stood in QUIC's queue comes first.
            let end = Instant::now() + Duration::from_secs(20);
            while cross(&from, &to, 1).await == 0 {
                assert!(Instant::now() < end, "{errno}: never used again");
            }
        }
    });
}
