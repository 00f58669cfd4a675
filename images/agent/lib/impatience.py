"""Make the kernel detect within two seconds that the proxy is gone.

By default, the kernel trusts an ARP entry for half a minute, then sends three ARP requests, one second apart. Until
then, connections hang if the proxy is gone. The timeouts are set per interface. /proc/sys is read-only in a container,
so the firewall, which has NET_ADMIN, sets them through netlink (rtnetlink(7), linux/neighbour.h).
"""

import socket
import struct

REQUEST_WITH_ANSWER = 0x01 | 0x04
SET_NEIGHBOUR_TABLE = 67
TABLE_NAME, TABLE_PARAMETERS = 1, 6
INTERFACE, BASE_REACHABLE, RETRANS, DELAY_PROBE, UNICAST_PROBES, MULTICAST_PROBES = 1, 4, 5, 7, 10, 11
# The kernel trusts an entry for at most 1.5 times BASE_REACHABLE, then probes it if it was used within DELAY_PROBE.
# Both are 300 ms, so each packet to an address that is gone leads to a probe.
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
