"""The canonical form of a host: lower case, IDNA2008, no trailing dot; addresses as the standard library writes them.

A spelling that some resolver would read as another host (`127.1`, `0x7f.1`, a full-width letter) is ambiguous.
"""

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.text import safe_repr

# RFC 1123 has no underscores in host names, but buckets and service records do.
LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*")
# Names whose last label inet_aton would read as a number: `1`, `0x7f`, `0177`.
NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
MAX_LENGTH = 253
# The proxy answers requests to http:// of this name itself.
OWN_HOST = "agent-sandbox.internal"


# The same few hosts are requested all the time; exceptions are not cached.
@lru_cache(maxsize=1024)
def canonical_host(text: str) -> str:
    """Return the canonical form of a host, or raise Ambiguous.

    >>> canonical_host("Bücher.Example.")
    'xn--bcher-kva.example'
    >>> canonical_host("[2001:DB8:0::1]")
    '2001:db8::1'
    """
    if ":" in text or text.startswith("["):
        return _address_v6(text)
    name = text.lower() if text.isascii() else _from_unicode(text)
    name = name.removesuffix(".")
    if NUMBER.fullmatch(name):
        return _address_v4(name)
    if len(name) > MAX_LENGTH or not NAME.fullmatch(name):
        raise Ambiguous(f"not a host name: {safe_repr(text)}")
    if "xn--" in name:
        _check_punycode(name)
    return name


def is_address(host: str) -> bool:
    """Return whether a canonical host is an IP address."""
    return ":" in host or NUMBER.fullmatch(host) is not None


def _from_unicode(text: str) -> str:
    # Only ASCII is lowered: `str.lower` would turn the Kelvin sign into a `k`.
    return ".".join(map(_ascii_label, text.translate(LOWER).split(".")))


def _ascii_label(label: str) -> str:
    if label.isascii():
        return label
    import idna  # noqa: PLC0415 - slow to import, and few hosts are international

    try:
        return idna.alabel(label).decode("ascii")
    except idna.IDNAError as error:
        raise Ambiguous(f"not a valid international host name (IDNA2008): {safe_repr(label)}") from error


def _check_punycode(name: str) -> None:
    """Raise Ambiguous for an `xn--` label that differs from the encoding of its Unicode form."""
    import idna  # noqa: PLC0415 - as above

    for label in name.split("."):
        if not label.startswith("xn--"):
            continue
        try:
            same = idna.alabel(idna.ulabel(label)) == label.encode()
        except idna.IDNAError:
            same = False
        if not same:
            raise Ambiguous(f"not valid punycode: {safe_repr(label)}")


def _address_v4(name: str) -> str:
    try:
        return str(IPv4Address(name))
    except AddressValueError as error:
        raise Ambiguous(f"an address that programs read differently: {safe_repr(name)}") from error


def _address_v6(text: str) -> str:
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = IPv6Address(bare)
    except AddressValueError as error:
        raise Ambiguous(f"not an IPv6 address: {safe_repr(text)}") from error
    if address.scope_id is not None:
        raise Ambiguous(f"{safe_repr(text)} names a network interface")
    # `::ffff:192.0.2.1` and `192.0.2.1` are the same destination.
    return str(address.ipv4_mapped or address)
