//! `quell portal`: lets a browser reach a captive portal around the tunnel, for a bounded time.
//!
//! Hotels and trains ask for a click before they let anything through. Only names and the web pass meanwhile (DNS, TCP 80
//! and 443), of every program: the user is told. It ends with this command, and by the kernel's clock if that is killed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quell_vpn::open_portal;
use tokio::runtime::Builder;

use super::arguments;
use crate::{Failure, Streams, daemon, whole};

/// Let names and the web around the tunnel for a while, to log in to a network that asks for it
#[derive(Debug, Args)]
pub(crate) struct Portal {
    /// The client's configuration file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// For how long, "10s" to "30m"; Ctrl-C ends it sooner
    #[arg(long = "for", value_name = "DURATION", default_value = "5m", value_parser = limit)]
    limit: Duration,
}

fn limit(text: &str) -> Result<Duration, String> {
    arguments::duration(text, Duration::from_secs(10)..=Duration::from_secs(1_800))
}

impl Portal {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let file = whole::client_file(&self.file, "only a client's tunnel can be gone around")?;
        daemon::start_log(file.log.level);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let told = {
            let _inside = runtime.enter();
            daemon::told_to_stop()?
        };
        let portal = open_portal(&whole::config_of(&file), self.limit)?;
        writeln!(
            streams.out,
            "for {:?} the web and names go around the tunnel, in the clear: log in, then press Ctrl-C",
            self.limit
        )?;
        streams.out.flush()?;
        // Whichever is first.
        let _ = runtime.block_on(async { tokio::time::timeout(self.limit, told).await });
        drop(portal);
        writeln!(streams.out, "closed again")?;
        Ok(())
    }
}
