//! What an operator runs: metrics and their alerts, and the commands of the README's section for operators.
//!
//! | module | what |
//! |---|---|
//! | `metrics` | promtool reads the pages of all three roles, and the rules |
//! | `alerts` | a real outage, whose scrapes the rules are fed with |
//! | `changes` | reload, drain, a report; and each command of the README |
//! | `promtool` | how promtool is asked, and what it is fed |

mod alerts;
mod changes;
mod metrics;
mod promtool;

/// Those of all modules.
pub(crate) fn all_trials() -> Vec<libtest_mimic::Trial> {
    [metrics::trials(), alerts::trials(), changes::trials()]
        .into_iter()
        .flatten()
        .collect()
}
