"""Recognise the SSH address of a git repository, for hints."""

import re

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.text import safe_repr

ADDRESS = re.compile(
    r"(?:ssh://)?[\w.-]{1,64}@(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::[0-9]+(?=/))?[:/]/?(?P<path>[\w./-]+?)(?:\.git)?/?",
    re.ASCII | re.IGNORECASE,
)
MOST = 300


def https_address(text: str) -> str | None:
    """Return the https address of the repository, or None if this is not an SSH address.

    >>> https_address("git@github.com:o/r.git"), https_address("ssh://git@git.example.com:2222/team/r")
    ('https://github.com/o/r.git', 'https://git.example.com/team/r.git')
    """
    found = ADDRESS.fullmatch(text) if "@" in text and len(text) <= MOST else None
    return f"https://{found['host']}/{found['path']}.git" if found else None


def repository_of(text: str) -> str:
    """Return the `owner/name` of an https or SSH address of a repository; empty if it has none.

    >>> repository_of("git@github.com:o/r.git"), repository_of("https://github.com/o/r/"), repository_of("a/b/c")
    ('o/r', 'o/r', '')
    """
    scheme, _, rest = (https_address(text) or text).partition("://")
    path = rest.partition("/")[2].removesuffix("/").removesuffix(".git")
    return path if scheme in {"http", "https"} and path.count("/") == 1 else ""


def require_no_ssh(text: str) -> None:
    """Raise InvalidValue for an SSH address, with what to write instead."""
    address = https_address(text)
    if address is not None:
        host = address.partition("://")[2].partition("/")[0]
        named = f", or its service with `repos: [{name}]`" if (name := repository_of(text)) else ""
        hint = f"git uses https in the sandbox: allow the host `{host}`{named}"
        raise InvalidValue(f"{safe_repr(text)} is an SSH address", hint)
