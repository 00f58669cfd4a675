"""A layer: a parsed policy file with its name and the line of each part."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.match.host_list import ListedHosts
from agent_sandbox.policy.match.upstream import Authorities

if TYPE_CHECKING:
    from agent_sandbox.policy.file.spec import PolicySpec

Location = tuple[str | int, ...]


class Layer(Struct, frozen=True, kw_only=True):
    """A parsed policy file. `lines` maps the location of each part, `("domains", 0, "rules", 1)`, to its line."""

    name: str
    file: str
    spec: "PolicySpec"
    lines: Mapping[Location, int]
    # Set for a layer that restricts even without `tighten: true` in its file: the organisation's.
    tighten: bool = False
    # The content of the file that `domains_file` names.
    listed: ListedHosts | None = None
    # The content of the file that `settings.upstream.ca` names.
    authorities: Authorities | None = None

    @property
    def restricts(self) -> bool:
        """Whether its allows limit what all layers allow, and allow nothing by themselves."""
        return self.tighten or self.spec.tighten

    def origin(self, *location: str | int) -> Origin:
        """Return the line of a part; a part of a short form has the line of the whole."""
        while location and location not in self.lines:
            location = location[:-1]
        return Origin(file=self.file, line=self.lines.get(location, 1), layer=self.name)
