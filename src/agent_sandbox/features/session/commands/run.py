"""`agent-sandbox run [AGENT] [-- ARG...]`."""

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Annotated

from msgspec import Struct
from typer import Argument, Option

from agent_sandbox.agents.manifest import AgentManifest
from agent_sandbox.agents.together import sentence
from agent_sandbox.cli.framework.errors import DONE, FIXABLE
from agent_sandbox.cli.framework.options import DryRun, ExtraCa, Languages, NoDetect, ProjectPath, Provider, Quiet, Yes
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.question import answer_to
from agent_sandbox.cli.terminal.tty import at_terminal
from agent_sandbox.engines.verbs import Destroy
from agent_sandbox.features.doctor import missing_parts
from agent_sandbox.features.ports.kept_ports import keep_ports
from agent_sandbox.features.review.unreviewed import report_unreviewed
from agent_sandbox.features.secrets.secret_keeper import keep_secrets
from agent_sandbox.features.session.reported_run import ReportedRun
from agent_sandbox.features.session.sandbox_for_run import sandbox_for_run
from agent_sandbox.features.stack.execute import attach, backend, execute
from agent_sandbox.features.stack.init.initialise import InitOptions
from agent_sandbox.features.stack.init.setup_notes import readable_dotenv
from agent_sandbox.features.stack.start_stack import report_unwritable_project, start
from agent_sandbox.features.stack.write_stack import require_no_conflict, write_stack
from agent_sandbox.features.trust.trust_gate import open_trusted, open_unasked
from agent_sandbox.host.agents import known_agents, load_manifest, load_manifests
from agent_sandbox.host.program_path import program_path
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import has_stack, init_for, read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import POLICY
from agent_sandbox.projectfile.languages import packages_of

Arguments = Annotated[
    list[str] | None,
    Argument(
        help="The agent, by default the first of the stack. Its command gets the arguments after `--`.",
        metavar="[AGENT] [-- ARG...]",
    ),
]
CloneOption = Annotated[bool, Option(help="Let the agent work on a clone of the repository, not on your files.")]
Name = Annotated[str, Option(help="The name of the clone; by default the next free one.")]
Ask = Annotated[bool, Option(help="Ask you, in this terminal, about requests that no rule allows.")]
AgentAsks = Annotated[bool, Option(help="Let the agent ask for permission as it does outside.")]
Rm = Annotated[bool, Option(help="Remove the sandbox with its state when the agent ends.")]
Json = Annotated[bool, Option(help="Run without a terminal; print the agent's output and a summary as JSON.")]
Resume = Annotated[bool, Option(help="Continue the agent's last session.")]

NO_TERMINAL = Problem(
    where="--ask",
    what="needs a terminal",
    hint="leave it out, and run `agent-sandbox watch --ask` in a terminal at the same time",
)
SEPARATOR = "--"
NOT_NEW = Problem(
    where="",
    what="--with, --no-detect and --provider are only for a new sandbox",
    hint=f"agent-sandbox init --with LANGUAGES adds languages to this one; its providers are services in {POLICY}",
)
NO_CLONE = Problem(where="--name", what="names a clone", hint="use it with --clone")


def completions(*before: str) -> tuple[str, ...]:
    """Return the known agents, for shell completion."""
    return () if before else known_agents()


def run(  # noqa: PLR0913 - each is an option
    arguments: Arguments = None,
    *,
    path: ProjectPath = None,
    clone: CloneOption = False,
    name: Name = "",
    ask: Ask = False,
    agent_asks: AgentAsks = False,
    resume: Resume = False,
    rm: Rm = False,
    json: Json = False,
    languages: Languages = None,
    no_detect: NoDetect = False,
    provider: Provider = None,
    extra_ca: ExtraCa = None,
    yes: Yes = "",
    quiet: Quiet = False,
    dry_run: DryRun = False,
) -> int:
    """Start the stack as `up` does, then the agent in it, and return the agent's exit code.

    In a directory without a stack, `run AGENT` first writes one as `init AGENT` does. At a terminal, it asks for the
    agent, for its model provider, and whether to install the languages that the project's files show.
    In a stack with several agents, AGENT says which to start, by default the first. The agent acts without asking for
    permission: the sandbox sets the limits. With `--ask`, a request that no rule allows waits until you answer.

    With `--clone`, the agent works on a clone of what is committed, in a volume, and has no access to the project's
    files. `agent-sandbox fetch` brings its commits back. The same `--name` continues with the same clone. With `--rm`,
    its commits are fetched when the agent ends, and the clone is removed, unless work would be lost.

    `--rm --json` is for CI: nothing is kept but what the agent changed in the project, and the summary has its output,
    exit code, denials, traffic, and the changes to review. If the run fails before that, it lists the problems.
    """
    _require_valid(asks=ask and not dry_run, resumes=resume, removes=rm, reports=json)
    with _report(wanted=json and not dry_run) as report:
        if name and not clone:
            raise UserError([NO_CLONE])
        agent, words = _split(arguments or ())
        new = _New(languages, no_detect, provider, asks=not json)
        project = _opened(agent, path, new, yes=yes, quiet=quiet, dry_run=dry_run, clone=clone)
        if project is None:
            return DONE
        manifest = _manifest(_chosen(project, agent), resumes=resume)
        command = (*manifest.started(asks=agent_asks, resumes=resume), *words)
        if dry_run:
            return _print_plan(project, name if clone else None, command, extra_ca=extra_ca, removes=rm)
        with sandbox_for_run(project, name if clone else None, removes=rm, extra_ca=extra_ca, quiet=quiet) as sandbox:
            own = sandbox.project
            if code := start(own, extra_ca=extra_ca, quiet=quiet):
                return code
            sandbox.keep_cache()
            report_unwritable_project(own)
            keep_secrets(own)
            keep_ports(own)
            if report:
                code = report.run(own, manifest.name, *command, before=sandbox.before, fetch=sandbox.fetch)
            else:
                with nullcontext() if quiet else _unreviewed_after(own):
                    code = _attach(own, command, asks=ask)
        return code or (FIXABLE if sandbox.fetch_failed else DONE)


def _report(*, wanted: bool) -> AbstractContextManager[ReportedRun | None]:
    if not wanted:
        return nullcontext()
    return ReportedRun()


def _attach(project: Project, command: Sequence[str], *, asks: bool) -> int:
    if asks:
        from agent_sandbox.features.watch.watching.asking_run import run_asking  # noqa: PLC0415 - only then

        return run_asking(project, *command)
    attach(project, *command, images=True)
    return 0


@contextmanager
def _unreviewed_after(project: Project) -> Iterator[None]:
    """Print what is left to review when the block ends, however it ends."""
    try:
        yield
    finally:
        with suppress(UserError):  # `review` reports it; the agent's exit code stays
            report_unreviewed(project.root)


def _print_plan(
    project: Project, clone: str | None, command: Sequence[str], *, extra_ca: Path | None, removes: bool
) -> int:
    if clone is not None:
        from agent_sandbox.features.clones.clones import planned_clone  # noqa: PLC0415 - only then

        own = planned_clone(project, clone, removes=removes)
        if own is None:
            return DONE
        project = own
    code = start(project, extra_ca=extra_ca, dry_run=True)
    attach(project, *command, dry_run=True)
    if removes:
        execute(backend().plan(project, Destroy()), dry_run=True)
    return code


class _New(Struct, frozen=True):
    """The options that shape only a new stack, and whether to ask for what is missing."""

    languages: str | None
    no_detect: bool
    provider: str | None
    asks: bool


def _opened(  # noqa: PLR0913 - each is an option
    agent: str, path: Path | None, new: _New, *, yes: str, quiet: bool, dry_run: bool, clone: bool
) -> Project | None:
    """Return the project, made if there is none; in a dry run, None then."""
    here = Path.cwd()
    if has_stack(path, cwd=here):
        if new.languages or new.no_detect or new.provider:
            raise UserError([NOT_NEW])
    else:
        _initialise(agent, path, new, quiet=quiet, dry_run=dry_run)
        if dry_run:
            return None
        return open_trusted(path, cwd=here, yes=yes)
    project = open_unasked(path, cwd=here) if dry_run else open_trusted(path, cwd=here, yes=yes)
    if not (quiet or clone):
        for note in readable_dotenv(project.root, read_facts(project.root).masked):
            say(("note:", "title"), f" {note}")
    return project


def _require_valid(*, asks: bool, resumes: bool, removes: bool, reports: bool) -> None:
    """Raise UserError for options that exclude each other, or lack a terminal."""
    problems = []
    if asks and reports:
        problems.append(Problem(where="--json", what="cannot be combined with --ask: it runs without a terminal"))
    elif asks and not at_terminal():
        problems.append(NO_TERMINAL)
    if resumes and removes:
        problems.append(Problem(where="--resume", what="cannot be combined with --rm: a new sandbox has no session"))
    if problems:
        raise UserError(problems)


def _split(arguments: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the agent, "" if none is named, and what follows `--`; raise UserError for any other word before it."""
    place = arguments.index(SEPARATOR) if SEPARATOR in arguments else len(arguments)
    named, words = arguments[:place], arguments[place + 1 :]
    if not named:
        return "", words
    if named[0] not in known_agents():
        load_manifest(named[0])  # raises, with the nearest name
    if named[1:]:
        what = "arguments for the agent's command follow `--`"
        hint = f"agent-sandbox run {named[0]} -- {shlex.join((*named[1:], *words))}"
        raise UserError([Problem(where=printable(named[1]), what=what, hint=hint)])
    return named[0], words


def _asked_agent(folder: Path) -> str:
    """Ask which agent a new stack is for; return "" if there is nobody to ask, or a project file lists the agents."""
    if not at_terminal() or init_for(folder):
        return ""
    known, path = known_agents(), program_path(os.environ, project=folder)
    installed = [one.name for one in load_manifests(known)[0] if shutil.which(one.command[0], path=path)]
    usual = next(iter(installed), "")
    question = "Which agent do you want to run, by number or name?"
    question = f"{question} [{usual}]" if usual else question
    return _picked(known, question, about=f"{folder} has no sandbox yet; the agents are") or usual


def _asked_provider(agent: str, folder: Path) -> str | None:
    """Ask which of its providers the agent is to use; None if it has none, nobody answers, or there is a policy."""
    manifest = load_manifest(agent)
    if not at_terminal() or not manifest.providers or os.path.lexists(folder / POLICY):
        return None
    about = f"{manifest.title} works with models of several providers"
    return _picked(manifest.providers, "Which one do you want to use, by number or name?", about=about) or None


def _picked(names: Sequence[str], question: str, *, about: str) -> str:
    numbered = {str(number): name for number, name in enumerate(names, start=1)}
    say(f"{about}: {', '.join(map(' '.join, numbered.items()))}")
    answer = answer_to(question) or ""
    return numbered.get(answer, answer)


def _initialise(agent: str, path: Path | None, new: _New, *, quiet: bool, dry_run: bool) -> None:
    folder = path or Path.cwd()
    agent = agent or (_asked_agent(folder.absolute()) if new.asks else "")
    if not agent:
        known = ", ".join(known_agents())
        how = "agent-sandbox run AGENT, with the same options, makes one and starts it"
        hint = init_for(folder) or f"{how}, where AGENT is one of: {known}"
        raise UserError([Problem(where=str(folder.absolute()), what="no stack in this directory", hint=hint)])
    if not dry_run:
        missing_parts.require_all_parts()  # before anything is written
    options = InitOptions(
        agents=(agent,),
        path=folder,
        services=not new.no_detect,
        provider=new.provider or (_asked_provider(agent, folder) if new.asks and not dry_run else None),
        packages=packages_of(new.languages) if new.languages is not None else None,
    )
    prepared = write_stack(options, dry_run=dry_run, ask=new.asks)
    require_no_conflict(prepared)
    if quiet:
        return
    for change in prepared.changes:
        say(f"would write  {change.path}" if dry_run else f"{change.verdict:<9}  {change.path}")
    for note in prepared.notes:
        say(("note:", "title"), f" {note}")


def _manifest(agent: str, *, resumes: bool) -> AgentManifest:
    """Return the agent's manifest; raise UserError if it cannot continue a session but should."""
    manifest = load_manifest(agent)
    if resumes and not manifest.resume:
        raise UserError([Problem(where="--resume", what=f"{manifest.name} cannot continue its last session")])
    return manifest


def _chosen(project: Project, agent: str) -> str:
    """Return the agent to start; raise UserError if the stack does not have it."""
    if agent and agent not in project.agents:
        what = f"the stack of this project runs {sentence(project.agents)}, not {agent}"
        hint = f"{project.init} {agent} adds {agent}; agent-sandbox init {agent} switches to it; both keep all state"
        raise UserError([Problem(where=str(project.root), what=what, hint=hint)])
    return agent or project.agents[0]
