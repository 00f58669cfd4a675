"""Reload the policy of a running stack, also for a new secret, and report what changed."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from agent_sandbox.cli.terminal.output import emit_lines, say
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.counted import counted
from agent_sandbox.engines.verbs import Build, Up
from agent_sandbox.features.clones.running_clones import running_clones
from agent_sandbox.features.policy.file import shown
from agent_sandbox.features.policy.layers import require_here
from agent_sandbox.features.policy.unmounted_layers import unmounted_layers
from agent_sandbox.features.proxy.control import ask_proxy
from agent_sandbox.features.stack.execute import backend, driver, execute, is_running, require_running
from agent_sandbox.features.trust.trust_gate import open_trusted
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import Clone, clone_at
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import STACK
from agent_sandbox.project.trust_store import open_store

type Answer = Mapping[str, Any]

SHOWN_PER_CAUSE = 4


def reload_stack(path: Path | None, *, yes: str = "") -> Answer:
    """Have the proxy of the project's stack load its policy; return its answer, or raise UserError.

    So do the proxies of the project's running clones, whose answers are in `clones`. A clone loads the policy that is
    trusted in its project now, unless it was edited in the clone.
    """
    project = open_project(path, cwd=Path.cwd())
    if clone := clone_at(project.root, os.environ):
        _update(clone, yes=yes)
    try:
        # The same check as the proxy's, with paths of this machine.
        require_here(shown(project.policy, cwd=Path.cwd()), os.environ)
    except UserError as error:
        raise UserError([*error.problems, *_what_holds(project)]) from error
    project = open_trusted(project.root, cwd=Path.cwd(), yes=yes)
    running = running_clones(project.root)
    own = {"ok": True} if running and not is_running(project, "proxy") else _loaded_by(project)
    return {**own, "clones": [_of_clone(*one) for one in running]} if running else own


def reload_if_running(path: Path | None) -> bool:
    """Reload the policy of the project's stack and clones, and print what changed; return False if none runs."""
    try:
        project = open_project(path, cwd=Path.cwd())
        runs = is_running(project, "proxy") or bool(running_clones(project.root))
    except UserError:  # no stack, or no engine: `up` reports it
        return False
    if runs:
        report(reload_stack(path))
    return runs


def _update(clone: Clone, *, yes: str = "") -> None:
    """Bring the policy of its project into a clone, once the user trusts it, if there still is one."""
    from agent_sandbox.features.clones.clone_policy import keeps_own_policy, update_policy  # noqa: PLC0415 - only for clones
    from agent_sandbox.features.clones.fetch import one_at_a_time  # noqa: PLC0415 - as above

    with one_at_a_time(clone):
        if not keeps_own_policy(clone) and open_store(os.environ).load(clone.project):
            open_trusted(clone.project, cwd=Path.cwd(), yes=yes)
        update_policy(clone)


def _of_clone(clone: Clone, own: Project) -> Answer:
    """Return the answer of a clone's proxy. A failure is part of it: other clones may have loaded the policy."""
    from agent_sandbox.features.clones.clone_policy import update_policy  # noqa: PLC0415 - as above
    from agent_sandbox.features.clones.fetch import one_at_a_time  # noqa: PLC0415 - as above

    try:
        with one_at_a_time(clone):
            update_policy(clone)
        return {**_loaded_by(own), "name": clone.name}
    except UserError as error:
        return {"ok": False, "name": clone.name, "problems": list(map(str, error.problems))}


def _loaded_by(project: Project) -> Answer:
    """Return the answer of the project's proxy, which is recreated first if it does not have a layer of the policy."""
    if unmounted_layers(project, os.environ):
        require_running(project, "proxy")
        from agent_sandbox.features.stack.update_stack import updated  # noqa: PLC0415 - most stacks have every layer

        project = updated(project, quiet=False)
        if unmounted_layers(project, os.environ):
            hint = f"{project.init} shows what keeps it from being updated"
            raise UserError([Problem(where=STACK, what="not updated for a new layer of the policy", hint=hint)])
        execute(backend().plan(project, Up(build=Build(images=()), only=("proxy",))))
    return require_loaded(_asked(project, "reload"))


def require_loaded(answer: Answer) -> Answer:
    """Return the answer to a reload; raise UserError if the proxy did not load the policy."""
    if answer.get("ok") is not True:
        texts = answer.get("problems") or [str(answer.get("error", "the proxy did not load the policy"))]
        problems = [Problem(where="", what=str(text)) for text in texts]
        raise UserError([*problems, _in_force(answer)])
    return answer


def report(answer: Answer, *, unchanged: str = "nothing changed") -> None:
    """Print what a reload changed; `unchanged` if it changed nothing."""
    emit_lines(_changes(answer.get("change", {}), unchanged))
    say_loaded(answer)


def say_loaded(answer: Answer) -> None:
    """Print one line for each proxy that was asked to load the policy."""
    if "digest" in answer:
        say(_loaded(answer))
    for one in answer.get("clones", ()):
        if one["ok"]:
            say((one["name"], "title"), f": {_loaded(one)}")
        for problem in one.get("problems", ()):
            say((f"{one['name']} did not load it:", "warn"), f" {problem}")


def _loaded(answer: Answer) -> str:
    closed = f", {counted(answer['closed'], 'connection')} closed" if answer.get("closed") else ""
    return f"policy loaded, digest {str(answer.get('digest', ''))[:12]}{closed}"


def _changes(change: Mapping[str, Any], unchanged: str) -> Iterator[str]:
    counts = change.get("counts", {})
    for kind, sign in (("added", "+"), ("removed", "-")):
        for origin, rules in groupby(change.get(kind, ()), key=_cause):
            yield from _of_one_cause(sign, origin, list(rules))
        yield from _more(change, kind, f"{sign} and {{}}", "more rule")
    yield from change.get("others", ())
    yield from _more(change, "others", "and {} other than rules", "more change")
    yield from (f"no longer reachable: {host}" for host in change.get("unreachable", ()))
    yield from _more(change, "unreachable", "no longer reachable: {}", "more host")
    if counts and not any(counts.values()):
        yield unchanged


def _cause(rule: Mapping[str, Any]) -> str:
    """Return what made a rule: a line of the policy, or the file of a service."""
    origin = str(rule["origin"])
    return origin.rpartition(":")[0] if origin.startswith("services/") else origin


def _of_one_cause(sign: str, cause: str, rules: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    shown = rules if len(rules) <= SHOWN_PER_CAUSE else rules[: SHOWN_PER_CAUSE - 1]
    for rule in shown:
        effect = str(rule["effect"])
        style = effect if effect in ("allow", "deny") else ""
        yield styled(f"{sign} ", (effect, style), f" {rule['rule']}  ({rule['origin']})")
    if left := len(rules) - len(shown):
        yield f"{sign} and {counted(left, 'more rule')} of {cause}"


def _more(change: Mapping[str, Any], kind: str, text: str, noun: str) -> Iterator[str]:
    left = change.get("counts", {}).get(kind, 0) - len(change.get(kind, ()))
    if left > 0:
        yield text.format(counted(left, noun))


def _what_holds(project: Project) -> Sequence[Problem]:
    try:
        answer = _asked(project, "status")
    except UserError as error:
        return error.problems
    return (_in_force(answer.get("policy", {})),)


def _asked(project: Project, verb: str) -> Mapping[str, Any]:
    proxy = require_running(project, "proxy")
    return ask_proxy(driver(), proxy, verb)


def _in_force(policy: Mapping[str, Any]) -> Problem:
    """Return a note on the policy in force when a reload failed."""
    if policy.get("valid") is False:
        return Problem(where="", what="the proxy denies everything until the policy is fixed")
    return Problem(where="", what="nothing was changed: the previous policy stays in force until the proxy restarts")


def take_effect(project: Project, secret: str, path: Path | None, *, is_stored: bool, how: str = "") -> None:
    """Have the running proxies load the changed policy; before the first `up`, say what `up` does.

    List what changed if `how` is given: what the policy does with the secret, to print if nothing changed.
    A secret that is not stored has a source, and no proxy that could hold its value.
    """
    runs = is_running(project, "proxy")
    if not is_stored:
        say(f"{secret} will be fetched from its source by agent-sandbox up")
    elif not runs:
        say(f"{secret} is stored, and agent-sandbox up loads the policy")
    if runs or running_clones(project.root):
        answer = reload_stack(path)
        if how:
            report(answer, unchanged=f"{secret} was replaced; the policy {how} already")
        else:
            say_loaded(answer)
