"""Injections: which secret, by name, goes into which header. A policy never contains the value of a secret."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, override

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.credential_kind import BEARER, KINDS, CredentialKind
from agent_sandbox.policy.text import safe_repr

# The beginnings of well-known tokens, long enough not to match the name of a secret.
A_VALUE = re.compile(
    r"(?:gh[opsur]_|github_pat_|glpat-|hf_|npm_|AKIA)[A-Za-z0-9]{16}|sk-(?=(?:\D*\d){2})[A-Za-z0-9-]{16}"
)
# Safe as a file name.
SECRET = re.compile(r"(?!-|\.{1,2}\Z)[A-Za-z0-9._-]{1,100}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A secret in a header (lower-case name), in the form of its kind; `username` is set if the kind takes one."""

    header: str
    secret: str
    kind: str = BEARER
    username: str | None = None

    @property
    def row(self) -> CredentialKind:
        """The kind's row in the table."""
        return KINDS[self.kind]

    @override
    def __str__(self) -> str:
        return f"secret {self.secret} in {self.header}{f' as {self.username!r}' if self.username else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """Credentials, one per header, sorted; `replaces`: whether they may replace a header that the client sends."""

    credentials: tuple[Credential, ...]
    replaces: bool = False

    @property
    def written(self) -> dict[str, Any]:
        """The injection as the value of `transform` in a policy file."""
        headers = {one.header: {"secret": one.secret, "transform": _kind(one)} for one in self.credentials}
        return {"request": {"headers": headers, "on_existing_header": "replace" if self.replaces else "fail"}}

    @property
    def secrets(self) -> str:
        """The secrets with their headers, as text."""
        return " and ".join(map(str, self.credentials))

    @override
    def __str__(self) -> str:
        return f"{self.secrets}{' replacing what is sent' if self.replaces else ''}"


def injection(credentials: Iterable[Credential], *, replaces: bool = False) -> Injection:
    """Return the injection of these credentials.

    >>> str(injection([Credential(header="x-key", secret="b"), Credential(header="authorization", secret="a")]))
    'secret a in authorization and secret b in x-key'
    """
    return Injection(credentials=tuple(sorted(credentials, key=lambda one: one.header)), replaces=replaces)


def _kind(credential: Credential) -> dict[str, str]:
    return {"type": credential.kind, **({} if credential.username is None else {"username": credential.username})}


def parse_secret_name(text: str) -> str:
    """Return the name of a secret, or raise InvalidValue, also for a text that is a secret itself."""
    if A_VALUE.match(text):
        what = "this is a secret, not the name of one"
        raise InvalidValue(
            what, "revoke it, as it has leaked; write a name here, and set a new value with `agent-sandbox secret set`"
        )
    if not SECRET.fullmatch(text):
        raise InvalidValue(
            f"not a secret name: {safe_repr(text)}", "use letters, digits, `.`, `_` and `-`, such as `github.token`"
        )
    return text
