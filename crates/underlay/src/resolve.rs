//! Names, asked by own sockets.
//!
//! Both families at once, server after server, each twice and with little patience: a dial waits for it. A wrong answer is
//! no answer, and the right one is waited for; the port is random, and so is the number (RFC 5452). An answer that was cut
//! short holds addresses enough for a dial, or is none: TCP is not asked.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use crate::Underlay;
use crate::dns::{Answer, Family, Question};

/// How long one server may take each time. A dial has 15 s for all of it.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// How often each server is asked.
const ROUNDS: usize = 2;
/// Most servers that are asked, as resolv.conf(5) has it.
const SERVERS_MAX: usize = 3;
/// The longest answer that is read: more than a server sends that was told our size.
const ANSWER_BYTES: usize = 4_096;

/// The addresses of a name, IPv4 first; none when nobody says any.
pub(crate) async fn ask(underlay: &Underlay, servers: &[SocketAddr], name: &str) -> Vec<IpAddr> {
    let (Some(v4), Some(v6)) = (
        Question::new(name, Family::V4),
        Question::new(name, Family::V6),
    ) else {
        return Vec::new();
    };
    for _ in 0..ROUNDS {
        for server in servers.iter().take(SERVERS_MAX) {
            let (v4, v6) = tokio::join!(
                timeout(PATIENCE, ask_one(underlay, *server, &v4)),
                timeout(PATIENCE, ask_one(underlay, *server, &v6)),
            );
            let answers = [v4, v6].map(|answer| answer.ok().flatten());
            let mut is_told = false;
            let mut found = Vec::new();
            for answer in answers.into_iter().flatten() {
                match answer {
                    Answer::Addresses(addresses, _) => {
                        is_told = true;
                        found.extend(addresses);
                    }
                    Answer::NoSuchName => is_told = true,
                    Answer::Truncated | Answer::ServerFailed => {}
                }
            }
            if is_told {
                return found;
            }
        }
    }
    Vec::new()
}

async fn ask_one(underlay: &Underlay, server: SocketAddr, question: &Question) -> Option<Answer> {
    let socket = open(underlay, server).ok()?;
    let id = rand::random();
    socket.send(&question.to_message(id)?).await.ok()?;
    let mut bytes = [0; ANSWER_BYTES];
    loop {
        let count = socket.recv(&mut bytes).await.ok()?;
        if let Some(answer) = question.read(id, bytes.get(..count)?) {
            return Some(answer);
        }
    }
}

/// A connected socket: what others send does not reach it.
fn open(underlay: &Underlay, server: SocketAddr) -> std::io::Result<UdpSocket> {
    let domain = Domain::for_address(server);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    underlay.prepare(&socket)?;
    socket.set_nonblocking(true)?;
    socket.connect(&server.into())?;
    UdpSocket::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use domain::base::iana::Rcode;
    use domain::base::{Message, MessageBuilder, Ttl};
    use domain::rdata::A;

    use super::*;

    /// A server that answers questions for IPv4 with 192.0.2.7, after a lie, and those for IPv6 with nothing.
    async fn serve(socket: UdpSocket) {
        let mut bytes = [0; 512];
        loop {
            let (count, from) = socket.recv_from(&mut bytes).await.unwrap();
            let query = Message::from_octets(&bytes[..count]).unwrap();
            let question = query.sole_question().unwrap();
            let builder = MessageBuilder::new_vec();
            let mut answer = builder.start_answer(&query, Rcode::NOERROR).unwrap();
            if question.qtype() == domain::base::iana::Rtype::A {
                let address = A::new([192, 0, 2, 7].into());
                let record = (question.qname(), Ttl::from_secs(60), address);
                answer.push(record).unwrap();
            }
            let message = answer.finish();
            let mut lie = message.clone();
            lie[0] ^= 1;
            // Another address, where there is one.
            if let Some(last) = lie.last_mut() {
                *last ^= 1;
            }
            socket.send_to(&lie, from).await.unwrap();
            socket.send_to(&message, from).await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_second_server_answers_where_the_first_is_silent_and_lies_are_not_believed() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let good = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let servers = [silent.local_addr().unwrap(), good.local_addr().unwrap()];
        let serving = tokio::spawn(serve(good));
        let found = ask(&Underlay::default(), &servers, "vpn.example.net").await;
        assert_eq!(found, ["192.0.2.7".parse::<IpAddr>().unwrap()]);
        assert!(
            ask(&Underlay::default(), &servers, "no name!")
                .await
                .is_empty()
        );
        serving.abort();
    }

    #[tokio::test]
    async fn without_servers_there_is_no_answer() {
        assert!(
            ask(&Underlay::default(), &[], "vpn.example.net")
                .await
                .is_empty()
        );
    }
}
