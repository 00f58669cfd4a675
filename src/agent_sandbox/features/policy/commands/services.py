"""`agent-sandbox policy services [list | [show] NAME | diff OLD [NEW] [NAME] | resolve [NAME]]`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agent_sandbox.cli.framework.options import DryRun, Json, ProjectPath
from agent_sandbox.policyfile.catalogue import shipped_services
from agent_sandbox.policyfile.resolved import MIRRORED, RESOLVED
from agent_sandbox.problems import Problem, UserError


class Do(StrEnum):
    """An action on services."""

    LIST = "list"
    SHOW = "show"
    DIFF = "diff"
    RESOLVE = "resolve"


What = Annotated[str, Argument(help="list, show NAME, diff OLD NEW, or resolve NAME; NAME alone means show NAME.")]
First = Annotated[str | None, Argument(help="The service; for diff, the older version: a folder or a version in git.")]
Second = Annotated[
    str | None, Argument(help="For diff, the newer version; by default the one that this program ships.")
]
Third = Annotated[str | None, Argument(help="For diff, the one service to compare.")]
From = Annotated[Path | None, Option("--from", help="For resolve: one more configuration file of the tool.")]
Project = Annotated[bool, Option(help="For resolve: include hosts that only the project's files name.")]
Force = Annotated[bool, Option(help="For resolve: replace a file that was edited.")]


def completions(*before: str) -> tuple[str, ...]:
    """Return the actions and the names of services, for shell completion."""
    match before:
        case ():
            return (*Do, *_names())
        case (Do.SHOW,):
            return _names()
        case (Do.RESOLVE,):
            return tuple(sorted((*RESOLVED, *MIRRORED)))
    return ()


def _names() -> tuple[str, ...]:
    return tuple(sorted({*shipped_services(), *RESOLVED}))


def services(  # noqa: PLR0913 - each is an option
    what: What = Do.LIST.value,
    first: First = None,
    second: Second = None,
    third: Third = None,
    *,
    path: ProjectPath = None,
    source: From = None,
    from_project: Project = False,
    force: Force = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """List the services, show what one allows and why, compare two versions, or resolve python, node and debian.

    A resolved service is written beside the policy, from the configuration of pip, npm or apt. Hosts that only the
    project's files name are asked about, because the agent can write those files.
    """
    from agent_sandbox.features.policy import services as work  # noqa: PLC0415 - brings pydantic; `--help` needs none of it

    do, words = _asked(*(word for word in (what, first, second, third) if word is not None))
    match do:
        case Do.LIST:
            work.list_services(path, json=json)
        case Do.SHOW:
            work.show_service(words[0], path, others=() if what == Do.SHOW else tuple(Do), json=json)
        case Do.DIFF:
            work.compare_versions(words, USAGE, json=json)
        case Do.RESOLVE:
            name = next(iter(words), None)
            work.resolve_service(name, path, source, from_project=from_project, force=force, dry_run=dry_run, json=json)


# The least and the most words that each action takes.
WORDS = {Do.LIST: (0, 0), Do.SHOW: (1, 1), Do.DIFF: (1, 3), Do.RESOLVE: (0, 1)}
USAGE = "agent-sandbox policy services list | [show] NAME | diff OLD [NEW] [NAME] | resolve [NAME]"


def _asked(what: str, *words: str) -> tuple[Do, tuple[str, ...]]:
    """Return the action and its arguments; a first word that is not an action is a service to show."""
    do, words = (Do(what), words) if what in Do else (Do.SHOW, (what, *words))
    least, most = WORDS[do]
    if not least <= len(words) <= most:
        counts = f"{least} to {most} words" if most > least + 1 else _counted(least, most)
        what = f"`{do}` takes {counts}, not {len(words)}"
        raise UserError([Problem(where="", what=what, hint=USAGE)])
    return do, words


def _counted(least: int, most: int) -> str:
    return f"{' or '.join(map(str, range(least, most + 1)))} {'word' if most == 1 else 'words'}"
