"""A million names in little room, and one step to look each of them up."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

# So many names share a text: it is found by the name's hash and searched by the fastest thing there is for text.
SHARING = 16
END = "\n"


@dataclass(frozen=True, slots=True)
class HostSet:
    """Canonical hosts, each between line ends in the one of `texts` that its hash leads to.

    A set of strings would take 130 bytes a name; this takes what a file takes, and a little.
    """

    texts: tuple[str, ...]
    mask: int

    def __contains__(self, host: str) -> bool:
        # Without a line end in it a host is found as a whole line or not at all.
        return f"{END}{host}{END}" in self.texts[hash(host) & self.mask]

    def __len__(self) -> int:
        return sum(text.count(END) - 1 for text in self.texts)

    def any_ends_in(self, ending: str) -> bool:
        """Tell whether a name of the set ends so."""
        return any(f"{ending}{END}" in text for text in self.texts)

    def like(self, host: str) -> str:
        """Return a name of the set that this one describes, `*` being a part of a label; nothing where none is.

        A million names are looked through in some ten milliseconds.
        """
        if "*" not in host:
            return host if host in self else ""
        wanted = re.compile(f"{END}({'[^.\n]*'.join(map(re.escape, host.split('*')))}){END}")
        ending = host.rpartition("*")[2] + END
        found = (wanted.search(text) for text in self.texts if ending in text)
        return next((one[1] for one in found if one), "")


def host_set(names: Iterable[str], *, about: int) -> HostSet:
    """Return the set; `about` how many there are is enough to know.

    >>> "a.test" in host_set(["a.test", "b.test"], about=2), "test" in host_set(["a.test"], about=1)
    (True, False)
    """
    mask = (1 << (about // SHARING).bit_length()) - 1
    texts = [END] * (mask + 1)
    for name in names:
        texts[hash(name) & mask] += name + END
    return HostSet(tuple(texts), mask)
