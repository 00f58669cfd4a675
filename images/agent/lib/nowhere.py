"""Give packets for all other networks a route to a device that drops them, so that the firewall sees and refuses them.

The stack's network has no default route, so the kernel itself fails a connection to any other address, before the
firewall can count it. A bridge without ports drops every packet: if the rules were lost, nothing would leave either.
Uses rtnetlink(7), as the image has no `ip`; needs NET_ADMIN. A metric this high yields to any other default route.
"""

import os
import socket
import struct
import sys

NAME = "nowhere"
REQUEST_WITH_ANSWER, CREATE_EXCLUSIVELY = 0x01 | 0x04, 0x200 | 0x400
NEW_LINK, SET_LINK, NEW_ROUTE = 16, 19, 24
LINK_NAME, LINK_INFO, LINK_KIND, LINK_FAMILIES, IPV6_ADDRESSES = 3, 18, 1, 26, 8
UP, NO_ADDRESSES = 1, 1
MAIN_TABLE, BOOT, LINK_SCOPE, UNICAST, OUTPUT_DEVICE, PRIORITY = 254, 3, 253, 1, 4, 6
METRIC = (1 << 31) - 1


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def link(*, index: int = 0, flags: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, flags)


def ask(kernel: socket.socket, kind: int, flags: int, body: bytes) -> None:
    kernel.send(struct.pack("=IHHII", 16 + len(body), kind, REQUEST_WITH_ANSWER | flags, 1, 0) + body)
    (error,) = struct.unpack_from("=i", kernel.recv(4096), 16)
    if error:
        raise OSError(-error, "the kernel rejected the device or its route")


def main() -> None:
    bridge = attribute(LINK_NAME, NAME.encode() + b"\0") + attribute(LINK_INFO, attribute(LINK_KIND, b"bridge\0"))
    # Not even a link-local address: programs would conclude that there is IPv6.
    bare = attribute(LINK_FAMILIES, attribute(socket.AF_INET6, attribute(IPV6_ADDRESSES, bytes([NO_ADDRESSES]))))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        ask(kernel, NEW_LINK, CREATE_EXCLUSIVELY, link() + bridge)
        index = socket.if_nametoindex(NAME)
        if os.path.exists("/proc/net/if_inet6"):
            ask(kernel, SET_LINK, 0, link(index=index) + bare)
        ask(kernel, SET_LINK, 0, link(index=index, flags=UP))
        route = struct.pack("=8BI", socket.AF_INET, 0, 0, 0, MAIN_TABLE, BOOT, LINK_SCOPE, UNICAST, 0)
        target = attribute(OUTPUT_DEVICE, struct.pack("=I", index)) + attribute(PRIORITY, struct.pack("=I", METRIC))
        ask(kernel, NEW_ROUTE, CREATE_EXCLUSIVELY, route + target)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"agent-sandbox: {error.strerror}: {os.strerror(error.errno or 0).lower()}")
