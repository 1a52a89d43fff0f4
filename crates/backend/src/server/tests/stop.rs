//! How a server ends, and what is left of it.

use super::*;

#[tokio::test]
async fn a_stop_answers_long_polls_at_once_and_lets_nobody_in() {
    let server = Running::new(limits()).await;
    let client = server.enrolled(3, Role::Client).await;
    let seen = client.catalog(None, 5 * S).await.unwrap().unwrap();
    let address = server.address;
    let waits = tokio::spawn(async move {
        let begun = Instant::now();
        let answer = client.catalog(Some(&seen.version), 40 * S).await;
        (answer, begun.elapsed())
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    server.stopped().await;
    assert!(begun.elapsed() < 2 * S, "{:?}", begun.elapsed());
    let (answer, took) = waits.await.unwrap();
    assert_eq!(answer, Ok(None));
    assert!(took < 2 * S);
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn a_stop_waits_for_what_is_under_way_so_long_and_no_longer() {
    let server = Running::new(LimitsConfig {
        shutdown_timeout: S,
        body_timeout: 30 * S,
        ..limits()
    })
    .await;
    // A body that never comes.
    let mut stuck = TcpStream::connect(server.address).await.unwrap();
    let head = crate::signed::sign(
        &SecretKey::from_bytes([3; 32]),
        "POST",
        "/v1/enrol",
        wall_s(),
        b"",
    );
    let request = format!(
        "POST /v1/enrol HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\nquell-key: {}\r\nquell-time: {}\r\n\
         quell-signature: {}\r\n\r\n",
        head.key, head.time, head.signature
    );
    stuck.write_all(request.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    server.stopped().await;
    let took = begun.elapsed();
    assert!((S..3 * S).contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_restart_keeps_accounts_and_serves_providers_that_were_well() {
    let server = Running::new(limits()).await;
    server.enrolled(2, Role::Provider).await;
    server.enrolled(3, Role::Client).await;
    let folder = server.stopped().await;
    let mut again = config(limits());
    again.store = StoreConfig::Redb(folder.path().join("backend.redb"));
    let server = Server::start(again).await.unwrap();
    let base = format!("http://{}", server.local_addr()).parse().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(server.serve(async { _ = stopped.await }));
    let client = HttpBackend::new(base, SecretKey::from_bytes([3; 32]), TIMEOUT).unwrap();
    let first = client.catalog(None, 5 * S).await.unwrap().unwrap();
    assert_eq!(first.exits.len(), 1, "not an empty catalog first");
    stop.send(()).unwrap();
    task.await.unwrap();
}
