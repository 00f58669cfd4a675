"""Derive names and addresses from a project's path, so that two projects on a machine never share them."""

import hashlib
import os
import re
from dataclasses import dataclass
from ipaddress import IPv4Address

# The key in the stack file under which `init` records the agent and its user.
RECORD = "x-agent-sandbox"
# Half of 10/8 in /28s: half a million networks, away from the ranges that engines and most companies use.
POOL = IPv4Address("10.128.0.0")
NETWORKS = 1 << 19
PREFIX = 28
SLUG_LENGTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
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
    first = POOL + int.from_bytes(_hash(path)[4:8]) % NETWORKS * (1 << (32 - PREFIX))
    return Addresses(subnet=f"{first}/{PREFIX}", proxy=str(first + 2), agent=str(first + 3))


def _hash(path: str) -> bytes:
    return hashlib.sha256(os.fsencode(path)).digest()


def network_name(stack: str) -> str:
    """Return the name of the stack's internal network on the engine.

    >>> network_name("app-1")
    'app-1_sandbox'
    """
    return f"{stack}_sandbox"
