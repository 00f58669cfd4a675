"""Check the project's files against what plain `docker compose` and the Docker host make of them."""

from collections.abc import Mapping

from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.result import CheckResult, fail, ok, warn
from agent_sandbox.host.files import read_text
from agent_sandbox.project.dotenv import FILE as DOTENV
from agent_sandbox.project.dotenv import OTHER_NAME, OTHER_NAME_HINT, editor_name, variable
from agent_sandbox.project.installed import own_files
from agent_sandbox.project.project import Project
from agent_sandbox.project.record import known, uses_dotenv
from agent_sandbox.project.root import STACK_FILE
from agent_sandbox.stack.engine import COMMAND, FILES_VARIABLE, NAME_VARIABLE, SEPARATOR_VARIABLE
from agent_sandbox.stack.limits import DEFAULT, beyond, kept, limit_texts

# The engine's warnings when it lacks a cgroup controller.
BESIDE = STACK_FILE.parent / DOTENV
OTHER_STACK = f"{NAME_VARIABLE} in {BESIDE} is {{}}: `{COMMAND} --file {STACK_FILE}` acts on that stack"
HELD_BY = {"MemoryLimit": "memory", "CpuCfsQuota": "cpus", "PidsLimit": "pids"}


def dotenv(project: Project, environ: Mapping[str, str]) -> CheckResult:
    """Check that plain `docker compose` in this directory uses the same stack, or that `.env` is left alone."""
    beside = variable(read_text(project.root, str(BESIDE)) or "", NAME_VARIABLE)
    if beside not in (None, project.name):
        return fail("dotenv", OTHER_STACK.format(beside), f"remove {BESIDE}: nothing of agent-sandbox needs it")
    return _of_the_project(project, environ)


def _of_the_project(project: Project, environ: Mapping[str, str]) -> CheckResult:
    if not uses_dotenv(own_files(project.root)):
        name = editor_name(project.root, environ)
        if name not in (None, project.name):
            return warn("dotenv", OTHER_NAME.format(name), OTHER_NAME_HINT)
        return ok("dotenv", f"{DOTENV} is left alone; `{COMMAND} --file {STACK_FILE}` uses the stack")
    hint = f"{project.init} writes both lines and keeps the rest; --no-dotenv leaves {DOTENV} alone"
    text = read_text(project.root, DOTENV)
    if text is None:
        return warn("dotenv", f"there is no {DOTENV}: plain `docker compose` does not find the stack", hint)
    named = (variable(text, FILES_VARIABLE) or "").split(variable(text, SEPARATOR_VARIABLE) or ":")
    if str(STACK_FILE) not in named:
        return warn("dotenv", f"{FILES_VARIABLE} in {DOTENV} does not name {STACK_FILE}", hint)
    name = variable(text, NAME_VARIABLE)
    if name != project.name:
        what = f"{NAME_VARIABLE} in {DOTENV} is {name or 'not set'}, the stack is {project.name}"
        return fail("dotenv", what, hint)
    return ok("dotenv", f"{DOTENV} names the stack")


def limits(host: EngineHost, project: Project) -> CheckResult:
    """Check that the agent's limits are below what the Docker host has."""
    record = known(own_files(project.root))
    chosen = record.limits if record else DEFAULT
    words = limit_texts(chosen)
    unheld = [name for key, name in HELD_BY.items() if host.info.get(key) is False]
    if unheld:
        what = f"this engine cannot limit {', '.join(unheld)}: the agent may use all of the machine"
        hint = f"a rootless engine needs the cgroup controllers delegated to it; see `{host.engine.program} info`"
        return warn("limits", what, hint)
    has = beyond(chosen, memory=host.info["MemTotal"], cpus=host.info["NCPU"])
    # More processors than the machine has are harmless: processor time is shared.
    over = [f"{name} {words[name]} of {most}" for name, most in has.items() if name == "memory" or name in kept(chosen)]
    if over:
        what = f"the agent's limits are above what the Docker host has: {', '.join(over)}"
        hint = f"{project.init} --memory SIZE --cpus NUMBER, then agent-sandbox up"
        return warn("limits", what, hint)
    return ok("limits", ", ".join(f"{name} {text}" for name, text in words.items()))
