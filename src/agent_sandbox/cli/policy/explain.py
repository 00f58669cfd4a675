"""`agent-sandbox policy explain METHOD URL`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from agent_sandbox.cli.options import Json, ProjectPath
from agent_sandbox.cli.output import emit, emit_json
from agent_sandbox.cli.parameters import Argument, Option
from agent_sandbox.cli.policy_file import find_policy, shown
from agent_sandbox.policy import Ambiguous, Cause, Decision, Effect, Policy, Request, advise, decide
from agent_sandbox.policy.advice import APPLY, FILE
from agent_sandbox.policy.compile import compile_policy
from agent_sandbox.policy.layer import Layer
from agent_sandbox.policytools.requestline import read_request

Method = Annotated[str, Argument(help="GET, POST, ...")]
Url = Annotated[str, Argument(help="https://host/path?query")]
PolicyFile = Annotated[Path | None, Option(help="The policy; otherwise the project's.")]


def explain(
    method: Method,
    url: Url,
    *,
    policy: PolicyFile = None,
    path: ProjectPath = None,
    json: Json = False,
) -> None:
    """Say whether a request is allowed, by which rule, and how to allow it."""
    from agent_sandbox.policyfile import shipped_services  # noqa: PLC0415 - `--help` needs none of it
    from agent_sandbox.runtime.layers import load_here  # noqa: PLC0415 - as above

    where = shown(policy or find_policy(path, cwd=Path.cwd()), cwd=Path.cwd())
    answer = explained(load_here(where, os.environ), method.upper(), url, services=shipped_services())
    if json:
        emit_json({"policy": str(where), **answer})
    else:
        emit(as_text(answer))


def explained(policy: Policy, method: str, url: str, *, services: Mapping[str, Layer]) -> dict[str, Any]:
    """Return the decision on a request as plain data; what can't be read in one way is denied, as the proxy does."""
    try:
        request = read_request(policy, method, url)
    except Ambiguous as doubt:
        decision = Decision(
            effect=Effect.DENY, rule=None, origin=None, reason=f"ambiguous: {doubt}", cause=Cause.REQUEST
        )
        return _answer(method, url, decision, hint="")
    decision = decide(policy, request)
    hint = _service_for(request, decision, services) or advise(request, decision)
    return _answer(request.method, request.url, decision, hint=hint)


def _service_for(request: Request, decision: Decision, services: Mapping[str, Layer]) -> str:
    """Return the advice to add a service, where one allows this request: it is narrower than the whole host."""
    if decision.allowed or decision.cause in {Cause.RULE, Cause.POLICY}:
        return ""
    fitting = (name for name in services if decide(compile_policy([services[name]], services), request).allowed)
    name = next(fitting, "")
    return f"add `- {name}` under `services` in {FILE}, {APPLY}" if name else ""


def _answer(method: str, url: str, decision: Decision, *, hint: str) -> dict[str, Any]:
    return {
        "effect": str(decision.effect),
        "method": method,
        "url": url,
        "rule": decision.rule,
        "file": decision.origin.file if decision.origin else None,
        "line": decision.origin.line if decision.origin else None,
        "layer": decision.origin.layer if decision.origin else None,
        "reason": decision.reason,
        "near_miss": decision.near_miss,
        "hint": hint,
    }


def as_text(answer: dict[str, Any]) -> str:
    """Return the answer for a person: what, why, what came near, what to do."""
    rows = {
        "because": answer["reason"],
        "nearest": "" if answer["near_miss"] in answer["reason"] else answer["near_miss"],
        "to allow": answer["hint"],
    }
    return "\n".join(
        (
            f"{answer['effect']}  {answer['method']} {answer['url']}",
            *(f"  {name}: {text}" for name, text in rows.items() if text),
        )
    )
