//! The file below the loops, over a socket pair: no privileges are needed for reads, writes, waits and ends.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::*;
use crate::device::PromptOutcome;

/// A TUN "device" whose kernel is the other end of a socket pair that keeps packet boundaries.
pub(super) fn device() -> (TunDevice, OwnedFd) {
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
    .unwrap();
    (TunDevice::from_fd(ours, "lo".to_owned()).unwrap(), theirs)
}

#[test]
fn packets_pass_whole_and_alone() {
    let (device, kernel) = device();
    let (mut reader, mut writer, _stop) = device.split();
    for packet in [&[0x45_u8; 1_280][..], &[0x60; 40], &[0x45; 9_000]] {
        nix::unistd::write(&kernel, packet).unwrap();
    }
    let mut batch = Vec::new();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    assert_eq!(
        batch.iter().map(|packet| packet.len()).collect::<Vec<_>>(),
        [1_280, 40, 9_000]
    );
    assert!(batch[1].iter().all(|byte| *byte == 0x60));

    let report = writer
        .write_batch(&[Bytes::from_static(b"E123"), Bytes::new()])
        .unwrap();
    assert_eq!((report.written, report.dropped.invalid), (1, 1));
    let mut heard = [0; 16];
    assert_eq!(nix::unistd::read(&kernel, &mut heard).unwrap(), 4);
    assert_eq!(&heard[..4], b"E123");
}

// case B81
#[test]
fn an_end_of_file_is_the_end() {
    let (device, kernel) = device();
    let (mut reader, _writer, _stop) = device.split();
    drop(kernel);
    for _ in 0..2 {
        let result = reader.read_batch(&mut Vec::new());
        let Err(TunError::Fatal { source, .. }) = result else {
            panic!("{result:?}");
        };
        assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_stop_wakes_a_blocked_reader_within_100_ms_and_stays() {
    let (device, _kernel) = device();
    let (mut reader, _writer, stop) = device.split();
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        stop.stop();
        Instant::now()
    });
    assert_eq!(
        reader.read_batch(&mut Vec::new()).unwrap(),
        ReadOutcome::Stopped
    );
    assert!(waker.join().unwrap().elapsed() < Duration::from_millis(100));
    assert_eq!(
        reader.read_batch(&mut Vec::new()).unwrap(),
        ReadOutcome::Stopped
    );
}

#[test]
fn two_readers_take_turns_and_packets_keep_their_order() {
    let (device, kernel) = device();
    let (mut reader, _writer, _stop) = device.split();
    let mut prompt = reader.prompt().unwrap();
    assert!(reader.prompt().is_none(), "one is in use");
    let mut batch = Vec::new();
    let send = |number: u8| {
        nix::unistd::write(&kernel, &[0x45, number]).unwrap();
    };
    send(0);
    // Out of turn it takes nothing.
    assert_eq!(prompt.read_now(&mut batch), PromptOutcome::Trouble);
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Quiet);
    assert_eq!(prompt.read_now(&mut batch), PromptOutcome::Nothing);
    send(1);
    let thread = std::thread::spawn(move || {
        let mut batch = Vec::new();
        let outcome = reader.read_batch(&mut batch).unwrap();
        (outcome, batch, reader)
    });
    std::thread::sleep(10 * QUIET_AFTER);
    assert!(!thread.is_finished(), "it is not its turn");
    assert_eq!(prompt.read_now(&mut batch), PromptOutcome::Packets);
    send(2);
    prompt.give_back();
    let (outcome, late, mut reader) = thread.join().unwrap();
    assert_eq!(outcome, ReadOutcome::Packets);
    let numbers: Vec<u8> = batch.iter().chain(&late).map(|packet| packet[1]).collect();
    assert_eq!(numbers, [0, 1, 2]);
    // Without the prompt one it waits as long as it takes.
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Quiet);
    drop(prompt);
    let sender = std::thread::spawn(move || {
        std::thread::sleep(10 * QUIET_AFTER);
        nix::unistd::write(&kernel, &[0x45, 3]).unwrap();
        kernel
    });
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Packets);
    assert!(reader.prompt().is_some(), "the place is free");
    drop(sender.join().unwrap());
}

#[test]
fn a_prompt_reader_leaves_ends_to_the_other() {
    let (device, kernel) = device();
    let (mut reader, _writer, _stop) = device.split();
    let mut prompt = reader.prompt().unwrap();
    let mut batch = Vec::new();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Quiet);
    drop(kernel);
    assert_eq!(prompt.read_now(&mut batch), PromptOutcome::Trouble);
    prompt.give_back();
    assert!(matches!(
        reader.read_batch(&mut batch),
        Err(TunError::Fatal { .. })
    ));
}

#[test]
fn a_stop_wakes_a_reader_that_waits_for_its_turn() {
    let (device, _kernel) = device();
    let (mut reader, _writer, stop) = device.split();
    let mut prompt = reader.prompt().unwrap();
    let mut batch = Vec::new();
    assert_eq!(reader.read_batch(&mut batch).unwrap(), ReadOutcome::Quiet);
    let thread = std::thread::spawn(move || reader.read_batch(&mut Vec::new()).unwrap());
    std::thread::sleep(10 * QUIET_AFTER);
    assert!(!thread.is_finished());
    stop.stop();
    assert_eq!(thread.join().unwrap(), ReadOutcome::Stopped);
    assert_eq!(prompt.read_now(&mut batch), PromptOutcome::Trouble);
}

#[test]
fn a_full_queue_drops_within_a_bounded_time() {
    let (device, _kernel) = device();
    let (_reader, mut writer, _stop) = device.split();
    let packet = Bytes::from(vec![0x45; 1_500]);
    let packets = vec![packet; 10_000];
    let started = Instant::now();
    let report = writer.write_batch(&packets).unwrap();
    assert_eq!(report.offered(), packets.len());
    assert!(
        report.written > 0 && report.dropped.queue_full > 0,
        "{report:?}"
    );
    assert_eq!(report.dropped.total(), report.dropped.queue_full);
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn names_are_held_to_the_kernels_rules() {
    for good in ["a", "quell0", "quell-provider0", "q.1_x"] {
        assert!(check_name(good).is_ok(), "{good}");
    }
    let sixteen = "quell-provider00";
    assert_eq!(sixteen.len(), NAME_BYTES_MAX + 1);
    for bad in [
        "", sixteen, ".", "..", "a b", "a\n", "a/b", "a:1", "tun%d", "a\0",
    ] {
        let error = TunDevice::create(TunConfig {
            name: Some(bad.to_owned()),
            mtu: 1_500,
            ..TunConfig::default()
        });
        assert!(
            matches!(error, Err(TunError::InvalidName { .. })),
            "{bad:?}: {error:?}"
        );
    }
}

#[test]
fn an_mtu_below_what_ipv6_needs_is_refused() {
    let error = TunDevice::create(TunConfig {
        name: None,
        mtu: MTU_MIN - 1,
        ..TunConfig::default()
    });
    assert!(
        matches!(error, Err(TunError::InvalidMtu { mtu: 1_279 })),
        "{error:?}"
    );
}

#[test]
fn each_refusal_says_what_to_do() {
    use nix::libc::{EBUSY, EINVAL, ENOENT, EPERM};

    let explained =
        |errno, name| explain(tun::Error::Io(io::Error::from_raw_os_error(errno)), name);
    assert!(explained(EPERM, None).to_string().contains("CAP_NET_ADMIN"));
    assert!(explained(ENOENT, None).to_string().contains("/dev/net/tun"));
    let busy = explained(EBUSY, Some("quell0")).to_string();
    assert!(
        busy.contains("\"quell0\" is in use") && busy.contains("another name"),
        "{busy}"
    );
    let kind = explained(EINVAL, Some("lo")).to_string();
    assert!(kind.contains("another kind"), "{kind}");
    let other = explained(EINVAL, Some("no-such-link"));
    assert!(matches!(other, TunError::Create { .. }), "{other}");
}
