//! SOCKS5 (RFC 1928), with a user name and a password where they are asked for (RFC 1929).
//!
//! ```text
//! greeting ─> [password] ─> request ─┬─ CONNECT ─> dial ─> reply ─> the stream belongs to a flow
//!                                    └─ UDP ASSOCIATE ─> reply ─> associate, until the stream ends
//! ```
//!
//! All that an application says before its reply has to come within `handshake_timeout`. It may say the first bytes for
//! its destination already behind its request: they go first.
//!
//! Ready-made libraries were looked at. Those that are kept bring older versions of three crates of this workspace, read
//! each field with a call of its own to the kernel, and know no bound in time; what is left of them, the messages, are the
//! 200 lines of `wire`.
//!
//! | module | its job |
//! |---|---|
//! | `wire` | messages to bytes and back |
//! | `associate` | UDP |
//! | `fuzz` | the body of the fuzz target |

mod associate;
pub mod fuzz;
mod wire;

use std::net::SocketAddr;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::books::{Asked, Refusal};
use crate::common::Common;
use crate::dial::{Target, dial};
use crate::listen::{Connection, Place};
use wire::{Command, Malformed, Method, Request, Status};

/// Bytes that one read takes: the longest message is 513, and behind it a first flight may come.
const READ_BYTES: usize = 2_048;

/// A connection's life.
pub(crate) async fn serve(common: Rc<Common>, connection: Connection) {
    let Connection { mut stream, place } = connection;
    let _ = stream.set_nodelay(true);
    let asked = Asked::new(&common.books);
    let mut said = BytesMut::new();
    let shaking = shake_hands(&common, &mut stream, &mut said);
    let shaken = tokio::time::timeout(common.limits.handshake_timeout, shaking).await;
    let request = match shaken.unwrap_or(Err(Refusal::HandshakeTimedOut)) {
        Ok(request) => request,
        Err(why) => return asked.refuse(why),
    };
    match request.command {
        Command::Connect => {
            let near = (stream, said.freeze(), place);
            connect(&common, asked, near, &request.target).await;
        }
        Command::UdpAssociate => {
            associate::serve(&common, asked, &mut stream, &request.target).await;
        }
        Command::Bind | Command::Unknown => {
            let why = Refusal::UnsupportedCommand;
            asked.refuse(why);
            let _ = refuse(&mut stream, why).await;
        }
    }
}

/// Reads until the application has said what it wants; `said` keeps what is behind that.
async fn shake_hands(
    common: &Common,
    stream: &mut TcpStream,
    said: &mut BytesMut,
) -> Result<Request, Refusal> {
    let methods = message(stream, said, wire::greeting).await?;
    let wanted = if common.guard.asks() {
        Method::Password
    } else {
        Method::None
    };
    let offered = methods.offers(wanted);
    let chosen = if offered {
        wanted
    } else {
        Method::Unacceptable
    };
    write(stream, &wire::method_reply(chosen)).await?;
    if !offered {
        return Err(Refusal::Unauthorized);
    }
    if common.guard.asks() {
        let given = message(stream, said, wire::password).await?;
        let is_known = common.guard.knows(&given.username, &given.password);
        write(stream, &wire::password_reply(is_known)).await?;
        if !is_known {
            return Err(Refusal::Unauthorized);
        }
    }
    match message(stream, said, wire::request).await {
        Err(why @ Refusal::UnsupportedAddress) => {
            refuse(stream, why).await?;
            Err(why)
        }
        request => request,
    }
}

/// The next message, read by `parse`.
async fn message<T>(
    stream: &mut TcpStream,
    said: &mut BytesMut,
    parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Malformed>,
) -> Result<T, Refusal> {
    loop {
        match parse(said) {
            Ok(Some((message, len))) => {
                // It was parsed out of `said`, so that it has as much.
                let _ = said.split_to(len.min(said.len()));
                return Ok(message);
            }
            Ok(None) => {}
            Err(Malformed::AddressType) => return Err(Refusal::UnsupportedAddress),
            Err(Malformed::Version | Malformed::Name) => return Err(Refusal::Malformed),
        }
        said.reserve(READ_BYTES);
        match stream.read_buf(said).await {
            Ok(0) | Err(_) => return Err(Refusal::ApplicationGone),
            Ok(_) => {}
        }
    }
}

async fn write(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), Refusal> {
    let written = stream.write_all(bytes).await;
    written.map_err(|_| Refusal::ApplicationGone)
}

async fn refuse(stream: &mut TcpStream, why: Refusal) -> Result<(), Refusal> {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    write(stream, &wire::reply(status_of(why), nowhere)).await
}

async fn connect(
    common: &Rc<Common>,
    asked: Asked,
    (mut stream, said, place): (TcpStream, Bytes, Rc<Place>),
    target: &Target,
) {
    let dialed = tokio::select! {
        dialed = dial(common, target) => dialed,
        () = gone(&stream) => return asked.refuse(Refusal::ApplicationGone),
    };
    let open = match dialed {
        Ok(open) => open,
        Err(why) => {
            asked.refuse(why);
            let _ = refuse(&mut stream, why).await;
            return;
        }
    };
    let reply = wire::reply(Status::Succeeded, open.local);
    match write(&mut stream, &reply).await {
        Ok(()) => {
            asked.grant();
            open.attach(stream, said, place);
        }
        Err(why) => asked.refuse(why),
    }
}

/// Resolves when the application has gone away. One that has said something already is not looked at any more.
async fn gone(stream: &TcpStream) {
    let mut byte = [0];
    if let Ok(1..) = stream.peek(&mut byte).await {
        std::future::pending::<()>().await;
    }
}

/// How SOCKS says it (RFC 1928 §6).
const fn status_of(why: Refusal) -> Status {
    match why {
        Refusal::Prohibited | Refusal::BadDestination | Refusal::Unauthorized => Status::NotAllowed,
        Refusal::NoSession | Refusal::NoRoute => Status::NetworkUnreachable,
        Refusal::Unreachable | Refusal::NameNotFound | Refusal::NameUnanswered => {
            Status::HostUnreachable
        }
        Refusal::Refused => Status::ConnectionRefused,
        Refusal::TimedOut => Status::TtlExpired,
        Refusal::UnsupportedCommand => Status::CommandNotSupported,
        Refusal::UnsupportedAddress => Status::AddressTypeNotSupported,
        Refusal::HandshakeTimedOut
        | Refusal::Malformed
        | Refusal::ApplicationGone
        | Refusal::ConnectionsFull
        | Refusal::FlowsFull
        | Refusal::AssociationsFull
        | Refusal::HostExhausted
        | Refusal::SessionChanged
        | Refusal::BadAnswer => Status::GeneralFailure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_of_the_rfc_but_success_has_its_refusal() {
        let mut codes: Vec<u8> = Refusal::ALL
            .iter()
            .map(|why| status_of(*why) as u8)
            .collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
