//! Installing, removing and mending a kernel egress.
//!
//! ```text
//!            install                                             remove, drop, or mend after an unclean exit
//!  nothing ──────────> state file ─> rules ─> settings ─ installed ───────────> settings ─> rules ─> no file
//!     ^                    │           │          │
//!     └───── rolled back ──┴───────────┴──────────┘
//! ```
//!
//! The order is part of the design. The state file is first and goes last, so at every instant either nothing is changed,
//! or a file says what. Rules come before forwarding and go after it, so no packet is ever forwarded untranslated.
//!
//! [`release`] is the way back for all three callers. It does each step that it can, reports the first error, and keeps
//! the state file when there was one, so that it can be tried again. Each step is idempotent.
//!
//! Several egresses share the host's switches. The state file of each lists all it relies on, also what it found in place,
//! and the one that leaves hands over to one that stays, in the same boot and network namespace, what only it remembers.

use std::path::{Path, PathBuf};

use quell_host::{Guard, Realm, Store, TunName};
use quell_packet::Prefix;

use crate::error::EgressError;
use crate::host::Host;
use crate::nft;
use crate::plan;
use crate::state::{KIND, State};
use crate::sysctl::Family;

/// The shortest prefix that is a pool: a larger one would hold addresses of the host's own network.
const POOL_LENGTH_MIN: u8 = 8;

/// What a kernel egress is made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressConfig {
    /// The provider's TUN: 1 to 15 of the characters `A-Z a-z 0-9 . _ -`. It need not exist yet.
    pub tun_name: String,
    /// The clients' IPv4 addresses, of length 8 or more. `None`: no IPv4.
    pub ipv4_pool: Option<Prefix>,
    /// The clients' IPv6 addresses, of length 8 or more. `None`: no IPv6.
    pub ipv6_pool: Option<Prefix>,
    /// Whether the host translates the pools' addresses to its own, by a table of nftables, which also drops what comes
    /// from the TUN with a source outside of the pools. Without it no rule is installed, and `nft` is not needed.
    pub masquerade: bool,
    /// Where the state file is kept; made if it is not there. One for all providers of a host, and it should not outlive
    /// a boot: `/run/quell`.
    pub run_dir: PathBuf,
}

/// An installed egress. Dropped, it is removed as well as can be; [`remove`](Self::remove) says whether it went well.
#[derive(Debug)]
pub struct KernelEgress {
    host: Host,
    store: Store,
    tun: TunName,
    pools: Pools,
    /// `None` once it is removed.
    owner: Option<Guard>,
}

/// The pools whose family the host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pools {
    ipv4: Option<Prefix>,
    ipv6: Option<Prefix>,
}

impl KernelEgress {
    /// Makes the host forward, and translate if asked, the packets of a TUN. What an unclean exit left behind is mended
    /// first, also of other TUNs.
    ///
    /// A host without IPv6 becomes an egress for IPv4 alone; [`forwards_ipv6`](Self::forwards_ipv6) tells (case B88).
    ///
    /// # Errors
    ///
    /// Any [`EgressError`]; then nothing is changed. Should rolling back fail too, the state file stays and the next call
    /// mends it.
    pub fn install(config: EgressConfig) -> Result<Self, EgressError> {
        Self::install_on(Host::this(), config)
    }

    fn install_on(host: Host, config: EgressConfig) -> Result<Self, EgressError> {
        let tun = TunName::new(&config.tun_name)?;
        let pools = Pools::new(&config, &host)?;
        let store = Store::open(&config.run_dir, KIND)?;
        let _directory = Guard::directory(&store)?;
        let Some(owner) = Guard::owner(&store, &tun)? else {
            return Err(EgressError::InUse {
                tun: config.tun_name,
            });
        };
        let realm = host.realm()?;
        mend(&host, &store, &realm, &tun)?;
        mend_others(&host, &store, &realm, &tun);

        let changes = plan::plan(&host.sysctls, &pools.families(), tun.as_str())?;
        let state = State::new(realm.clone(), config.masquerade, changes);
        store.store(&tun, &state)?;
        if let Err(error) = change_host(&host, &tun, pools, &state) {
            if let Err(rollback) = release(&host, &store, &realm, &tun, &state) {
                tracing::error!(%rollback, tun = tun.as_str(), "rolling back the egress failed: the next start mends it");
            }
            return Err(error);
        }
        tracing::info!(
            tun = tun.as_str(),
            ipv4 = pools.ipv4.is_some(),
            ipv6 = pools.ipv6.is_some(),
            masquerade = config.masquerade,
            "egress installed"
        );
        Ok(Self {
            host,
            store,
            tun,
            pools,
            owner: Some(owner),
        })
    }

    /// Whether IPv4 is forwarded: a pool was given.
    #[must_use]
    pub fn forwards_ipv4(&self) -> bool {
        self.pools.ipv4.is_some()
    }

    /// Whether IPv6 is forwarded: a pool was given, and the host has IPv6.
    #[must_use]
    pub fn forwards_ipv6(&self) -> bool {
        self.pools.ipv6.is_some()
    }

    /// Puts the host back to what it was, except for what somebody else has changed since.
    ///
    /// # Errors
    ///
    /// The first error; everything else was still done. What could not be put back is tried again by the next
    /// [`install`](Self::install) or [`clean_up_stale`](Self::clean_up_stale).
    pub fn remove(mut self) -> Result<(), EgressError> {
        self.remove_once()
    }

    /// Mends what an egress of this TUN left behind when its process ended uncleanly. Returns whether there was anything.
    ///
    /// # Errors
    ///
    /// [`EgressError::InUse`] when a living process holds it, else as [`remove`](Self::remove).
    pub fn clean_up_stale(run_dir: &Path, tun_name: &str) -> Result<bool, EgressError> {
        Self::clean_up_stale_on(&Host::this(), run_dir, tun_name)
    }

    fn clean_up_stale_on(host: &Host, run_dir: &Path, tun_name: &str) -> Result<bool, EgressError> {
        let tun = TunName::new(tun_name)?;
        let store = Store::open(run_dir, KIND)?;
        let _directory = Guard::directory(&store)?;
        let Some(_owner) = Guard::owner(&store, &tun)? else {
            return Err(EgressError::InUse {
                tun: tun_name.to_owned(),
            });
        };
        mend(host, &store, &host.realm()?, &tun)
    }

    fn remove_once(&mut self) -> Result<(), EgressError> {
        // Held to the end: until the file is gone, no other process may take it for an unclean exit.
        let Some(_owner) = self.owner.take() else {
            return Ok(());
        };
        let _directory = Guard::directory(&self.store)?;
        mend(&self.host, &self.store, &self.host.realm()?, &self.tun).map(drop)
    }
}

impl Drop for KernelEgress {
    fn drop(&mut self) {
        if let Err(error) = self.remove_once() {
            tracing::error!(%error, tun = self.tun.as_str(), "removing the egress failed: the next start mends it");
        }
    }
}

impl Pools {
    fn new(config: &EgressConfig, host: &Host) -> Result<Self, EgressError> {
        let check = |pool: Option<Prefix>, ipv4: bool| match pool {
            Some(pool) if pool.addr().is_ipv4() != ipv4 || pool.len() < POOL_LENGTH_MIN => {
                Err(EgressError::InvalidPool {
                    pool,
                    family: if ipv4 { "IPv4" } else { "IPv6" },
                })
            }
            Some(_) | None => Ok(()),
        };
        check(config.ipv4_pool, true)?;
        check(config.ipv6_pool, false)?;
        let (ipv4, mut ipv6) = (config.ipv4_pool, config.ipv6_pool);
        if ipv4.is_none() && ipv6.is_none() {
            return Err(EgressError::NoPool);
        }
        if ipv6.is_some() && !host.sysctls.has_ipv6()? {
            if ipv4.is_none() {
                return Err(EgressError::Ipv6Unavailable);
            }
            tracing::warn!("this host has no IPv6: the egress forwards IPv4 alone");
            ipv6 = None;
        }
        Ok(Self { ipv4, ipv6 })
    }

    fn families(self) -> Vec<Family> {
        let ipv4 = self.ipv4.map(|_| Family::V4);
        let ipv6 = self.ipv6.map(|_| Family::V6);
        ipv4.into_iter().chain(ipv6).collect()
    }
}

/// Rules first, then forwarding.
fn change_host(host: &Host, tun: &TunName, pools: Pools, state: &State) -> Result<(), EgressError> {
    if state.masquerade {
        host.rules(&nft::install_script(tun, pools.ipv4, pools.ipv6))?;
    }
    plan::apply(&host.sysctls, &state.changes)
}

/// Undoes what the state file of a TUN says, and removes it. The caller holds both locks. Returns whether there was one.
fn mend(host: &Host, store: &Store, realm: &Realm, tun: &TunName) -> Result<bool, EgressError> {
    let Some(state) = store.load::<State>(tun)? else {
        return Ok(false);
    };
    if state.realm != *realm {
        tracing::info!(
            tun = tun.as_str(),
            "an egress of an earlier boot or another network namespace is forgotten"
        );
        store.remove(tun)?;
        return Ok(false);
    }
    release(host, store, realm, tun, &state)?;
    Ok(true)
}

/// Mends the egresses of other TUNs whose owners are gone. A provider whose TUN was renamed leaves such. Their troubles
/// are not this egress's: they are logged.
fn mend_others(host: &Host, store: &Store, realm: &Realm, own: &TunName) {
    let mend_other = |tun: &TunName| -> Result<(), EgressError> {
        let Some(_owner) = Guard::owner(store, tun)? else {
            return Ok(());
        };
        // One of another network namespace can be mended from there alone.
        let elsewhere = |state: &State| {
            state.realm.boot == realm.boot && state.realm.namespace != realm.namespace
        };
        if store.load(tun)?.as_ref().is_some_and(elsewhere) {
            return Ok(());
        }
        mend(host, store, realm, tun).map(drop)
    };
    let tuns = store.tuns().unwrap_or_else(|error| {
        tracing::warn!(%error, "looking for egresses that were left behind failed");
        Vec::new()
    });
    for tun in tuns.iter().filter(|tun| *tun != own) {
        if let Err(error) = mend_other(tun) {
            tracing::warn!(%error, tun = tun.as_str(), "mending an egress that was left behind failed");
        }
    }
}

/// The way back: settings, rules, file.
fn release(
    host: &Host,
    store: &Store,
    realm: &Realm,
    tun: &TunName,
    state: &State,
) -> Result<(), EgressError> {
    let settings = match heir(store, realm, tun)? {
        Some((heir, mut inherited)) => {
            plan::hand_over(&state.changes, &mut inherited.changes);
            store.store(&heir, &inherited).map_err(EgressError::from)
        }
        None => plan::restore(&host.sysctls, &state.changes),
    };
    let rules = if state.masquerade {
        host.rules(&nft::remove_script(tun))
    } else {
        Ok(())
    };
    settings?;
    rules?;
    Ok(store.remove(tun)?)
}

/// A living egress in the same realm, which relies on the same settings.
fn heir(
    store: &Store,
    realm: &Realm,
    leaving: &TunName,
) -> Result<Option<(TunName, State)>, EgressError> {
    for tun in store.tuns()? {
        if tun == *leaving || Guard::owner(store, &tun)?.is_some() {
            continue;
        }
        // A living egress whose file is damaged cannot inherit; another may.
        if let Ok(Some(state)) = store.load::<State>(&tun)
            && state.realm == *realm
        {
            return Ok(Some((tun, state)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
