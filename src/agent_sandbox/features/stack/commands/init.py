"""`agent-sandbox init AGENT...`: write .devcontainer/ and .env, nothing else."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from agent_sandbox.agents import catalogue
from agent_sandbox.cli.framework.options import Languages, NoDetect, Provider
from agent_sandbox.cli.terminal.output import diff_lines, emit_json, emit_lines, say
from agent_sandbox.cli.terminal.question import agrees
from agent_sandbox.features.stack.init.initialise import InitOptions, Prepared, agents_of
from agent_sandbox.features.stack.write_stack import require_no_conflict, write_stack
from agent_sandbox.host.agents import agents_beside, built_in
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import require_outermost
from agent_sandbox.project.render.notes import missing_services
from agent_sandbox.project.render.paths import POLICY, STACK
from agent_sandbox.project.render.reconcile import Change, OnConflict, Verdict
from agent_sandbox.projectfile.languages import packages_of
from agent_sandbox.stack.engine import COMMAND, FILE_KIND
from agent_sandbox.stack.limits import limit_texts
from agent_sandbox.stack.recorded import Ide

WOULD = {
    Verdict.WRITTEN: "would write",
    Verdict.UPDATED: "would update",
    Verdict.MERGED: "would extend",
    Verdict.REPLACED: "would replace",
}
NEXT = {
    "agent-sandbox up": "takes a few minutes the first time",
    "agent-sandbox shell": "work in it",
}
AGAIN = {"agent-sandbox up": "applies the changes to the stack"}


completions = agents_beside
BUILT_IN = ", ".join(catalogue.known_agents(built_in()))
Agents = Annotated[
    list[str] | None,
    Argument(
        help=f"The agents to run in the sandbox: {BUILT_IN}, or your own; by default the project's.", metavar="AGENT"
    ),
]

Dotenv = Annotated[
    bool, Option(help=f"Make plain `{COMMAND}` in this directory use the sandbox, by two lines in .env.")
]
NoDotenv = Annotated[bool, Option(help=f"Leave .env alone: the default for a project with its own {FILE_KIND}.")]
BaseImage = Annotated[str | None, Option(help="The Debian 13 image to build this project's image on.", metavar="IMAGE")]
Directory = Annotated[Path | None, Option(help="The project's directory; by default this one.", metavar="DIRECTORY")]
Detect = Annotated[
    bool, Option(help="Allow reading from hosts that both lock files and this machine's configuration name.")
]
WithSettings = Annotated[
    bool, Option(help="Give the agents read-only copies of your own settings, commands, skills and instructions.")
]
NoSettings = Annotated[bool, Option(help="Stop giving the agents these copies.")]


def init(  # noqa: PLR0913 - each is an option
    agents: Agents = None,
    *,
    path: Directory = None,
    name: Annotated[str | None, Option(help="The name of the stack; by default the directory's name.")] = None,
    ide: Annotated[Ide | None, Option(help="The editor that will open the container; by default vscode.")] = None,
    memory: Annotated[str | None, Option(help="The agent's memory limit; by default 8g.")] = None,
    cpus: Annotated[str | None, Option(help="The agent's limit of processors, such as 1.5; by default 4.")] = None,
    pids: Annotated[str | None, Option(help="The agent's limit of processes; by default 4096.")] = None,
    languages: Languages = None,
    base_image: BaseImage = None,
    provider: Provider = None,
    with_settings: WithSettings = False,
    no_settings: NoSettings = False,
    force: Annotated[bool, Option(help="Replace generated files even if they were edited.")] = False,
    detect: Detect = False,
    no_detect: NoDetect = False,
    dotenv: Dotenv = False,
    no_dotenv: NoDotenv = False,
    gitignore: Annotated[bool, Option(help="List the files that belong only to this machine in .gitignore.")] = False,
    dry_run: Annotated[bool, Option(help="Print the diff; write nothing.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write a sandbox into a project: .devcontainer/, which you can check in, and .env.

    A new project's image gets the languages that its files show: at a terminal, it asks first.
    In a project with its own compose file, .env is left alone, and `docker compose` works as before.

    Run it again after an upgrade or when the project has changed: it updates files that were not edited. It never
    changes policy.yaml once that exists. Edited files are kept and shown as a diff.

    Name all agents that the stack should have; `run` starts the first. If you name others later, the state of all is
    kept.
    """
    if path is None:
        require_outermost(Path.cwd())
    options = InitOptions(
        agents=tuple(agents or ()) or _agents_there(path or Path()),
        path=path or Path(),
        title=name,
        ide=ide,
        on_conflict=OnConflict.REPLACE if force else OnConflict.KEEP,
        detect=detect,
        services=not no_detect,
        provider=provider,
        packages=packages_of(languages) if languages is not None else None,
        base_image=base_image,
        gitignore=gitignore,
        dotenv=_either("dotenv", dotenv, "no-dotenv", no_dotenv),
        settings=_either("with-settings", with_settings, "no-settings", no_settings),
        limits=_given(memory=memory, cpus=cpus, pids=pids),
    )
    prepared = write_stack(options, dry_run=dry_run, ask=not as_json)
    if as_json:
        emit_json(_as_json(prepared, dry_run=dry_run))
    else:
        _show(prepared, dry_run=dry_run)
    require_no_conflict(prepared)
    if sys.stdin.isatty() and not (as_json or dry_run):
        _offer_services(prepared)


def _offer_services(prepared: Prepared) -> None:
    """Ask about each service that an agent needs and the policy, which `init` never changes unasked, does not name."""
    for service in missing_services(prepared.changes, prepared.agents.services):
        from agent_sandbox.features.policy.edit import put_service  # noqa: PLC0415 - most policies name it

        agent = prepared.agents.connecting_to(service).names[0]
        if agrees(f"Allow the service `{service}`, which {agent} needs for its API?"):
            put_service(service, prepared.project / POLICY)


def _given(**options: str | None) -> dict[str, str]:
    return {name: text for name, text in options.items() if text is not None}


def _either(option: str, chosen: bool, opposite: str, refused: bool) -> bool | None:  # noqa: FBT001 - two options
    if chosen and refused:
        raise UserError([Problem(where=f"--{option}", what=f"contradicts --{opposite}", hint="give one of them")])
    return chosen if chosen or refused else None


def _agents_there(path: Path) -> tuple[str, ...]:
    agents = agents_of(path, os.environ)
    if not agents:
        hint = f"agent-sandbox init AGENT, where AGENT is one of: {', '.join(completions())}"
        raise UserError([Problem(where="", what="no agent was named", hint=hint)])
    return agents


def _show(prepared: Prepared, *, dry_run: bool) -> None:
    for change in prepared.changes:
        if dry_run or change.verdict is Verdict.KEPT:
            _emit_diff(change)
    if prepared.conflicts:
        return
    for change in prepared.changes:
        if dry_run:
            say(f"{WOULD.get(change.verdict, change.verdict):<13}  {change.path}")
        else:
            emit_lines([f"{change.verdict:<9}  {change.path}"])
    for note in prepared.notes:
        say(("note:", "title"), f" {note}")
    if dry_run:
        say("dry run: nothing was written")
    elif any(change.verdict is Verdict.WRITTEN and change.path == STACK for change in prepared.changes):
        _say_next(prepared.project, NEXT)
        from agent_sandbox.features.doctor.missing_parts import report_missing_engine  # noqa: PLC0415 - only the first time

        report_missing_engine()
    elif any(change.writes and change.path == STACK for change in prepared.changes):
        _say_next(prepared.project, AGAIN)


def _emit_diff(change: Change) -> None:
    diff = change.diff()
    if diff:
        emit_lines(diff_lines(diff.rstrip("\n")))


def _say_next(project: Path, commands: Mapping[str, str]) -> None:
    say("")
    say(("Next:", "title"))
    if project != Path.cwd():
        say("  ", (f"cd {shlex.quote(str(project))}", "command"))
    for command, why in commands.items():
        say("  ", (command, "command"), f"{'':<{30 - len(command)}} # {why}")


def _as_json(prepared: Prepared, *, dry_run: bool) -> dict[str, Any]:
    return {
        "project": str(prepared.project),
        "name": prepared.stack.name,
        "agent": prepared.stack.agents[0],
        "agents": list(prepared.stack.agents),
        "ide": prepared.workspace.ide.value,
        "limits": limit_texts(prepared.workspace.limits),
        "written": not dry_run and not prepared.conflicts,
        "files": [
            {
                "path": change.path,
                "verdict": change.verdict.value,
                "why": change.why,
                "diff": change.diff() if dry_run or change.verdict is Verdict.KEPT else "",
            }
            for change in prepared.changes
        ],
        "services": {name: list(files) for name, files in prepared.offered.services.items()},
        "offers": [
            {
                "host": offer.host,
                "files": list(offer.files),
                "schemes": list(offer.schemes),
                "ports": list(offer.ports),
                "allowed": offer in prepared.offered.allowed,
            }
            for offer in (*prepared.offered.allowed, *prepared.offered.left)
        ],
        "notes": list(prepared.notes),
    }
