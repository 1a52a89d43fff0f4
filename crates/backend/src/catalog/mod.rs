//! Which exits are in service: the catalog, and who waits for its next version.
//!
//! [`Membership`] decides, without I/O and in a time that it is handed; [`Catalog`] is the same under a lock, with the
//! task that drives it and a `watch` channel on which long polls wait. Each version is written as JSON once, whoever
//! asks for it and however many.
//!
//! | file | question |
//! |---|---|
//! | `membership` | is this host in the catalog, and why; when is there a new version |
//! | `host` | what is known of one host, and what speaks against it |
//! | `live` | the lock, the task, the channel |

mod config;
mod host;
mod live;
mod membership;

pub use self::config::CatalogConfig;
pub use self::host::{Heard, HostReport};
pub use self::live::{Catalog, Published, Reading};
pub use self::membership::{CatalogCounters, Membership};
