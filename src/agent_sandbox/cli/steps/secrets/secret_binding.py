"""Parse a secret's name and hosts from the command line, and list the names that shells complete."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_sandbox.cli.steps.policy.policy_file import find_policy
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import Reach, parse_host_pattern
from agent_sandbox.policy.match.injection import parse_secret_name
from agent_sandbox.policytools.unset_secrets import Bound, wanted
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.policies.layers import load_here


def read_binding(name: str, hosts: Sequence[str]) -> Bound:
    """Return name and hosts in canonical form, or raise UserError with all problems."""
    problems = [*_name_problems(name), *_host_problems(hosts)]
    if problems:
        raise UserError(problems)
    return Bound(name=name, hosts=tuple(dict.fromkeys(parse_host_pattern(host).name for host in hosts)))


def named_secrets(cwd: Path) -> tuple[str, ...]:
    """Return the secrets that the project's policy injects."""
    policy = load_here(find_policy(None, cwd=cwd), os.environ)
    return tuple(dict.fromkeys(one.secret for one in wanted(policy, ())))


def _name_problems(name: str) -> Iterator[Problem]:
    try:
        parse_secret_name(name)
    except InvalidValue as invalid:
        yield Problem(where="NAME", what=invalid.what, hint=invalid.hint)


def _host_problems(hosts: Sequence[str]) -> Iterator[Problem]:
    for host in hosts:
        try:
            pattern = parse_host_pattern(host)
        except InvalidValue as invalid:
            yield Problem(where="--host", what=invalid.what, hint=invalid.hint)
            continue
        if pattern.reach is not Reach.EXACT:
            hint = "name each host; otherwise any host below it would receive the secret"
            yield Problem(
                where="--host", what=f"`{pattern}` is a wildcard, but a secret is bound to single hosts", hint=hint
            )
