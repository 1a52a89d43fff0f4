//! The channel device keeps the contract of the traits.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use super::*;

fn packet(n: u8) -> BytesMut {
    BytesMut::from(&[0x45, n][..])
}

#[test]
fn packets_go_both_ways_in_order() {
    let (device, handle) = pair(8);
    let (mut reader, mut writer, _stop) = device.split();
    for n in 0..3 {
        handle.inject(packet(n)).unwrap();
    }
    let mut batch = Vec::new();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    assert_eq!(batch, [packet(0), packet(1), packet(2)]);

    let report = writer
        .write_batch(&[packet(7).freeze(), packet(8).freeze()])
        .unwrap();
    assert_eq!(report.written, 2);
    assert_eq!(handle.take(), Some(packet(7).freeze()));
    assert_eq!(
        handle.take_within(Duration::from_secs(5)),
        Some(packet(8).freeze())
    );
    assert_eq!(handle.take(), None);
}

#[test]
fn the_capacity_holds_both_ways_and_not_one_more() {
    let (device, handle) = pair(2);
    let (_reader, mut writer, _stop) = device.split();
    handle.inject(packet(0)).unwrap();
    handle.inject(packet(1)).unwrap();
    assert_eq!(handle.inject(packet(2)), Err(InjectError::Full(packet(2))));
    assert_eq!(handle.injected_waiting(), 2);

    let report = writer.write_batch(&vec![packet(0).freeze(); 3]).unwrap();
    assert_eq!((report.written, report.dropped.queue_full), (2, 1));
    assert_eq!(handle.written_waiting(), 2);
}

#[test]
fn a_batch_holds_64_packets_and_not_65() {
    let (device, handle) = pair(100);
    let (mut reader, _writer, _stop) = device.split();
    for _ in 0..65 {
        handle.inject(packet(0)).unwrap();
    }
    let mut batch = Vec::new();
    reader.read_batch(&mut batch).unwrap();
    assert_eq!(batch.len(), BATCH_PACKETS_MAX);
    reader.read_batch(&mut batch).unwrap();
    assert_eq!(batch.len(), 65);
}

#[test]
fn what_is_no_packet_goes_neither_way() {
    let (device, handle) = pair(8);
    let (_reader, mut writer, _stop) = device.split();
    let invalid = [
        BytesMut::new(),
        BytesMut::from(&[0x35][..]),
        BytesMut::zeroed(PACKET_BYTES_MAX + 1),
    ];
    for packet in &invalid {
        assert_eq!(
            handle.inject(packet.clone()),
            Err(InjectError::Invalid(packet.clone()))
        );
    }
    let offered: Vec<_> = invalid.into_iter().map(BytesMut::freeze).collect();
    let report = writer.write_batch(&offered).unwrap();
    assert_eq!((report.written, report.dropped.invalid), (0, 3));

    let mut longest = BytesMut::zeroed(PACKET_BYTES_MAX);
    longest[0] = 0x60;
    assert_eq!(handle.inject(longest.clone()), Ok(()));
    assert_eq!(writer.write_batch(&[longest.freeze()]).unwrap().written, 1);
}

#[test]
fn a_stop_wakes_a_blocked_reader_and_stays() {
    let (device, handle) = pair(8);
    let (mut reader, _writer, stop) = device.split();
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        stop.stop();
        stop.stop();
        Instant::now()
    });
    assert_eq!(
        reader.read_batch(&mut Vec::new()).unwrap(),
        ReadOutcome::Stopped
    );
    let stopped_at = waker.join().unwrap();
    assert!(stopped_at.elapsed() < Duration::from_millis(100));
    handle.inject(packet(0)).unwrap();
    assert_eq!(
        reader.read_batch(&mut Vec::new()).unwrap(),
        ReadOutcome::Stopped
    );
}

#[test]
fn the_device_is_gone_when_its_handle_is() {
    let (device, handle) = pair(8);
    let (mut reader, mut writer, _stop) = device.split();
    handle.inject(packet(0)).unwrap();
    drop(handle);
    let mut batch = Vec::new();
    assert_eq!(
        reader.read_batch(&mut batch).unwrap(),
        ReadOutcome::Packets,
        "the rest first"
    );
    assert!(matches!(
        reader.read_batch(&mut batch),
        Err(TunError::Fatal { .. })
    ));
    assert!(matches!(
        reader.read_batch(&mut batch),
        Err(TunError::Fatal { .. })
    ));
    let result = writer.write_batch(&[packet(0).freeze()]);
    assert!(matches!(result, Err(TunError::Fatal { .. })));
}

#[test]
fn injecting_without_a_reader_gives_the_packet_back() {
    let (device, handle) = pair(8);
    drop(device);
    assert_eq!(
        handle.inject(packet(0)),
        Err(InjectError::Closed(packet(0)))
    );
    assert_eq!(handle.take(), None);
}
