"""Which files make a policy: the project's, and those that stand beside it for a user or an organisation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROJECT = "project"
# The layers beside the project's, lowest first, and whether each may only narrow whatever its file says of itself.
BESIDE: Mapping[str, bool] = {"user": False, "organisation": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFile:
    """A file of the policy, which need not be there unless it is the project's."""

    name: str
    path: Path
    tighten: bool = False

    @property
    def shown(self) -> str:
        """What origins call the file: they reach the agent, which has no business with the host's paths.

        >>> LayerFile(name="user", path=Path("/home/me/.config/agent-sandbox/policy.yaml")).shown
        'user/policy.yaml'
        """
        return self.path.name if self.name == PROJECT else f"{self.name}/{self.path.name}"

    @property
    def is_there(self) -> bool:
        """Whether something stands at the path, be it one that cannot be read: that is a problem, and no absence."""
        try:
            self.path.lstat()
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True


def layer_beside(name: str, path: Path) -> LayerFile:
    """Return the layer of that name, one of `BESIDE`."""
    return LayerFile(name=name, path=path, tighten=BESIDE[name])
