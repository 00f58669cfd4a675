"""The `login` of an agent manifest: where its client keeps its sign-in on the host machine, and how it refreshes it."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal

from agent_sandbox.agents.fields import WITHOUT_DOTS, Fault, Line, Slug, Variable
from agent_sandbox.agents.home import within
from agent_sandbox.policy.file.fields import AtLeastOne, Strict, Written
from agent_sandbox.policyfile.parse.checking import matching

ACCESS: Final = "access"
FILE = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)+")
HOST = re.compile(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+")
# RFC 6901, for objects only.
POINTER = re.compile(r"(/[^/\x00-\x1f\x7f]{1,100}){1,6}")
BEGINNING = re.compile(r"[A-Za-z0-9._/-]{1,40}")
ENDPOINT = re.compile(r"https://[a-z0-9.-]+/[A-Za-z0-9._/-]{1,200}")
WORD = re.compile(r"[A-Za-z0-9_.=-][A-Za-z0-9_.=/-]{0,100}")
FIELD = re.compile(r"[a-z_]{1,40}")
FILLED = re.compile(r"\{(access|refresh|id|seconds)\}")
COPIED = re.compile(r"\{(/.+)\}")

Host = Annotated[str, matching(HOST, "a host", "write its whole name, without wildcards")]
Pointer = Annotated[str, matching(POINTER, "a JSON pointer", "write `/KEY/KEY`")]
Beginning = Annotated[str, matching(BEGINNING, "the beginning of a token", "use letters, digits and `._/-`")]
Endpoint = Annotated[str, matching(ENDPOINT, "an endpoint", "write `https://HOST/PATH`, without a query")]
Word = Annotated[str, matching(WORD, "a plain word of a command", "use letters, digits and `_.=/-`")]
Role = Literal["access", "refresh", "id"]


class Token(Strict):
    """A token: its place in the file (a JSON pointer), and the shape of its placeholder.

    The placeholder begins with `begins`, or is a JWT with these `claims` of the real one.
    """

    at: Pointer
    begins: Beginning = ""
    claims: AtLeastOne[Pointer] = ()


class Expiry(Strict):
    """Where the file says when the access token expires, and in which unit."""

    at: Pointer
    unit: Literal["seconds", "milliseconds", "jwt"]


class Refresh(Strict):
    """What the client gets from a refresh endpoint."""

    endpoints: AtLeastOne[Endpoint]
    answer: dict[Annotated[str, matching(FIELD, "a name", "use `a-z` and `_`")], Line]


class Login(Strict):
    """How the client of an agent keeps its sign-in.

    It is in `file` below the home directory, or below the directory that the variable `folder` names; on macOS also in
    the `keychain`. `copied` are values that the sandbox may see. `service` has the option `login`, which sends the
    access token to `hosts`. The command `renew` refreshes a token that is about to expire, `sign_in` makes a new login.
    """

    service: Slug
    hosts: AtLeastOne[Host]
    file: Annotated[str, matching(FILE, "a file in a directory of the home directory", WITHOUT_DOTS)]
    folder: Variable = ""
    keychain: Line = ""
    tokens: dict[Role, Token]
    expires: Written[Expiry] = None
    plan: Pointer = ""
    copied: AtLeastOne[Pointer] = ()
    refresh: Written[Refresh] = None
    renew: AtLeastOne[Word] = ()
    sign_in: AtLeastOne[Word]

    @property
    def secret(self) -> str:
        """The name of the secret with the access token."""
        return f"{self.service}.login"

    def contradictions(self, states: Iterable[str]) -> Iterator[Fault]:
        """Yield problems of values that are valid on their own. `states` are the agent's state directories."""
        if not any(within(self.file, folder) for folder in states):
            yield ("file",), f"`login.file` is {self.file}, which is not in a directory of `state`"
        if ACCESS not in self.tokens:
            yield ("tokens",), "`login.tokens` has no `access`"
        for role, token in self.tokens.items():
            if bool(token.begins) == bool(token.claims):
                yield ("tokens", role), f"`login.tokens.{role}` must have either `begins` or `claims`"
            # A token, or an object with a token in it, would be shown to the sandbox.
            for number, pointer in enumerate(self.copied):
                if within(token.at, pointer) or within(pointer, token.at):
                    yield ("copied", number), f"`login.copied` names {pointer}, which is or has the {role} token"
        for name, text in self.refresh.answer.items() if self.refresh else ():
            at = ("refresh", "answer", name)
            copied = COPIED.fullmatch(text)
            if copied and copied[1] not in self.copied:
                yield at, f"`login.refresh.answer.{name}` is {text}, which `login.copied` does not name"
            filled = FILLED.fullmatch(text)
            if filled and filled[1] not in {*self.tokens, "seconds"}:
                yield at, f"`login.refresh.answer.{name}` is {text}, but `login.tokens` has no `{filled[1]}`"
