//! Draws what an outage costs against the size of the fleet.
//!
//! `cargo run --release -p quell-sim --example growth -- COSTS.csv > growth.svg`. Each line of the file is
//! `policy,clients,bytes`, as `quell sim compare --csv` gives them for one fleet each (figure `outage_bytes_out`, cause
//! `total`). Both axes are logarithmic; policies differ by the dashes of their line and by a name at its end, so that the
//! plot is legible in black and white.

use std::collections::BTreeMap;
use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 50.0;
const DASHES: [&str; 4] = ["none", "8 4", "2 3", "10 3 2 3"];

/// The decades of an axis: from the one below the least to the one above the most.
#[derive(Clone, Copy)]
struct Axis {
    first: i32,
    last: i32,
    from: f64,
    until: f64,
}

impl Axis {
    fn of(values: impl Iterator<Item = f64> + Clone, from: f64, until: f64) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min).log10();
        let most = values.fold(1.0, f64::max).log10();
        let first = least.floor() as i32;
        Self {
            first,
            last: (most.ceil() as i32).max(first + 1),
            from,
            until,
        }
    }

    fn place(self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        self.from + part * (self.until - self.from)
    }

    fn decades(self) -> impl Iterator<Item = (i32, f64)> {
        (self.first..=self.last).map(move |power| (power, self.place(10_f64.powi(power))))
    }
}

type Lines = BTreeMap<String, Vec<(f64, f64)>>;

fn read(text: &str) -> Option<Lines> {
    let mut lines = Lines::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut cells = line.split(',').map(str::trim);
        let name = cells.next()?.to_owned();
        let clients: f64 = cells.next()?.parse().ok()?;
        let bytes: f64 = cells.next()?.parse().ok()?;
        let is_drawn = clients >= 1.0 && bytes >= 1.0;
        is_drawn.then(|| lines.entry(name).or_default().push((clients, bytes)))?;
    }
    (!lines.is_empty()).then_some(lines)
}

/// Decades of both axes.
fn grid(svg: &mut String, x: &Axis, y: &Axis) -> std::fmt::Result {
    for (power, at) in x.decades() {
        writeln!(
            svg,
            "<path d=\"M{at:.1} {TOP}V{:.1}\" stroke=\"#ccc\"/>",
            HEIGHT - BOTTOM
        )?;
        writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">10<tspan dy=\"-5\" font-size=\"9\">{power}</tspan></text>",
            HEIGHT - BOTTOM + 18.0
        )?;
    }
    for (power, at) in y.decades() {
        writeln!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{:.1}\" stroke=\"#ccc\"/>",
            WIDTH - RIGHT
        )?;
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">10<tspan dy=\"-5\" font-size=\"9\">{power}</tspan></text>",
            LEFT - 8.0,
            at + 4.0
        )?;
    }
    Ok(())
}

fn draw(lines: &Lines) -> Result<String, std::fmt::Error> {
    let points = lines.values().flatten();
    let x = Axis::of(points.clone().map(|(x, _)| *x), LEFT, WIDTH - RIGHT);
    let y = Axis::of(points.map(|(_, y)| *y), HEIGHT - BOTTOM, TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<title>Bytes of an outage against clients</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    grid(&mut svg, &x, &y)?;
    for ((name, points), dashes) in lines.iter().zip(DASHES.iter().cycle()) {
        let mut points: Vec<_> = points
            .iter()
            .map(|(a, b)| (x.place(*a), y.place(*b)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let path: Vec<_> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#000\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            path.join(" ")
        )?;
        for (x, y) in &points {
            writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>")?;
        }
        if let Some((x, y)) = points.last() {
            let name = name.replace('&', "&amp;").replace('<', "&lt;");
            writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\">{name}</text>",
                x + 8.0,
                y + 4.0
            )?;
        }
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    writeln!(
        svg,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">clients</text>",
        HEIGHT - 12.0
    )?;
    writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"18\" text-anchor=\"middle\">bytes out, outage</text>\n</svg>"
    )?;
    Ok(svg)
}

#[allow(clippy::print_stdout, reason = "an example speaks")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("growth COSTS.csv")?;
    let text = std::fs::read_to_string(path)?;
    let lines = read(&text).ok_or("lines of policy,clients,bytes, each of 1 or more")?;
    print!("{}", draw(&lines)?);
    Ok(())
}
