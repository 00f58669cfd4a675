"""`init` in a directory of a test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.features.stack.init.initialise import InitOptions, Prepared, prepare
from agent_sandbox.project.render.reconcile import OnConflict
from agent_sandbox.resources import data_root
from agent_sandbox.stack.recorded import Ide

AGENT = known_agents(data_root() / "templates")[0]

type Init = Callable[..., Prepared]


def init_options(path: Path, *, title: str | None = None, ide: Ide | None = None) -> InitOptions:
    """Return the options of `init claude` that keep edited files and look for no hosts."""
    return InitOptions(agents=("claude",), path=path, title=title, ide=ide, on_conflict=OnConflict.KEEP, detect=False)


@pytest.fixture
def init(tmp_path: Path) -> Init:
    """Return what runs `init` in a directory, and writes."""

    def init(
        root: Path,
        *,
        force: bool = False,
        dotenv: bool | None = None,
        agents: tuple[str, ...] = (AGENT,),
        **limits: str,
    ) -> Prepared:
        root.mkdir(exist_ok=True)
        choice = OnConflict.REPLACE if force else OnConflict.KEEP
        wish = InitOptions(
            agents=agents,
            path=root,
            title=None,
            ide=None,
            on_conflict=choice,
            detect=False,
            dotenv=dotenv,
            limits=limits,
        )
        prepared = prepare(wish, {"HOME": str(tmp_path / "home")})
        prepared.write()
        return prepared

    return init
