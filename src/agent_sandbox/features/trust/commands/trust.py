"""`agent-sandbox trust`."""

import os
from pathlib import Path
from typing import Annotated

from typer import Option

from agent_sandbox.cli.framework.options import Json, ProjectPath, Yes
from agent_sandbox.cli.terminal.output import emit, emit_json, say
from agent_sandbox.features.trust.prompt import Question
from agent_sandbox.features.trust.trust_gate import agree, checked_in_root, current_settings, question_of, remember
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import find_project
from agent_sandbox.project.trust_store import Store, open_store

Revoke = Annotated[bool, Option(help="Stop trusting the project: you will be asked again.")]
All = Annotated[bool, Option("--list", help="Print the directories that you trust.")]


def trust(
    *, path: ProjectPath = None, yes: Yes = "", revoke: Revoke = False, every: All = False, json: Json = False
) -> None:
    """Show what a project would reach, mount and inject, and ask whether you trust it.

    After a change, only the change is shown and asked about; one that narrows is not. `up`, `build` and the other
    commands that use the project's settings ask in the same way.
    """
    store = open_store(os.environ)
    if every:
        _list(store, json=json)
    elif revoke:
        _revoke(store, path)
    else:
        _look(store, path, yes=yes, json=json)


def _look(store: Store, path: Path | None, *, yes: str, json: bool) -> None:
    settings = current_settings(checked_in_root(path, cwd=Path.cwd()), store)
    question = question_of(settings)
    if json and not yes:
        emit_json(_as_json(question))
        return
    if question.changed:
        agree(question, yes=yes)
    remember(settings.now, store)
    say(f"{settings.now.root} is trusted, fingerprint {question.fingerprint}")


def _revoke(store: Store, path: Path | None) -> None:
    root = path.absolute() if path else find_project(path, cwd=Path.cwd()).root
    if not store.forget(root):
        hint = "agent-sandbox trust --list prints the trusted directories"
        raise UserError([Problem(where=str(root), what="this is not trusted", hint=hint)])
    say(f"{root} is no longer trusted; its stack keeps running until agent-sandbox down")


def _list(store: Store, *, json: bool) -> None:
    roots = [str(standing.root) for standing in store]
    if json:
        emit_json(roots)
    elif roots:
        emit("\n".join(roots))


def _as_json(question: Question) -> dict[str, object]:
    return {
        "project": str(question.standing.root),
        "fingerprint": question.fingerprint,
        "trusted": not question.changed,
        "changed": question.changed,
        "reaches": question.reaches,
        "sets": question.sets,
        "mounts": question.mounts,
        "injects": question.injects,
        "editor": question.editor,
        "notes": question.notes,
        "differences": question.differences,
    }
