"""Plan the files of one clone from the choices that are checked in, as `init` does; nothing that git tracks."""

import os
from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.formats.header import Provenance, provenance_of
from agent_sandbox.render.paths import OF_THIS_CLONE, PROJECT_FILE, SHARED, STACK
from agent_sandbox.render.record import parse_choices
from agent_sandbox.runtime.host.files import read_text
from agent_sandbox.runtime.init.initialise import InitOptions, Prepared, prepare
from agent_sandbox.runtime.init.project_file import agents_named
from agent_sandbox.runtime.project.installed import is_own, read_project

NO_CHOICES = "it names no agent, or a limit that is not valid"
NO_PROJECT_FILE = "missing, although the sandbox was made from it: without it, what it masks would be visible"
NO_PROJECT_FILE_HINT = "check it in, or run agent-sandbox init to make the sandbox without it"
NO_CHOICES_HINT = "agent-sandbox init AGENT --force writes this file again"


def plan_clone_files(root: Path, environ: Mapping[str, str]) -> Prepared | None:
    """Return what to write where this clone's files differ from the choices. An edited file is kept.

    None for a copy of a project that still has the original's stack: `init` handles that.
    """
    text, is_new = read_text(root, SHARED) or "", not os.path.exists(root / STACK)
    choices = parse_choices(text)
    if choices is None and is_new and provenance_of(text) is not Provenance.FOREIGN:
        raise UserError([Problem(where=str(root / SHARED), what=NO_CHOICES, hint=NO_CHOICES_HINT)])
    if choices is None or not (is_new or is_own(read_project(root))):
        return None
    if choices.project_file and not os.path.exists(root / PROJECT_FILE):
        raise UserError([Problem(where=str(root / PROJECT_FILE), what=NO_PROJECT_FILE, hint=NO_PROJECT_FILE_HINT)])
    options = InitOptions(
        agents=agents_named(root) or choices.agents,
        path=root,
        services=False,
    )
    return prepare(options, environ).only(OF_THIS_CLONE)
