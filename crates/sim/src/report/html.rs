//! One page that a stranger can read: what was simulated, what it cost, how it ended, and how to run it again.
//!
//! It stands alone: no script, nothing loaded from anywhere, plots as SVG in it. It is HTML that is well-formed XML, too,
//! so that a test can read it. It is made of ink and paper alone, follows the reader's light or dark, and says in tables
//! and words what the plots show. There is no date on it: the same run is the same page.
//!
//! Policies are compared in plots of a few lines each; where there are more, `quell`'s line stands in each of the plots,
//! as what the others are held against.

use super::grid::{self, Grid, by_cause};
use super::plot::{LINES_MAX, Line, Plot, Svg, Unit};
use super::scale::Kind;
use super::text::{Text, counted, time};
use super::verdict::Verdict;
use crate::outcome::{Outcome, PolicyOutcome, Series};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#111;--paper:#fff;--soft:#555;--rule:#ccc;--fault:#e4e4e4}\
@media(prefers-color-scheme:dark){:root{--ink:#eee;--paper:#111;--soft:#aaa;--rule:#444;--fault:#333}}\
@media print{:root{--ink:#000;--paper:#fff;--soft:#333;--rule:#bbb;--fault:#e4e4e4}}\
body{margin:0 auto;max-width:72rem;padding:1.5rem 1rem 4rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}\
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.3rem;margin-top:2.5rem}h3{font-size:1rem;margin:1.5rem 0 .25rem}\
figure{margin:0;break-inside:avoid}svg{display:block;width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--ink)}\
.fault{fill:var(--fault)}.rule{stroke:var(--rule)}.drawn{fill:none;stroke:var(--ink)}.spot{fill:var(--paper);stroke:var(--ink)}\
svg .letter{font-weight:700}.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\
caption{text-align:left;font-weight:600;padding:.5rem 0}th,td{padding:.2rem .45rem;border-bottom:1px solid var(--rule);text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left;padding-left:0}tbody th{font-weight:400}dt{font-weight:600;float:left;clear:left;margin-right:.5em}\
dd{margin:0}.broken{font-weight:700;text-decoration:underline}.soft{color:var(--soft)}\
pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid var(--rule);padding:.5rem .75rem}";

/// A run and its bounds, as a page shows them.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// What came of it.
    pub outcome: &'a Outcome,
    /// Which bounds held.
    pub verdicts: &'a [Verdict],
    /// What the scenario shows, in a few sentences; empty: nobody said.
    pub about: &'a str,
    /// The scenario as TOML, for who has only the page.
    pub scenario: &'a str,
}

/// The whole page. `command` is what makes it again.
#[must_use]
pub fn page(sections: &[Section<'_>], command: &str) -> String {
    let names: Vec<_> = sections
        .iter()
        .map(|s| s.outcome.scenario.as_str())
        .collect();
    let all = || sections.iter().flat_map(|section| section.verdicts);
    let verdict = match (all().count(), all().filter(|verdict| !verdict.ok).count()) {
        (0, _) => String::new(),
        (count, 0) => format!(": all {count} bounds held"),
        (count, broken) => format!(": {broken} of {count} bounds broke"),
    };
    let title = format!("quell sim, {}{verdict}", names.join(", "));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n\
         <p>A simulation: clients send packets through providers to the world, ask backends about contracts, and then \
         something breaks and heals. Each policy is one way to build client and provider; <b>quell</b> is the code that \
         runs in production, in virtual time. All policies met the same network, the same users and the same faults.</p>\n",
        Text(&title)
    );
    for (number, section) in sections.iter().enumerate() {
        write_section(&mut page, number, section);
    }
    page += &format!(
        "<section>\n<h2>Again</h2>\n<p>The same seed gives the same page, byte for byte.</p>\n<pre>{}</pre>\n</section>\n\
         <p class=\"soft\">quell {}</p>\n</body>\n</html>\n",
        Text(command),
        env!("CARGO_PKG_VERSION")
    );
    page
}

fn write_section(page: &mut String, number: usize, section: &Section<'_>) {
    let outcome = section.outcome;
    *page += &format!(
        "<section>\n<h2>{}</h2>\n<p>{}. {}, {}, {} of virtual time, seed {}.</p>\n",
        Text(&outcome.scenario),
        Text(&outcome.summary),
        counted(outcome.clients.into(), "client"),
        counted(outcome.providers.into(), "provider"),
        time(outcome.duration_ms),
        outcome.seed
    );
    if !section.about.is_empty() {
        *page += &format!("<p>{}</p>\n", Text(section.about));
    }
    write_grid(page, &grid::faults(outcome));
    write_grid(page, &grid::bounds(section.verdicts));
    let costs = grid::costs(outcome);
    write_grid(page, &costs);
    write_columns(page, &costs);
    let causes = grid::causes(outcome);
    write_grid(page, &causes);
    write_columns(page, &causes);
    write_grid(page, &grid::bars(outcome));
    for (plot_number, plot) in plots(outcome).iter().enumerate() {
        write_plot(page, &format!("s{number}p{plot_number}"), plot);
    }
    write_complaints(page, outcome);
    *page += "<h3>What was not modelled</h3>\n<ul>\n";
    for words in &outcome.not_modelled {
        *page += &format!("<li>{}</li>\n", Text(words));
    }
    *page += &format!(
        "</ul>\n<details>\n<summary>The scenario</summary>\n<pre>{}</pre>\n</details>\n</section>\n",
        Text(section.scenario)
    );
}

fn write_grid(page: &mut String, grid: &Grid) {
    if grid.rows.is_empty() {
        return;
    }
    *page += &format!(
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>",
        Text(grid.caption)
    );
    for column in grid.columns {
        *page += &format!("<th scope=\"col\">{}</th>", Text(column.short));
    }
    *page += "</tr></thead>\n<tbody>\n";
    for row in &grid.rows {
        *page += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let class = if cell == "BROKEN" {
                " class=\"broken\""
            } else {
                ""
            };
            *page += &match column {
                0 => format!("<th scope=\"row\">{}</th>", Text(cell)),
                _ => format!("<td{class}>{}</td>", Text(cell)),
            };
        }
        *page += "</tr>\n";
    }
    *page += "</tbody>\n</table></div>\n";
}

/// What the columns are, in words.
fn write_columns(page: &mut String, grid: &Grid) {
    *page += "<details>\n<summary>What the columns are</summary>\n<dl>\n";
    for column in grid.columns.iter().skip(1) {
        *page += &format!(
            "<dt>{}</dt><dd>{}</dd>\n",
            Text(column.short),
            Text(column.words)
        );
    }
    *page += "</dl>\n</details>\n";
}

fn write_complaints(page: &mut String, outcome: &Outcome) {
    let complaints = grid::complaints(outcome);
    if complaints.is_empty() {
        return;
    }
    *page += "<h3>What checkers complained of</h3>\n<ul>\n";
    for complaint in complaints {
        *page += &format!("<li>{}</li>\n", Text(&complaint));
    }
    *page += "</ul>\n";
}

fn write_plot(page: &mut String, id: &str, plot: &Plot) {
    *page += &format!(
        "<h3>{}, each {}{}</h3>\n<figure>\n{}</figure>\n",
        Text(&plot.title),
        time(plot.point_ms()),
        match plot.kind {
            Kind::Log => " (logarithmic)",
            Kind::Linear => "",
        },
        Svg { plot, id }
    );
}

/// Of all policies together, then of each.
fn plots(outcome: &Outcome) -> Vec<Plot> {
    type Values = fn(&Series) -> Vec<u64>;
    const COMPARED: &[(&str, Unit, Kind, Values)] = &[
        (
            "UDP bytes that clients put out",
            Unit::Bytes,
            Kind::Log,
            |series| series.bytes_out.iter().map(|bytes| bytes.total).collect(),
        ),
        (
            "Items that came out at the far end",
            Unit::Count,
            Kind::Linear,
            |series| series.delivered.clone(),
        ),
        ("Dials", Unit::Count, Kind::Log, |series| {
            series.dials.clone()
        }),
        ("Requests to backends", Unit::Count, Kind::Log, |series| {
            series.backend_requests.clone()
        }),
    ];
    let mut plots = Vec::new();
    for (title, unit, kind, values) in COMPARED {
        for together in together(&outcome.policies) {
            let lines = together.iter().map(|policy| Line {
                name: policy.policy.clone(),
                values: values(&policy.series),
            });
            let step_ms = together.first().map_or(0, |policy| policy.series.step_ms);
            plots.push(plot(
                outcome,
                title.to_string(),
                *unit,
                *kind,
                step_ms,
                lines.collect(),
            ));
        }
    }
    for policy in &outcome.policies {
        let series = &policy.series;
        let names = by_cause(&Default::default()).map(|(name, _)| name.replace('_', " "));
        let lines = names.into_iter().enumerate().map(|(cause, name)| {
            let of = series.bytes_out.iter();
            let values = of.map(|bytes| by_cause(bytes)[cause].1).collect();
            Line { name, values }
        });
        // What nothing was spent on needs no line.
        let lines = lines.filter(|line| line.values.iter().any(|value| *value > 0));
        let title = format!(
            "UDP bytes of {}'s clients by what they were for",
            policy.policy
        );
        plots.push(plot(
            outcome,
            title,
            Unit::Bytes,
            Kind::Log,
            series.step_ms,
            lines.collect(),
        ));
    }
    plots
}

fn plot(
    outcome: &Outcome,
    title: String,
    unit: Unit,
    kind: Kind,
    step_ms: u64,
    lines: Vec<Line>,
) -> Plot {
    Plot {
        title,
        unit,
        kind,
        step_ms,
        end_ms: outcome.duration_ms,
        lines,
        faults_ms: outcome.faults_ms.clone(),
    }
}

/// Policies by what stands in one plot.
fn together(policies: &[PolicyOutcome]) -> Vec<Vec<&PolicyOutcome>> {
    if policies.len() <= LINES_MAX {
        return vec![policies.iter().collect()];
    }
    let (quell, others): (Vec<_>, Vec<_>) =
        policies.iter().partition(|policy| policy.policy == "quell");
    let room = LINES_MAX.saturating_sub(quell.len()).max(1);
    let parts = others.chunks(room);
    parts
        .map(|part| quell.iter().chain(part).copied().collect())
        .collect()
}
