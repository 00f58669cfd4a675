"""The `login` of an agent manifest: where its client keeps its sign-in on the host machine, and how it refreshes it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from agent_sandbox.agents.shape import Keys, Shape

HOST = re.compile(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+")
SLUG = re.compile(r"[a-z][a-z0-9-]{0,31}")
LINE = re.compile(r"[^\x00-\x1f\x7f]{1,500}")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
FILE = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)+")
# RFC 6901, for objects only.
POINTER = re.compile(r"(/[^/\x00-\x1f\x7f]{1,100}){1,6}")
BEGINNING = re.compile(r"[A-Za-z0-9._/-]{1,40}")
UNIT = re.compile(r"seconds|milliseconds|jwt")
ENDPOINT = re.compile(r"https://[a-z0-9.-]+/[A-Za-z0-9._/-]{1,200}")
WORD = re.compile(r"[A-Za-z0-9_.=-][A-Za-z0-9_.=/-]{0,100}")
FIELD = re.compile(r"[a-z_]{1,40}")
ACCESS, REFRESH = "access", "refresh"
ROLE = re.compile("access|refresh|id")
FILLED = re.compile(r"\{(access|refresh|id|seconds)\}")
COPIED = re.compile(r"\{(/.+)\}")

SHAPE: Mapping[str, Shape] = {
    "service": SLUG,
    "hosts": [HOST],
    "file": FILE,
    "folder?": VARIABLE,
    "keychain?": LINE,
    "tokens": Keys(ROLE, "`access`, `refresh` or `id`", {"at": POINTER, "begins?": BEGINNING, "claims?": [POINTER]}),
    "expires?": {"at": POINTER, "unit": UNIT},
    "plan?": POINTER,
    "copied?": [POINTER],
    "refresh?": {"endpoints": [ENDPOINT], "answer": Keys(FIELD, "a name", LINE)},
    "renew?": [WORD],
    "sign_in": [WORD],
}


class Token(Struct, frozen=True, kw_only=True):
    """A token: its place in the file (a JSON pointer), and the shape of its placeholder.

    The placeholder begins with `begins`, or is a JWT with these `claims` of the real one.
    """

    at: str
    begins: str = ""
    claims: tuple[str, ...] = ()


class Login(Struct, frozen=True, kw_only=True):
    """How the client of an agent keeps its sign-in.

    It is in `file` below the home directory, or below the directory that the variable `folder` names; on macOS also in
    the `keychain`. `copied` are values that the sandbox may see. `service` has the option `login`, which sends the
    access token to `hosts`. `answer` is what the client gets from a refresh `endpoint`. The command
    `renew` refreshes a token that is about to expire, `sign_in` makes a new login.
    """

    service: str
    hosts: tuple[str, ...]
    file: str
    folder: str = ""
    keychain: str = ""
    tokens: Mapping[str, Token]
    expires_at: str = ""
    unit: str = ""
    plan: str = ""
    copied: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    answer: Mapping[str, str] = {}
    renew: tuple[str, ...] = ()
    sign_in: tuple[str, ...]

    @property
    def secret(self) -> str:
        """The name of the secret with the access token."""
        return f"{self.service}.login"


def read_login(said: Mapping[str, Any]) -> Login:
    """Return the login of a manifest, which has the right shape."""
    expires, refresh = said.get("expires", {}), said.get("refresh", {})
    tokens = {
        role: Token(at=one["at"], begins=one.get("begins", ""), claims=tuple(one.get("claims", ())))
        for role, one in said["tokens"].items()
    }
    return Login(
        service=said["service"],
        hosts=tuple(said["hosts"]),
        file=said["file"],
        folder=said.get("folder", ""),
        keychain=said.get("keychain", ""),
        tokens=tokens,
        expires_at=expires.get("at", ""),
        unit=expires.get("unit", ""),
        plan=said.get("plan", ""),
        copied=tuple(said.get("copied", ())),
        endpoints=tuple(refresh.get("endpoints", ())),
        answer=dict(refresh.get("answer", {})),
        renew=tuple(said.get("renew", ())),
        sign_in=tuple(said["sign_in"]),
    )


def faults_of_login(said: Mapping[str, Any], state: tuple[str, ...]) -> Iterator[str]:
    """Yield problems of a login whose values are valid on their own. `state` are the agent's state directories."""
    login = read_login(said)
    if not any(f"{login.file}/".startswith(f"{folder}/") for folder in state):
        yield f"`login.file` is {login.file}, which is not in a directory of `state`"
    if ACCESS not in login.tokens:
        yield "`login.tokens` has no `access`"
    for role, token in login.tokens.items():
        if bool(token.begins) == bool(token.claims):
            yield f"`login.tokens.{role}` must have either `begins` or `claims`"
        # A token, or an object with a token in it, would be shown to the sandbox.
        for pointer in login.copied:
            if f"{token.at}/".startswith(f"{pointer}/") or f"{pointer}/".startswith(f"{token.at}/"):
                yield f"`login.copied` names {pointer}, which is or has the {role} token"
    for name, text in login.answer.items():
        copied = COPIED.fullmatch(text)
        if copied and copied[1] not in login.copied:
            yield f"`login.refresh.answer.{name}` is {text}, which `login.copied` does not name"
        filled = FILLED.fullmatch(text)
        if filled and filled[1] not in {*login.tokens, "seconds"}:
            yield f"`login.refresh.answer.{name}` is {text}, but `login.tokens` has no `{filled[1]}`"
