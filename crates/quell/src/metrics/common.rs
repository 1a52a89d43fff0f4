//! What both roles have: who it is, UDP, drops, lanes, the device, control planes.
//!
//! A path's books are added to its owner's when it ends, so the sums over what ended and what lives only grow; `books` is
//! the list of those parts, which each role gathers for itself.
//!
//! `quic` in the bytes of a cause is a remainder, and may be below 0 for as long as a datagram that the system refused waits:
//! a counter cannot, so it is 0 then.

use quell_core::drops::DropReason;
use quell_core::exposition::Kind::{Counter, Gauge};
use quell_core::health::backend::Work;

use super::{Metrics, Status, add_counts};

/// Where the books of a process are.
pub(super) struct Books<'a> {
    /// Books of paths, those that ended first.
    pub(super) paths: Vec<Status<'a>>,
    /// Further drops by reason, of packets.
    pub(super) drops: Vec<Status<'a>>,
}

/// Who it is.
pub(super) fn identity(out: &mut Metrics, of: Status<'_>) {
    let labels = [("role", of.text("role")), ("version", of.text("version"))];
    let help = "Which quell this is; always 1.";
    out.page.family("quell_info", Gauge, help).add(&labels, 1.0);
}

pub(super) fn write(out: &mut Metrics, of: Status<'_>, books: &Books<'_>) {
    identity(out, of);
    udp(out, of);
    drops(out, of, books);
    packets(out, of, books);
    lanes(out, of, books);
    backends(out, of);
    offload(out, of);
}

fn udp(out: &mut Metrics, of: Status<'_>) {
    let help = "UDP payload bytes sent, by what they were for.";
    let family = out.page.family("quell_udp_bytes_total", Counter, help);
    for (cause, bytes) in of.counts("udp.by_cause") {
        family.add(&[("cause", cause)], bytes.max(0.0));
    }
    let help = "UDP payload bytes received.";
    let value = of.number("udp.bytes_in");
    out.page
        .counter("quell_udp_received_bytes_total", help, value);
    let help = "UDP datagrams, by direction.";
    out.page
        .family("quell_udp_datagrams_total", Counter, help)
        .add(&[("direction", "out")], of.number("udp.datagrams_out"))
        .add(&[("direction", "in")], of.number("udp.datagrams_in"));
    let help = "Datagrams that the system refused until they were given up.";
    let value = of.number("udp.lost_out");
    out.page
        .counter("quell_udp_lost_datagrams_total", help, value);
    let help = "Datagrams that the system refused to send at once, by reason.";
    let family = out.page.family("quell_udp_refusals_total", Counter, help);
    for reason in ["full", "unreachable", "too_large", "other"] {
        let value = of.number(&format!("udp.refused_{reason}"));
        family.add(&[("reason", reason)], value);
    }
}

fn drops(out: &mut Metrics, of: Status<'_>, books: &Books<'_>) {
    let help = "Packets that were not carried, by reason; see `quell why` and the runbook.";
    let family = out.page.family("quell_drops_total", Counter, help);
    for reason in DropReason::ALL {
        family.add(&[("reason", reason.name())], 0.0);
    }
    let own = [of.at("tun_drops"), of.at("device.drops")];
    let paths = books.paths.iter().map(|path| path.at("drops"));
    for part in own
        .into_iter()
        .chain(paths)
        .chain(books.drops.iter().copied())
    {
        for (reason, count) in part.counts("") {
            family.add(&[("reason", reason)], count);
        }
    }
    let help = "Packets and packs that are nowhere in the books: 0, or a bug.";
    out.page
        .gauge("quell_unaccounted_packets", help, of.number("unaccounted"));
}

fn packets(out: &mut Metrics, of: Status<'_>, books: &Books<'_>) {
    let sum = |path: &str| books.paths.iter().map(|books| books.number(path)).sum();
    let (sent, received): (f64, f64) = (sum("counters.accepted"), sum("counters.received"));
    let help = "Inner packets of paths, by direction: handed in to be carried, and come out.";
    out.page
        .family("quell_packets_total", Counter, help)
        .add(&[("direction", "in")], sent)
        .add(&[("direction", "out")], received);
    let (plain, laned): (f64, f64) = (sum("counters.sent_bytes"), sum("counters.laned_bytes"));
    let help = "Bytes of inner packets, by direction: given to a path to be sent, and come out.";
    out.page
        .family("quell_packet_bytes_total", Counter, help)
        .add(&[("direction", "in")], plain + laned)
        .add(&[("direction", "out")], sum("counters.received_bytes"));
    let help = "Packets that the device took.";
    let written = of.number("device.written");
    out.page
        .counter("quell_device_packets_total", help, written);
    let help = "How often a path was found not to answer.";
    out.page
        .counter("quell_stalls_total", help, sum("counters.stalls"));
    let help = "PINGs sent.";
    out.page
        .counter("quell_pings_total", help, sum("counters.pings_sent"));
}

fn lanes(out: &mut Metrics, of: Status<'_>, books: &Books<'_>) {
    let sum = |name: &str| -> f64 {
        let lane = |lane: &str| {
            let path = format!("{lane}.send.{name}");
            books
                .paths
                .iter()
                .map(|books| books.number(&path))
                .sum::<f64>()
        };
        lane("message") + lane("flow")
    };
    let help = "Packs sent again: on evidence of loss, or into a silence.";
    out.page
        .family("quell_resends_total", Counter, help)
        .add(&[("kind", "evidence")], sum("evidence_resends"))
        .add(&[("kind", "silence")], sum("silence_resends"));
    let help = "Packs given up, by reason.";
    let family = out.page.family("quell_packs_given_up_total", Counter, help);
    for reason in ["expired", "too_large", "with_message", "cut_anew"] {
        family.add(&[("reason", reason)], sum(reason));
    }
    let help = "Packs that came twice because we sent them twice.";
    let value = sum("needless_resends");
    out.page
        .counter("quell_needless_resends_total", help, value);
    let help = "Resends into a silence that the budget denied.";
    out.page
        .counter("quell_resends_denied_total", help, sum("denied"));
    let help = "Packs that wait or are not acknowledged.";
    out.page
        .gauge("quell_packs_in_flight", help, sum("in_flight"));
    let help = "How often the pack was sent that was sent most since the start.";
    let value = of.number("max_sends_of_one_pack");
    out.page.gauge("quell_pack_sends_max", help, value);
}

fn backends(out: &mut Metrics, of: Status<'_>) {
    let help = "Whether a kind of work degrades a control plane.";
    let family = out.page.family("quell_backend_degraded", Gauge, help);
    for backend in of.list("backend.backends") {
        let name = match backend.text("url") {
            "" => "noted",
            url => url,
        };
        let name = out.names.of(name);
        for (known, work) in Work::ALL.into_iter().zip(backend.list("work")) {
            let labels = [("backend", name.as_str()), ("work", known.name())];
            family.add(&labels, work.flag("degraded"));
        }
    }
    let help = "Whether every control plane is degraded: waits into silences widen.";
    let value = of.flag("backend.degraded");
    out.page.gauge("quell_backends_all_degraded", help, value);
}

fn offload(out: &mut Metrics, of: Status<'_>) {
    if !of.is_there("offload") {
        return;
    }
    let help = "Packets that left or entered the TUN as part of a larger one, by direction.";
    out.page
        .family("quell_offload_packets_total", Counter, help)
        .add(&[("direction", "in")], of.number("offload.split_packets"))
        .add(&[("direction", "out")], of.number("offload.merged_packets"));
    let help = "Times that merging was given up for a protocol.";
    let value = of.number("offload.fallbacks");
    out.page
        .counter("quell_offload_fallbacks_total", help, value);
}

/// What a way through sockets holds, and what became of its packets: egress and proxy alike.
pub(super) fn sockets(out: &mut Metrics, of: Status<'_>) {
    let help = "What a way through sockets holds, by kind.";
    let family = out.page.family("quell_socket_flows", Gauge, help);
    for (kind, path) in [
        ("tcp", "tcp_flows"),
        ("tcp_connecting", "tcp_connecting"),
        ("flow", "flows"),
        ("connection", "connections"),
        ("association", "associations"),
    ] {
        if let Some(count) = of.known(path) {
            family.add(&[("kind", kind)], count);
        }
    }
    let help = "Packets that did nothing at a way through sockets, by reason.";
    let family = out.page.family("quell_socket_drops_total", Counter, help);
    add_counts(family, "reason", of, "drops");
    let help = "What else happened at a way through sockets.";
    let family = out.page.family("quell_socket_events_total", Counter, help);
    add_counts(family, "event", of, "events");
}
