//! The control socket against real files and peers of every bad habit.
//!
//! Peers here are plain `std` sockets, so that nothing of the client's care
//! shields the server. Timeouts of the server are shortened where a test waits
//! for one; the order of events, not the length of a pause, decides each test.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::{Limits, serve_within};
use super::*;

const WAIT: Duration = Duration::from_secs(10);
const STATUS: Request = Request {
    command: Command::Status,
};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.path("quell0.sock")
    }

    /// The names that are left, sorted.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn up() -> Handler {
    Arc::new(|_| Box::pin(async { Ok(json!({"state": "up"})) }))
}

fn short(io_timeout_ms: u64) -> Limits {
    Limits {
        connections_max: CONNECTIONS_MAX,
        io_timeout: Duration::from_millis(io_timeout_ms),
    }
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream.set_write_timeout(Some(WAIT)).unwrap();
    stream
}

/// Everything the server says up to the end of its line.
fn line_of(stream: &mut UnixStream) -> Value {
    let mut line = Vec::new();
    let mut byte = [0];
    while byte[0] != b'\n' && stream.read(&mut byte).unwrap() == 1 {
        line.push(byte[0]);
    }
    serde_json::from_slice(&line).unwrap()
}

fn say(path: &Path, bytes: &[u8]) -> Value {
    let mut stream = connect(path);
    // What is too long is refused before all of it was taken.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    line_of(&mut stream)
}

fn error_of(reply: &Value) -> &str {
    reply["error"].as_str().unwrap()
}

#[test]
fn a_request_is_answered() {
    let folder = Folder::new();
    let server = serve(&folder.socket(), up()).unwrap();
    assert_eq!(server.path(), folder.socket());
    let answer = request(server.path(), STATUS, WAIT).unwrap();
    assert_eq!(answer, json!({"state": "up"}));
}

#[test]
fn the_protocol_is_one_json_line_each_way() {
    let folder = Folder::new();
    let _server = serve(&folder.socket(), up()).unwrap();
    let mut stream = connect(&folder.socket());
    stream.write_all(b"{\"command\":\"status\"}\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "{\"ok\":{\"state\":\"up\"}}\n");
}

#[test]
fn words_of_the_handler_reach_the_asker() {
    let folder = Folder::new();
    let handler: Handler = Arc::new(|_| Box::pin(async { Err("still starting".into()) }));
    let server = serve(&folder.socket(), handler).unwrap();
    let error = request(server.path(), STATUS, WAIT).unwrap_err();
    assert_eq!(error.to_string(), "quell answered: still starting");
}

#[test]
fn the_socket_has_mode_0600_and_its_new_folder_0755() {
    let folder = Folder::new();
    let path = folder.path("run/quell/quell0.sock");
    let _server = serve(&path, up()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    // The umask of the test can only take bits away.
    let parent = fs::metadata(path.parent().unwrap()).unwrap();
    assert_eq!(parent.mode() & 0o777 & !0o755, 0);
}

#[test]
fn the_socket_is_born_in_a_closed_folder_not_under_its_name() {
    let folder = Folder::new();
    let blocked = folder.path("quell0.sock.new");
    fs::write(&blocked, "not a folder").unwrap();
    let error = serve(&folder.socket(), up()).unwrap_err();
    assert!(error.to_string().contains("quell0.sock.new"), "{error}");
    assert_eq!(folder.names(), ["quell0.sock.new"]);
}

#[test]
fn a_dropped_server_leaves_nothing_behind() {
    let folder = Folder::new();
    let server = serve(&folder.socket(), up()).unwrap();
    assert_eq!(folder.names(), ["quell0.sock", "quell0.sock.lock"]);
    drop(server);
    assert_eq!(folder.names(), [] as [&str; 0]);
    let error = request(&folder.socket(), STATUS, WAIT).unwrap_err();
    assert!(matches!(error, ControlError::NotRunning { .. }), "{error}");
}

#[test]
fn a_dropped_server_leaves_a_successors_socket_alone() {
    let folder = Folder::new();
    let server = serve(&folder.socket(), up()).unwrap();
    fs::remove_file(folder.socket()).unwrap();
    let _successor = UnixListener::bind(folder.socket()).unwrap();
    drop(server);
    assert_eq!(folder.names(), ["quell0.sock"]);
}

#[test]
fn what_a_dead_process_left_is_replaced() {
    let folder = Folder::new();
    // A killed process leaves its socket, its lock file unlocked, and perhaps its nursery.
    drop(UnixListener::bind(folder.socket()).unwrap());
    fs::write(folder.path("quell0.sock.lock"), "").unwrap();
    let nursery = folder.path("quell0.sock.new");
    fs::create_dir(&nursery).unwrap();
    drop(UnixListener::bind(nursery.join("s")).unwrap());

    let server = serve(&folder.socket(), up()).unwrap();
    request(server.path(), STATUS, WAIT).unwrap();
    assert_eq!(folder.names(), ["quell0.sock", "quell0.sock.lock"]);
}

#[test]
fn a_living_server_is_refused_and_keeps_answering() {
    let folder = Folder::new();
    let server = serve(&folder.socket(), up()).unwrap();
    let error = serve(&folder.socket(), up()).unwrap_err();
    assert!(error.to_string().starts_with("already running"), "{error}");
    request(server.path(), STATUS, WAIT).unwrap();
}

#[test]
fn a_lock_file_removed_before_it_was_locked_is_opened_anew() {
    let folder = Folder::new();
    let lock_path = folder.path("quell0.sock.lock");
    let mut removals = 1;
    let lock = socket::take_lock_while(&folder.socket(), || {
        if removals > 0 {
            removals -= 1;
            fs::remove_file(&lock_path).unwrap();
        }
    });
    // What is held is the file that others find: they are refused.
    let error = socket::bind(&folder.socket()).unwrap_err();
    assert!(
        matches!(error, ControlError::AlreadyRunning { .. }),
        "{error}"
    );
    drop(lock);
    assert_eq!(folder.names(), [] as [&str; 0]);
}

#[test]
fn a_lock_file_that_never_stays_is_given_up() {
    let folder = Folder::new();
    let mut tries = 0;
    let lock = socket::take_lock_while(&folder.socket(), || {
        tries += 1;
        fs::remove_file(folder.path("quell0.sock.lock")).unwrap();
    });
    assert!(matches!(lock, Err(ControlError::AlreadyRunning { .. })));
    assert_eq!(tries, 16);
}

// The bare files, without a server's thread, so that many starts and stops meet.
#[test]
fn of_many_starters_one_holds_the_socket_at_a_time() {
    let folder = Folder::new();
    let holding = AtomicUsize::new(0);
    let held = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    match socket::bind(&folder.socket()) {
                        Ok(bound) => {
                            assert_eq!(holding.fetch_add(1, Ordering::SeqCst), 0);
                            thread::yield_now();
                            assert_eq!(holding.fetch_sub(1, Ordering::SeqCst), 1);
                            held.fetch_add(1, Ordering::SeqCst);
                            drop(bound);
                        }
                        Err(ControlError::AlreadyRunning { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            });
        }
    });
    assert!(held.into_inner() > 0);
    assert_eq!(folder.names(), [] as [&str; 0]);
}

#[test]
fn a_living_socket_of_another_program_is_refused() {
    // No lock says so: only the connection that it accepts.
    let folder = Folder::new();
    let _other = UnixListener::bind(folder.socket()).unwrap();
    let error = serve(&folder.socket(), up()).unwrap_err();
    assert!(
        matches!(error, ControlError::AlreadyRunning { .. }),
        "{error}"
    );
    assert_eq!(folder.names(), ["quell0.sock"]);
}

#[test]
fn a_file_under_the_sockets_name_is_left_alone() {
    let folder = Folder::new();
    fs::write(folder.socket(), "precious").unwrap();
    let error = serve(&folder.socket(), up()).unwrap_err();
    assert!(
        error.to_string().contains("exists and is not a socket"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(folder.socket()).unwrap(), "precious");
}

#[test]
fn a_linked_nursery_is_not_followed() {
    let folder = Folder::new();
    let elsewhere = Folder::new();
    fs::write(elsewhere.0.path().join("s"), "precious").unwrap();
    symlink(elsewhere.0.path(), folder.path("quell0.sock.new")).unwrap();
    serve(&folder.socket(), up()).unwrap_err();
    assert_eq!(elsewhere.names(), ["s"]);
}

#[test]
fn a_path_of_the_longest_length_works_and_one_more_byte_is_refused() {
    let folder = Folder::new();
    // The nursery's "….new/s" has six bytes more than the path itself.
    let room = 107 - 6 - folder.0.path().as_os_str().len() - 1;
    let longest = folder.0.path().join("x".repeat(room));
    drop(serve(&longest, up()).unwrap());
    let longer = folder.0.path().join("x".repeat(room + 1));
    let error = serve(&longer, up()).unwrap_err();
    assert!(error.to_string().contains("at most 107"), "{error}");
    assert_eq!(folder.names(), [] as [&str; 0]);
}

#[test]
fn garbage_gets_words_and_the_server_lives_on() {
    let folder = Folder::new();
    let server = serve(&folder.socket(), up()).unwrap();
    let deep = "[".repeat(4000);
    let cases: &[&[u8]] = &[
        b"",
        b"\n",
        b"status\n",
        b"{\"command\":\"status\"\n",
        b"{\"command\":\"reboot\"}\n",
        b"{\"command\":\"status\",\"and\":1}\n",
        b"{\"command\":\"status\"} {}\n",
        b"{\"command\":7}\n",
        b"\xff\xfe\x00\n",
        deep.as_bytes(),
    ];
    for case in cases {
        let reply = say(server.path(), case);
        let words = error_of(&reply);
        assert!(words.starts_with("not a request: "), "{case:?}: {words}");
    }
    request(server.path(), STATUS, WAIT).unwrap();
}

#[test]
fn the_longest_request_passes_and_one_more_byte_does_not() {
    let folder = Folder::new();
    let server = serve(&folder.socket(), up()).unwrap();
    let padded = |bytes: usize| {
        let line = r#"{"command":"status"}"#;
        format!("{line}{}\n", " ".repeat(bytes - line.len() - 1))
    };
    let reply = say(server.path(), padded(REQUEST_BYTES_MAX).as_bytes());
    assert_eq!(reply, json!({"ok": {"state": "up"}}));
    for bytes in [REQUEST_BYTES_MAX + 1, 1024 * 1024] {
        let reply = say(server.path(), padded(bytes).as_bytes());
        assert!(error_of(&reply).contains("at most 4096 bytes"), "{reply}");
    }
}

#[test]
fn a_request_without_an_end_of_line_is_answered() {
    let folder = Folder::new();
    let server = serve(&folder.socket(), up()).unwrap();
    let reply = say(server.path(), br#"{"command":"status"}"#);
    assert_eq!(reply, json!({"ok": {"state": "up"}}));
}

#[test]
fn a_slow_asker_is_told_so_and_delays_nobody() {
    let folder = Folder::new();
    let server = serve_within(&folder.socket(), up(), short(300)).unwrap();
    let mut slow = connect(server.path());
    slow.write_all(b"{\"command\":").unwrap();
    request(server.path(), STATUS, WAIT).unwrap();
    let reply = line_of(&mut slow);
    assert_eq!(error_of(&reply), "no whole request within 300ms");
}

#[test]
fn an_asker_that_never_reads_frees_its_place() {
    let folder = Folder::new();
    let big = Value::String("x".repeat(4 * 1024 * 1024));
    let handler: Handler = Arc::new(move |_| {
        let big = big.clone();
        Box::pin(async move { Ok(big) })
    });
    let limits = Limits {
        connections_max: 1,
        ..short(300)
    };
    let server = serve_within(&folder.socket(), handler, limits).unwrap();
    let mut deaf = connect(server.path());
    deaf.write_all(b"{\"command\":\"status\"}\n").unwrap();
    let start = Instant::now();
    let answer = loop {
        match request(server.path(), STATUS, WAIT) {
            Ok(answer) => break answer,
            Err(ControlError::Refused { words }) => assert!(words.starts_with("busy"), "{words}"),
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < WAIT, "the place was never freed");
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(answer.as_str().unwrap().len(), 4 * 1024 * 1024);
}

#[test]
fn sixteen_are_served_and_the_seventeenth_is_told_busy() {
    let folder = Folder::new();
    let server = serve(&folder.socket(), up()).unwrap();
    let mut waiting: Vec<_> = (0..CONNECTIONS_MAX)
        .map(|_| connect(server.path()))
        .collect();
    // Accepted in order of arrival: when this one is refused, all others hold a place.
    let mut one_too_many = connect(server.path());
    let reply = line_of(&mut one_too_many);
    assert!(error_of(&reply).starts_with("busy: 16 requests"), "{reply}");
    for stream in &mut waiting {
        stream.write_all(b"{\"command\":\"status\"}\n").unwrap();
        assert_eq!(line_of(stream), json!({"ok": {"state": "up"}}));
    }
    request(server.path(), STATUS, WAIT).unwrap();
}

// case B65: a mute engine shows as words within the timeout; the socket itself lives.
#[test]
fn an_engine_that_never_answers_is_reported() {
    let folder = Folder::new();
    let handler: Handler = Arc::new(|_| Box::pin(std::future::pending()));
    let server = serve_within(&folder.socket(), handler, short(200)).unwrap();
    for _ in 0..2 {
        let error = request(server.path(), STATUS, WAIT).unwrap_err();
        assert_eq!(
            error.to_string(),
            "quell answered: the engine gave no answer within 200ms"
        );
    }
}

#[test]
fn a_panicking_handler_costs_one_answer_only() {
    let folder = Folder::new();
    let handler: Handler = Arc::new(|_| panic!("a defect of the engine's"));
    let server = serve(&folder.socket(), handler).unwrap();
    for _ in 0..2 {
        let error = request(server.path(), STATUS, WAIT).unwrap_err();
        assert!(error.to_string().contains("failed inside quell"), "{error}");
    }
}

/// A server that answers every request with `bytes`, or with silence.
fn fake(path: &Path, bytes: Option<Vec<u8>>) -> thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = [0; 64];
        let _ = stream.read(&mut seen);
        match bytes {
            Some(bytes) => {
                let _ = stream.write_all(&bytes);
            }
            None => {
                // Ends with the asker's patience.
                let _ = stream.read(&mut seen);
            }
        }
    })
}

#[test]
fn an_asker_believes_only_a_whole_line_within_bounds() {
    let endless = vec![b'x'; RESPONSE_BYTES_MAX + 1];
    let cases: [(&[u8], &str); 5] = [
        (b"", "without an end of line"),
        (b"{\"ok\":1}", "without an end of line"),
        (b"hello\n", "gave no valid answer"),
        (b"{\"fine\":1}\n", "gave no valid answer"),
        (&endless, "cannot ask"),
    ];
    for (bytes, words) in cases {
        let folder = Folder::new();
        let server = fake(&folder.socket(), Some(bytes.to_vec()));
        let error = request(&folder.socket(), STATUS, WAIT).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        server.join().unwrap();
    }
}

#[test]
fn an_asker_gives_up_on_silence() {
    let folder = Folder::new();
    let server = fake(&folder.socket(), None);
    let error = request(&folder.socket(), STATUS, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, ControlError::TimedOut { .. }), "{error}");
    server.join().unwrap();
}

#[test]
fn an_asker_gives_up_on_a_full_backlog() {
    let folder = Folder::new();
    let listener =
        socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    let address = socket2::SockAddr::unix(folder.socket()).unwrap();
    listener.bind(&address).unwrap();
    listener.listen(0).unwrap();
    let _first = UnixStream::connect(folder.socket()).unwrap();
    let error = request(&folder.socket(), STATUS, Duration::from_millis(100)).unwrap_err();
    assert!(matches!(error, ControlError::TimedOut { .. }), "{error}");
    // The full backlog is a sign of life for a second server, too.
    let error = serve(&folder.socket(), up()).unwrap_err();
    assert!(
        matches!(error, ControlError::AlreadyRunning { .. }),
        "{error}"
    );
}

#[test]
fn only_sockets_with_the_ending_are_listed_in_order() {
    let folder = Folder::new();
    let dir = folder.0.path();
    assert_eq!(
        sockets_in(&dir.join("nowhere")).unwrap(),
        [] as [PathBuf; 0]
    );
    for name in ["b.sock", "a.sock", "c.socket"] {
        drop(UnixListener::bind(dir.join(name)).unwrap());
    }
    fs::write(dir.join("d.sock"), "").unwrap();
    assert_eq!(
        sockets_in(dir).unwrap(),
        [dir.join("a.sock"), dir.join("b.sock")]
    );
}
