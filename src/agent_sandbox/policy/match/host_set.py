"""A memory-efficient set of host names with constant-time look-up."""

import re
from collections.abc import Iterable

from msgspec import Struct

# About so many names share a text, which is found by hash and then searched as a string.
SHARING = 16
END = "\n"


class HostSet(Struct, frozen=True):
    """Canonical hosts, one per line in the text that `texts` has for their hash.

    A set of strings takes 130 bytes per name; this takes little more than the file.
    """

    texts: tuple[str, ...]
    mask: int

    def __contains__(self, host: str) -> bool:
        # A host never contains a line end, so it only matches a whole line.
        return f"{END}{host}{END}" in self.texts[hash(host) & self.mask]

    def __len__(self) -> int:
        return sum(text.count(END) - 1 for text in self.texts)

    def any_ends_in(self, ending: str) -> bool:
        """Return whether a name in the set has this ending."""
        return any(f"{ending}{END}" in text for text in self.texts)

    def like(self, host: str) -> str:
        """Return a name in the set that matches, with `*` for part of a label; empty if there is none.

        Searching a million names takes some ten milliseconds.
        """
        if "*" not in host:
            return host if host in self else ""
        wanted = re.compile(f"{END}({'[^.\n]*'.join(map(re.escape, host.split('*')))}){END}")
        ending = host.rpartition("*")[2] + END
        found = (wanted.search(text) for text in self.texts if ending in text)
        return next((one[1] for one in found if one), "")


def host_set(names: Iterable[str], *, about: int) -> HostSet:
    """Return the set of the names; `about` is their approximate number.

    >>> "a.test" in host_set(["a.test", "b.test"], about=2), "test" in host_set(["a.test"], about=1)
    (True, False)
    """
    mask = (1 << (about // SHARING).bit_length()) - 1
    texts = [END] * (mask + 1)
    for name in names:
        texts[hash(name) & mask] += name + END
    return HostSet(tuple(texts), mask)
