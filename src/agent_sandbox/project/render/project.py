"""Render all files of a project, and compare them with the existing ones."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from agent_sandbox.agents.together import Agents
from agent_sandbox.project.render.devcontainer import devcontainer_document, render_devcontainer
from agent_sandbox.project.render.dotenv import OF_THE_CLONE, set_variables
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.project.render.ignore import ignoring
from agent_sandbox.project.render.paths import DEVCONTAINER, DOTENV, IGNORE, IGNORED, POLICY, SHARED, STACK, VALUES
from agent_sandbox.project.render.policy import Offered, render_policy
from agent_sandbox.project.render.reconcile import (
    Change,
    OnConflict,
    Verdict,
    added,
    cleared_dotenv,
    generated,
    merged_devcontainer,
    merged_dotenv,
    yours,
)
from agent_sandbox.project.render.shared import render_shared
from agent_sandbox.stack.engine import FILES_VARIABLE, NAME_VARIABLE, STACK_VARIABLE
from agent_sandbox.stack.model import Stack
from agent_sandbox.stack.workspace import Workspace


class Rendered(Struct, frozen=True, kw_only=True):
    """The rendered content of a project's files."""

    shared: str
    stack_file: str
    devcontainer: str
    members: Mapping[str, Any]
    policy: Callable[[], str]
    variables: Mapping[str, str]
    # Of this clone, for the shared file.
    values: Mapping[str, str]
    dotenv: bool


def render_project(  # noqa: PLR0913 - the values of a stack
    templates: Templates,
    stack: Stack,
    agents: Agents,
    workspace: Workspace,
    offered: Offered,
    *,
    stack_file: str,
    providers: Sequence[str] = (),
) -> Rendered:
    """Return the rendered files of this stack, with the `stack_file` of its backend.

    The policy starts with the services of the chosen `providers`.
    """
    return Rendered(
        shared=render_shared(templates, stack.agents, workspace, pins=stack.pins),
        stack_file=stack_file,
        devcontainer=render_devcontainer(templates, agents, workspace),
        members=devcontainer_document(agents, workspace),
        policy=partial(render_policy, templates, agents, workspace.ide, offered, providers),
        variables={FILES_VARIABLE: STACK, NAME_VARIABLE: stack.name},
        values={STACK_VARIABLE: stack.name},
        dotenv=workspace.dotenv,
    )


def reconcile(
    rendered: Rendered,
    present: Mapping[str, str | None],
    *,
    former: frozenset[str] = frozenset(),
    on_conflict: OnConflict = OnConflict.KEEP,
) -> tuple[Change, ...]:
    """Return the change of each file; `former` are values in `.env` that an earlier `init` wrote."""
    return (
        generated(STACK, present[STACK], rendered.stack_file, comment="#", on_conflict=on_conflict),
        merged_devcontainer(
            DEVCONTAINER,
            present[DEVCONTAINER],
            rendered.devcontainer,
            rendered.members,
            on_conflict=on_conflict,
        ),
        yours(POLICY, present[POLICY], rendered.policy),
        generated(SHARED, present[SHARED], rendered.shared, comment="#", on_conflict=on_conflict),
        added(IGNORE, present[IGNORE], ignoring(present[IGNORE] or "", IGNORED)),
        added(VALUES, present[VALUES], set_variables(present[VALUES] or "", rendered.values, comment=OF_THE_CLONE)),
        *_dotenv(rendered, present[DOTENV], former=former, on_conflict=on_conflict),
    )


def _dotenv(
    rendered: Rendered, before: str | None, *, former: frozenset[str], on_conflict: OnConflict
) -> tuple[Change, ...]:
    """Return the change of `.env`, or none if the file is left alone."""
    if rendered.dotenv:
        return (merged_dotenv(DOTENV, before, rendered.variables, former=former, on_conflict=on_conflict),)
    cleared = cleared_dotenv(DOTENV, before or "", rendered.variables, former=former, on_conflict=on_conflict)
    return () if cleared.verdict is Verdict.UNCHANGED else (cleared,)
