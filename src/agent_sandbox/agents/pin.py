"""A project's pin of an agent's version: a newer one than the manifest's, with the hash of its package if known."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

VERSION = re.compile(r"[0-9]{1,20}\.[0-9]{1,20}\.[0-9]{1,20}(-[0-9A-Za-z.-]{1,64})?")
# The hash of a package as npm records it.
INTEGRITY = re.compile(r"sha512-[A-Za-z0-9+/]{86}==")
NUMBERS = re.compile(r"[0-9]+|[A-Za-z-]+")


class Pin(Struct, frozen=True, kw_only=True):
    """A version of an npm package, and the hash that npm records for it (`sha512-...`), or ""."""

    version: str
    integrity: str = ""

    @property
    def text(self) -> str:
        """The pin as a file says it."""
        return f"{self.version} {self.integrity}".rstrip()


type Pins = Mapping[str, Pin]


def pins_in(said: Any) -> dict[str, Pin]:  # noqa: ANN401 - whatever a stack's record holds
    """Return the recorded pins by agent, without those that are not valid."""
    rows = said.items() if isinstance(said, dict) else ()
    pins = ((str(name), parse_pin(str(text))) for name, text in rows)
    return {name: pin for name, pin in pins if pin}


def parse_pin(text: str) -> Pin | None:
    """Return the pin, or None if the text is not `VERSION` or `VERSION HASH`.

    >>> parse_pin("2.1.3"), parse_pin("latest")
    (Pin(version='2.1.3', integrity=''), None)
    """
    version, space, integrity = text.partition(" ")
    valid = VERSION.fullmatch(version) and (INTEGRITY.fullmatch(integrity) or not space)
    return Pin(version=version, integrity=integrity) if valid else None


def is_newer(version: str, than: str) -> bool:
    """Return whether a version is newer than another; a pre-release is older than its release.

    >>> is_newer("1.10.0", "1.9.9"), is_newer("2.0.0-rc.2", "2.0.0"), is_newer("2.0.0-rc.10", "2.0.0-rc.2")
    (True, False, True)
    """
    return _order(version) > _order(than)


def _order(version: str) -> tuple[list[tuple[bool, int, str]], bool, list[tuple[bool, int, str]]]:
    release, _, before = version.partition("-")
    return _parts(release), not before, _parts(before)


def _parts(text: str) -> list[tuple[bool, int, str]]:
    """Return the parts of a version in their order: numbers by value, and before words."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in NUMBERS.findall(text)]


def pins_suffix(pins: Pins) -> str:
    """Return what the name of an image says about pins: projects with other pins have other images."""
    if not pins:
        return ""
    text = "\n".join(f"{name} {pin.text}" for name, pin in sorted(pins.items()))
    return f"-p{hashlib.sha256(text.encode()).hexdigest()[:8]}"
