//! A plot of lines over time as SVG, faults shaded, legible on paper.
//!
//! Nothing is told by colour: each line has a style of its own, a letter stands at its highest point, and beside the plot
//! the letter, a sample of the style and the name stand together. All ink is the page's own.
//!
//! A run may have thousands of steps, and a plot a few hundred points: steps in a row are added up, and the plot says how
//! long a point's time is. Time runs in whole steps, so a line is a staircase, not a slope that was never there.

use std::fmt::{self, Display, Write as _};

use super::scale::{Kind, Scale};
use super::text::{Text, bytes, grouped, time};

const WIDTH: f64 = 1060.0;
/// Of the part that lines are in.
const HEIGHT: f64 = 210.0;
/// Room for the figures at the scale's lines.
const LEFT: f64 = 70.0;
/// Room for the names: the longest is `upstream-2026-08-unreliable+quic`.
const RIGHT: f64 = 330.0;
/// Room for the times.
const BOTTOM: f64 = 40.0;
/// Height of a line of text.
const ROW: f64 = 15.0;
/// Points of a line at most.
const POINTS_MAX: usize = 240;
/// Rows of faults' names at most; further ones are shaded without a name.
const NAMES_MAX: usize = 4;
/// How near two letters may come.
const LETTERS_APART: f64 = 14.0;

/// How lines are drawn, the first one heaviest: `stroke-width`, `stroke-dasharray`.
const STYLES: &[(&str, &str)] = &[
    ("2.6", "none"),
    ("1.6", "8 4"),
    ("1.8", "2 3"),
    ("1.6", "10 3 2 3"),
    ("1", "none"),
    ("1.4", "16 5"),
    ("1.4", "6 2 2 2 2 2"),
    ("1", "4 8"),
];

/// Lines of one plot at most.
pub(super) const LINES_MAX: usize = STYLES.len();

/// What a plot's figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Count,
}

impl Unit {
    fn words(self, value: u64) -> String {
        match self {
            Self::Bytes => bytes(value),
            Self::Count => grouped(value),
        }
    }
}

/// One figure over time.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) values: Vec<u64>,
}

/// Figures over time, and what was broken meanwhile.
#[derive(Debug, Clone)]
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) kind: Kind,
    pub(super) step_ms: u64,
    /// Of the run.
    pub(super) end_ms: u64,
    /// At most [`LINES_MAX`] are drawn.
    pub(super) lines: Vec<Line>,
    /// Name, from, until.
    pub(super) faults_ms: Vec<(String, u64, u64)>,
}

impl Plot {
    /// Steps that are one point.
    fn steps_a_point(&self) -> usize {
        let steps = self.lines.iter().map(|line| line.values.len()).max();
        steps.unwrap_or(0).div_ceil(POINTS_MAX).max(1)
    }

    /// How long a point's time is.
    pub(super) fn point_ms(&self) -> u64 {
        self.step_ms
            .saturating_mul(self.steps_a_point() as u64)
            .max(1)
    }

    fn points(&self) -> Vec<Vec<u64>> {
        let steps = self.steps_a_point();
        let sum = |steps: &[u64]| steps.iter().copied().fold(0, u64::saturating_add);
        let lines = self.lines.iter().take(LINES_MAX);
        lines
            .map(|line| line.values.chunks(steps).map(sum).collect())
            .collect()
    }

    /// The whole in words.
    fn description(&self) -> String {
        let mut words = format!(
            "Lines over {}, a point each {}",
            time(self.end_ms),
            time(self.point_ms())
        );
        if self.kind == Kind::Log {
            words += ", on a logarithmic scale";
        }
        for (line, points) in self.lines.iter().zip(self.points()) {
            let most = points.iter().max().copied().unwrap_or(0);
            // Writing to a String does not fail.
            let _ = write!(words, "; {}: {} at most", line.name, self.unit.words(most));
        }
        for (name, from, until) in &self.faults_ms {
            let _ = write!(words, "; {name} from {} to {}", time(*from), time(*until));
        }
        words + "."
    }
}

/// Where things are in a plot.
struct Place {
    /// Above it are faults' names.
    top: f64,
    end_ms: f64,
    scale: Scale,
}

impl Place {
    fn x(&self, ms: u64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (ms as f64 / self.end_ms).min(1.0)
    }

    fn y(&self, value: u64) -> f64 {
        self.top + HEIGHT * (1.0 - self.scale.height(value))
    }

    fn floor(&self) -> f64 {
        self.top + HEIGHT
    }
}

/// A plot as an SVG element. `id` is the page's own name for it.
pub(super) struct Svg<'a> {
    pub(super) plot: &'a Plot,
    pub(super) id: &'a str,
}

impl Display for Svg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plot, id) = (self.plot, self.id);
        let points = plot.points();
        let most = points.iter().flatten().max().copied().unwrap_or(0);
        let names = rows(&plot.faults_ms);
        let named = names.iter().flatten().max().map_or(0, |row| row + 1);
        let place = Place {
            top: 8.0 + ROW * named as f64,
            end_ms: plot.end_ms.max(1) as f64,
            scale: Scale::new(plot.kind, most),
        };
        let height = (place.floor() + BOTTOM).max(place.top + ROW * plot.lines.len() as f64);
        writeln!(
            f,
            "<svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" viewBox=\"0 0 {WIDTH} {height}\">\n\
             <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>",
            Text(&plot.title),
            Text(&plot.description())
        )?;
        write_faults(f, &plot.faults_ms, &names, &place)?;
        write_scale(f, plot, &place)?;
        write_times(f, plot, &place)?;
        write_lines(f, plot, &points, &place)?;
        write_letters(f, plot, &points, &place)?;
        writeln!(f, "</svg>")
    }
}

/// In which row a fault's name stands, so that none runs into another; `None`: there is no room.
fn rows(faults: &[(String, u64, u64)]) -> Vec<Option<usize>> {
    let row = |index: usize| (index < NAMES_MAX).then_some(index);
    (0..faults.len()).map(row).collect()
}

fn write_faults(
    f: &mut fmt::Formatter<'_>,
    faults: &[(String, u64, u64)],
    rows: &[Option<usize>],
    place: &Place,
) -> fmt::Result {
    for ((name, from, until), row) in faults.iter().zip(rows) {
        let (left, right) = (place.x(*from), place.x(*until));
        writeln!(
            f,
            "<rect class=\"fault\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\"/>",
            place.top,
            right - left
        )?;
        let Some(row) = row else { continue };
        // A name runs towards the side that has room.
        let (anchor, x) = match left < WIDTH / 2.0 {
            true => ("start", left),
            false => ("end", right),
        };
        let y = place.top - 5.0 - ROW * *row as f64;
        writeln!(
            f,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            Text(name)
        )?;
    }
    Ok(())
}

fn write_scale(f: &mut fmt::Formatter<'_>, plot: &Plot, place: &Place) -> fmt::Result {
    for value in place.scale.lines() {
        let y = place.y(value);
        writeln!(
            f,
            "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            plot.unit.words(value)
        )?;
    }
    Ok(())
}

/// Seconds, or minutes where a run has many.
fn write_times(f: &mut fmt::Formatter<'_>, plot: &Plot, place: &Place) -> fmt::Result {
    const STEPS_S: &[u64] = &[
        1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400,
    ];
    let end_s = plot.end_ms / 1_000;
    let fits = |step: &&u64| end_s / **step <= 10;
    let step = STEPS_S.iter().find(fits).copied().unwrap_or(86_400);
    let y = place.floor() + 18.0;
    for at in (0..=end_s).step_by(usize::try_from(step).unwrap_or(1)) {
        let words = match step {
            60.. => format!("{} min", at / 60),
            _ => format!("{at} s"),
        };
        let x = place.x(at * 1_000);
        writeln!(
            f,
            "<line class=\"rule\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>\n\
             <text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{words}</text>",
            place.floor(),
            place.floor() + 4.0
        )?;
    }
    Ok(())
}

fn write_lines(
    f: &mut fmt::Formatter<'_>,
    plot: &Plot,
    points: &[Vec<u64>],
    place: &Place,
) -> fmt::Result {
    for (points, style) in points.iter().zip(STYLES) {
        let mut path = String::new();
        let mut last = None;
        for (index, value) in points.iter().enumerate() {
            let from = (index as u64).saturating_mul(plot.point_ms());
            let (x, y) = (place.x(from), place.y(*value));
            // Writing to a String does not fail.
            let _ = match last {
                None => write!(path, "M{x:.1} {y:.1}"),
                Some(last) if last == *value => Ok(()),
                Some(_) => write!(path, "H{x:.1}V{y:.1}"),
            };
            last = Some(*value);
        }
        if last.is_some() {
            let end = (points.len() as u64).saturating_mul(plot.point_ms());
            let _ = write!(path, "H{:.1}", place.x(end));
            writeln!(f, "<path class=\"drawn\" {} d=\"{path}\"/>", stroke(style))?;
        }
    }
    Ok(())
}

fn stroke((width, dashes): &(&str, &str)) -> String {
    format!("stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\"")
}

/// The letter of each line at its highest point that no letter is near to, and what it stands for beside the plot.
fn write_letters(
    f: &mut fmt::Formatter<'_>,
    plot: &Plot,
    points: &[Vec<u64>],
    place: &Place,
) -> fmt::Result {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (index, ((line, points), style)) in plot.lines.iter().zip(points).zip(STYLES).enumerate() {
        let letter = char::from(b'a' + u8::try_from(index).unwrap_or(0));
        let y = place.top + ROW * index as f64 + 8.0;
        let x = WIDTH - RIGHT + 14.0;
        writeln!(
            f,
            "<text x=\"{x:.1}\" y=\"{:.1}\" class=\"letter\">{letter}</text>\n\
             <path class=\"drawn\" {} d=\"M{:.1} {y:.1}H{:.1}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            y + 4.0,
            stroke(style),
            x + 14.0,
            x + 54.0,
            x + 60.0,
            y + 4.0,
            Text(&line.name)
        )?;
        let Some((x, y)) = spot(points, plot.point_ms(), place, &taken) else {
            continue;
        };
        taken.push((x, y));
        writeln!(
            f,
            "<circle class=\"spot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" class=\"letter\">{letter}</text>",
            y + 4.0
        )?;
    }
    Ok(())
}

/// `None`: it is nowhere but at the floor, or letters are everywhere.
fn spot(points: &[u64], point_ms: u64, place: &Place, taken: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mut order: Vec<usize> = (0..points.len())
        .filter(|index| points[*index] > 0)
        .collect();
    order.sort_by_key(|index| (std::cmp::Reverse(points[*index]), *index));
    let at = |index: usize| {
        let middle = (index as u64)
            .saturating_mul(point_ms)
            .saturating_add(point_ms / 2);
        (place.x(middle), place.y(points[index]))
    };
    let is_free = |(x, y): &(f64, f64)| {
        let mut taken = taken.iter();
        taken.all(|(other_x, other_y)| (x - other_x).hypot(y - other_y) >= LETTERS_APART)
    };
    order.into_iter().map(at).find(is_free)
}
