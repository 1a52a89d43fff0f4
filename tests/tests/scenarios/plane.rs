//! The control plane as its users run it: backend, provider and client are processes of their own, started by the commands
//! of the README, and what they write to disks and say to an operator is what is looked at.
//!
//! ```text
//! quell backend --new ── quell invite ── quell enrol … --start ── quell enrol … --socks5 ── quell up
//! ```
//!
//! | module | what |
//! |---|---|
//! | `quickstart` | the five commands, and the same again |
//! | `outage` | the backend is gone: before anybody enrolled, while bytes flow, while receipts are filed, at a start |
//! | `kills` | provider and backend die under traffic, over both stores |
//! | `privacy` | no destination and no client's address in the control plane's records |
//! | `limits` | bans and allowances |
//!
//! Each scenario has a network of its own, where all ports are free; processes die with it. Long forms, an outage of two
//! minutes and ten times as many kills, run with `QUELL_LONG=1`.

mod books;
mod kills;
mod limits;
mod outage;
mod postgres;
mod privacy;
mod quickstart;
mod stage;

/// Whether there is time for the long forms.
fn is_long() -> bool {
    std::env::var_os("QUELL_LONG").is_some_and(|value| value == "1")
}

/// Those of all modules.
pub(crate) fn all_trials() -> Vec<libtest_mimic::Trial> {
    let all = [
        quickstart::trials(),
        outage::trials(),
        kills::trials(),
        privacy::trials(),
        limits::trials(),
    ];
    all.into_iter().flatten().collect()
}
