"""Injections: which secret, by name, goes into which header. A policy never contains the value of a secret."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, override

from msgspec import Struct

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.credential_kind import BEARER, KINDS, CredentialKind
from agent_sandbox.policy.text import safe_repr

# The beginnings of well-known tokens, long enough not to match the name of a secret.
A_VALUE = re.compile(
    r"(?:gh[opsur]_|github_pat_|glpat-|hf_|npm_|AKIA)[A-Za-z0-9]{16}|sk-(?=(?:\D*\d){2})[A-Za-z0-9-]{16}"
)
# No variable that changes what programs do, such as PATH, LD_PRELOAD and HTTPS_PROXY, ends like this.
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,80}_(?:KEY|KEY_ID|TOKEN|SECRET|PASSWORD|PAT)", re.ASCII)
# Safe in a shell and in a header.
PREFIX = re.compile(r"[A-Za-z0-9_-]{1,40}", re.ASCII)
# Safe as a file name.
SECRET = re.compile(r"(?!-|\.{1,2}\Z)[A-Za-z0-9._-]{1,100}", re.ASCII)


class Credential(Struct, frozen=True, kw_only=True):
    """A secret in a header (lower-case name), in the form of its kind, with the options that the kind takes.

    For the kind `query`, `header` is the name of a parameter.
    """

    header: str
    secret: str
    kind: str = BEARER
    username: str | None = None
    region: str | None = None
    service: str | None = None
    # The variable with the placeholder that clients send, and how the placeholder begins.
    env: str = ""
    also: tuple[str, ...] = ()  # more variables
    prefix: str = ""
    # Other headers (lower-case names) in which the server takes a credential; the same applies to them as to `header`.
    others: tuple[str, ...] = ()
    # Parameters of a query in which it takes one, too. A placeholder there is removed; other values are never replaced.
    parameters: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The header, or the parameter after a question mark."""
        return f"?{self.header}" if self.row.in_query else self.header

    @property
    def row(self) -> CredentialKind:
        """The kind's row in the table."""
        return KINDS[self.kind]

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables with the placeholder, none if clients send none."""
        return (self.env, *self.row.more_variables(self.env), *self.also) if self.env else ()

    @override
    def __str__(self) -> str:
        user = f" as {self.username!r}" if self.username else ""
        scope = f" for {self.service} in {self.region}" if self.region else ""
        return f"secret {self.secret} in {self.place}{user}{scope}"


class Existing(StrEnum):
    """What happens to a request that has the client's own credential instead of the placeholder."""

    FAIL = "fail"  # it is not allowed by this rule
    REPLACE = "replace"  # the secret replaces the credential
    KEEP = "keep"  # it is sent as it is, without the secret


# After the credentials, in messages.
SHOWN = {
    Existing.FAIL: "",
    Existing.REPLACE: " replacing what is sent",
    Existing.KEEP: " unless another credential is sent",
}


class Injection(Struct, frozen=True, kw_only=True):
    """Credentials, one per header, sorted."""

    credentials: tuple[Credential, ...]
    existing: Existing = Existing.FAIL

    @property
    def written(self) -> dict[str, Any]:
        """The injection as the value of `transform` in a policy file."""
        sections: dict[str, Any] = {}
        for one in self.credentials:
            section = "query" if one.row.in_query else "headers"
            sections.setdefault(section, {})[one.header] = _written(one)
        return {"request": {**sections, "on_existing_header": str(self.existing)}}

    @property
    def secrets(self) -> str:
        """The secrets with their headers, as text."""
        return " and ".join(map(str, self.credentials))

    @override
    def __str__(self) -> str:
        return f"{self.secrets}{SHOWN[self.existing]}"


def injection(credentials: Iterable[Credential], *, existing: Existing = Existing.FAIL) -> Injection:
    """Return the injection of these credentials.

    >>> str(injection([Credential(header="x-key", secret="b"), Credential(header="authorization", secret="a")]))
    'secret a in authorization and secret b in x-key'
    """
    return Injection(credentials=tuple(sorted(credentials, key=lambda one: one.place)), existing=existing)


def _written(credential: Credential) -> dict[str, Any]:
    options = {name: getattr(credential, name) for name in credential.row.options}
    shim = {
        "kind": "env",
        "name": credential.env,
        **({"also": list(credential.also)} if credential.also else {}),
        **({"prefix": credential.prefix} if credential.prefix else {}),
    }
    return {
        "secret": credential.secret,
        **({} if credential.row.in_query else {"transform": {"type": credential.kind, **options}}),
        **({"client_shim": shim} if credential.env else {}),
        **({"other_headers": list(credential.others)} if credential.others else {}),
        **({"other_parameters": list(credential.parameters)} if credential.parameters else {}),
    }


def parse_variable(text: str) -> str:
    """Return the name of an environment variable for a placeholder, or raise InvalidValue."""
    if not VARIABLE.fullmatch(text):
        raise InvalidValue(
            f"not a variable for a credential: {safe_repr(text)}",
            "use capital letters, digits and `_`, with `_KEY`, `_KEY_ID`, `_TOKEN`, `_SECRET`, `_PASSWORD` or `_PAT` "
            "at the end",
        )
    return text


def parse_prefix(text: str) -> str:
    """Return the beginning of a placeholder, or raise InvalidValue."""
    if not PREFIX.fullmatch(text):
        raise InvalidValue(
            f"not the beginning of a placeholder: {safe_repr(text)}", "use at most 40 letters, digits, `_` and `-`"
        )
    return text


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
