"""The files that make up a policy: the project's, the user's and the organisation's."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

PROJECT = "project"
# The other layers, lowest first, and whether each always restricts, even without `tighten: true` in its file.
BESIDE: Mapping[str, bool] = {"user": False, "organisation": True}


class LayerFile(Struct, frozen=True, kw_only=True):
    """A policy file. Only the project's is required to exist."""

    name: str
    path: Path
    tighten: bool = False

    @property
    def shown(self) -> str:
        """The file's name in origins. The agent sees origins, and should not learn paths of the host machine.

        >>> LayerFile(name="user", path=Path("/home/me/.config/agent-sandbox/policy.yaml")).shown
        'user/policy.yaml'
        """
        return self.path.name if self.name == PROJECT else f"{self.name}/{self.path.name}"

    @property
    def is_there(self) -> bool:
        """Whether the file exists. One that cannot be read counts as existing, so that loading reports it."""
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
