//! Where a backend is: an absolute `http` or `https` URL under which `/v1` stands.
//!
//! A path before `/v1` is allowed, so that a backend can live behind a proxy beside other things. A query, a fragment
//! and credentials are not: nothing would be done with the first two, and a name and password would have to be sent in
//! a header that nobody wrote. Requests are signed over the path as it is sent, the part before `/v1` included; a proxy
//! that cuts it off would break signatures, and its backend says so (`Unsigned`).

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 1_024;

/// The URL of a backend.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    /// Scheme and authority, without a slash at the end.
    origin: String,
    /// What stands before `/v1`; empty, or a path without a slash at its end.
    prefix: String,
    is_https: bool,
}

/// Why a text is no backend's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// Longer than anything that servers take.
    #[error("longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// Not a URL, or one without a scheme and a host.
    #[error("not a whole URL")]
    Form,
    /// Another scheme.
    #[error("neither http nor https")]
    Scheme,
    /// A name or a password before the host.
    #[error("credentials before the host")]
    Credentials,
    /// A query.
    #[error("a query after the path")]
    Query,
}

impl BaseUrl {
    /// Whether TLS is spoken.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.is_https
    }

    /// Where its health is asked: `/healthz`, which needs no signature.
    #[must_use]
    pub fn health(&self) -> String {
        self.uri(&self.target("/healthz"))
    }

    /// The path and query of a route, as it is sent and signed.
    pub(super) fn target(&self, route: &str) -> String {
        format!("{}{route}", self.prefix)
    }

    pub(super) fn uri(&self, target: &str) -> String {
        format!("{}{target}", self.origin)
    }
}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(BaseUrlError::TooLong);
        }
        let uri: Uri = text.parse().map_err(|_| BaseUrlError::Form)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(BaseUrlError::Form);
        };
        let is_https = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(BaseUrlError::Scheme),
        };
        if authority.as_str().contains('@') {
            return Err(BaseUrlError::Credentials);
        }
        let port_is_good = match authority.port_u16() {
            Some(port) => port > 0,
            None => authority.as_str() == authority.host(),
        };
        if authority.host().is_empty() || !port_is_good {
            return Err(BaseUrlError::Form);
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(BaseUrlError::Query);
        }
        Ok(Self {
            origin: format!("{scheme}://{authority}"),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            is_https,
        })
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.prefix)
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value of a query, with everything but RFC 3986's unreserved characters escaped (§2.3).
pub(super) fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_base_is_read_and_routes_stand_under_it() {
        let cases = [
            ("https://api.example.net", "https://api.example.net/v1/x"),
            ("http://127.0.0.1:80/", "http://127.0.0.1:80/v1/x"),
            ("http://[::1]:8080/q/", "http://[::1]:8080/q/v1/x"),
        ];
        for (written, sent) in cases {
            let base: BaseUrl = written.parse().unwrap();
            assert_eq!(base.uri(&base.target("/v1/x")), sent);
            assert_eq!(base.is_https(), written.starts_with("https"));
        }
    }

    #[test]
    fn what_could_only_fail_when_asked_is_refused() {
        let cases = [
            ("", BaseUrlError::Form),
            ("/v1", BaseUrlError::Form),
            ("api.example.net", BaseUrlError::Form),
            ("https://", BaseUrlError::Form),
            ("https://a:0/", BaseUrlError::Form),
            ("https://a:99999/", BaseUrlError::Form),
            ("ftp://a/", BaseUrlError::Scheme),
            ("https://me:pw@a/", BaseUrlError::Credentials),
            ("https://a/?x=1", BaseUrlError::Query),
        ];
        for (written, why) in cases {
            assert_eq!(written.parse::<BaseUrl>().unwrap_err(), why, "{written}");
        }
        let longest = format!("http://a/{}", "x".repeat(URL_BYTES_MAX - 9));
        longest.parse::<BaseUrl>().unwrap();
        let longer = format!("{longest}x").parse::<BaseUrl>();
        assert_eq!(longer.unwrap_err(), BaseUrlError::TooLong);
    }

    #[test]
    fn a_version_is_escaped_whatever_it_holds() {
        assert_eq!(escaped("aZ0-._~"), "aZ0-._~");
        assert_eq!(escaped("a&b=ü %"), "a%26b%3D%C3%BC%20%25");
    }
}
