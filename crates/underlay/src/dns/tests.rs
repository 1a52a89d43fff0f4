//! Questions and answers, true and false ones.

#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use domain::base::Ttl;
use domain::rdata::Cname;

use super::*;

fn question(name: &str) -> Question {
    Question::new(name, Family::V4).unwrap()
}

fn name(text: &str) -> Name<Vec<u8>> {
    Name::vec_from_str(text).unwrap()
}

/// An answer to a question about `asked`: `www` is another name for `host`, which has two addresses.
fn answer(asked: &Question, id: u16, rcode: Rcode) -> Vec<u8> {
    answer_with(asked, id, rcode, Ttl::from_secs(9_000))
}

fn answer_with(asked: &Question, id: u16, rcode: Rcode, alias_ttl: Ttl) -> Vec<u8> {
    let query = asked.to_message(id).unwrap();
    let query = Message::from_octets(query).unwrap();
    let builder = MessageBuilder::new_vec();
    let mut answer = builder.start_answer(&query, rcode).unwrap();
    let alias = Cname::new(name("host.test"));
    answer.push((name("www.test"), alias_ttl, alias)).unwrap();
    for (owner, secs, last) in [
        ("host.test", 60, 1),
        ("other.test", 1, 9),
        ("host.test", 30, 2),
    ] {
        let address = A::new(Ipv4Addr::new(192, 0, 2, last));
        answer
            .push((name(owner), Ttl::from_secs(secs), address))
            .unwrap();
    }
    answer.finish()
}

#[test]
fn a_question_asks_for_recursion_and_says_how_much_it_takes() {
    let bytes = question("www.test").to_message(0x1234).unwrap();
    let message = Message::from_octets(&bytes).unwrap();
    assert!(message.header().rd() && !message.header().qr());
    assert_eq!(message.header().id(), 0x1234);
    assert_eq!(message.opt().unwrap().udp_payload_size(), 1_232);
    let asked = message.sole_question().unwrap();
    assert!(asked.qname().name_eq(&name("www.test")));
    assert_eq!(asked.qtype(), Rtype::A);
}

#[test]
fn aliases_are_followed_and_strangers_left_out() {
    let read = question("www.test").read(7, &answer(&question("WWW.test"), 7, Rcode::NOERROR));
    let addresses = [1, 2].map(|last| IpAddr::from([192, 0, 2, last])).to_vec();
    assert_eq!(
        read,
        Some(Answer::Addresses(addresses, Duration::from_secs(30)))
    );
}

#[test]
fn what_is_not_our_answer_is_none() {
    let ours = question("www.test");
    let right = answer(&ours, 7, Rcode::NOERROR);
    assert!(ours.read(7, &right).is_some());
    assert_eq!(ours.read(8, &right), None, "another number");
    assert_eq!(question("host.test").read(7, &right), None, "another name");
    let v6 = Question::new("www.test", Family::V6).unwrap();
    assert_eq!(v6.read(7, &right), None, "another type");
    let mut query = right.clone();
    query[2] &= 0x7f;
    assert_eq!(ours.read(7, &query), None, "a question");
    let mut opcode = right.clone();
    opcode[2] |= 0x10;
    assert_eq!(ours.read(7, &opcode), None, "another operation");
}

#[test]
fn failures_are_told_apart() {
    let ours = question("www.test");
    let with = |rcode| ours.read(7, &answer(&ours, 7, rcode));
    assert_eq!(with(Rcode::NXDOMAIN), Some(Answer::NoSuchName));
    assert_eq!(with(Rcode::SERVFAIL), Some(Answer::ServerFailed));
    assert_eq!(with(Rcode::REFUSED), Some(Answer::ServerFailed));
    let mut cut = answer(&ours, 7, Rcode::NOERROR);
    cut[2] |= 2;
    assert_eq!(ours.read(7, &cut), Some(Answer::Truncated));
}

#[test]
fn no_cut_of_an_answer_is_believed_nor_panics() {
    let ours = question("www.test");
    let right = answer(&ours, 7, Rcode::NOERROR);
    for len in 0..right.len() {
        let read = ours.read(7, &right[..len]);
        assert!(!matches!(read, Some(Answer::Addresses(..))), "{len} bytes");
    }
    for at in 0..right.len() {
        for bit in 0..8 {
            let mut wrong = right.clone();
            wrong[at] ^= 1 << bit;
            let _ = ours.read(7, &wrong);
        }
    }
}

#[test]
fn the_hosts_own_names_and_what_is_no_name_are_not_asked_for() {
    let long = format!("{}.test", "a".repeat(64));
    for text in [
        "",
        ".",
        "localhost",
        "a.LocalHost",
        "localhost.",
        "a..test",
        &long,
    ] {
        assert_eq!(Question::new(text, Family::V4), None, "{text}");
    }
    assert!(Question::new(&long[1..], Family::V4).is_some());
}

#[test]
fn an_alias_is_believed_no_longer_than_it_says() {
    let asked = question("www.test");
    let bytes = answer_with(&asked, 7, Rcode::NOERROR, Ttl::from_secs(20));
    let Some(Answer::Addresses(_, ttl)) = asked.read(7, &bytes) else {
        panic!("no answer");
    };
    assert_eq!(ttl, Duration::from_secs(20));
}

#[test]
fn aliases_in_a_circle_and_without_an_end_are_no_answer() {
    let asked = question("0.test");
    let chain = |links: usize, last: &str| {
        let query = asked.to_message(7).unwrap();
        let query = Message::from_octets(query).unwrap();
        let builder = MessageBuilder::new_vec();
        let mut answer = builder.start_answer(&query, Rcode::NOERROR).unwrap();
        for link in 0..links {
            let alias = Cname::new(name(&format!("{}.test", link + 1)));
            let owner = name(&format!("{link}.test"));
            answer.push((owner, Ttl::HOUR, alias)).unwrap();
        }
        let address = A::new(Ipv4Addr::new(192, 0, 2, 1));
        answer.push((name(last), Ttl::HOUR, address)).unwrap();
        asked.read(7, &answer.finish())
    };
    let found = |addresses| Some(Answer::Addresses(addresses, Duration::from_secs(3_600)));
    let one = vec![IpAddr::from([192, 0, 2, 1])];
    assert_eq!(chain(16, "16.test"), found(one));
    assert_eq!(chain(17, "17.test"), Some(Answer::ServerFailed));
    assert_eq!(
        chain(1, "0.test"),
        found(Vec::new()),
        "an alias has no address of its own"
    );
    let query = asked.to_message(7).unwrap();
    let query = Message::from_octets(query).unwrap();
    let mut answer = MessageBuilder::new_vec()
        .start_answer(&query, Rcode::NOERROR)
        .unwrap();
    for (owner, alias) in [("0.test", "1.test"), ("1.test", "0.test")] {
        let alias = Cname::new(name(alias));
        answer.push((name(owner), Ttl::HOUR, alias)).unwrap();
    }
    assert_eq!(asked.read(7, &answer.finish()), Some(Answer::ServerFailed));
}

#[test]
fn the_host_itself_is_not_asked_for_in_disguise() {
    for text in [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "\\108ocalhost",
        "a\\.test",
        "a b.test",
        "[::1",
        "fe80::1%1",
    ] {
        assert_eq!(Question::new(text, Family::V4), None, "{text}");
    }
    for text in ["a.test", "a.test.", "_dns.a-b.test", "1.2.test"] {
        assert!(Question::new(text, Family::V4).is_some(), "{text}");
    }
}
