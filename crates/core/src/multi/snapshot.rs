//! The client for people and programs.

use std::time::Instant;

use super::client::Client;
use super::exit::Exit;
use crate::path::{Path, PathBooks};
use crate::status::{ClientStatus, ExitStatus};

impl Client {
    /// A snapshot.
    pub fn status(&self, now: Instant) -> ClientStatus {
        let exits: Vec<_> = self
            .exits
            .iter()
            .map(|exit| self.exit_status(exit, now))
            .collect();
        let main = self.main_exit().map_or(0, |exit| exit.id.index());
        let first = exits.get(main).cloned().unwrap_or_default();
        let mut ended = PathBooks::default();
        exits.iter().for_each(|exit| ended += exit.ended);
        let sum = |of: fn(&ExitStatus) -> u64| exits.iter().map(of).sum();
        let up = exits.iter().any(|exit| exit.state == "up");
        let mut status = ClientStatus {
            state: if up { "up" } else { first.state },
            reason: if up && first.state != "up" {
                format!("up over another exit; the first choice: {}", first.reason)
            } else {
                first.reason
            },
            next_dial_in_ms: first.next_dial_in_ms,
            dials: sum(|exit| exit.dials),
            sessions: sum(|exit| exit.sessions),
            resumes: sum(|exit| exit.resumes),
            addresses: (*self.inside.addresses() != crate::status::TunnelAddresses::default())
                .then(|| *self.inside.addresses()),
            main_exit: main,
            exit_changes: self.chooser.moves(),
            tun_packets: self.tun_packets,
            extra_copies: self.extra_copies,
            tun_drops: self.tun_drops,
            received_drops: self.received_drops,
            delivered: self.delivered,
            made: self.made,
            early_datagrams: sum(|exit| exit.early_datagrams),
            ended,
            quiet: self.quiet.status(now),
            dial_budget: self.dial_budget.status(),
            window: self.window.status(now),
            flap: self.damper.counters(),
            uplink: Some(self.doubt.status(now)),
            flows: self.flows.status(),
            races: self.racer.counters(),
            race_held: self.race_held.map(|no| no.words(now)).unwrap_or_default(),
            exits,
            max_sends_of_one_pack: 0,
            unaccounted: 0,
        };
        let books = status.books();
        status.max_sends_of_one_pack = books.max_sends_of_one_pack();
        status.unaccounted = books.unaccounted();
        status
    }

    /// What an exit says of itself, or what is seen of it from here.
    fn reason(&self, exit: &Exit, now: Instant) -> String {
        let stalled = exit.path.as_deref().is_some_and(Path::is_stalled);
        if stalled && self.guard.is_looping(exit.id, now) {
            return "no underlay: the only way to it leads through the tunnel itself".to_owned();
        }
        if stalled && exit.is_up() {
            return format!("{}, but the path does not answer", exit.reason);
        }
        exit.reason.clone()
    }

    fn exit_status(&self, exit: &Exit, now: Instant) -> ExitStatus {
        let id = exit.id;
        ExitStatus {
            reason: self.reason(exit, now),
            name: self
                .settings
                .get(id.index())
                .map(|s| s.name.clone())
                .unwrap_or_default(),
            is_usable: exit.is_usable(),
            window: self.window.words(id, now),
            score: self.members.score(id, now),
            probe: self.members.latch(id).map(|latch| latch.status()),
            flows: self.flows.flows_on(id),
            ..exit.status(now)
        }
    }
}
