//! The table of a bench, and its object.
//!
//! Each figure is the median of all runs. The last column sets quell beside the best of the other tunnels, row by row, so that
//! no single rival has to be chosen; the machine without a tunnel is no rival, and is there to be measured by.

use serde_json::{Map, Value, json};

use super::rows::{Figures, Row};

/// Columns of a name of a row, and of a figure.
const NAME_CHARS: usize = 28;
const FIGURE_CHARS: usize = 15;

/// The runs of one subject.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) name: String,
    /// Whether it is set beside quell.
    pub(super) is_rival: bool,
    pub(super) runs: Vec<Figures>,
}

impl Measured {
    fn median(&self, row: Row) -> Option<f64> {
        let seen = self.runs.iter().filter_map(|run| run.get(&row).copied());
        let mut seen: Vec<f64> = seen.collect();
        seen.sort_unstable_by(f64::total_cmp);
        let last = seen.len().checked_sub(1)?;
        // Of two in the middle, their mean.
        let (low, high) = (seen.get(last / 2)?, seen.get(last.div_ceil(2))?);
        Some(low.midpoint(*high))
    }
}

/// All of it.
#[derive(Debug)]
pub(super) struct Report {
    /// quell's is the last.
    pub(super) subjects: Vec<Measured>,
    pub(super) seconds: u64,
}

impl Report {
    /// quell's figure divided by that of the best other tunnel; `None`: there is none that has it.
    fn ratio(&self, row: Row) -> Option<f64> {
        let (quell, others) = self.subjects.split_last()?;
        let rivals = others.iter().filter(|other| other.is_rival);
        let figures = rivals.filter_map(|rival| rival.median(row));
        let best = match row.is_rate() {
            true => figures.max_by(f64::total_cmp),
            false => figures.min_by(f64::total_cmp),
        }?;
        Some(quell.median(row)? / best).filter(|ratio| ratio.is_finite())
    }

    pub(super) fn json(&self) -> Value {
        let subjects = self.subjects.iter().map(|subject| {
            let of = |figure: &dyn Fn(Row) -> Option<f64>| {
                let figures = Row::ALL.into_iter();
                let figures =
                    figures.filter_map(|row| Some((row.key().to_owned(), figure(row)?.into())));
                figures.collect::<Map<_, _>>()
            };
            let runs = subject.runs.iter();
            let runs = runs.map(|run| Value::from(of(&|row| run.get(&row).copied())));
            json!({
                "name": subject.name,
                "median": of(&|row| subject.median(row)),
                "runs": runs.collect::<Vec<_>>(),
            })
        });
        let ratios = Row::ALL.into_iter();
        let ratios = ratios.filter_map(|row| Some((row.key().to_owned(), self.ratio(row)?.into())));
        json!({
            "seconds": self.seconds,
            "subjects": subjects.collect::<Vec<_>>(),
            "quell_over_best": ratios.collect::<Map<_, _>>(),
        })
    }

    pub(super) fn table(&self) -> String {
        let has_rival = self.subjects.iter().any(|subject| subject.is_rival);
        let mut text = format!("{:<NAME_CHARS$}", "");
        for subject in &self.subjects {
            text += &format!("{:>FIGURE_CHARS$}", subject.name);
        }
        if has_rival {
            text += "  quell / best";
        }
        text.push('\n');
        for row in Row::ALL {
            let medians: Vec<_> = self.subjects.iter().map(|of| of.median(row)).collect();
            if medians.iter().all(Option::is_none) {
                continue;
            }
            text += &format!("{:<NAME_CHARS$}", row.words());
            for median in medians {
                let figure = median.map_or("–".to_owned(), figure);
                text += &format!("{figure:>FIGURE_CHARS$}");
            }
            if let Some(ratio) = self.ratio(row) {
                text += &format!("{ratio:>14.2}");
            }
            text.push('\n');
        }
        text
    }
}

/// Three digits at least, and no more behind the point than tell something.
fn figure(figure: f64) -> String {
    match figure {
        ..10.0 => format!("{figure:.2}"),
        ..100.0 => format!("{figure:.1}"),
        _ => quell_sim::report::grouped(figure.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, is_rival: bool, runs: &[(f64, f64)]) -> Measured {
        let runs = runs.iter();
        let runs = runs.map(|(tcp, ping)| [(Row::TcpOne, *tcp), (Row::PingIdle, *ping)].into());
        Measured {
            name: name.to_owned(),
            is_rival,
            runs: runs.collect(),
        }
    }

    fn report() -> Report {
        Report {
            subjects: vec![
                measured("no tunnel", false, &[(9_000.0, 0.01)]),
                measured("one", true, &[(2_000.0, 0.5)]),
                measured("two", true, &[(1_000.0, 0.2)]),
                measured(
                    "quell",
                    false,
                    &[(5_000.0, 9.0), (3_000.0, 0.1), (1_000.0, 0.1)],
                ),
            ],
            seconds: 3,
        }
    }

    #[test]
    fn quell_is_set_beside_the_best_of_each_row_and_never_beside_no_tunnel() {
        let report = report();
        assert_eq!(report.ratio(Row::TcpOne), Some(1.5));
        assert_eq!(report.ratio(Row::PingIdle), Some(0.5));
        assert_eq!(report.ratio(Row::Memory), None, "nobody has it");
    }

    #[test]
    fn a_median_of_two_is_their_mean() {
        let two = measured("x", true, &[(1.0, 0.0), (2.0, 0.0)]);
        assert_eq!(two.median(Row::TcpOne), Some(1.5));
        assert_eq!(two.median(Row::Cpu), None);
    }

    #[test]
    fn the_table_has_a_line_for_each_row_that_somebody_has() {
        let table = report().table();
        assert_eq!(
            table,
            "                                  no tunnel            one            two          quell  quell / best\n\
             TCP, one stream, Mbit/s               9,000          2,000          1,000          3,000          1.50\n\
             ping, idle, mean, ms                   0.01           0.50           0.20           0.10          0.50\n"
        );
    }

    #[test]
    fn the_object_has_medians_runs_and_ratios() {
        let json = report().json();
        let quell = &json["subjects"][3];
        assert_eq!(quell["median"]["tcp_one_mbit_s"], 3_000.0);
        assert_eq!(quell["runs"].as_array().map(Vec::len), Some(3));
        assert_eq!(json["quell_over_best"]["ping_idle_mean_ms"], 0.5);
    }
}
