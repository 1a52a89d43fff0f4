//! The page around the plots. It is HTML that is well-formed XML, too, so that a test can read it.

use std::time::SystemTime;

use super::super::bounds::{Bound, broken};
use super::Section;
use super::plot::{Chart, Svg};
use quell_sim::report::{Text, grouped};

/// Colours of light and dark, of which the figures' are told apart by who sees few (after Okabe and Ito).
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#57606a;--rule:#d0d7de;--fault:#f6d5d5;--fault-ink:#8c1d18;\
--s0:#0072b2;--s1:#e69f00;--s2:#009e73;--s3:#b22222;--ok:#116329;--bad:#b22222}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9aa4af;--rule:#30363d;--fault:#4a2326;\
--fault-ink:#ffb3ad;--s0:#56b4e9;--s1:#f0b429;--s2:#2fc193;--s3:#ff7b72;--ok:#56d364;--bad:#ff7b72}}\
body{margin:0 auto;max-width:52rem;padding:1.5rem 1rem 4rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper)}\
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.3rem;margin-top:2.5rem}h3{font-size:1rem;margin:1.5rem 0 .25rem}\
figure{margin:0}svg{display:block;width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:var(--soft)}\
.figure{text-anchor:end}.second,.fault-name{text-anchor:middle}svg .fault-name{fill:var(--fault-ink)}\
.fault{fill:var(--fault);stroke:var(--paper);stroke-width:2}.line{stroke:var(--rule)}.s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}.s3{fill:var(--s3)}\
.key{color:var(--soft);font-size:.875rem;margin:.25rem 0}.key span{margin-right:1rem}.key svg{display:inline;width:.8em;height:.8em}\
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
caption{text-align:left;font-weight:600;padding:.5rem 0}th,td{padding:.25rem .6rem;border-bottom:1px solid var(--rule);text-align:right}\
th:first-child,td:first-child{text-align:left;padding-left:0}thead th{vertical-align:bottom}tbody th{font-weight:400}\
.ok{color:var(--ok)}.bad{color:var(--bad);font-weight:700}summary{cursor:pointer;padding:.5rem 0}.soft{color:var(--soft)}";

/// The whole page.
pub(in super::super) fn page(is_tun: bool, sections: &[Section]) -> String {
    let bounds = sections.iter().flat_map(|section| &section.bounds);
    let bounds: Vec<Bound> = bounds.copied().collect();
    let verdict = match broken(&bounds).len() {
        0 => format!("all {} bounds held", bounds.len()),
        count => format!("{count} of {} bounds broke", bounds.len()),
    };
    let stage = match is_tun {
        true => "over TUN interfaces in network namespaces",
        false => "in one process, over the loopback, without privileges",
    };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>quell demo: {verdict}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>quell demo: {verdict}</h1>\n\
         <p>Real tunnels, QUIC over UDP, {stage}. Shaded seconds are those in which something was wrong.</p>\n"
    );
    for (act, section) in sections.iter().enumerate() {
        write_section(&mut page, act, section);
    }
    page + &format!(
        "<p class=\"soft\">quell {}, {}, {}; {}</p>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        Text(&kernel()),
        httpdate::fmt_http_date(SystemTime::now())
    )
}

/// The kernel by its own name, as far as the system tells.
fn kernel() -> String {
    let told = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    match (told("ostype"), told("osrelease")) {
        (Ok(kind), Ok(release)) => format!("{} {}", kind.trim(), release.trim()),
        (_, _) => std::env::consts::OS.to_owned(),
    }
}

fn write_section(page: &mut String, act: usize, section: &Section) {
    *page += &format!(
        "<section>\n<h2>{}</h2>\n<p>{}</p>\n",
        Text(section.title),
        Text(section.words)
    );
    write_bounds(page, &section.bounds);
    for (number, chart) in section.charts.iter().enumerate() {
        write_chart(page, &format!("a{act}c{number}"), chart);
    }
    write_seconds(page, &section.charts);
    *page += "</section>\n";
}

fn write_bounds(page: &mut String, bounds: &[Bound]) {
    *page += "<div class=\"scroll\"><table>\n<caption>What quell promises, and what was measured</caption>\n\
              <thead><tr><th scope=\"col\">bound</th><th scope=\"col\">figure</th><th scope=\"col\">at most</th>\
              <th scope=\"col\">verdict</th></tr></thead>\n<tbody>\n";
    for bound in bounds {
        let figure = bound.figure.map_or("none".to_owned(), grouped);
        let (class, verdict) = match bound.holds() {
            true => ("ok", "ok"),
            false => ("bad", "BROKEN"),
        };
        *page += &format!(
            "<tr><th scope=\"row\">{}</th><td>{figure}</td><td>{}</td><td class=\"{class}\">{verdict}</td></tr>\n",
            Text(bound.words),
            grouped(bound.max)
        );
    }
    *page += "</tbody>\n</table></div>\n";
}

fn write_chart(page: &mut String, id: &str, chart: &Chart) {
    *page += &format!(
        "<h3>{}, each second</h3>\n<figure>\n{}",
        Text(chart.title),
        Svg { chart, id }
    );
    if chart.series.len() > 1 {
        *page += "<p class=\"key\" aria-hidden=\"true\">";
        for (number, series) in chart.series.iter().enumerate() {
            *page += &format!(
                "<span><svg viewBox=\"0 0 1 1\"><rect class=\"s{number}\" width=\"1\" height=\"1\"/></svg> {}</span>",
                Text(&series.name)
            );
        }
        *page += "</p>\n";
    }
    *page += "</figure>\n";
}

/// All that the plots show, as figures.
fn write_seconds(page: &mut String, charts: &[Chart]) {
    let seconds = charts.iter().map(Chart::seconds).max().unwrap_or(0);
    *page += "<details>\n<summary>The figures of each second</summary>\n<div class=\"scroll\"><table>\n\
              <thead><tr><th scope=\"col\">second</th><th scope=\"col\">what</th>";
    for chart in charts {
        for series in &chart.series {
            *page += &format!(
                "<th scope=\"col\">{}: {}</th>",
                Text(chart.title),
                Text(&series.name)
            );
        }
    }
    *page += "</tr></thead>\n<tbody>\n";
    for second in 0..seconds {
        let faults = charts.iter().flat_map(|chart| &chart.faults);
        let mut during = faults.filter(|fault| (fault.from..fault.to).contains(&second));
        let what = during.next().map_or("", |fault| &fault.name);
        *page += &format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td>",
            second + 1,
            Text(what)
        );
        for series in charts.iter().flat_map(|chart| &chart.series) {
            let value = series.values.get(second).copied();
            *page += &format!("<td>{}</td>", value.map_or(String::new(), grouped));
        }
        *page += "</tr>\n";
    }
    *page += "</tbody>\n</table></div>\n</details>\n";
}
