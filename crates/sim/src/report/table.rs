//! The tables as text, for a terminal.
//!
//! A policy is a row and all of it stands on one line, some 130 columns wide: what is compared has to stand under each
//! other. What the heads mean is said once, below.

use std::fmt;

use super::grid::{self, Grid};
use super::text::{counted, time};
use super::verdict::Verdict;
use crate::outcome::Outcome;

/// Columns of the lines of words.
const COLUMNS: usize = 100;

/// An outcome as text.
#[derive(Debug, Clone, Copy)]
pub struct Tables<'a> {
    /// What came of the run.
    pub outcome: &'a Outcome,
    /// Which bounds held.
    pub verdicts: &'a [Verdict],
}

impl fmt::Display for Tables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.outcome;
        writeln!(f, "{}: {}", outcome.scenario, outcome.summary)?;
        writeln!(
            f,
            "{}, {}, {} of virtual time, seed {}",
            counted(outcome.clients.into(), "client"),
            counted(outcome.providers.into(), "provider"),
            time(outcome.duration_ms),
            outcome.seed
        )?;
        for (name, from, until) in &outcome.faults_ms {
            writeln!(f, "broken from {} to {}: {name}", time(*from), time(*until))?;
        }
        let costs = grid::costs(outcome);
        let (causes, bars) = (grid::causes(outcome), grid::bars(outcome));
        for grid in [&costs, &causes, &bars, &grid::bounds(self.verdicts)] {
            if !grid.rows.is_empty() {
                writeln!(f, "\n{}", grid.caption)?;
                write_grid(f, grid)?;
            }
        }
        write_complaints(f, outcome)?;
        writeln!(f)?;
        let words = costs.columns.iter().skip(1);
        let words: Vec<_> = words.map(|c| format!("{}: {}", c.short, c.words)).collect();
        write_wrapped(f, "", &format!("{}.", words.join("; ")))?;
        writeln!(f, "\nWhat was not modelled")?;
        for words in &outcome.not_modelled {
            write_wrapped(f, "- ", words)?;
        }
        Ok(())
    }
}

fn write_complaints(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    let complaints = grid::complaints(outcome);
    if !complaints.is_empty() {
        writeln!(f, "\nWhat checkers complained of")?;
    }
    for complaint in complaints {
        writeln!(f, "{}", harmless(&complaint))?;
    }
    Ok(())
}

fn write_grid(f: &mut fmt::Formatter<'_>, grid: &Grid) -> fmt::Result {
    let width = |column: usize| {
        let cells = grid.rows.iter().filter_map(|row| row.get(column));
        let cells = cells.map(|cell| cell.chars().count());
        let head = grid.columns.get(column).map_or(0, |head| head.short.len());
        cells.max().unwrap_or(0).max(head)
    };
    let widths: Vec<_> = (0..grid.columns.len()).map(width).collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for (column, (cell, width)) in cells.zip(&widths).enumerate() {
            line += &match column {
                0 => format!("{:<width$}", harmless(cell)),
                _ => format!("  {cell:>width$}"),
            };
        }
        writeln!(f, "{}", line.trim_end())
    };
    line(&mut grid.columns.iter().map(|head| head.short))?;
    for row in &grid.rows {
        line(&mut row.iter().map(String::as_str))?;
    }
    Ok(())
}

/// Words broken where a line ends; `mark` begins the first line, blanks the others.
fn write_wrapped(f: &mut fmt::Formatter<'_>, mark: &str, words: &str) -> fmt::Result {
    let mut line = mark.to_owned();
    for word in words.split(' ') {
        let is_first = line.len() <= mark.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            writeln!(f, "{line}")?;
            line = " ".repeat(mark.len()) + word;
        } else {
            line += if is_first { "" } else { " " };
            line += word;
        }
    }
    writeln!(f, "{line}")
}

/// Text that gives a terminal no orders.
fn harmless(text: &str) -> String {
    let harmless = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().map(harmless).collect()
}
