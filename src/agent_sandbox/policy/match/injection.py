"""What a rule has put into a request: secrets by their names, each in a header. No policy holds the value of one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, override

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.text import safe_repr

# Fit for the name of a file.
# What well-known tokens begin with, and what no name of one goes on with.
A_VALUE = re.compile(
    r"(?:gh[opsur]_|github_pat_|glpat-|hf_|npm_|AKIA)[A-Za-z0-9]{16}|sk-(?=(?:\D*\d){2})[A-Za-z0-9-]{16}"
)
SECRET = re.compile(r"(?!-|\.{1,2}\Z)[A-Za-z0-9._-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A secret in a header, whose name is in lower case: a bearer token, or the password of `username`."""

    header: str
    secret: str
    username: str | None = None

    @override
    def __str__(self) -> str:
        return f"secret {self.secret} in {self.header}{f' as {self.username!r}' if self.username else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """Credentials, one a header and sorted; `replaces` tells whether they may stand in place of what a client sends."""

    credentials: tuple[Credential, ...]
    replaces: bool = False

    @property
    def written(self) -> dict[str, Any]:
        """The same as a policy writes it."""
        headers = {one.header: {"secret": one.secret, "transform": _kind(one)} for one in self.credentials}
        return {"request": {"headers": headers, "on_existing_header": "replace" if self.replaces else "fail"}}

    @property
    def secrets(self) -> str:
        """What is put in, without what becomes of a header that is there already."""
        return " and ".join(map(str, self.credentials))

    @override
    def __str__(self) -> str:
        return f"{self.secrets}{' in place of what is sent' if self.replaces else ''}"


def injection(credentials: Iterable[Credential], *, replaces: bool = False) -> Injection:
    """Return the credentials together.

    >>> str(injection([Credential(header="x-key", secret="b"), Credential(header="authorization", secret="a")]))
    'secret a in authorization and secret b in x-key'
    """
    return Injection(credentials=tuple(sorted(credentials, key=lambda one: one.header)), replaces=replaces)


def _kind(credential: Credential) -> dict[str, str]:
    if credential.username is None:
        return {"type": "bearer"}
    return {"type": "basic", "username": credential.username}


def parse_secret_name(text: str) -> str:
    """Return the name of a secret, or raise Unfit: for a secret, too, that was written in place of its name."""
    if A_VALUE.match(text):
        what = "a secret itself stands where its name belongs"
        raise Unfit(what, "have a new one made; write a name here, and give the value to `agent-sandbox secret set`")
    if not SECRET.fullmatch(text):
        raise Unfit(
            f"{safe_repr(text)} is no name of a secret", "write letters, digits, `.`, `_` and `-`: `github.token`"
        )
    return text
