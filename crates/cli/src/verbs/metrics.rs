//! `quell metrics`: what a running quell counts, as text for Prometheus.
//!
//! The same page is served over HTTP where the file says `metrics.listen`. This verb is for who wants no listener:
//! node_exporter's textfile collector reads what `--out` wrote. The file is put in its place whole, since a collector that
//! reads half of one drops it with a complaint.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use quell::metrics;
use tempfile::NamedTempFile;

use crate::socket::{self, Sockets};
use crate::{Failure, Streams};

/// Print what a running quell counts, for Prometheus
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    #[command(flatten)]
    sockets: Sockets,
    /// Put them into this file, at once and whole, instead of printing them
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Metrics {
    pub(crate) fn run(self, streams: &mut Streams<'_>) -> Result<(), Failure> {
        let page = metrics::render(&socket::status(&self.sockets.one()?)?);
        match &self.out {
            Some(path) => put(path, &page)?,
            None => write!(streams.out, "{page}")?,
        }
        Ok(())
    }
}

/// Puts `text` in the place of what `path` was, readable by everybody: whoever collects is somebody else.
fn put(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let written = || -> std::io::Result<()> {
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file()
            .set_permissions(Permissions::from_mode(0o644))?;
        file.persist(path)?;
        Ok(())
    };
    Ok(written().with_context(|| format!("cannot write {}", path.display()))?)
}
