"""A policy file among others: its name, what it says, and where each word of it stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.match.host_list import ListedHosts
from agent_sandbox.policy.match.upstream import Authorities

if TYPE_CHECKING:
    from agent_sandbox.policy.file.spec import PolicySpec

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One file of the policy. `lines` tells the line of each part: `("domains", 0, "rules", 1)`."""

    name: str
    file: str
    spec: "PolicySpec"
    lines: Mapping[Location, int]
    # Set for a layer that may only narrow whatever its file says of itself: the organisation's.
    tighten: bool = False
    # What stands in the file that `domains_file` names.
    listed: ListedHosts | None = None
    # What stands in the file that `settings.upstream.ca` names.
    authorities: Authorities | None = None

    @property
    def only_narrows(self) -> bool:
        """Whether its allows are a ceiling for all layers, and allow nothing by themselves."""
        return self.tighten or self.spec.tighten

    def origin(self, *location: str | int) -> Origin:
        """Return where a part was written; what was written in short stands where the whole stands."""
        while location and location not in self.lines:
            location = location[:-1]
        return Origin(file=self.file, line=self.lines.get(location, 1), layer=self.name)
