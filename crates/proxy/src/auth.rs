//! Who may use the proxy.
//!
//! Comparisons take the same time wherever two texts differ, so that a password cannot be guessed letter by letter. Both
//! protocols send it as it is: on a network that others listen to, it is no secret from them.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::config::Credentials;

/// The scheme of HTTP that is known (RFC 7617), before a space.
const BASIC: &str = "basic";

/// Lets in who knows the password; everybody where there is none.
pub(crate) struct Guard(Option<Known>);

struct Known {
    credentials: Credentials,
    /// Both as HTTP writes them.
    basic: Zeroizing<String>,
}

impl Guard {
    pub(crate) fn new(credentials: Option<Credentials>) -> Self {
        Self(credentials.map(|credentials| {
            let Credentials { username, password } = &credentials;
            let both = Zeroizing::new(format!("{username}:{}", password.as_str()));
            Known {
                basic: Zeroizing::new(STANDARD.encode(both.as_bytes())),
                credentials,
            }
        }))
    }

    /// Whether a password is asked for.
    pub(crate) const fn asks(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a user name and a password are the right ones.
    pub(crate) fn knows(&self, username: &[u8], password: &[u8]) -> bool {
        let Some(known) = &self.0 else {
            return true;
        };
        let expected = &known.credentials;
        let name = verify_slices_are_equal(username, expected.username.as_bytes());
        let secret = verify_slices_are_equal(password, expected.password.as_bytes());
        name.is_ok() & secret.is_ok()
    }

    /// Whether the value of a Proxy-Authorization header is the right one; `None` is no header.
    pub(crate) fn knows_basic(&self, header: Option<&[u8]>) -> bool {
        let Some(known) = &self.0 else {
            return true;
        };
        let Some((scheme, token)) = header.and_then(|header| header.split_at_checked(BASIC.len()))
        else {
            return false;
        };
        let is_basic = scheme.eq_ignore_ascii_case(BASIC.as_bytes());
        let token = token.trim_ascii_start();
        is_basic && verify_slices_are_equal(token, known.basic.as_bytes()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new(Some(Credentials {
            username: "Aladdin".into(),
            password: Zeroizing::new("open sesame".into()),
        }))
    }

    #[test]
    fn both_must_be_right() {
        assert!(guard().asks() && guard().knows(b"Aladdin", b"open sesame"));
        for (name, password) in [
            (&b"Aladdin"[..], &b"open sesam"[..]),
            (b"Aladdin", b"open sesamE"),
            (b"aladdin", b"open sesame"),
            (b"", b""),
        ] {
            assert!(!guard().knows(name, password));
        }
        let open = Guard::new(None);
        assert!(!open.asks() && open.knows(b"", b"") && open.knows_basic(None));
    }

    #[test]
    fn the_header_of_the_rfc_is_known() {
        let known = |header: &[u8]| guard().knows_basic(Some(header));
        assert!(known(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(known(b"basic  QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(!known(b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ="));
        assert!(!known(b"Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(!known(b"Bas") && !known(b"") && !guard().knows_basic(None));
    }
}
