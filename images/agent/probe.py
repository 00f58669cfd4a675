#!/usr/bin/env -S python3 -I
"""Try every known way out from inside the sandbox, and report the outcomes. One file that needs only Python.

    probe.py [--full] [--json] [--group NAME]... [--capture HOST:PORT]    exit status 1 if anything got out

No third party is contacted: the targets are the proxy, this container's network, and addresses and names reserved for
documentation and tests (RFC 5737, 3849, 6761). For comparison, the probe also runs in any other container.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import glob
import ipaddress
import json
import os
import random
import socket
import ssl
import struct
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLOSED, LEAK, NOTE = "closed", "LEAK", "note"
SECONDS = 1.0
TOKEN = b"agent-sandbox-probe"
# Reserved for documentation: a packet that leaks goes to no real host.
NOWHERE = ("198.51.100.1", "192.0.2.1")
NOWHERE_V6 = "2001:db8::1"
NOBODY = "agent-sandbox.invalid"
# The kernel's errors for a packet that it did not send. A timeout is not a refusal: the packet has left.
REFUSED = {errno.ECONNREFUSED, errno.ENETUNREACH, errno.EPERM, errno.EACCES, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
PROXY_HOST, _, PROXY_PORT = os.environ.get("AGENT_SANDBOX_PROXY", "").rpartition(":")
PROXY = (PROXY_HOST, int(PROXY_PORT or 0))
# The ports of services beside the sandbox that this network namespace may connect to: `ADDRESS:PORT ...`.
BESIDE = {tuple(one.split(":", 1)) for one in os.environ.get("AGENT_SANDBOX_BESIDE", "").split()}
# The firewall drops connections from these ports unless a process of this group makes them. Only `agent-sandbox verify`
# has that group, so the proxy can count the denials of `verify` apart from the agent's.
CHECKER_GROUP, CHECKER_PORTS = 60990, range(61000, 62000)
# The firewall's device for packets to all other networks, a bridge without ports.
DEAD_END = "nowhere"
CONTROL = (22, 25, 2019, 2375, 2376, 3128, 5000, 6060, 8000, 8081, 8443, 8888, 9000, 9090, 9901, 10001, 15000)
SENSITIVE = (22, 53, 80, 443, 2375, 2376, 3306, 5432, 6379, 8080, 10250, 11434)
INNER = (
    "127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]",
    "169.254.169.254", "2852039166", "100.100.100.200", "10.0.0.1", "[fd00:ec2::254]", "metadata.google.internal",
)  # fmt: skip
UDP = (socket.SOCK_DGRAM, 0)
# Requests that the receiver answers or drops, but never forwards.
ECHO = struct.pack(">BBHHH", 8, 0, 0xF7FF, 0, 0)
SERVER_STATUS = struct.pack(">6H", 0x5A5A, 2 << 11, 0, 0, 0, 0)
NAMESPACES = {"user": 0x10000000, "network": 0x40000000, "mount": 0x00020000}
DEVICES = ("/dev/[shv]d[a-z]*", "/dev/nvme*", "/dev/mem", "/dev/kmsg", "/dev/net/tun", "/dev/fuse")
RUN = ("docker.sock", "containerd/containerd.sock", "podman/podman.sock", "crio/crio.sock", "user/*/docker.sock")
ENGINES = tuple(f"{top}/{name}" for top in ("/run", "/var/run") for name in RUN)
# VS Code's sockets for credentials, keys, commands and the display, and GnuPG's, which it forwards to the host machine.
EDITORS = (
    "/tmp/vscode-*.sock", "/tmp/user/*/vscode-*.sock", "/run/user/*/vscode-*.sock",
    os.path.expanduser("~/.gnupg/S.gpg-agent*"),
)  # fmt: skip
VARIABLES = ("DOCKER_HOST", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY")
OURS = (
    "/etc/ssl/certs", "/usr/local/share/agent-sandbox/ca", "/usr/local/lib/agent-sandbox", "/etc/resolv.conf",
    "/etc/hosts", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/fs/cgroup",
)  # fmt: skip


class Outcome(NamedTuple):
    """The outcome of one attempt."""

    verdict: str
    told: str


class Try(NamedTuple):
    """One attempt to get out. `quick` attempts run at every start."""

    what: str
    attempt: Callable[[], Outcome]
    quick: bool


def quick(what: str, attempt: Callable[..., Outcome], *arguments: object) -> Try:
    return Try(what, partial(attempt, *arguments), quick=True)


def slow(what: str, attempt: Callable[..., Outcome], *arguments: object) -> Try:
    return Try(what, partial(attempt, *arguments), quick=False)


def closed(told: object) -> Outcome:
    return Outcome(CLOSED, str(told))


def leak(told: object) -> Outcome:
    return Outcome(LEAK, str(told))


def words_of(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def of_error(error: OSError) -> Outcome:
    return closed(words_of(error)) if error.errno in REFUSED else leak(f"no refusal: {words_of(error)}")


# --- direct ways out


def connects(address: str, port: int, data: bytes = b"") -> Outcome:
    """Connect by TCP."""
    try:
        with socket.create_connection((address, port), SECONDS) as talk:
            talk.sendall(data)
            return leak("connected")
    except OSError as error:
        return of_error(error)


def sends(address: str, port: int, kind: int = socket.SOCK_DGRAM, protocol: int = 0, data: bytes = TOKEN) -> Outcome:
    """Send one datagram. If the kernel accepts it, it has left."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, kind, protocol) as talk:
            talk.settimeout(SECONDS / 4)
            talk.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            talk.connect((address, port))
            talk.send(data)
            return leak(f"answered: {answer!r}" if (answer := received(talk)) else "sent")
    except OSError as error:
        return closed(words_of(error))


def received(talk: socket.socket) -> bytes:
    try:
        return talk.recv(512)
    except OSError:
        return b""


def opens_packet_socket() -> Outcome:
    """Open a packet socket, which bypasses the firewall's rules."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0):
            return leak("opened")
    except OSError as error:
        return closed(words_of(error))


def routes() -> Iterator[str]:
    """Yield each route to another network, and each IPv6 route."""
    for line in lines("/proc/net/route")[1:]:
        interface, destination, gateway, *_ = line.split()
        if is_dead_end(interface) and gateway == "00000000":
            continue
        if destination == "00000000" or gateway != "00000000":
            yield f"{interface} by {quad(gateway)}"
    for line in lines("/proc/net/ipv6_route"):
        words = line.split()
        if words[-1] != "lo" and not words[0].startswith(("fe80", "ff")):
            yield f"{words[-1]} to {words[0]}/{int(words[1], 16)}"


def is_dead_end(interface: str) -> bool:
    return interface == DEAD_END and not glob.glob(f"/sys/class/net/{DEAD_END}/brif/*")


def has_a_way_out() -> Outcome:
    """Look for a route out: the firewall's rules should not be the only protection."""
    found = list(routes())
    return leak("; ".join(found)) if found else closed("no other route")


def has_other_networks() -> Outcome:
    """Look for other interfaces with an address. Some kernels create a dozen without one in every namespace."""
    ipv4 = {line.split()[0] for line in lines("/proc/net/route")[1:]}
    ipv6 = {line.split()[-1] for line in lines("/proc/net/if_inet6")} - {"lo"}
    found = sorted(name for name in ipv4 | ipv6 if not is_dead_end(name))
    own = [
        name for name, network in networks() if any(ipaddress.ip_address(address) in network for address, _ in BESIDE)
    ]
    others = [name for name in found if name not in own]
    return leak(f"connected by {', '.join(found)}") if len(others) > 1 else closed(", ".join(found) or "none")


# --- names


def resolves(name: str) -> Outcome:
    try:
        return leak(f"resolves to {socket.getaddrinfo(name, 443)[0][4][0]}")
    except OSError as error:
        return closed("no such name" if isinstance(error, socket.gaierror) else error)


# --- the proxy


def exchange(raw: bytes, then: Callable[[socket.socket], bytes] | None = None) -> bytes:
    """Send bytes to the proxy and return what comes back; `then` continues in the tunnel if the proxy opened one."""
    with connected_to_proxy() as talk:
        talk.sendall(raw)
        got = talk.recv(4096)
        return then(talk) if then and status(got) == 200 else got


def connected_to_proxy() -> socket.socket:
    if os.getegid() == CHECKER_GROUP:
        for port in random.sample(CHECKER_PORTS, 100):
            try:
                return socket.create_connection(PROXY, 5 * SECONDS, ("", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
    return socket.create_connection(PROXY, 5 * SECONDS)


def status(answer: bytes) -> int:
    words = answer.split(b" ", 2)
    return int(words[1]) if answer.startswith(b"HTTP/") and len(words) > 1 and words[1].isdigit() else 0


def denied(raw: bytes, then: Callable[[socket.socket], bytes] | None = None) -> Outcome:
    """Send a request that the proxy should deny, with an error status or by closing the connection."""
    try:
        got = exchange(raw, then)
    except (ConnectionError, ssl.SSLError) as error:
        return closed(f"ended: {type(error).__name__}")
    except OSError as error:
        return leak(f"no refusal: {error}")
    if status(got) >= 400 or not got:
        return closed(status(got) or "ended")
    return leak(f"it said {got[:60]!r}")


def get(url: str, *headers: str, method: str = "GET", host: str = "") -> bytes:
    authority = host or url.partition("://")[2].partition("/")[0]
    head = [f"{method} {url} HTTP/1.1", f"Host: {authority}", "Connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode()


def connect(authority: str) -> bytes:
    return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode()


def raw_bytes(talk: socket.socket) -> bytes:
    talk.sendall(b"SSH-2.0-probe\r\n\0\1binary")
    return talk.recv(512)


def by_tls(name: str, request: bytes) -> Callable[[socket.socket], bytes]:
    """Return a function that sends one request over TLS, without checking the certificate."""

    def go_on(talk: socket.socket) -> bytes:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(talk, server_hostname=name) as inside:
            inside.sendall(request)
            return inside.recv(4096)

    return go_on


def speaks_socks() -> Outcome:
    try:
        got = exchange(b"\5\1\0")
    except OSError as error:
        return closed(f"ended: {type(error).__name__}")
    return leak(f"it said {got[:10]!r}") if got.startswith(b"\5\0") else closed(status(got) or "ended")


# --- what this process may do


def process_status(name: str) -> str:
    return next((line.split(":", 1)[1].strip() for line in lines("/proc/self/status") if line.startswith(name)), "")


def has_capabilities() -> Outcome:
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    found = [f"{name}={process_status(name)}" for name in names if int(process_status(name) or "0", 16)]
    return leak(" ".join(found)) if found else closed("none, and none to be gained")


def field(name: str, wanted: str, told: str) -> Outcome:
    said = process_status(name)
    if not said:
        return Outcome(NOTE, "this kernel does not report it")
    return closed(told) if said == wanted else leak(f"{name} is {said}")


def is_root() -> Outcome:
    return leak("uid 0") if os.geteuid() == 0 else closed(f"uid {os.geteuid()}")


def unshare(flag: int) -> Outcome:
    """Try to create a namespace, in a child process."""
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(flag) == 0 else 1)
    return leak("made") if os.waitpid(child, 0)[1] == 0 else closed("refused")


def mounts() -> Outcome:
    """Mount a file system type that does not exist: only a process that may not mount gets EPERM."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mount(b"none", b"/", b"no-such-file-system", 0, None)
    return closed("refused") if ctypes.get_errno() == errno.EPERM else leak("allowed")


def privileged_files() -> Outcome:
    """Look for setuid and setgid files, and for files with capabilities."""
    found = []
    for folder, _, names in os.walk("/"):
        if folder.startswith(("/proc", "/sys", "/workspace")):
            continue
        found += [path for name in names if is_privileged(path := os.path.join(folder, name))]
    return leak(", ".join(found[:3])) if found else closed("none")


def is_privileged(path: str) -> bool:
    try:
        seen = os.lstat(path)
        regular = seen.st_mode & 0o170000 == 0o100000
        return regular and bool(seen.st_mode & 0o6000 or "security.capability" in os.listxattr(path))
    except OSError:
        return False


def there(patterns: tuple[str, ...], verdict: str = LEAK) -> Outcome:
    found = [path for pattern in patterns for path in glob.glob(pattern)]
    return Outcome(verdict, ", ".join(found)) if found else closed("none")


def named_in_environment(names: tuple[str, ...]) -> Outcome:
    found = [name for name in names if os.environ.get(name)]
    return leak(", ".join(found)) if found else closed("none")


# --- what it may write, and read


def writes(path: str) -> Outcome:
    """Report whether a path is writable, without writing to it."""
    if not os.path.exists(path):
        return closed("is not there")
    return leak("can be written") if os.access(path, os.W_OK) else closed("read-only")


def protected() -> Outcome:
    """Check that each protected path is mounted read-only."""
    said = [line.split(" ", 1) for line in os.environ.get("AGENT_SANDBOX_PROTECTED", "").splitlines()]
    paths = [line[1] for line in said if line[0] == "read"]
    found = [path for path in paths if not is_read_only(os.path.join("/workspace", path))]
    return leak("{} can be written".format(", ".join(found))) if found else closed(f"{len(paths)} paths")


def is_read_only(path: str) -> bool:
    return os.path.exists(path) and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def private_keys() -> Outcome:
    found = []
    for top in ("/etc/ssl", "/usr/local/share", "/state", "/run/secrets"):
        for folder, _, names in os.walk(top):
            found += [path for name in names if "PRIVATE KEY-----" in text(path := os.path.join(folder, name))]
    return leak(", ".join(found[:3])) if found else closed("none")


def lines(path: str) -> list[str]:
    return text(path).splitlines()


def text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read(1 << 22)
    except OSError:
        return ""


# --- this container's own network


def quad(hexadecimal: str) -> str:
    return socket.inet_ntoa(struct.pack("<L", int(hexadecimal, 16)))


def networks() -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    """Yield the networks of this container, each with its interface."""
    for line in lines("/proc/net/route")[1:]:
        interface, destination, gateway, _, _, _, _, mask, *_ = line.split()
        network = ipaddress.IPv4Network(f"{quad(destination)}/{quad(mask)}")
        if gateway == "00000000" and network.num_addresses <= 256:
            yield interface, network


def neighbours() -> list[str]:
    """Return all addresses of this container's networks and gateways, except its own, the proxy's and of services."""
    found = {str(address) for _, network in networks() for address in network.hosts()}
    own = {own_address(str(network[1])) for _, network in networks()}
    return sorted(found - own - {PROXY[0]} - {address for address, _ in BESIDE})


def own_address(peer: str) -> str:
    """Return this container's address in the network of `peer`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as talk:
        try:
            talk.connect((peer, 9))  # sends nothing
        except OSError:
            return ""
        return str(talk.getsockname()[0])


def reaches_services() -> Outcome:
    """Connect to the services beside the sandbox, on ports that they do not open to this container."""
    found = {}
    for address in {address for address, _ in BESIDE}:
        ports = tuple(port for port in {*SENSITIVE, *CONTROL} if (address, str(port)) not in BESIDE)
        found[address] = reaches_any([address], ports)
    leaks = [outcome.told for outcome in found.values() if outcome.verdict == LEAK]
    return leak("; ".join(leaks[:3])) if leaks else closed(counted(len(found), "service", "services"))


def reaches_any(addresses: list[str], ports: tuple[int, ...]) -> Outcome:
    found = []
    for address in addresses:
        for port in ports:
            outcome = connects(address, port)
            if outcome.verdict == LEAK:
                found.append(f"{address}:{port} {outcome.told}")
                break
    if found:
        return leak("; ".join(found[:3]))
    return closed(f"{counted(len(addresses), 'address', 'addresses')}, {counted(len(ports), 'port', 'ports')}")


def counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


# --- the table


def direct() -> Iterator[Try]:
    yield quick(f"tcp {NOWHERE[0]}:443", connects, NOWHERE[0], 443)
    for port in (80, 22, 53, 8080):
        yield slow(f"tcp {NOWHERE[0]}:{port}", connects, NOWHERE[0], port)
    yield quick(f"udp {NOWHERE[0]}:53", sends, NOWHERE[0], 53)
    for address, port in ((NOWHERE[0], 443), (NOWHERE[1], 123), (NOWHERE_V6, 443)):
        yield slow(f"udp {address} port {port}", sends, address, port)
    yield quick(f"tcp {NOWHERE_V6} port 443", connects, NOWHERE_V6, 443)
    for address in ("224.0.0.251", "255.255.255.255"):
        yield slow(f"udp {address}:5353", sends, address, 5353)
    yield slow("icmp echo", sends, NOWHERE[0], 0, socket.SOCK_DGRAM, socket.IPPROTO_ICMP, ECHO)
    yield quick("icmp by a raw socket", sends, NOWHERE[0], 0, socket.SOCK_RAW, socket.IPPROTO_ICMP, ECHO)
    yield quick("a packet socket", opens_packet_socket)
    yield quick("a route out", has_a_way_out)
    yield quick("another network", has_other_networks)


def names() -> Iterator[Try]:
    yield quick("the engine's resolver by tcp", connects, "127.0.0.11", 53)
    yield quick("the engine's resolver by udp", sends, "127.0.0.11", 53, *UDP, SERVER_STATUS)
    yield slow(f"resolve {NOBODY}", resolves, NOBODY)


def network() -> Iterator[Try]:
    yield slow("neighbours and the gateway", reaches_any, neighbours(), SENSITIVE)
    if BESIDE:
        yield slow("other ports of services", reaches_services)
    yield quick("the cloud's metadata", connects, "169.254.169.254", 80)
    if PROXY[0]:
        yield quick("the proxy's other ports", reaches_any, [PROXY[0]], CONTROL)
        yield quick("the proxy by udp", sends, PROXY[0], 9)


def proxy() -> Iterator[Try]:
    if not PROXY[0]:
        return
    own, url, tls, other = f"{PROXY[0]}:{PROXY[1]}", f"http://{NOBODY}/", f"{NOBODY}:443", f"other.{NOBODY}"
    # Not at every start: each would add a denial to the audit log, which users read.
    yield slow("a host that no rule allows", denied, get(f"{url}probe"))
    yield slow("the proxy itself", denied, get(f"http://{own}/"))
    yield slow("raw bytes in a tunnel", denied, connect(tls), raw_bytes)
    yield slow("https in a tunnel", denied, connect(tls), by_tls(NOBODY, get("/", host=NOBODY)))
    for host in (*INNER, *NOWHERE):
        yield slow(f"http://{host}/", denied, get(f"http://{host}/"))
    for authority in (own, "127.0.0.1:443", NOBODY, *(f"{NOBODY}:{port}" for port in (22, 25, 53, 8443))):
        yield slow(f"CONNECT {authority}", denied, connect(authority), raw_bytes)
    yield slow("a request as to a server", denied, get("/", host=own))
    yield slow("another TLS name", denied, connect(tls), by_tls(other, get("/", host=other)))
    yield slow("another Host in a tunnel", denied, connect(tls), by_tls(NOBODY, get("/", host=other)))
    yield slow("another Host", denied, get(url, host=other))
    yield slow("two Hosts", denied, get(url, f"Host: {other}"))
    yield slow("empty lines first", denied, b"\r\n\r\n" + get(f"http://{NOWHERE[0]}/"))
    chunks = get(url, "Content-Length: 4", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n"
    yield slow("a length and chunks", denied, chunks)
    yield slow("a name before the host", denied, get(f"http://{NOBODY}@{NOWHERE[0]}/"))
    for scheme in (f"ftp://{NOBODY}/", "file:///etc/passwd"):
        yield slow(scheme, denied, get(scheme, host=NOBODY))
    yield slow("TRACE", denied, get(url, method="TRACE"))
    yield slow("an upgrade to h2c", denied, get(url, "Upgrade: h2c", "HTTP2-Settings: AA"))
    yield slow("SOCKS", speaks_socks)


def privileges() -> Iterator[Try]:
    yield quick("root", is_root)
    yield quick("capabilities", has_capabilities)
    yield quick("new privileges", field, "NoNewPrivs", "1", "never")
    # Not at every start: a runtime with its own kernel filters in other ways, and allows new namespaces.
    yield slow("unfiltered system calls", field, "Seccomp", "2", "filtered")
    for name, flag in NAMESPACES.items():
        yield slow(f"a {name} namespace", unshare, flag)
    yield slow("mount", mounts)
    yield slow("setuid and capability files", privileged_files)
    yield quick("the host's devices", there, DEVICES)


def sockets() -> Iterator[Try]:
    yield quick("an engine's", there, ENGINES)
    yield quick("named in the environment", named_in_environment, VARIABLES)
    yield slow("an editor's way to the host", there, EDITORS, NOTE)


def walls() -> Iterator[Try]:
    yield quick("what the host acts on", protected)
    for path in OURS:
        yield quick(f"write {path}", writes, path)
    yield slow("the CA's private key", private_keys)
    yield quick("the proxy's files", there, ("/state", "/policy", "/run/secrets/*"))


def capture(where: str) -> Iterator[Try]:
    host, _, port = where.rpartition(":")
    if not host:
        return
    yield slow(f"tcp {where}", connects, host.strip("[]"), int(port), TOKEN)
    yield slow(f"udp {where}", sends, host.strip("[]"), int(port))
    if PROXY[0]:
        yield slow("http by the proxy", denied, get(f"http://{where}/"))
        yield slow("a tunnel by the proxy", denied, connect(where), raw_bytes)


GROUPS = (direct, names, network, proxy, privileges, sockets, walls)
# How to fix a leak: by attempt if it is listed, else by group.
ANEW = (
    "on the host machine: agent-sandbox up recreates network, rules and mounts; agent-sandbox doctor finds other causes"
)
OVERRIDE = "a compose file or an editor setting grants this: check COMPOSE_FILE in .env, and devcontainer.json"
CONNECTED = "another network is connected: agent-sandbox status names it and the command that disconnects it"
REPORT = "the proxy allowed what it should deny: do not use it, and report it as SECURITY.md describes"
MEND = {
    "direct": ANEW,
    "names": ANEW,
    "network": ANEW,
    "proxy": REPORT,
    "privileges": OVERRIDE,
    "sockets": OVERRIDE,
    "walls": ANEW,
    "capture": REPORT,
    "a route out": CONNECTED,
    "another network": CONNECTED,
    "neighbours and the gateway": "another container or the gateway answers in this network: run agent-sandbox doctor",
    "root": "the container was entered as another user: use agent-sandbox shell, which enters it as `dev`",
    "the CA's private key": "remove that key from what is mounted; the proxy's own key never leaves its volume",
}


def results(*, full: bool, listener: str, groups: list[str] | None = None) -> Iterator[dict[str, object]]:
    """Run the selected attempts, one after the other."""
    chosen = [group for group in GROUPS if groups is None or group.__name__ in groups]
    wanted = [(group.__name__, one) for group in chosen for one in group() if full or one.quick]
    for group, one in [*wanted, *(("capture", one) for one in capture(listener))]:
        began = time.monotonic()
        verdict, told = one.attempt()
        spent = round((time.monotonic() - began) * 1000)
        mend = MEND.get(one.what, MEND[group]) if verdict == LEAK else ""
        said = {"group": group, "tried": one.what, "verdict": verdict, "told": ascii(told)[1:-1]}
        yield {**said, "mend": mend, "ms": spent}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="try everything, not only what runs at every start")
    parser.add_argument("--json", action="store_true", help="for a program")
    parser.add_argument(
        "--capture", metavar="HOST:PORT", default="", help="your own listener; a connection to it is a leak"
    )
    every = [group.__name__ for group in GROUPS]
    parser.add_argument("--group", action="append", choices=every, help="try only this group; may be repeated")
    asked = parser.parse_args()
    found = list(results(full=asked.full, listener=asked.capture, groups=asked.group))
    leaks = [one for one in found if one["verdict"] == LEAK]
    if asked.json:
        print(json.dumps({"ok": not leaks, "probes": found}, indent=2))
    else:
        for one in found:
            print("{verdict:<6}  {group:<10}  {tried:<36}  {told}".format(**one))
            if one["mend"]:
                print("        fix:  {mend}".format(**one))
        print(f"{len(found)} tried, {len(leaks)} got out" if leaks else f"{len(found)} tried, none got out")
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
