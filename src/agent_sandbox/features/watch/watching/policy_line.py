"""Open the line of a policy in the user's editor, and find the rule that would allow a denied request."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.features.policy.layer_rule import RuleLayer, layer_policy
from agent_sandbox.features.policy.layers import layers_here, load_here, offers_here
from agent_sandbox.host.program_path import in_project, program_path
from agent_sandbox.policytools.suggest.denials import read_denials
from agent_sandbox.policytools.suggest.suggesting import Proposal, suggest
from agent_sandbox.problems import Problem, UserError

# A place as the proxy names it: of the rule that decided, or of the nearest one, at the end of the reason.
PLACE = re.compile(r"(?P<file>(?:[a-z]+/)?policy\.yaml):(?P<line>[0-9]{1,6})(?![0-9])", re.ASCII)
# Editors that do not take `+LINE FILE`.
GOTO = frozenset({"code", "code-insiders", "codium", "cursor", "windsurf"})
COLON = frozenset({"hx", "helix", "subl", "zed"})
# Where neither VISUAL nor EDITOR is set: Debian's choice of the user, then what most machines have.
USUAL = ("sensible-editor", "vi", "nano")
SET_ONE = "export EDITOR=vim, or another one"
NO_EDITOR = Problem(where="EDITOR", what="names no editor that is installed", hint=SET_ONE)
UNSET = Problem(where="EDITOR", what=f"not set, and none of {', '.join(USUAL)} is installed", hint=SET_ONE)
# Requests that a question was asked about: what they need is a rule, as for any other host.
ASKED = "ask"


class PolicyLine(Struct, frozen=True, kw_only=True):
    """A line of a policy file on this machine."""

    file: Path
    line: int


def policy_line(root: Path, record: Mapping[str, Any]) -> PolicyLine:
    """Return the line of the rule that decided a request, else of the nearest one, else the policy's first line.

    A path in the reason could imitate a place, so the last place counts. At worst, another line is opened.
    """
    files = dict(_files(root))
    for text in (str(record.get("rule") or ""), str(record.get("reason") or "")):
        for found in reversed([*PLACE.finditer(text)]):
            if found["file"] in files:
                return PolicyLine(file=files[found["file"]], line=int(found["line"]))
    return PolicyLine(file=layer_policy(root, RuleLayer.PROJECT), line=1)


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    project = layer_policy(root, RuleLayer.PROJECT)
    yield project.name, project
    yield from ((layer.shown, layer.path) for layer in layers_here(os.environ, beside=project))


def editor_command(place: PolicyLine, environ: Mapping[str, str], *, project: Path) -> Sequence[str]:
    """Return the command of the user's editor for a line; never a program of a project."""
    chosen = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        commands = [shlex.split(chosen)] if chosen else [[name] for name in USUAL]
    except ValueError:
        commands = []
    for words in commands:
        program = shutil.which(words[0], path=program_path(environ, project=project)) if words else None
        if program and program.startswith(os.sep) and not in_project(program, project):
            break
    else:
        raise UserError([NO_EDITOR if chosen else UNSET])
    name, at = Path(program).name, f"{place.file}:{place.line}"
    where = ("--goto", at) if name in GOTO else (at,) if name in COLON else (f"+{place.line}", str(place.file))
    return (program, *words[1:], *where)


def edit(place: PolicyLine, environ: Mapping[str, str], *, project: Path) -> None:
    """Open a line in the user's editor, on this terminal. It runs beside the file, where no agent can write.

    Raise UserError if the editor cannot run or fails.
    """
    argv = editor_command(place, environ, project=project)
    try:
        done = subprocess.run(argv, cwd=place.file.parent, check=False)  # noqa: S603 - the user's editor
    except OSError as error:
        raise UserError([Problem(where=argv[0], what=f"cannot be run: {error.strerror}", hint=SET_ONE)]) from error
    if done.returncode:
        raise UserError([Problem(where=argv[0], what=f"ended with exit code {done.returncode}", hint=SET_ONE)])


def suggested_rule(root: Path, record: Mapping[str, Any]) -> Proposal:
    """Return the narrowest rule that would have allowed a denied request; raise UserError if there is none."""
    as_unlisted = {**record, "cause": "host"} if record.get("cause") == ASKED else record
    denials = read_denials([json.dumps(as_unlisted)])
    file = layer_policy(root, RuleLayer.PROJECT)
    found = suggest(denials, load_here(file, os.environ), offers_here(file, os.environ))
    if not found.proposals:
        why = next(iter(found.left_out), "a rule would not have allowed it")
        raise UserError([Problem(where="", what=f"no rule is suggested: {why}")])
    return found.proposals[0]
