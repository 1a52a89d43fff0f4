//! Installing, following, ending and mending a whole-machine tunnel.
//!
//! ```text
//!            install            follow (session up)        end            take_back (`quell down`)
//!  nothing ──────────> closed ───────────────────> open ────────> closed ─────────────────────────> nothing
//!     ^       (fail_closed)                                │                                            ^
//!     └── not fail_closed: nothing but a file and a lock ──┴────────────────────────────────────────────┘
//! ```
//!
//! The order is part of the design. The state file is first and goes last, so at every instant either nothing is changed
//! or a file says what. The firewall comes before routes and goes after them, and is replaced in one transaction: between
//! a process that was killed and the next one there is no moment in which something could leave. Each step can be done
//! again. A process that dies is mended by the next start, or by [`take_back`].

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quell_host::{Guard, HostError, Realm, Store, TunName};
use quell_packet::Prefix;

use crate::error::VpnError;
use crate::host::{Family, Host};
use crate::names::Resolver;
use crate::plan::{self, Barrier, Carried, Plan};
use crate::state::{State, Text};

/// The kinds of the two state files.
const VPN: &str = "vpn";
const NAMES: &str = "names";
/// How often it is looked whether a process has let go.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a tunnel is to mean to its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VpnConfig {
    /// The TUN: 1 to 15 of the characters `A-Z a-z 0-9 . _ -`. It need not exist yet.
    pub tun_name: String,
    /// What goes through it.
    pub routes: Vec<Prefix>,
    /// What does not, whatever the routes say.
    pub exclude: Vec<Prefix>,
    /// The providers' addresses; `None` when one of them is found only when it is dialled.
    pub providers: Option<Vec<IpAddr>>,
    /// Who is asked for names while a session is up; none: whoever was.
    pub dns: Vec<IpAddr>,
    /// Whether nothing leaves but through the tunnel.
    pub fail_closed: bool,
    /// Whether the local network is reached all the same.
    pub allow_lan: bool,
    /// The mark of the tunnel's own packets, and the number of its table.
    pub mark: u32,
    /// The file of names' servers.
    pub resolv_conf: PathBuf,
    /// Where what ends with the boot is remembered: `/run/quell`.
    pub run_dir: PathBuf,
    /// Where what outlives it is remembered: `/var/lib/quell`. Used only with `dns`.
    pub state_dir: PathBuf,
}

/// An installed tunnel. Dropped without [`end`](Self::end), it stays as after a crash.
#[derive(Debug)]
pub struct Vpn {
    host: Host,
    store: Store,
    resolver: Resolver,
    plan: Plan,
    dns: Vec<IpAddr>,
    state: State,
    /// Whether the rules are in.
    is_ruled: bool,
    /// Whether the host was closed before this process came.
    was_closed: bool,
    /// `None` where nothing is changed but routes that go with the TUN, so that nothing has to be remembered.
    owner: Option<Guard>,
}

impl Vpn {
    /// Prepares the host, and closes it if asked. What a process that was killed left of this TUN is mended first.
    ///
    /// # Errors
    /// Any [`VpnError`]. What was closed before stays closed; else nothing is changed.
    pub fn install(config: &VpnConfig) -> Result<Self, VpnError> {
        Self::install_on(Host::this(), config)
    }

    fn install_on(host: Host, config: &VpnConfig) -> Result<Self, VpnError> {
        let plan = plan_of(config)?;
        let store = Store::open(&config.run_dir, VPN)?;
        let resolver = resolver(&host, config)?;
        let realm = host.realm()?;
        let is_plain = !plan.is_marked() && config.dns.is_empty();
        let has_left = store.path(&plan.tun).exists() || resolver.known()?.is_some();
        if is_plain && !has_left {
            return Ok(Self {
                was_closed: false,
                state: state_of(&plan, realm, None),
                host,
                store,
                resolver,
                plan,
                dns: Vec::new(),
                is_ruled: false,
                owner: None,
            });
        }
        let _directory = Guard::directory(&store)?;
        let in_use = || VpnError::InUse {
            tun: config.tun_name.clone(),
        };
        let owner = Guard::owner(&store, &plan.tun)?.ok_or_else(in_use)?;
        if plan.is_marked() {
            refuse_second(&store, &realm, &plan.tun)?;
        }
        let old = load(&store, &realm, &plan.tun)?;
        let state = state_of(&plan, realm, old.as_ref());
        store.store(&plan.tun, &state)?;
        let mut vpn = Self {
            was_closed: old.as_ref().is_some_and(|old| old.fail_closed),
            host,
            store,
            resolver,
            plan,
            dns: config.dns.clone(),
            state,
            is_ruled: false,
            owner: Some(owner),
        };
        match vpn.close(old.as_ref()) {
            Ok(()) => Ok(vpn),
            Err(error) => {
                if let Err(rollback) = vpn.abandon_locked() {
                    tracing::error!(%rollback, "rolling back failed: `quell down` mends it");
                }
                Err(error)
            }
        }
    }

    /// The firewall first, then what an earlier process left goes, then the way is barred if asked.
    fn close(&mut self, old: Option<&State>) -> Result<(), VpnError> {
        self.raise_firewall()?;
        if let Some(old) = old {
            let old = plan_from(self.plan.tun.clone(), old);
            unrule(&self.host, &old)?;
            if old.is_marked() && !self.plan.is_marked() {
                self.host.rules(&old.remove_firewall())?;
            }
        }
        if self.resolver.restore()? {
            tracing::info!("put back the resolver that an earlier process had changed");
        }
        if self.plan.is_marked() && self.host.mind_marks()? {
            self.state.minds_marks = true;
            self.store.store(&self.plan.tun, &self.state)?;
        }
        if self.plan.fail_closed {
            self.rule()?;
            tracing::info!("closed: nothing leaves but through the tunnel, until `quell down`");
        }
        Ok(())
    }

    fn raise_firewall(&self) -> Result<(), VpnError> {
        if !self.plan.is_marked() {
            return Ok(());
        }
        match self.host.rules(&self.plan.firewall()) {
            Err(HostError::ProgramMissing { .. }) if self.plan.fail_closed => {
                Err(VpnError::NoFirewall)
            }
            Err(HostError::ProgramMissing { .. }) => {
                tracing::warn!(
                    "there is no program `nft`: where rp_filter is strict, the tunnel's answers are dropped"
                );
                Ok(())
            }
            Err(HostError::ProgramRefused { words, .. }) if words.contains("File exists") => {
                Err(VpnError::RouteTaken)
            }
            result => Ok(result?),
        }
    }

    /// Installs the rules, after what is left of them: `ip` refuses to add one twice.
    fn rule(&mut self) -> Result<(), VpnError> {
        if self.is_ruled {
            return Ok(());
        }
        for family in families(&self.host) {
            self.host.unroute(family, &self.plan.remove_rules(family))?;
            self.host.routes(family, &self.plan.closed_routes(family))?;
            self.host.routes(family, &self.plan.add_rules(family))?;
        }
        self.is_ruled = true;
        Ok(())
    }

    /// A session is up, or has other addresses: leads traffic into the TUN, which is up, and names with it.
    ///
    /// # Errors
    /// The host does not take it; what is closed stays closed.
    pub fn follow(&mut self, carried: Carried) -> Result<(), VpnError> {
        let mut barrier = Barrier::Unreachable;
        if self.plan.is_marked() {
            match self.host.rules(&self.plan.inside(carried)) {
                Err(HostError::ProgramMissing { .. }) => {}
                Ok(()) if !self.plan.fail_closed => barrier = Barrier::Tun,
                result => result?,
            }
            // Those of a host that is not closed come with the first session.
            self.rule()?;
        }
        for family in families(&self.host) {
            self.lead(family, carried, barrier)?;
        }
        Ok(self.resolver.set(&self.dns)?)
    }

    /// Leads a family into the TUN. An interface without IPv6 carries none, and none goes around it (case B88).
    fn lead(&self, family: Family, carried: Carried, barrier: Barrier) -> Result<(), VpnError> {
        let led = |carried, barrier| {
            let own = self.plan.open_routes(family, carried, barrier);
            self.host.routes(family, &own)?;
            self.host
                .unroute(family, &self.plan.remove_plain_routes(family))?;
            let main = self.plan.plain_routes(family, carried);
            self.host.routes(family, &main)
        };
        match led(carried, barrier) {
            Err(error) if family == Family::V6 => {
                tracing::warn!("going on without IPv6: {error}");
                let without = Carried {
                    ipv6: None,
                    ..carried
                };
                Ok(led(without, Barrier::Unreachable)?)
            }
            result => Ok(result?),
        }
    }

    /// Whether all of the machine's traffic is taken.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.plan.is_whole()
    }

    /// The mark that the tunnel's own sockets need; `None`: none.
    #[must_use]
    pub fn mark(&self) -> Option<u32> {
        self.plan.is_marked().then_some(self.plan.mark)
    }

    /// Says whom the tunnel itself asks for names: the host's own servers, each time anew.
    pub fn servers(&self) -> impl Fn() -> Vec<SocketAddr> + Send + Sync + use<> {
        let resolver = self.resolver.clone();
        move || resolver.servers()
    }

    /// The process ends. A closed host stays closed until [`take_back`]; else all of it is put back.
    ///
    /// # Errors
    /// The first; everything else was still done.
    pub fn end(self) -> Result<(), VpnError> {
        if self.plan.fail_closed {
            tracing::warn!("the host stays closed: `quell down` opens it");
            return Ok(());
        }
        if self.owner.is_none() {
            return Ok(());
        }
        let _directory = Guard::directory(&self.store)?;
        release(
            &self.host,
            &self.store,
            &self.resolver,
            &self.plan,
            &self.state,
        )
    }

    /// The start failed: puts back what it changed. What was closed before stays closed.
    ///
    /// # Errors
    /// As those of [`end`](Self::end).
    pub fn abandon(self) -> Result<(), VpnError> {
        if self.owner.is_none() {
            return Ok(());
        }
        let _directory = Guard::directory(&self.store)?;
        self.abandon_locked()
    }

    fn abandon_locked(&self) -> Result<(), VpnError> {
        if self.was_closed {
            return Ok(());
        }
        release(
            &self.host,
            &self.store,
            &self.resolver,
            &self.plan,
            &self.state,
        )
    }
}

/// Takes everything back that a tunnel of that configuration, living or killed, has changed: the one way to open a host
/// that fails closed. `wait` is how long a living process may take to let go. Whether there was anything.
///
/// # Errors
/// [`VpnError::InUse`] when it does not; else the first, and everything else was still done.
pub fn take_back(config: &VpnConfig, wait: Duration) -> Result<bool, VpnError> {
    take_back_on(&Host::this(), config, wait)
}

fn take_back_on(host: &Host, config: &VpnConfig, wait: Duration) -> Result<bool, VpnError> {
    let plan = plan_of(config)?;
    let store = Store::open(&config.run_dir, VPN)?;
    let resolver = resolver(host, config)?;
    let _owner = owner_within(&store, &plan.tun, wait)?;
    let _directory = Guard::directory(&store)?;
    let Some(state) = load(&store, &host.realm()?, &plan.tun)? else {
        return Ok(resolver.restore()?);
    };
    let plan = plan_from(plan.tun, &state);
    release(host, &store, &resolver, &plan, &state)?;
    Ok(true)
}

/// Lets names and the web (DNS, TCP 80 and 443) around the tunnel, until the result is dropped and `limit` at most: to log
/// in where a network asks for it first.
///
/// # Errors
/// [`VpnError::NotInstalled`] when no tunnel stands in the way; what the host refuses.
pub fn open_portal(config: &VpnConfig, limit: Duration) -> Result<Portal, VpnError> {
    open_portal_on(Host::this(), config, limit)
}

fn open_portal_on(host: Host, config: &VpnConfig, limit: Duration) -> Result<Portal, VpnError> {
    let tun = TunName::new(&config.tun_name)?;
    let store = Store::open(&config.run_dir, VPN)?;
    let _directory = Guard::directory(&store)?;
    let state = load(&store, &host.realm()?, &tun)?.ok_or(VpnError::NotInstalled)?;
    let plan = plan_from(tun, &state);
    if !plan.is_marked() {
        return Err(VpnError::NotInstalled);
    }
    for family in families(&host) {
        host.unroute(family, &plan::remove_portal_rules())?;
        host.routes(family, &plan::add_portal_rules())?;
    }
    let portal = Portal { host, plan };
    portal
        .host
        .rules(&portal.plan.portal(limit.as_secs().max(1)))?;
    Ok(portal)
}

/// An exception that ends when this is dropped. The kernel ends it after its time in any case.
#[derive(Debug)]
pub struct Portal {
    host: Host,
    plan: Plan,
}

impl Drop for Portal {
    fn drop(&mut self) {
        let unrule = |family| self.host.unroute(family, &plan::remove_portal_rules());
        let mut results: Vec<_> = families(&self.host).into_iter().map(unrule).collect();
        results.push(self.host.rules(&self.plan.close_portal()));
        for result in results {
            if let Err(error) = result {
                tracing::error!(%error, "closing the exception failed: the kernel's clock closes it");
            }
        }
    }
}

fn families(host: &Host) -> Vec<Family> {
    let all = Family::ALL.into_iter();
    all.filter(|family| host.has(*family)).collect()
}

fn plan_of(config: &VpnConfig) -> Result<Plan, VpnError> {
    let (marked, plain) = Plan::sort(&config.routes, config.providers.as_deref());
    Ok(Plan {
        tun: TunName::new(&config.tun_name)?,
        mark: config.mark,
        marked,
        plain,
        exclude: config.exclude.clone(),
        fail_closed: config.fail_closed,
        allow_lan: config.allow_lan,
    })
}

fn state_of(plan: &Plan, realm: Realm, old: Option<&State>) -> State {
    let texts = |prefixes: &[Prefix]| prefixes.iter().copied().map(Text).collect();
    State {
        version: 1,
        realm,
        mark: plan.mark,
        marked: texts(&plan.marked),
        exclude: texts(&plan.exclude),
        fail_closed: plan.fail_closed,
        minds_marks: old.is_some_and(|old| old.minds_marks),
    }
}

/// What a state file says was installed.
fn plan_from(tun: TunName, state: &State) -> Plan {
    let prefixes = |texts: &[Text]| texts.iter().map(|text| text.0).collect();
    Plan {
        tun,
        mark: state.mark,
        marked: prefixes(&state.marked),
        plain: Vec::new(),
        exclude: prefixes(&state.exclude),
        fail_closed: state.fail_closed,
        allow_lan: false,
    }
}

/// The state folder is made only where there are servers to set.
fn resolver(host: &Host, config: &VpnConfig) -> Result<Resolver, VpnError> {
    let is_needed = !config.dns.is_empty() || config.state_dir.is_dir();
    let store = is_needed.then(|| Store::open(&config.state_dir, NAMES));
    Ok(Resolver {
        host: host.clone(),
        store: store.transpose()?,
        tun: TunName::new(&config.tun_name)?,
        path: config.resolv_conf.clone(),
    })
}

/// The state of a TUN in this realm; one of another is forgotten.
fn load(store: &Store, realm: &Realm, tun: &TunName) -> Result<Option<State>, VpnError> {
    match store.load::<State>(tun)? {
        Some(state) if state.realm == *realm => Ok(Some(state)),
        Some(_) => {
            store.remove(tun)?;
            Ok(None)
        }
        None => Ok(None),
    }
}

/// Two tunnels that both lead traffic by rules would lead each other's.
fn refuse_second(store: &Store, realm: &Realm, own: &TunName) -> Result<(), VpnError> {
    for tun in store.tuns()? {
        if tun == *own {
            continue;
        }
        let state = store.load::<State>(&tun)?;
        let leads = |state: &State| {
            state.realm == *realm && !(state.marked.is_empty() && state.exclude.is_empty())
        };
        if state.as_ref().is_some_and(leads) {
            let tun = tun.as_str().to_owned();
            return Err(VpnError::Taken { tun });
        }
    }
    Ok(())
}

fn owner_within(store: &Store, tun: &TunName, wait: Duration) -> Result<Guard, VpnError> {
    let deadline = Instant::now() + wait;
    loop {
        if let Some(owner) = Guard::owner(store, tun)? {
            return Ok(owner);
        }
        if Instant::now() >= deadline {
            let tun = tun.as_str().to_owned();
            return Err(VpnError::InUse { tun });
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

/// Rules and routes of a plan go.
fn unrule(host: &Host, plan: &Plan) -> Result<(), VpnError> {
    if !plan.is_marked() {
        return Ok(());
    }
    for family in families(host) {
        host.unroute(family, &plan.remove_rules(family))?;
    }
    Ok(())
}

/// The way back: names, rules and routes, the filter's setting, the firewall, the file. Plain routes go with the TUN.
fn release(
    host: &Host,
    store: &Store,
    resolver: &Resolver,
    plan: &Plan,
    state: &State,
) -> Result<(), VpnError> {
    let names = resolver.restore();
    let rules = unrule(host, plan);
    let marks = match state.minds_marks {
        true => host.forget_marks(),
        false => Ok(()),
    };
    let firewall = match plan.is_marked() {
        true => host.rules(&plan.remove_firewall()),
        false => Ok(()),
    };
    names?;
    rules?;
    marks?;
    match firewall {
        // Without it there was no firewall.
        Err(HostError::ProgramMissing { .. }) => {}
        result => result?,
    }
    Ok(store.remove(&plan.tun)?)
}

#[cfg(test)]
mod tests;
