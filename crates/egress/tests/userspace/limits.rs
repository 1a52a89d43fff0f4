//! What the egress holds: never more than it may, and nothing when all is over.

use std::time::{Duration, Instant};

use quell_egress::userspace::{AllowAll, DropReason, UserspaceConfig};
use smoltcp::socket::tcp::State;

use crate::alone::{alone, figure, open_files, resident_bytes};
use crate::client::Client;
use crate::server::{echo, serve};
use crate::tcp::is_over;

#[test]
fn a_host_without_descriptors_refuses_and_goes_on() {
    // case B69
    alone(
        "limits::a_host_without_descriptors_refuses_and_goes_on",
        64,
        || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let server = listener.local_addr().unwrap();
            let mut client = Client::new();
            let flows: Vec<_> = (0..1_000).map(|_| client.connect(server, 1_024)).collect();
            client.until("an answer to each", |client| {
                let mut answered = 0;
                for flow in &flows {
                    answered += usize::from(client.tcp(*flow).state() != State::SynSent);
                }
                answered == flows.len()
            });
            let refused = client.status().dropped(DropReason::SocketsExhausted);
            assert!((900..1_000).contains(&refused), "{refused}");
            assert!(client.status().tcp_flows > 10, "some flows work");
            // The rest of the process has its half of so tiny a limit, to the last one.
            let files = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok());
            assert_eq!(files.collect::<Vec<_>>().len(), 32);
            let own = (crate::client::V4, 9).into();
            client.send_raw(quell_packet::build::udp(own, server, b"hello"));
            client.until("a refusal", |client| {
                client.status().dropped(DropReason::SocketsExhausted) == refused + 1
            });
            // When descriptors are free again, so is the way.
            for flow in flows {
                client.tcp(flow).abort();
            }
            client.until_quiet();
            drop(listener);
            let (server, thread) = serve("127.0.0.1:0", 1, echo);
            let flow = client.connect(server, 1_024);
            client.until("a flow", |client| client.tcp(flow).may_send());
            let start = Instant::now();
            drop(client);
            assert!(start.elapsed() < Duration::from_secs(2));
            drop(thread);
        },
    );
}

#[test]
fn the_table_takes_as_many_flows_as_it_says() {
    let (server, _thread) = serve("127.0.0.1:0", 4, echo);
    let config = UserspaceConfig {
        tcp_flows_max: 2,
        ..UserspaceConfig::default()
    };
    let mut client = Client::with(config, Box::new(AllowAll));
    let flows = [(); 2].map(|()| client.connect(server, 1_024));
    client.until("two flows", |client| {
        flows.iter().all(|flow| client.tcp(*flow).may_send())
    });
    let third = client.connect(server, 1_024);
    client.until("the refusal", |client| {
        client.tcp(third).state() == State::Closed
    });
    assert_eq!(client.status().dropped(DropReason::FlowsFull), 1);
    client.tcp(flows[0]).close();
    client.until("a place", |client| client.status().tcp_flows == 1);
    let fourth = client.connect(server, 1_024);
    client.until("a flow", |client| client.tcp(fourth).may_send());
}

#[test]
fn nothing_is_left_when_all_flows_are_over() {
    alone(
        "limits::nothing_is_left_when_all_flows_are_over",
        4_096,
        || {
            let mut client = Client::new();
            let round = |client: &mut Client, flows: usize| {
                let (server, thread) = serve("127.0.0.1:0", flows, echo);
                let handles: Vec<_> = (0..flows).map(|_| client.connect(server, 4_096)).collect();
                client.until("all flows", |client| {
                    handles.iter().all(|flow| client.tcp(*flow).may_send())
                });
                for flow in &handles {
                    client.tcp(*flow).send_slice(&[7; 4_096]).unwrap();
                    client.tcp(*flow).close();
                }
                client.until("all ends", |client| {
                    for flow in &handles {
                        let _ = client.tcp(*flow).recv(|data| (data.len(), ()));
                    }
                    handles.iter().all(|flow| is_over(client, *flow))
                });
                thread.join().unwrap();
                for flow in handles {
                    client.forget(flow);
                }
                client.until_quiet();
            };
            round(&mut client, 300);
            let (files, bytes) = (open_files(), resident_bytes());
            for _ in 0..3 {
                round(&mut client, 300);
            }
            assert_eq!(open_files(), files);
            let grown = resident_bytes().saturating_sub(bytes);
            assert!(
                grown < 16 << 20,
                "{grown} bytes more than after the first round"
            );
        },
    );
}

#[test]
fn an_idle_flow_is_small() {
    alone("limits::an_idle_flow_is_small", 4_096, || {
        const FLOWS: usize = 1_000;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut streams = Vec::new();
        let mut accepted = || {
            while let Ok((stream, _)) = listener.accept() {
                streams.push(stream);
            }
            streams.len()
        };
        let mut client = Client::new();
        client.is_raw = true;
        let before = resident_bytes();
        for number in 0..FLOWS {
            let own = (crate::client::V4, 10_000 + number as u16).into();
            client.send_raw(quell_packet::build::tcp_syn(own, server, 1_240));
            client.turn(Duration::ZERO);
            // Fewer on their way than a listener's queue holds: one beyond it would stand on our side alone.
            client.until("flows accepted", |_| accepted() + 64 > number);
        }
        client.until("all flows", |client| {
            let status = client.status();
            let all = FLOWS as u64;
            status.tcp_flows == all && status.tcp_connecting == 0 && accepted() == FLOWS
        });
        client.others.clear();
        let each = resident_bytes().saturating_sub(before) / FLOWS;
        figure(&format!("{each} B resident for each idle flow"));
        assert!(each < 24 * 1_024, "{each}");
        drop(streams);
    });
}
