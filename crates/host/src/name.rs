//! A TUN's name, held to characters that mean nothing to a shell, to nftables or to a file system.
//!
//! The kernel allows nearly everything in an interface name, quotes included; a name goes into a rule, a table's name and
//! a file's name here, so only `A-Z a-z 0-9 . _ -` pass, and neither `.` nor `..`.
//!
//! The table's name may hold letters, digits and `_` alone. The other two characters, and `_` itself, are written as `_`
//! and two hexadecimal digits, so that no two TUNs share a table.

use std::fmt::Write as _;

use crate::error::HostError;

/// The kernel's `IFNAMSIZ` less its closing zero.
const NAME_BYTES_MAX: usize = 15;

/// A name that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunName(String);

impl TunName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`HostError::InvalidName`].
    pub fn new(name: &str) -> Result<Self, HostError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let valid = (1..=NAME_BYTES_MAX).contains(&name.len())
            && name.chars().all(plain)
            && !matches!(name, "." | "..");
        if !valid {
            return Err(HostError::InvalidName {
                name: name.to_owned(),
            });
        }
        Ok(Self(name.to_owned()))
    }

    /// As it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of its table of that kind: `quell` and the name, written so that no two names share one.
    #[must_use]
    pub fn table(&self, kind: &str) -> String {
        let mut table = format!("{kind}_");
        for c in self.0.chars() {
            if c.is_ascii_alphanumeric() {
                table.push(c);
            } else {
                // Writing to a string cannot fail.
                let _ = write!(table, "_{:02x}", u32::from(c));
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn names_are_held_to_plain_characters_and_fifteen_bytes() {
        for good in ["a", "quell0", "Q.u-e_l", "fifteen-bytes-x"] {
            assert!(TunName::new(good).is_ok(), "{good}");
        }
        let bad = [
            "",
            "sixteen-bytes-xx",
            ".",
            "..",
            "a b",
            "a\"",
            "a;b",
            "a/b",
            "a\n",
            "ä",
            "a'b",
            "$x",
            "a{",
        ];
        for bad in bad {
            assert!(TunName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_two_names_share_a_table() {
        let names = ["a.b", "a_b", "a-b", "a_2eb", "ab", "a__b", "A.b"];
        let tables: std::collections::HashSet<_> = names
            .iter()
            .map(|name| TunName::new(name).unwrap().table("quell"))
            .collect();
        assert_eq!(tables.len(), names.len());
        assert_eq!(
            TunName::new("quell0").unwrap().table("quell"),
            "quell_quell0"
        );
        assert_eq!(TunName::new("a.b").unwrap().table("quell"), "quell_a_2eb");
        assert!(
            tables
                .iter()
                .all(|t| t.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        );
    }
}
