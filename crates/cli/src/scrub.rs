//! Takes out of a text what a report that goes to strangers must not hold: keys, tokens, addresses.
//!
//! *Intuition.* What a report is made of (settings, a status, log lines) comes from many places, and each could learn to say
//! something new. So nothing is picked out by its place: the finished text is read once more, and whatever looks like a secret
//! or an address goes, wherever it stands.
//!
//! | what | becomes |
//! |---|---|
//! | a run of [`SECRET_CHARS_MIN`] letters and digits and more: keys, invitations, tokens, hashes | `(hidden)` |
//! | an IP address, with or without a port | `(address 1)`, the same number each time |
//! | a loopback or unspecified address | itself |
//!
//! Numbers in place of addresses keep what a reader needs: that two lines speak of the same one. Names of servers stay, which
//! is said to whoever makes the report.

use std::net::IpAddr;

/// From this length on a word is taken for a secret: keys have 60 characters and tokens 32; no word of a log comes near.
const SECRET_CHARS_MIN: usize = 32;

/// The text without them.
pub(crate) fn scrub(text: &str) -> String {
    let mut known = Known::default();
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = word_len(rest);
        if word == 0 {
            clean.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (run, after) = rest.split_at(word);
        known.push(run, &mut clean);
        rest = after;
    }
    clean
}

/// Bytes of the run that may be a word, a number or an address.
fn word_len(text: &str) -> usize {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '_');
    text.find(|c: char| !is_of_word(c)).unwrap_or(text.len())
}

/// Addresses that were met, in their order.
#[derive(Default)]
struct Known(Vec<IpAddr>);

impl Known {
    fn push(&mut self, run: &str, clean: &mut String) {
        let bare = run.trim_matches(['.', ':']);
        let bare = match run.starts_with("::") || run.ends_with("::") {
            true => run.trim_end_matches('.'),
            false => bare,
        };
        let (at, end) = match run.find(bare) {
            Some(at) if !bare.is_empty() => (at, at + bare.len()),
            Some(_) | None => return clean.push_str(run),
        };
        clean.push_str(&run[..at]);
        match address_of(bare) {
            Some((address, port)) => clean.push_str(&self.name(address, port)),
            None => clean.push_str(&hidden(bare)),
        }
        clean.push_str(&run[end..]);
    }

    fn name(&mut self, address: IpAddr, port: &str) -> String {
        if address.is_loopback() || address.is_unspecified() {
            return format!("{address}{port}");
        }
        let place = match self.0.iter().position(|known| *known == address) {
            Some(place) => place,
            None => {
                self.0.push(address);
                self.0.len() - 1
            }
        };
        format!("(address {}){port}", place + 1)
    }
}

/// The address that a run is, and what stands behind it: a port.
fn address_of(run: &str) -> Option<(IpAddr, &str)> {
    if let Ok(address) = run.parse() {
        return Some((address, ""));
    }
    let (before, port) = run.rsplit_once(':')?;
    let address: IpAddr = before.parse().ok()?;
    let is_port = port.chars().all(|c| c.is_ascii_digit());
    is_port.then(|| (address, &run[before.len()..]))
}

/// The words of a run, those that are too long for a word hidden.
fn hidden(run: &str) -> String {
    let words = run.split_inclusive(['.', ':', '_']);
    let plain = words.map(|word| match word.trim_end_matches(['.', ':', '_']).len() {
        len if len >= SECRET_CHARS_MIN => format!("(hidden){}", &word[len..]),
        _ => word.to_owned(),
    });
    plain.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_numbers_that_stay_the_same() {
        for (text, clean) in [
            ("a 10.85.0.2 b", "a (address 1) b"),
            (
                "10.85.0.2:443, 10.85.0.3; 10.85.0.2.",
                "(address 1):443, (address 2); (address 1).",
            ),
            ("[2001:db8::1]:6610", "[(address 1)]:6610"),
            ("fd71:6c6c::/64", "(address 1)/64"),
            (
                "\"ipv4\":[\"10.85.0.2\",16]",
                "\"ipv4\":[\"(address 1)\",16]",
            ),
            (
                "127.0.0.1:6620 and [::1]:80 and 0.0.0.0:1",
                "127.0.0.1:6620 and [::1]:80 and 0.0.0.0:1",
            ),
            ("::ffff:10.0.0.1", "(address 1)"),
        ] {
            assert_eq!(scrub(text), clean, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_stays() {
        for text in [
            "quell 0.1.0",
            "Linux 6.1.0-18-amd64",
            "2026-12-01T04:05:06.789Z INFO a: b",
            "12:34:56",
            "std::net::TcpStream",
            "path/to/file.rs:12",
            "…",
        ] {
            assert_eq!(scrub(text), text);
        }
    }

    #[test]
    fn a_word_of_31_characters_stays_and_one_of_32_does_not() {
        let (word, secret) = ("x".repeat(31), "x".repeat(32));
        assert_eq!(scrub(&word), word);
        assert_eq!(scrub(&format!("token={secret};")), "token=(hidden);");
        assert_eq!(scrub(&format!("a.{secret}.b")), "a.(hidden).b");
    }

    #[test]
    fn keys_in_any_form_are_hidden() {
        let key = "quellsec1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu";
        let upper = key.to_uppercase();
        let text = format!("private {key}\n\"{upper}\"");
        assert_eq!(scrub(&text), "private (hidden)\n\"(hidden)\"");
    }
}
