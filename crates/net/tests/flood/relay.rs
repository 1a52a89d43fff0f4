//! One client's way to a provider, which takes its time: what a round trip is, is known.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Delays what crosses it, in both directions, for the last client that spoke.
pub(crate) struct Relay {
    address: SocketAddr,
}

impl Relay {
    /// A relay to `provider` with a constant delay each way. Its threads end with the process.
    pub(crate) fn start(provider: SocketAddr, delay: Duration) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = near.local_addr().unwrap();
        let (client_tx, client_rx) = mpsc::channel();
        let out = far.try_clone().unwrap();
        delayed(near.try_clone().unwrap(), delay, move |bytes, from| {
            let _ = client_tx.send(from);
            let _ = out.send_to(bytes, provider);
        });
        let mut client = None;
        delayed(far, delay, move |bytes, _| {
            client = client_rx.try_iter().last().or(client);
            if let Some(client) = client {
                let _ = near.send_to(bytes, client);
            }
        });
        Self { address }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Hands on what `socket` receives, `delay` later.
fn delayed(
    socket: UdpSocket,
    delay: Duration,
    mut forward: impl FnMut(&[u8], SocketAddr) + Send + 'static,
) {
    let (tx, rx) = mpsc::channel::<(Instant, Vec<u8>, SocketAddr)>();
    thread::spawn(move || {
        let mut buffer = [0; 2_048];
        // A client that is gone shows as an error for one call.
        loop {
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let due = Instant::now() + delay;
                if tx.send((due, buffer[..len].to_vec(), from)).is_err() {
                    return;
                }
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes, from) in rx {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            forward(&bytes, from);
        }
    });
}
