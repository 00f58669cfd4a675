"""Have the kernel notice within two seconds that nobody is at the proxy's address any more.

A proxy that is gone can refuse nothing. The kernel would believe the last it heard of an address for half a minute, and
then ask for it three times, a second apart; meanwhile whoever connects waits for the end of TCP's own patience. Each
interface has these times to itself, and /proc/sys cannot be written in a container: the firewall, which has NET_ADMIN,
says them to the kernel by netlink (rtnetlink(7), linux/neighbour.h).
"""

import socket
import struct

REQUEST_WITH_ANSWER = 0x01 | 0x04
SET_NEIGHBOUR_TABLE = 67
TABLE_NAME, TABLE_PARAMETERS = 1, 6
INTERFACE, BASE_REACHABLE, RETRANS, DELAY_PROBE, UNICAST_PROBES, MULTICAST_PROBES = 1, 4, 5, 7, 10, 11
# An address is believed for at most one and a half times the first, and then asked for at once if it was used within
# the last: which is as long, so that no packet to one that is gone goes unnoticed.
MILLISECONDS = {BASE_REACHABLE: 200, RETRANS: 200, DELAY_PROBE: 300}
PROBES = {UNICAST_PROBES: 1, MULTICAST_PROBES: 2}


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def question(index: int) -> bytes:
    parameters = attribute(INTERFACE, struct.pack("=I", index))
    parameters += b"".join(attribute(kind, struct.pack("=Q", value)) for kind, value in MILLISECONDS.items())
    parameters += b"".join(attribute(kind, struct.pack("=I", value)) for kind, value in PROBES.items())
    body = struct.pack("=BxH", socket.AF_INET, 0)
    body += attribute(TABLE_NAME, b"arp_cache\0") + attribute(TABLE_PARAMETERS, parameters)
    return struct.pack("=IHHII", 16 + len(body), SET_NEIGHBOUR_TABLE, REQUEST_WITH_ANSWER, 1, 0) + body


def main() -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        for index, name in socket.if_nameindex():
            if name == "lo":
                continue
            kernel.send(question(index))
            (error,) = struct.unpack_from("=i", kernel.recv(4096), 16)
            if error:
                raise OSError(-error, "the kernel rejected the timeouts", name)


if __name__ == "__main__":
    main()
