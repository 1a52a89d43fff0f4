//! Metrics as text: the exposition format of Prometheus, version 0.0.4.
//!
//! A [`Page`] is filled family by family and then shown; nothing here knows what is measured. Three things are held, whoever
//! fills it and whatever the names are that it is filled with:
//!
//! - **It can be read.** Label values are escaped (`\`, `"` and the end of a line), and a family's lines stand together under
//!   one `HELP` and one `TYPE`.
//! - **No series twice.** Samples of the same labels are added up, so two names that are cut to the same text are one series.
//! - **It is bounded.** Names that others chose (exits of a catalog, URLs) pass through [`Names`], which cuts each to
//!   [`NAME_CHARS_MAX`] characters and knows [`NAMES_MAX`] of them; what comes after is called [`OTHER`]. A collector that is
//!   fed a new name at every look would else keep a series of each for weeks.
//!
//! 64 names: a window holds eight exits and a catalog some dozens; a page of all of them is some 40 KiB. 64 characters is what
//! a client's or an exit's name may have anyway.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

/// Most names that one page tells apart.
pub const NAMES_MAX: usize = 64;
/// Most characters of a label's value.
pub const NAME_CHARS_MAX: usize = 64;
/// What names beyond [`NAMES_MAX`] are called.
pub const OTHER: &str = "other";

/// What a family's values mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They only grow, but for a restart.
    Counter,
    /// They are what holds at the moment.
    Gauge,
}

/// A page of metrics.
#[derive(Debug, Default)]
pub struct Page {
    families: Vec<Family>,
}

/// All samples of one name.
#[derive(Debug)]
pub struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: Vec<(Labels, f64)>,
}

type Labels = Vec<(&'static str, String)>;

impl Page {
    /// The family `name`, which is made where it is not there. `help` is one line without a backslash.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &'static str) -> &mut Family {
        let found = self.families.iter().position(|known| known.name == name);
        let place = found.unwrap_or_else(|| {
            self.families.push(Family {
                name,
                kind,
                help,
                samples: Vec::new(),
            });
            self.families.len() - 1
        });
        &mut self.families[place]
    }

    /// A counter without labels.
    pub fn counter(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.family(name, Kind::Counter, help).add(&[], value);
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.family(name, Kind::Gauge, help).add(&[], value);
    }
}

impl Family {
    /// One more sample; of labels that are there already the values are added up.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: f64) -> &mut Self {
        let is_same = |known: &Labels| {
            known.len() == labels.len()
                && known
                    .iter()
                    .zip(labels)
                    .all(|(a, b)| a.0 == b.0 && a.1 == b.1)
        };
        match self.samples.iter_mut().find(|(known, _)| is_same(known)) {
            Some((_, sum)) => *sum += value,
            None => {
                let labels = labels
                    .iter()
                    .map(|(name, value)| (*name, (*value).to_owned()));
                self.samples.push((labels.collect(), value));
            }
        }
        self
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for family in self
            .families
            .iter()
            .filter(|family| !family.samples.is_empty())
        {
            let Family { name, help, .. } = family;
            let kind = match family.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            writeln!(f, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
            for (labels, value) in &family.samples {
                f.write_str(name)?;
                for (place, (label, value)) in labels.iter().enumerate() {
                    f.write_char(if place == 0 { '{' } else { ',' })?;
                    write!(f, "{label}=\"{}\"", Escaped(value))?;
                }
                let close = if labels.is_empty() { "" } else { "}" };
                writeln!(f, "{close} {value}")?;
            }
        }
        Ok(())
    }
}

/// A label's value as the format wants it.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The names that one page tells apart: the first ones that it hears, [`NAMES_MAX`] unless told otherwise.
#[derive(Debug)]
pub struct Names {
    known: BTreeSet<String>,
    max: usize,
}

impl Default for Names {
    fn default() -> Self {
        Self::at_most(NAMES_MAX)
    }
}

impl Names {
    /// Of which there are `max` at most.
    #[must_use]
    pub fn at_most(max: usize) -> Self {
        Self {
            known: BTreeSet::new(),
            max,
        }
    }

    /// What `name` is called on this page: itself, without control characters and cut, or [`OTHER`].
    pub fn of(&mut self, name: &str) -> String {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let name: String = name.chars().take(NAME_CHARS_MAX).map(plain).collect();
        if self.known.contains(&name) {
            return name;
        }
        if self.known.len() >= self.max {
            return OTHER.to_owned();
        }
        self.known.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_the_format_says() {
        let mut page = Page::default();
        page.counter("a_total", "What a is.", 3.0);
        let family = page.family("b", Kind::Gauge, "What b is.");
        family.add(&[("x", "1"), ("y", "two")], 0.5);
        family.add(&[("x", "2"), ("y", "two")], 2.0);
        page.family("c", Kind::Gauge, "Nothing is known of c.");
        let expected = "# HELP a_total What a is.\n# TYPE a_total counter\na_total 3\n\
                        # HELP b What b is.\n# TYPE b gauge\nb{x=\"1\",y=\"two\"} 0.5\nb{x=\"2\",y=\"two\"} 2\n";
        assert_eq!(page.to_string(), expected);
    }

    #[test]
    fn a_value_cannot_leave_its_quotes() {
        let mut page = Page::default();
        let hostile = "a\"} 1\nquell_up{x=\"\\";
        let family = page.family("b", Kind::Gauge, "What b is.");
        family.add(&[("x", hostile)], 1.0);
        let line = "b{x=\"a\\\"} 1\\nquell_up{x=\\\"\\\\\"} 1\n";
        assert!(page.to_string().ends_with(line), "{page}");
        assert_eq!(page.to_string().lines().count(), 3);
    }

    #[test]
    fn the_same_labels_are_one_series() {
        let mut page = Page::default();
        for value in [1.0, 2.0] {
            let family = page.family("b_total", Kind::Counter, "What b is.");
            family.add(&[("x", "1")], value);
        }
        assert!(page.to_string().ends_with("counter\nb_total{x=\"1\"} 3\n"));
    }

    #[test]
    fn large_counts_are_written_in_full() {
        let mut page = Page::default();
        page.counter("a_total", "What a is.", 9_007_199_254_740_992.0);
        assert!(page.to_string().ends_with("a_total 9007199254740992\n"));
    }

    #[test]
    fn as_many_names_as_may_be_are_told_apart_and_the_next_is_another() {
        let mut names = Names::default();
        let of = |names: &mut Names, number: usize| names.of(&format!("exit {number}"));
        for number in 0..NAMES_MAX {
            assert_eq!(of(&mut names, number), format!("exit {number}"));
        }
        assert_eq!(of(&mut names, NAMES_MAX), OTHER);
        assert_eq!(of(&mut names, 0), "exit 0");
    }

    #[test]
    fn a_name_is_cut_and_holds_no_control_character() {
        let mut names = Names::default();
        assert_eq!(names.of("a\nb\x1b[31m\u{9b}"), "a b [31m ");
        let (fits, long) = ("é".repeat(NAME_CHARS_MAX), "é".repeat(NAME_CHARS_MAX + 1));
        assert_eq!((names.of(&fits), names.of(&long)), (fits.clone(), fits));
    }
}
