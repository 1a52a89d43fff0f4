"""A tunnel driven from Python: connect, transfer, an outage, a pause, the end.

The test beside starts it, answers what comes out of the tunnel, and kills the exit when it is told "up".
Arguments: the configuration, the secret key. Each step is a line; an assertion that fails ends it with its words.
"""

import ipaddress
import json
import struct
import sys

import quell

LIMIT_MS = 10_000
NO_HOOKS = quell.TunnelHooks(protector=None, key_holder=None)


class Protector(quell.Protector):
    """Counts the sockets that were shown before their first byte."""

    def __init__(self):
        self.sockets = []

    def protect(self, socket):
        self.sockets.append(socket)
        return True


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp(source, destination, payload):
    """An IPv4 packet with a UDP datagram without checksum, which IPv4 allows (RFC 768)."""
    datagram = struct.pack("!HHHH", 4000, 53, 8 + len(payload), 0) + payload
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 7, 0, 64, 17, 0)
    ends = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    total = struct.pack("!H", checksum(head + ends))
    return head[:10] + total + ends + datagram


def until(tunnel, kind):
    """The next event of this kind; those before it are printed."""
    while True:
        event = tunnel.next_event(LIMIT_MS)
        assert event is not None, f"no {kind.__name__} within {LIMIT_MS} ms"
        if isinstance(event, kind):
            return event
        print("event", event, flush=True)


def refused(call):
    """The words that a call is refused with."""
    try:
        call()
    except quell.TunnelError.Invalid as error:
        return str(error)
    raise AssertionError("it was not refused")


def main(config, key):
    # What is wrong is said, with what is allowed.
    options = quell.TunnelOptions(config="[provider]\nadress = 1", secret_key=key, memory_bytes_max=None)
    words = refused(lambda: quell.Tunnel.start(options, quell.Packets(1), NO_HOOKS))
    assert "adress" in words, words

    options = quell.TunnelOptions(config=config, secret_key=key, memory_bytes_max=24 << 20)
    packets, protector = quell.Packets(256), Protector()
    hooks = quell.TunnelHooks(protector=protector, key_holder=None)
    tunnel = quell.Tunnel.start(options, packets, hooks)
    parameters = until(tunnel, quell.TunnelEvent.PARAMETERS)
    own = parameters.ipv4.split("/")[0]
    assert parameters.mtu >= 1280
    up = until(tunnel, quell.TunnelEvent.UP)
    assert protector.sockets, "no socket was shown"
    words = refused(lambda: quell.Tunnel.start(options, packets, NO_HOOKS))
    assert "another tunnel" in words, words

    # The far side answers each datagram with its payload.
    for number in range(100):
        payload = struct.pack("!I", number) * 250
        assert packets.inject(udp(own, "192.0.2.1", payload))
        answer = packets.take(LIMIT_MS)
        assert answer is not None and answer[28:] == payload, f"datagram {number}"
    assert not packets.inject(b"\x00 is no version of IP")
    status = json.loads(tunnel.status_json(LIMIT_MS))
    assert status["state"] == "up" and status["unaccounted"] == 0, status
    tunnel.network_changed(validated=True, metered=True)
    tunnel.select(None)
    print("transferred", up.exit, flush=True)

    # The exit is killed now.
    sys.stdin.readline()
    stalled = until(tunnel, quell.TunnelEvent.STALLED)
    print("stalled", stalled.reason, flush=True)
    sys.stdin.readline()
    back = until(tunnel, quell.TunnelEvent.UP)
    print("back", back.after_ms, flush=True)

    tunnel.hold(True)
    until(tunnel, quell.TunnelEvent.HELD)
    tunnel.hold(False)
    until(tunnel, quell.TunnelEvent.UP)
    tunnel.shutdown(5_000)
    down = until(tunnel, quell.TunnelEvent.DOWN)
    assert down.asked, down
    assert tunnel.next_event(LIMIT_MS) is None
    print("done", flush=True)


main(*sys.argv[1:])
