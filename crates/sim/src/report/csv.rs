//! Every figure on a line of its own (RFC 4180): what a spreadsheet or a notebook turns as it likes.
//!
//! `from_ms` is empty for figures of the whole run; else the figure is that of the step that begins there, `step_ms` long.
//! `cause` is empty for figures that have none.

use std::fmt::Display;

use super::grid::by_cause;
use crate::outcome::{ByCause, Outcome, PolicyOutcome, Rate};

/// The first line.
const HEAD: &str = "scenario,seed,policy,from_ms,step_ms,figure,cause,value\r\n";

/// Whose figures, and where they go.
struct Lines<'a> {
    text: &'a mut String,
    /// The first three columns.
    whose: String,
    /// The next two.
    when: String,
}

impl Lines<'_> {
    fn line(&mut self, figure: &str, cause: &str, value: impl Display) {
        let (whose, when) = (&self.whose, &self.when);
        *self.text += &format!("{whose},{when},{figure},{cause},{value}\r\n");
    }

    fn causes(&mut self, figure: &str, bytes: &ByCause) {
        for (cause, value) in by_cause(bytes) {
            self.line(figure, cause, value);
        }
        self.line(figure, "total", bytes.total);
    }

    fn rate(&mut self, figure: &str, rate: &Rate) {
        self.line(figure, "", rate.total);
        self.line(&format!("{figure}_steady_per_s"), "", rate.steady_per_s);
        self.line(
            &format!("{figure}_outage_peak_per_s"),
            "",
            rate.outage_peak_per_s,
        );
        self.line(
            &format!("{figure}_heal_peak_per_s"),
            "",
            rate.heal_peak_per_s,
        );
    }
}

/// All outcomes, with one head.
#[must_use]
pub fn csv(outcomes: &[Outcome]) -> String {
    let mut text = HEAD.to_owned();
    for outcome in outcomes {
        for policy in &outcome.policies {
            let mut lines = Lines {
                text: &mut text,
                whose: format!(
                    "{},{},{}",
                    cell(&outcome.scenario),
                    outcome.seed,
                    cell(&policy.policy)
                ),
                when: ",".to_owned(),
            };
            totals(&mut lines, policy);
            steps(&mut lines, policy);
        }
    }
    text
}

fn totals(lines: &mut Lines<'_>, policy: &PolicyOutcome) {
    let counts = [
        ("offered_items", policy.offered_items),
        ("delivered_items", policy.delivered_items),
        ("doubled_items", policy.doubled_items),
        ("lost_items", policy.lost_items),
        ("under_way_items", policy.under_way_items),
        ("sent_again_items", policy.sent_again_items),
        ("goodput_bytes", policy.goodput_bytes),
        ("first_sends", policy.first_sends),
        ("max_sends_of_one_pack", policy.max_sends_of_one_pack.into()),
        (
            "max_copies_of_one_item",
            policy.max_copies_of_one_item.into(),
        ),
        ("recovery_count", policy.recovery_ms.count),
        ("recovery_p50_ms", policy.recovery_ms.p50),
        ("recovery_p99_ms", policy.recovery_ms.p99),
        ("recovery_max_ms", policy.recovery_ms.max),
        ("caught_up_count", policy.caught_up_ms.count),
        ("caught_up_p50_ms", policy.caught_up_ms.p50),
        ("caught_up_p99_ms", policy.caught_up_ms.p99),
        ("caught_up_max_ms", policy.caught_up_ms.max),
        ("fresh_count", policy.fresh_ms.count),
        ("fresh_p50_ms", policy.fresh_ms.p50),
        ("fresh_p99_ms", policy.fresh_ms.p99),
        ("fresh_max_ms", policy.fresh_ms.max),
        ("never_recovered", policy.never_recovered),
        ("sessions_lost", policy.sessions_lost),
        ("providers_fallen", policy.providers_fallen),
    ];
    for (figure, value) in counts {
        lines.line(figure, "", value);
    }
    lines.line("copies_per_pack", "", policy.copies_per_pack);
    lines.causes("udp_bytes_out", &policy.udp_bytes_out);
    lines.causes("outage_bytes_out", &policy.outage_bytes_out);
    lines.causes("udp_bytes_back", &policy.udp_bytes_back);
    lines.rate("dials", &policy.dials);
    lines.rate("provider_dials", &policy.provider_dials);
    lines.rate("backend_requests", &policy.backend_requests);
}

fn steps(lines: &mut Lines<'_>, policy: &PolicyOutcome) {
    let series = &policy.series;
    let lens = [
        series.bytes_out.len(),
        series.delivered.len(),
        series.dials.len(),
        series.backend_requests.len(),
    ];
    for step in 0..lens.into_iter().max().unwrap_or(0) {
        let from = (step as u64).saturating_mul(series.step_ms);
        lines.when = format!("{from},{}", series.step_ms);
        if let Some(bytes) = series.bytes_out.get(step) {
            lines.causes("udp_bytes_out", bytes);
        }
        for (figure, values) in [
            ("delivered_items", &series.delivered),
            ("dials", &series.dials),
            ("backend_requests", &series.backend_requests),
        ] {
            if let Some(value) = values.get(step) {
                lines.line(figure, "", value);
            }
        }
    }
}

/// Text as a cell.
fn cell(text: &str) -> String {
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
