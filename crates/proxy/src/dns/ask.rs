//! One question to one server: over UDP, and over TCP when the answer does not fit a datagram.
//!
//! A wrong answer is no answer: it is counted, and the right one is waited for, so that whoever guesses cannot even make us
//! stop listening. The caller bounds the time.

use std::net::SocketAddr;
use std::rc::Rc;

use quell_underlay::dns::{Answer, Question};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::books::Event;
use crate::common::Common;
use crate::ports::Port;
use crate::{flows, inner};

/// Asks; `None` when there is no way to the server, or it broke off.
pub(super) async fn ask(
    common: &Rc<Common>,
    server: SocketAddr,
    question: &Question,
) -> Option<Answer> {
    match over_udp(common, server, question).await? {
        Answer::Truncated => {
            common.books.note(Event::NameTruncated);
            over_tcp(common, server, question).await
        }
        answer @ (Answer::Addresses(..) | Answer::NoSuchName | Answer::ServerFailed) => {
            Some(answer)
        }
    }
}

async fn over_udp(common: &Rc<Common>, server: SocketAddr, question: &Question) -> Option<Answer> {
    let port = Port::open(common, server.ip()).ok()?;
    let id = rand::random();
    port.send(server, &question.to_message(id)?).ok()?;
    loop {
        let datagram = port.receive().await.ok()?;
        let answer = question.read(id, datagram.payload());
        match answer.filter(|_| datagram.from == server) {
            Some(answer) => return Some(answer),
            None => common.books.note(Event::NameLie),
        }
    }
}

async fn over_tcp(common: &Rc<Common>, server: SocketAddr, question: &Question) -> Option<Answer> {
    let open = flows::open(common, server).await.ok()?;
    let (outer, mut stream) = inner::pair().ok()?;
    open.attach_inner(outer);
    let id = rand::random();
    let message = question.to_message(id)?;
    // RFC 7766 §8: the length in two bytes, and both in one segment.
    let length = u16::try_from(message.len()).ok()?;
    let framed = [&length.to_be_bytes()[..], &message].concat();
    stream.write_all(&framed).await.ok()?;
    let length = stream.read_u16().await.ok()?;
    // It grows as bytes come, not by the server's word.
    let mut answer = Vec::new();
    let mut rest = stream.take(length.into());
    rest.read_to_end(&mut answer).await.ok()?;
    question.read(id, &answer)
}
