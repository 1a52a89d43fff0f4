//! What an answer's status, headers and body mean.
//!
//! Pure: the caller has read the body, within its bound, and says what time it is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{DATE, HeaderMap, RETRY_AFTER};

use crate::api::Refusal;
use crate::ask::AskError;

/// Most characters of an answer's words that are handed on: they are another's, and end in logs.
const WORDS_CHARS_MAX: usize = 300;

/// What a backend that works said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The body of an answer.
    Good(Bytes),
    /// Nothing new (304).
    Unchanged,
    /// No.
    Refused {
        /// Why.
        refusal: Refusal,
        /// Its clock, in seconds since 1970 UTC, when it said.
        date_s: Option<u64>,
    },
}

pub(super) fn meaning(
    status: StatusCode,
    headers: &HeaderMap,
    body: Bytes,
    now: SystemTime,
) -> Result<Meaning, AskError> {
    let said = || serde_json::from_slice::<Refusal>(&body).ok().map(shown);
    let bare = || format!("it answered with status {}", status.as_u16());
    match status.as_u16() {
        200 => Ok(Meaning::Good(body)),
        304 => Ok(Meaning::Unchanged),
        429 | 500..=599 => Err(AskError::Unavailable {
            retry_after: retry_after(headers, now),
            words: said().map_or_else(bare, |refusal| refusal.words),
        }),
        400..=499 => match said() {
            Some(refusal) => {
                let date_s = date_s(headers);
                Ok(Meaning::Refused { refusal, date_s })
            }
            None => Err(AskError::Garbled(bare())),
        },
        _ => Err(AskError::Garbled(bare())),
    }
}

/// A refusal whose words are short and without control characters.
fn shown(refusal: Refusal) -> Refusal {
    let is_shown = |c: &char| !c.is_control();
    let words = refusal.words.chars().filter(is_shown);
    Refusal {
        words: words.take(WORDS_CHARS_MAX).collect(),
        ..refusal
    }
}

/// Seconds, or a date (RFC 9110 §10.2.3); one that is past means at once. A date is by the server's clock, so it is
/// counted from the server's `Date` where there is one.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let from = date_of(headers).unwrap_or(now);
    Some(date.duration_since(from).unwrap_or_default())
}

fn date_of(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

fn date_s(headers: &HeaderMap) -> Option<u64> {
    let since = date_of(headers)?.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::api::RefusalCode;

    const DATE_TEXT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn of(status: u16, headers: &[(&'static str, &str)], body: &str) -> Result<Meaning, AskError> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let now = httpdate::parse_http_date(DATE_TEXT).unwrap() + Duration::from_secs(10);
        let status = StatusCode::from_u16(status).unwrap();
        meaning(status, &map, Bytes::from(body.to_owned()), now)
    }

    fn waits(status: u16, headers: &[(&'static str, &str)]) -> Option<Duration> {
        let error = of(status, headers, "").unwrap_err();
        let AskError::Unavailable { retry_after, .. } = error else {
            panic!("{error:?}");
        };
        retry_after
    }

    #[test]
    fn each_status_means_what_it_says() {
        assert_eq!(of(200, &[], "x"), Ok(Meaning::Good("x".into())));
        assert_eq!(of(304, &[], ""), Ok(Meaning::Unchanged));
        let body = r#"{"code":"banned","words":"no","later":1}"#;
        let Ok(Meaning::Refused { refusal, date_s }) = of(403, &[("date", DATE_TEXT)], body) else {
            panic!("no refusal");
        };
        assert_eq!(refusal.code, RefusalCode::Banned);
        assert_eq!(date_s, Some(784_111_777));
        for status in [201, 204, 302, 400, 404] {
            let AskError::Garbled(words) = of(status, &[], "<html>").unwrap_err() else {
                panic!("{status}");
            };
            assert!(words.contains(&status.to_string()));
        }
        for status in [429, 500, 502, 503, 599] {
            assert_eq!(waits(status, &[]), None);
        }
    }

    #[test]
    fn a_wait_is_read_in_seconds_and_as_a_date() {
        let s = |seconds| Some(Duration::from_secs(seconds));
        let later = "Sun, 06 Nov 1994 08:50:07 GMT";
        assert_eq!(waits(503, &[("retry-after", "120")]), s(120));
        assert_eq!(waits(429, &[("retry-after", " 7 ")]), s(7));
        // By our clock, which is ten seconds on, and by the server's.
        assert_eq!(waits(503, &[("retry-after", later)]), s(20));
        let both = [("retry-after", later), ("date", DATE_TEXT)];
        assert_eq!(waits(503, &both), s(30));
        assert_eq!(waits(503, &[("retry-after", DATE_TEXT)]), s(0));
        assert_eq!(waits(503, &[("retry-after", "soon")]), None);
    }

    #[test]
    fn anothers_words_are_cut_and_hold_no_control_characters() {
        let words = format!("a\\u001b[2J\\n{}", "x".repeat(WORDS_CHARS_MAX));
        let body = format!(r#"{{"code":"brand_new","words":"{words}"}}"#);
        let Ok(Meaning::Refused { refusal, .. }) = of(400, &[], &body) else {
            panic!("no refusal");
        };
        assert_eq!(refusal.code, RefusalCode::Other);
        assert!(refusal.words.starts_with("a[2Jxxx"));
        assert_eq!(refusal.words.chars().count(), WORDS_CHARS_MAX);
    }
}
