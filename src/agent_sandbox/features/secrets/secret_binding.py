"""Parse a secret's name and hosts from the command line, and list the names that shells complete."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from agent_sandbox.features.policy.file import find_policy
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.injection import parse_secret_name
from agent_sandbox.policytools.unset_secrets import Bound, single_host, wanted
from agent_sandbox.problems import Problem, UserError


def read_binding(name: str, hosts: Sequence[str]) -> Bound:
    """Return name and hosts in canonical form, or raise UserError with all problems."""
    problems = [*_problems("NAME", parse_secret_name, (name,)), *_problems("--host", single_host, hosts)]
    if problems:
        raise UserError(problems)
    return Bound(name=name, hosts=tuple(dict.fromkeys(map(single_host, hosts))))


def named_secrets(*before: str) -> tuple[str, ...]:
    """Return the secrets that the project's policy injects, for shell completion of the first argument."""
    if before:
        return ()
    policy = load_here(find_policy(None, cwd=Path.cwd()), os.environ)
    return tuple(dict.fromkeys(one.secret for one in wanted(policy, ())))


def _problems(where: str, parse: Callable[[str], object], words: Iterable[str]) -> Iterator[Problem]:
    for word in words:
        try:
            parse(word)
        except InvalidValue as invalid:
            yield Problem(where=where, what=invalid.what, hint=invalid.hint)
