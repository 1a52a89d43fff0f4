//! Where a backend is asked for its health.
//!
//! An absolute `http` or `https` URL. What might be a secret in it is never shown:
//! tokens stand in the query, which is sent and not printed, and a name and password
//! before the host are refused, because they would have to be sent in a header that
//! nobody wrote. Both `Display` and `Debug` give the public part alone, so that no log
//! line, status or error can give away the rest.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use thiserror::Error;

/// Longest URL, in bytes: what servers commonly take (RFC 9110 §4.1 asks for 8,000).
const URL_BYTES_MAX: usize = 2_048;

/// An absolute URL of a backend.
#[derive(Clone, PartialEq, Eq)]
pub struct BackendUrl(Uri);

/// Why a text is no backend's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BackendUrlError {
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
}

impl BackendUrl {
    /// As it is asked.
    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Whether TLS is spoken.
    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }
}

impl FromStr for BackendUrl {
    type Err = BackendUrlError;

    fn from_str(text: &str) -> Result<Self, BackendUrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(BackendUrlError::TooLong);
        }
        let uri: Uri = text.parse().map_err(|_| BackendUrlError::Form)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(BackendUrlError::Form);
        };
        if !matches!(scheme, "http" | "https") {
            return Err(BackendUrlError::Scheme);
        }
        if authority.as_str().contains('@') {
            return Err(BackendUrlError::Credentials);
        }
        let port_is_good = match authority.port_u16() {
            Some(port) => port > 0,
            None => authority.as_str() == authority.host(),
        };
        if authority.host().is_empty() || !port_is_good {
            return Err(BackendUrlError::Form);
        }
        Ok(Self(uri))
    }
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.scheme_str().unwrap_or_default();
        let authority = self
            .0
            .authority()
            .map_or("", |authority| authority.as_str());
        write!(f, "{scheme}://{authority}{}", self.0.path())
    }
}

impl fmt::Debug for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_shown_holds_no_secret() {
        let cases = [
            ("https://api.example.net", "https://api.example.net/"),
            (
                "http://127.0.0.1:8080/health",
                "http://127.0.0.1:8080/health",
            ),
            (
                "https://[2001:db8::1]:443/h?token=s3cret",
                "https://[2001:db8::1]:443/h",
            ),
        ];
        for (written, shown) in cases {
            let url: BackendUrl = written.parse().unwrap();
            assert_eq!(
                (url.to_string(), format!("{url:?}")),
                (shown.into(), shown.into())
            );
            assert_eq!(url.uri().query().is_some(), written.contains('?'));
        }
    }

    #[test]
    fn what_could_only_fail_when_asked_is_refused() {
        let cases = [
            ("", BackendUrlError::Form),
            ("/health", BackendUrlError::Form),
            ("api.example.net", BackendUrlError::Form),
            ("127.0.0.1:8080", BackendUrlError::Form),
            ("https://", BackendUrlError::Form),
            ("https://api.example.net:99999/", BackendUrlError::Form),
            ("https://api.example.net:0/", BackendUrlError::Form),
            ("https://a b/", BackendUrlError::Form),
            ("ftp://api.example.net/", BackendUrlError::Scheme),
            (
                "https://me:pw@api.example.net/",
                BackendUrlError::Credentials,
            ),
        ];
        for (written, why) in cases {
            assert_eq!(written.parse::<BackendUrl>().unwrap_err(), why, "{written}");
        }
        let longest = format!("http://a/{}", "x".repeat(URL_BYTES_MAX - 9));
        longest.parse::<BackendUrl>().unwrap();
        let longer = format!("{longest}x").parse::<BackendUrl>();
        assert_eq!(longer.unwrap_err(), BackendUrlError::TooLong);
    }
}
