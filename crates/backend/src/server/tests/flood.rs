//! A flood from one source beside honest clients (case B76 on the server).

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::signed;

/// Requests with a signature that does not hold, as fast as one source can.
async fn flood(address: SocketAddr, from: u8, done: Arc<AtomicBool>, sent: Arc<AtomicU64>) {
    let head = signed::sign(
        &SecretKey::from_bytes([9; 32]),
        "POST",
        "/v1/enrol",
        wall_s(),
        b"{}",
    );
    let request = format!(
        "POST /v1/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nquell-key: {}\r\nquell-time: {}\r\n\
         quell-signature: {}\r\n\r\n{{]",
        head.key, head.time, head.signature
    );
    let mut answer = vec![0; 4_096];
    while !done.load(Ordering::Relaxed) {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket
            .bind(format!("127.0.0.{from}:0").parse().unwrap())
            .unwrap();
        let Ok(mut stream) = socket.connect(address).await else {
            continue;
        };
        while !done.load(Ordering::Relaxed) {
            if stream.write_all(request.as_bytes()).await.is_err() {
                break;
            }
            sent.fetch_add(1, Ordering::Relaxed);
            if !matches!(stream.read(&mut answer).await, Ok(1..)) {
                break;
            }
        }
    }
}

// case B76
#[tokio::test]
async fn honest_clients_get_through_beside_a_flood_from_one_source() {
    let server = Running::new(LimitsConfig {
        source_requests_per_s: 20,
        source_request_burst: 100,
        connections_per_source: 16,
        ..limits()
    })
    .await;
    let honest = server.enrolled(3, Role::Client).await;
    let (done, sent) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (address, over, count) = (server.address, Arc::clone(&done), Arc::clone(&sent));
    let flooding = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let mut floods = tokio::task::JoinSet::new();
            for _ in 0..32 {
                floods.spawn(flood(address, 66, Arc::clone(&over), Arc::clone(&count)));
            }
            while floods.join_next().await.is_some() {}
        });
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (mut slowest, measured) = (Duration::ZERO, Instant::now());
    for _ in 0..20 {
        let begun = Instant::now();
        honest.catalog(None, S).await.unwrap();
        slowest = slowest.max(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    done.store(true, Ordering::Relaxed);
    // The flood ends with answers of the server, which lives on this thread.
    let joined = tokio::task::spawn_blocking(move || flooding.join()).await;
    joined.unwrap().unwrap();
    let counted = server.app.counters.counted();
    let sent = sent.load(Ordering::Relaxed);
    // Signatures that were checked for the flood: its burst, and its rate for the time it took.
    assert!(counted.requests_unsigned <= 100 + 20 * 10, "{counted:?}");
    assert!(
        sent > 1_000 && counted.requests_refused_source > 500,
        "{sent} {counted:?}"
    );
    let per_s = sent as f64 / measured.elapsed().as_secs_f64();
    writeln!(
        std::io::stdout(),
        "a flood of {per_s:.0} requests a second from one source: the slowest of 20 honest answers took {slowest:?}"
    )
    .unwrap();
    assert!(slowest < S, "{slowest:?} beside {sent} requests");
    server.stopped().await;
}
