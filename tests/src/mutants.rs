//! The table of mutants (`tests/mutants.toml`): each names a guard, switches it off, and names the test that must then
//! fail.
//!
//! A guard is a comparison, a bound or a call without which all is well until the day it is needed. A test that nobody has
//! seen fail proves nothing of it. So the table holds both together: the structure tests hold it true on paper in each run
//! of the gate (the place occurs once, the test exists), and the binary `mutants` breaks each guard in a copy of the tree
//! and sees the named test fail (`.ci/deep 1 mutants`).

use serde::Deserialize;

/// Where the table stands, from the root of the workspace.
pub const TABLE: &str = "tests/mutants.toml";

/// A guard, and what proves it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// The guard in words; no two are alike.
    pub guard: String,
    /// The requirements (`R-12`), cases (`B38`) or sections of the design (`DESIGN §4`) that it serves.
    pub serves: Vec<String>,
    /// The file, from the root of the workspace.
    pub file: String,
    /// The guard as it stands there: once.
    pub from: String,
    /// What switches it off, and compiles.
    pub to: String,
    /// The test program: `lib`, or an integration test by name.
    #[serde(default = "lib")]
    pub target: String,
    /// The test that fails with the mutant, as its program calls it.
    pub test: String,
}

fn lib() -> String {
    "lib".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mutant: Vec<Mutant>,
}

/// Reads the table.
///
/// # Errors
/// It is not TOML, or not of this form; where, in words.
pub fn parse(text: &str) -> Result<Vec<Mutant>, toml::de::Error> {
    Ok(toml::from_str::<Table>(text)?.mutant)
}

impl Mutant {
    /// The folder of the crate that the guard and its test belong to.
    pub fn folder(&self) -> Option<&str> {
        let name = self.file.strip_prefix("crates/")?;
        let (name, _) = name.split_once('/')?;
        Some(&self.file[.."crates/".len() + name.len()])
    }

    /// The package of that crate.
    pub fn package(&self) -> Option<String> {
        let name = self.folder()?.strip_prefix("crates/")?;
        Some(match name {
            "quell" => name.to_owned(),
            _ => format!("quell-{name}"),
        })
    }

    /// The text with the guard switched off; `None` where it does not occur exactly once.
    pub fn apply(&self, text: &str) -> Option<String> {
        let once = !self.from.is_empty() && text.matches(&self.from).count() == 1;
        once.then(|| text.replacen(&self.from, &self.to, 1))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ONE: &str = "[[mutant]]\nguard = 'a bound'\nserves = ['R-1']\nfile = 'crates/core/src/a.rs'\n\
                       from = 'a < b'\nto = 'true'\ntest = 'a::tests::one'\n";

    #[test]
    fn a_row_is_read_and_what_is_unknown_is_refused() {
        let [mutant] = &parse(ONE).unwrap()[..] else {
            panic!("one row");
        };
        assert_eq!(mutant.target, "lib");
        assert_eq!(mutant.folder(), Some("crates/core"));
        assert_eq!(mutant.package().unwrap(), "quell-core");
        assert!(parse(&ONE.replace("guard", "gaurd")).is_err());
        assert!(parse(&ONE.replace("serves = ['R-1']\n", "")).is_err());
    }

    #[test]
    fn a_guard_that_stands_there_once_is_replaced_and_no_other() {
        let mutant = parse(ONE).unwrap().remove(0);
        assert_eq!(mutant.apply("if a < b {}").unwrap(), "if true {}");
        assert_eq!(mutant.apply("if a > b {}"), None);
        assert_eq!(mutant.apply("a < b && a < b"), None);
    }
}
