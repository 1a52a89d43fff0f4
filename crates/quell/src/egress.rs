//! A provider's way to the world, whichever of the two its file names: opened, looked at, taken away.

use quell_core::status::TunnelAddresses;
use quell_egress::userspace::{AllowAll, Observer, Userspace, UserspaceStatus};
use quell_egress::{EgressConfig, KernelEgress};
use quell_net::engine::client::Device;
use quell_tun::link::Link;
use quell_tun::os::{TunConfig, TunDevice};
use quell_tun::{Offload, OffloadStats, StopHandle};

use crate::client::split;
use crate::config::{EgressKind, ProviderFile};
use crate::device::add_addresses;
use crate::error::Error;
use crate::packets::{Reader, Writer};

/// A way that is open.
pub(crate) enum Egress {
    Kernel {
        egress: KernelEgress,
        tun: String,
        offload: Offload,
    },
    Userspace(Userspace),
    /// An embedder's device.
    Given,
}

/// Sees into a way from any thread.
#[derive(Clone)]
pub(crate) enum View {
    Kernel(Offload),
    Userspace(Observer),
    Given,
}

/// Opens the way that `file` asks for, and gives the device at its near end.
///
/// # Errors
/// A setting of it, the TUN, the forwarding or a thread is not to be had.
pub(crate) async fn open(
    file: &ProviderFile,
    gateway: &TunnelAddresses,
) -> Result<(Device, Egress), Error> {
    match file.egress.kind {
        EgressKind::Userspace => userspace(file),
        EgressKind::Tun => kernel(file, gateway).await,
    }
}

/// The core has judged every packet before it comes here: nothing is left to be denied.
fn userspace(file: &ProviderFile) -> Result<(Device, Egress), Error> {
    let (stop, stopped) = StopHandle::with_channel();
    let config = file.egress.userspace()?;
    let (egress, sink, source) = Userspace::start(config, Box::new(AllowAll), stopped)?;
    let device = Device {
        reader: Box::new(Reader(source)),
        writer: Box::new(Writer(sink)),
        stop,
    };
    Ok((device, Egress::Userspace(egress)))
}

async fn kernel(file: &ProviderFile, gateway: &TunnelAddresses) -> Result<(Device, Egress), Error> {
    let name = file.egress.tun_name.clone();
    let tun = TunDevice::create(TunConfig {
        name: Some(name.clone()),
        mtu: file.egress.mtu,
        offload: file.egress.offload.into(),
    })?;
    let link = Link::open(&name).await?;
    add_addresses(&link, gateway).await?;
    link.up().await?;
    let egress = KernelEgress::install(EgressConfig {
        tun_name: name.clone(),
        ipv4_pool: file.addresses.ipv4_pool,
        ipv6_pool: file.addresses.ipv6_pool,
        masquerade: file.egress.masquerade,
        run_dir: file.run_dir.clone(),
    })?;
    let egress = Egress::Kernel {
        egress,
        tun: name,
        offload: tun.offload(),
    };
    Ok((split(tun), egress))
}

impl Egress {
    /// The interface of its own, where it has one.
    pub(crate) fn tun(&self) -> Option<&str> {
        match self {
            Self::Kernel { tun, .. } => Some(tun),
            Self::Userspace(_) | Self::Given => None,
        }
    }

    pub(crate) fn view(&self) -> View {
        match self {
            Self::Kernel { offload, .. } => View::Kernel(offload.clone()),
            Self::Userspace(egress) => View::Userspace(egress.observer()),
            Self::Given => View::Given,
        }
    }

    /// Takes it away: rules, interface, sockets.
    ///
    /// # Errors
    /// What could not be taken away.
    pub(crate) fn remove(self) -> Result<(), Error> {
        match self {
            Self::Kernel { egress, .. } => Ok(egress.remove()?),
            Self::Userspace(egress) => {
                egress.stop();
                Ok(())
            }
            Self::Given => Ok(()),
        }
    }
}

impl View {
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Kernel(_) => EgressKind::Tun.as_str(),
            Self::Userspace(_) => EgressKind::Userspace.as_str(),
            Self::Given => "device",
        }
    }

    pub(crate) fn status(&self) -> Option<UserspaceStatus> {
        match self {
            Self::Kernel(_) | Self::Given => None,
            Self::Userspace(observer) => Some(observer.status()),
        }
    }

    pub(crate) fn offload(&self) -> Option<OffloadStats> {
        match self {
            Self::Kernel(offload) => Some(offload.stats()),
            Self::Userspace(_) | Self::Given => None,
        }
    }
}
