//! Each message whole, cut anywhere, and malformed.

#![allow(clippy::unwrap_used)]

use super::*;

fn address(text: &str) -> Target {
    Target::Address(text.parse().unwrap())
}

/// Cut anywhere a message is too short, and what is behind it is not looked at.
fn whole<T: std::fmt::Debug + PartialEq>(parse: fn(&[u8]) -> Parsed<T>, bytes: &[u8]) -> T {
    for len in 0..bytes.len() {
        assert_eq!(parse(&bytes[..len]), Ok(None), "{len} of {bytes:?}");
    }
    let longer = [bytes, b"\xff\xff\xff"].concat();
    let (message, len) = parse(&longer).unwrap().unwrap();
    assert_eq!(len, bytes.len());
    message
}

#[test]
fn a_greeting_offers_methods() {
    let methods = whole(greeting, &[5, 2, 0, 2]);
    assert!(methods.offers(Method::None) && methods.offers(Method::Password));
    assert!(!whole(greeting, &[5, 1, 1]).offers(Method::None));
    assert!(!whole(greeting, &[5, 0]).offers(Method::None));
    let many: Vec<u8> = [5, 255].into_iter().chain(0..255).collect();
    assert!(whole(greeting, &many).offers(Method::Password));
    for wrong in [4, 0x16, b'G'] {
        assert_eq!(greeting(&[wrong]), Err(Malformed::Version));
    }
}

#[test]
fn a_password_is_read() {
    let given = whole(password, b"\x01\x03ada\x06secret");
    assert_eq!(
        (&given.username[..], &given.password[..]),
        (&b"ada"[..], &b"secret"[..])
    );
    assert!(whole(password, &[1, 0, 0]).username.is_empty());
    assert_eq!(password(&[5]), Err(Malformed::Version));
}

#[test]
fn a_request_names_a_command_and_a_target() {
    let v4 = whole(request, &[5, 1, 0, 1, 192, 0, 2, 1, 0, 80]);
    assert_eq!(v4.command, Command::Connect);
    assert_eq!(v4.target, address("192.0.2.1:80"));
    let mut bytes = vec![5, 3, 0, 4];
    bytes.extend_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
    bytes.extend_from_slice(&[1, 187]);
    let v6 = whole(request, &bytes);
    assert_eq!(v6.command, Command::UdpAssociate);
    assert_eq!(v6.target, address("[2001:db8::1]:443"));
    let named = whole(request, b"\x05\x02\x00\x03\x06a.test\x00\x50");
    assert_eq!(named.command, Command::Bind);
    assert_eq!(named.target, Target::Name("a.test".into(), 80));
    let written = whole(request, b"\x05\x09\x00\x03\x09192.0.2.1\x00\x50");
    assert_eq!(written.command, Command::Unknown);
    assert_eq!(written.target, address("192.0.2.1:80"));
}

#[test]
fn what_cannot_become_a_request_is_refused_at_once() {
    assert_eq!(request(&[4]), Err(Malformed::Version));
    assert_eq!(request(&[5, 1, 0, 2]), Err(Malformed::AddressType));
    assert_eq!(
        request(b"\x05\x01\x00\x03\x01\xff\x00\x50"),
        Err(Malformed::Name)
    );
}

#[test]
fn a_datagrams_header_is_read_and_written() {
    let header = whole(datagram, &[0, 0, 3, 1, 192, 0, 2, 1, 0, 53]);
    assert_eq!(
        (header.fragment, header.target),
        (3, address("192.0.2.1:53"))
    );
    for from in ["192.0.2.1:53", "[2001:db8::1]:53"] {
        let from = from.parse().unwrap();
        let mut bytes = vec![9; 40];
        put_datagram_header(&mut bytes, from);
        let header = whole(datagram, &bytes);
        assert_eq!((header.fragment, header.target), (0, Target::Address(from)));
    }
}

#[test]
fn replies_are_what_the_rfcs_say() {
    assert_eq!(method_reply(Method::Unacceptable), [5, 0xff]);
    assert_eq!(password_reply(true), [1, 0]);
    assert_ne!(password_reply(false)[1], 0);
    let bound = "192.0.2.1:258".parse().unwrap();
    assert_eq!(
        reply(Status::Succeeded, bound),
        [5, 0, 0, 1, 192, 0, 2, 1, 1, 2]
    );
    let codes = [
        (Status::GeneralFailure, 1),
        (Status::NotAllowed, 2),
        (Status::NetworkUnreachable, 3),
        (Status::HostUnreachable, 4),
        (Status::ConnectionRefused, 5),
        (Status::TtlExpired, 6),
        (Status::CommandNotSupported, 7),
        (Status::AddressTypeNotSupported, 8),
    ];
    for (status, code) in codes {
        assert_eq!(reply(status, "[::]:0".parse().unwrap())[1], code);
        assert_eq!(reply(status, "[::]:0".parse().unwrap()).len(), 22);
    }
}
