"""Derive names and addresses from a project's path, so that two projects on a machine never share them."""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address

from msgspec import Struct

# The key in the stack file under which `init` records the agent and its user.
RECORD = "x-agent-sandbox"
# Half of 10/8 in /28s: half a million networks, away from the ranges that engines and most companies use.
POOL = IPv4Address("10.128.0.0")
NETWORKS = 1 << 19
PREFIX = 28
SIZE = 1 << (32 - PREFIX)
# The key of the network of the services beside the sandbox, and the first part of the keys of their volumes.
BESIDE = "beside"
SLUG_LENGTH = 40
TITLE_LENGTH = 100


class Addresses(Struct, frozen=True, kw_only=True):
    """The subnet of a stack's internal network, and the addresses in it."""

    subnet: str
    proxy: str
    agent: str


def slug(text: str) -> str:
    """Return a name that the engine accepts for a stack.

    >>> slug("Jürgen's App")
    'j-rgen-s-app'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:SLUG_LENGTH].strip("-") or "project"


def stack_name(title: str, path: str) -> str:
    """Return the slug of the title and a short hash of the path: two directories called `app` have two names."""
    return f"{slug(title)}-{_hash(path)[:4].hex()}"


def addresses(path: str) -> Addresses:
    """Return the pinned addresses of the project at that path."""
    first = _network(path, 4)
    return Addresses(subnet=f"{first}/{PREFIX}", proxy=str(first + 2), agent=str(first + 3))


class BesideAddresses(Struct, frozen=True, kw_only=True):
    """The subnet of the network of the services beside the sandbox, and the addresses in it."""

    subnet: str
    agent: str
    services: Mapping[str, str]


def beside_addresses(path: str, services: Iterable[str]) -> BesideAddresses:
    """Return the pinned addresses of the services of the project at that path, in their order."""
    first = _network(path, 8)
    if first == _network(path, 4):
        first = POOL if first == _network_at(NETWORKS - 1) else first + SIZE
    others = {name: str(first + number) for number, name in enumerate(services, start=3)}
    return BesideAddresses(subnet=f"{first}/{PREFIX}", agent=str(first + 2), services=others)


def _network(path: str, start: int) -> IPv4Address:
    return _network_at(int.from_bytes(_hash(path)[start : start + 4]) % NETWORKS)


def _network_at(number: int) -> IPv4Address:
    return POOL + number * SIZE


def _hash(path: str) -> bytes:
    return hashlib.sha256(os.fsencode(path)).digest()


def network_name(stack: str) -> str:
    """Return the name of the stack's internal network on the engine.

    >>> network_name("app-1")
    'app-1_sandbox'
    """
    return f"{stack}_sandbox"


def beside_network_name(stack: str) -> str:
    """Return the name of the network of the services beside the sandbox on the engine.

    >>> beside_network_name("app-1")
    'app-1_beside'
    """
    return f"{stack}_{BESIDE}"
