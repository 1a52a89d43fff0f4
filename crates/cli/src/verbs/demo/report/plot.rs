//! A plot: bars over seconds as SVG, several figures of a second on top of each other, faults shaded.
//!
//! Each bar has a title, which browsers show under the pointer. The plot as a whole has a title and a
//! description for who does not see it; the figures themselves are in the page's table. Colours are
//! classes, so that the page decides them for light and dark.

use std::fmt::{self, Display, Write as _};

use quell_sim::report::{Kind, Scale, Text, grouped};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 220.0;
/// Room for the figures at the lines, in the units of the width.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 8.0;
/// Room for the names of faults.
const TOP: f64 = 24.0;
/// Room for the seconds.
const BOTTOM: f64 = 28.0;
/// Of a second's width, what its bar takes.
const BAR_SHARE: f64 = 0.8;
/// Seconds that are written out at most.
const SECONDS_WRITTEN_MAX: usize = 16;

/// Figures of each second, and what was wrong meanwhile.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    /// On top of each other, the first at the bottom. On a logarithmic scale there is one.
    pub(super) series: Vec<Series>,
    pub(super) faults: Vec<Fault>,
}

/// One figure, second by second.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) values: Vec<u64>,
}

/// Something wrong, from the end of second `from` to the end of second `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) name: String,
}

impl Series {
    pub(super) fn new(name: &str, values: impl Iterator<Item = u64>) -> Self {
        Self {
            name: name.to_owned(),
            values: values.collect(),
        }
    }
}

impl Chart {
    /// How many seconds there are.
    pub(super) fn seconds(&self) -> usize {
        let lens = self.series.iter().map(|series| series.values.len());
        lens.max().unwrap_or(0)
    }

    fn of_second(&self, second: usize) -> impl Iterator<Item = (usize, &Series, u64)> {
        let series = self.series.iter().enumerate();
        series.map(move |(number, series)| {
            let value = series.values.get(second).copied();
            (number, series, value.unwrap_or(0))
        })
    }

    fn scale(&self) -> Scale {
        let sums = (0..self.seconds()).map(|second| {
            let values = self.of_second(second).map(|(_, _, value)| value);
            values.fold(0, u64::saturating_add)
        });
        Scale::new(self.kind, sums.max().unwrap_or(0))
    }

    /// The whole in words.
    fn description(&self) -> String {
        let mut words = format!("Bars for each of {} seconds", self.seconds());
        if self.kind == Kind::Log {
            words += ", on a logarithmic scale";
        }
        for series in &self.series {
            let most = series.values.iter().max().copied().unwrap_or(0);
            // Writing to a String does not fail.
            let _ = write!(words, "; {}: {} at most", series.name, grouped(most));
        }
        for Fault { from, to, name } in &self.faults {
            let _ = write!(words, "; {name} from second {from} to second {to}");
        }
        words + "."
    }
}

/// Where things are in a plot.
struct Place {
    second_width: f64,
    scale: Scale,
}

impl Place {
    fn x(&self, second: usize) -> f64 {
        LEFT + self.second_width * second as f64
    }

    fn y(&self, value: u64) -> f64 {
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - self.scale.height(value))
    }
}

/// A chart as an SVG element. `id` is the page's own name for it.
pub(super) struct Svg<'a> {
    pub(super) chart: &'a Chart,
    pub(super) id: &'a str,
}

impl Display for Svg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chart, id) = (self.chart, self.id);
        let place = Place {
            second_width: (WIDTH - LEFT - RIGHT) / chart.seconds().max(1) as f64,
            scale: chart.scale(),
        };
        writeln!(
            f,
            "<svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
             <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>",
            Text(chart.title),
            Text(&chart.description())
        )?;
        faults(f, chart, &place)?;
        lines(f, &place)?;
        bars(f, chart, &place)?;
        seconds(f, chart, &place)?;
        writeln!(f, "</svg>")
    }
}

fn faults(f: &mut fmt::Formatter<'_>, chart: &Chart, place: &Place) -> fmt::Result {
    for fault in &chart.faults {
        let last = chart.seconds();
        let (from, to) = (place.x(fault.from.min(last)), place.x(fault.to.min(last)));
        let (height, middle) = (HEIGHT - TOP - BOTTOM, (from + to) / 2.0);
        writeln!(
            f,
            "<rect class=\"fault\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{height}\"/>\n\
             <text class=\"fault-name\" x=\"{middle:.1}\" y=\"{:.1}\">{}</text>",
            to - from,
            TOP - 8.0,
            Text(&fault.name)
        )?;
    }
    Ok(())
}

fn lines(f: &mut fmt::Formatter<'_>, place: &Place) -> fmt::Result {
    for line in place.scale.lines() {
        let y = place.y(line);
        writeln!(
            f,
            "<line class=\"line\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\n\
             <text class=\"figure\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            grouped(line)
        )?;
    }
    Ok(())
}

fn bars(f: &mut fmt::Formatter<'_>, chart: &Chart, place: &Place) -> fmt::Result {
    let width = place.second_width * BAR_SHARE;
    for second in 0..chart.seconds() {
        let x = place.x(second) + place.second_width * (1.0 - BAR_SHARE) / 2.0;
        let mut below = 0_u64;
        for (number, series, value) in chart.of_second(second) {
            let above = below.saturating_add(value);
            let (top, bottom) = (place.y(above), place.y(below));
            below = above;
            if value == 0 {
                continue;
            }
            writeln!(
                f,
                "<rect class=\"s{number}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\">\
                 <title>second {}: {} {}</title></rect>",
                bottom - top,
                second + 1,
                grouped(value),
                Text(&series.name)
            )?;
        }
    }
    Ok(())
}

fn seconds(f: &mut fmt::Formatter<'_>, chart: &Chart, place: &Place) -> fmt::Result {
    let each = match chart.seconds().div_ceil(SECONDS_WRITTEN_MAX) {
        0 | 1 => 1,
        2 => 2,
        _ => 5,
    };
    for second in (each..=chart.seconds()).step_by(each) {
        let x = place.x(second) - place.second_width / 2.0;
        let y = HEIGHT - BOTTOM + 18.0;
        writeln!(
            f,
            "<text class=\"second\" x=\"{x:.1}\" y=\"{y:.1}\">{second}</text>"
        )?;
    }
    Ok(())
}
