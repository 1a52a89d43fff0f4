//! A file as providers hand it out, each line's fate, and files that mean harm.

#![allow(clippy::unwrap_used)]

use super::*;

const SECRET: &str = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=";

fn file() -> String {
    format!(
        "# from a provider\n[Interface]\nPrivateKey = {SECRET}\nAddress = 10.64.0.7/32, fc00::7/128\n\
         DNS = 10.64.0.1, example.net\nMTU = 1380\nFwMark = 0x4444\nPostUp = iptables -I OUTPUT -j REJECT\n\
         Table = off\n\n[Peer]\nPublicKey = xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=\n\
         PresharedKey = {SECRET}\nAllowedIPs = 0.0.0.0/0, ::/0,10.1.2.3/8\nEndpoint = vpn.example.net:51820\n\
         PersistentKeepalive = 25\n"
    )
}

fn of<'n>(found: &'n Found, key: &str) -> &'n str {
    let note = found.notes.iter().find(|note| note.key == key);
    &note
        .unwrap_or_else(|| panic!("{key} in {:?}", found.notes))
        .words
}

#[test]
fn what_can_be_used_is_taken() {
    let found = read(file().as_bytes()).unwrap();
    assert_eq!(found.dns, ["10.64.0.1".parse::<IpAddr>().unwrap()]);
    assert_eq!(found.mtu, Some(1_380));
    assert_eq!(found.mark, Some(0x4444));
    assert_eq!(found.keepalive_s, Some(25));
    assert_eq!(found.endpoint, Some(Host::Name("vpn.example.net".into())));
    assert_eq!(
        strings(&found.routes),
        r#"["0.0.0.0/0", "::/0", "10.0.0.0/8"]"#
    );
}

#[test]
fn every_line_is_told_of_and_no_secret_is_repeated() {
    let found = read(file().as_bytes()).unwrap();
    let told: Vec<_> = found.notes.iter().map(|note| note.line).collect();
    assert_eq!(told, [3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16]);
    assert!(of(&found, "PrivateKey").starts_with("never copied"));
    assert!(of(&found, "PresharedKey").starts_with("never copied"));
    assert!(of(&found, "PostUp").starts_with("never run"));
    assert!(of(&found, "Address").starts_with("not taken"));
    assert!(of(&found, "Table").starts_with("not taken"));
    assert!(of(&found, "DNS").contains("example.net"));
    assert!(!format!("{found:?}").contains(SECRET));
}

#[test]
fn of_several_peers_the_first_is_taken() {
    let text = file() + "[peer]\nEndpoint = other.example.net:1\nAllowedIPs = 192.0.2.0/24\n";
    let found = read(text.as_bytes()).unwrap();
    assert_eq!(found.endpoint, Some(Host::Name("vpn.example.net".into())));
    assert_eq!(found.routes.len(), 3);
    assert!(found.notes.last().unwrap().words.contains("the first"));
}

#[test]
fn values_out_of_range_are_left_and_said() {
    let text = "[Interface]\nMTU = 1279\nFwMark = 255\nDNS = 1.1.1.1,1.0.0.1,9.9.9.9,8.8.8.8\n\
                [Peer]\nPersistentKeepalive = 4\nAllowedIPs = 10.0.0.0/33, x, ::1/129, 192.0.2.1\nEndpoint = :::\n";
    let found = read(text.as_bytes()).unwrap();
    assert_eq!(
        (found.mtu, found.mark, found.keepalive_s),
        (None, None, None)
    );
    assert_eq!(found.dns.len(), DNS_MAX);
    assert!(of(&found, "DNS").contains("8.8.8.8"));
    assert_eq!(strings(&found.routes), r#"["192.0.2.1/32"]"#);
    assert!(of(&found, "AllowedIPs").contains("10.0.0.0/33, x, ::1/129"));
    assert!(of(&found, "Endpoint").starts_with("not taken"));
    let ends = read(b"[Interface]\nMTU=1280\nFwMark=256\n[Peer]\nPersistentKeepalive=37").unwrap();
    assert_eq!(
        (ends.mtu, ends.mark, ends.keepalive_s),
        (Some(1_280), Some(256), Some(37))
    );
}

#[test]
fn what_is_no_such_file_is_refused_in_words() {
    assert!(read(b"hello\n").unwrap_err().contains("[Interface]"));
    assert!(read(b"").is_err() && read(&[0xff, 0xfe]).is_err());
    let long = |bytes| format!("[Interface]{}", " ".repeat(bytes - 11));
    assert!(read(long(FILE_BYTES_MAX).as_bytes()).is_ok());
    assert!(read(long(FILE_BYTES_MAX + 1).as_bytes()).is_err());
    let lines = |count| format!("[Interface]{}", "\n".repeat(count - 1) + "MTU=1400");
    assert!(read(lines(LINES_MAX).as_bytes()).is_ok());
    assert!(read(lines(LINES_MAX + 1).as_bytes()).is_err());
}

#[test]
fn a_terminal_is_told_nothing_that_it_would_obey() {
    let text = "[Interface]\n\u{1b}[2J\u{7} = 1\nMTU = \u{1b}]0;owned\u{7}\n";
    let found = read(text.as_bytes()).unwrap();
    for note in &found.notes {
        assert!(!(note.key.clone() + &note.words).contains(['\u{1b}', '\u{7}']));
    }
    let long = format!("[Interface]\n{} = 1\n", "k".repeat(60_000));
    assert!(read(long.as_bytes()).unwrap().notes[0].key.len() < 100);
}

/// Every byte of a good file is changed, dropped and doubled in turn; and noise is read.
#[test]
fn no_bytes_make_it_panic_or_leak_the_key() {
    let good = file().into_bytes();
    let mut noise = 0x2545_f491_4f6c_dd1d_u64;
    for at in 0..good.len() {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        let mut changed = good.clone();
        changed[at] = noise.to_le_bytes()[0];
        let (mut dropped, mut doubled) = (good.clone(), good.clone());
        dropped.remove(at);
        doubled.insert(at, good[at]);
        for bytes in [&changed[..], &dropped, &doubled, &good[..at]] {
            let Ok(found) = read(bytes) else { continue };
            let in_dns = |key: &IpAddr| key.to_string().contains(SECRET);
            assert!(!found.dns.iter().any(in_dns));
            assert!(found.notes.len() <= LINES_MAX && found.routes.len() <= ROUTES_MAX);
        }
    }
}
