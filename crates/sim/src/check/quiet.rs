//! A client that gets nowhere is quiet.
//!
//! Progress, as the world sees it, is anything that a provider's half said and the client's half heard, and a dial that was
//! answered: never less than what the client itself takes for progress. From `quiet_after` past the last of it on, any
//! minute holds at most `quiet_bytes` of UDP payload, and one dial that was begun before: handshakes and QUIC's own included.

use super::window::Window;
use super::{Checker, Complaints, Fact, Terms, ns};

const MINUTE_S: u64 = 60;

#[derive(Debug, Clone, Default)]
struct Minute {
    bytes: Window<64>,
    in_force_ns: u64,
    complained: bool,
}

#[derive(Debug)]
pub(super) struct Quiet {
    clients: Vec<Minute>,
    after_ns: u64,
    bytes_max: u64,
}

impl Quiet {
    pub(super) fn new(terms: &Terms) -> Self {
        let quiet = &terms.client.quiet;
        let after_ns = ns(quiet.quiet_after);
        let begin = Minute {
            in_force_ns: after_ns,
            ..Minute::default()
        };
        Self {
            clients: vec![begin; terms.clients()],
            after_ns,
            bytes_max: quiet.quiet_bytes + quiet.dial_bytes,
        }
    }
}

impl Checker for Quiet {
    fn saw(&mut self, fact: &Fact<'_>, now_ns: u64, complaints: &mut Complaints) {
        if let Fact::Heard { client, .. } | Fact::Connected { client, .. } = *fact {
            let minute = &mut self.clients[client as usize];
            if minute.in_force_ns <= now_ns {
                minute.bytes.clear();
                minute.complained = false;
            }
            minute.in_force_ns = now_ns + self.after_ns;
        }
        let Fact::Left { client, bytes } = *fact else {
            return;
        };
        let minute = &mut self.clients[client as usize];
        if now_ns < minute.in_force_ns || minute.complained {
            return;
        }
        minute.bytes.add(bytes.into(), now_ns);
        let sum = minute.bytes.sum(MINUTE_S, now_ns);
        if sum > self.bytes_max {
            minute.complained = true;
            let most = self.bytes_max;
            complaints.say(now_ns, format_args!(
                "client {client} got nowhere and sent {sum} bytes within a minute, {most} at most"
            ));
        }
    }
}
