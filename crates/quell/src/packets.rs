//! A device without a kernel: the two halves of a userspace egress or of a proxy, in the shape of a TUN's.
//!
//! Both promise what a TUN's halves promise (`quell_stack`), but know neither trait: here, where both
//! crates meet, each call is handed on. What a full queue did not take is a packet dropped, as with a TUN; an egress that
//! has ended is a device that is gone.

use std::io;

use bytes::Bytes;
use quell_stack::{Gone, PacketSink, PacketSource, Taken};
use quell_tun::{DropCounts, PacketIn, ReadOutcome, TunError, TunReader, TunWriter, WriteReport};

/// Packets for clients.
pub(crate) struct Reader(pub(crate) PacketSource);

impl TunReader for Reader {
    fn read_batch(&mut self, batch: &mut Vec<PacketIn>) -> Result<ReadOutcome, TunError> {
        match self.0.read_batch(batch) {
            Ok(Taken::Packets) => Ok(ReadOutcome::Packets),
            Ok(Taken::Stopped) => Ok(ReadOutcome::Stopped),
            Err(gone) => Err(fatal(gone)),
        }
    }
}

/// Packets of clients.
pub(crate) struct Writer(pub(crate) PacketSink);

impl TunWriter for Writer {
    fn write_batch(&mut self, packets: &[Bytes]) -> Result<WriteReport, TunError> {
        let report = self.0.send_batch(packets).map_err(fatal)?;
        Ok(WriteReport {
            written: report.taken,
            dropped: DropCounts {
                queue_full: report.queue_full,
                ..DropCounts::default()
            },
        })
    }
}

fn fatal(gone: Gone) -> TunError {
    TunError::Fatal {
        source: io::Error::new(io::ErrorKind::NotConnected, gone),
        words: "nobody is behind it any more",
    }
}

#[cfg(all(test, feature = "provider"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use quell_egress::userspace::{AllowAll, Userspace, UserspaceConfig};
    use quell_packet::build;
    use quell_tun::StopHandle;

    use super::*;

    #[test]
    fn a_device_gives_takes_stops_and_is_gone() {
        let (stop, stopped) = StopHandle::with_channel();
        let config = UserspaceConfig::default();
        let (egress, sink, source) = Userspace::start(config, Box::new(AllowAll), stopped).unwrap();
        let (mut reader, mut writer) = (Reader(source), Writer(sink));

        // A datagram for a port where nobody is draws an error out of the world.
        let [from, to] = ["10.0.0.1:7", "127.0.0.1:1"].map(|a| a.parse().unwrap());
        let datagram = Bytes::from(build::udp(from, to, b"hello"));
        let report = writer.write_batch(&[datagram.clone(), datagram.clone()]);
        assert_eq!(report.unwrap().written, 2);
        let mut batch = Vec::new();
        assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
        assert!(!batch.is_empty());

        stop.stop();
        batch.clear();
        // What came before the signal may come first.
        while reader.read_batch(&mut batch).unwrap() == ReadOutcome::Packets {}
        assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Stopped);

        egress.stop();
        let error = writer.write_batch(&[datagram]).unwrap_err();
        assert!(
            error.to_string().contains("the TUN device is gone"),
            "{error}"
        );
    }
}
