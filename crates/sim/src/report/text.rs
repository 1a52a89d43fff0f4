//! Figures and text as people read them.
//!
//! Three digits are what a comparison needs and an eye can hold; who needs all of them has JSON and CSV.

use std::fmt::{self, Display, Write as _};

/// Text that may hold anything, as text of HTML and XML.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(pub &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.0.chars() {
            match char {
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // No control character but these may stand in XML.
                '\t' | '\n' => f.write_char(char)?,
                _ if char.is_control() => f.write_char('\u{fffd}')?,
                _ => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Digits in groups of three.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many of what, in words.
pub(super) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(count))
}

/// Bytes with three digits and a unit of a thousand: `999 B`, `1.20 kB`, `62.9 MB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    if bytes < 1_000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1_000.0;
    for unit in ["kB", "MB", "GB", "TB", "PB"] {
        // Rounded up to a thousand it belongs to the next unit.
        if value < 999.5 {
            return format!("{} {unit}", three_digits(value));
        }
        value /= 1_000.0;
    }
    format!("{} EB", three_digits(value))
}

/// A time with three digits: `0 ms`, `999 ms`, `1.20 s`, `184 s`; from an hour on in hours.
#[must_use]
pub fn time(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms} ms"),
        1_000..3_600_000 => format!("{} s", three_digits(ms as f64 / 1_000.0)),
        _ => format!("{} h", three_digits(ms as f64 / 3_600_000.0)),
    }
}

/// A ratio with three digits; `-` for what has none.
pub(super) fn ratio(value: f64) -> String {
    match value.is_finite() {
        true => three_digits(value),
        false => "-".to_owned(),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        _ if value >= 99.95 => grouped(value.round() as u64),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_groups_of_three() {
        let texts = [0, 999, 1_000, 49_152, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "49,152", "1,234,567"]);
    }

    #[test]
    fn bytes_have_three_digits() {
        for (value, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_995, "10.0 kB"),
            (99_949, "99.9 kB"),
            (99_950, "100 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (62_914_560, "62.9 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn times_have_three_digits() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.00 s"),
            (60_123, "60.1 s"),
            (184_000, "184 s"),
            (3_599_999, "3,600 s"),
            (3_600_000, "1.00 h"),
            (u64::MAX, "5,124,095,576,030 h"),
        ] {
            assert_eq!(time(ms), text);
        }
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!(ratio(f64::NAN), "-");
        assert_eq!(ratio(f64::INFINITY), "-");
        assert_eq!(ratio(12.34), "12.3");
    }

    #[test]
    fn no_text_becomes_an_element() {
        let text = Text("<a href=\"x\" class='y'>&\u{1b}[0m\n").to_string();
        assert_eq!(
            text,
            "&lt;a href=&quot;x&quot; class=&#39;y&#39;&gt;&amp;\u{fffd}[0m\n"
        );
    }
}
