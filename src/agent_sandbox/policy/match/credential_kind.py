"""The kinds of credentials: how each is written into a request, recognised in one, and found in a response.

A new kind is one row of `KINDS`, which the policy file, the policy engine, the proxy and the redaction of echoes read.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

# The kinds for a header. A query parameter needs no kind in the policy, because it has its own section.
KindName = Literal["basic", "bearer", "raw"]
BEARER, BASIC, QUERY = "bearer", "basic", "query"


def _basic_token(value: str, username: str) -> str:
    return b64encode(f"{username}:{value}".encode()).decode("ascii")


def _after(scheme: str, field: str) -> str:
    """Return what follows an authentication scheme, whose case does not matter, or an empty string."""
    found, _, rest = field.strip().partition(" ")
    return rest.strip() if found.lower() == scheme else ""


def _password(field: str) -> str:
    try:
        return b64decode(_after(BASIC, field), validate=True).decode("latin-1").partition(":")[2]
    except ValueError:
        return ""


def _bearer_token(field: str) -> str:
    # GitHub's clients write `token`, as its first API did.
    return _after(BEARER, field) or _after("token", field)


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialKind:
    """One kind of credential.

    `write` makes the value of the header, or of the parameter `in_query`, from the secret and the user name. `read`
    returns the secret in such a value or an empty string. `encoded` returns the texts, except the secret itself, that
    would reveal the secret.
    """

    name: KindName | Literal["query"]
    summary: str
    write: Callable[[str, str], str]
    read: Callable[[str], str]
    takes_username: bool = False
    in_query: bool = False
    encoded: Callable[[str, str], tuple[str, ...]] = lambda _value, _username: ()


KINDS: dict[str, CredentialKind] = {
    kind.name: kind
    for kind in (
        CredentialKind(
            name="bearer",
            summary="`Bearer SECRET`",
            write=lambda value, _: f"Bearer {value}",
            read=_bearer_token,
        ),
        CredentialKind(
            name="basic",
            summary="`Basic`, with the secret as the password",
            write=lambda value, username: f"Basic {_basic_token(value, username)}",
            read=_password,
            takes_username=True,
            encoded=lambda value, username: (_basic_token(value, username).rstrip("="),),
        ),
        CredentialKind(
            name="raw",
            summary="the secret itself, as in `x-api-key`",
            write=lambda value, _: value,
            read=str.strip,
        ),
        CredentialKind(
            name="query",
            summary="a parameter of the query",
            write=lambda value, _: quote(value, safe=""),
            read=unquote,
            in_query=True,
        ),
    )
}
