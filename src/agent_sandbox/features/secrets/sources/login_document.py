"""The credential file of an agent's client: what it says, and what the sandbox gets in its place."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agent_sandbox.agents.login import ACCESS, COPIED, Login, Token
from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.features.secrets.sources.value import faults

PER_SECOND = {"seconds": 1, "milliseconds": 1000}
# The characters of a placeholder that the proxy recognises it by.
ENDING = 36
# Longer values are not a plan, a scope or an account.
MOST_COPIED = 4096
# No date of a token is beyond it, and no number that JSON can hold overflows below it.
LAST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


class UnknownShapeError(ValueError):
    """A credential file does not have the expected shape. The text never contains a value from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLogin:
    """A login on the host machine. Its `repr` has no token."""

    access: str = field(repr=False)
    # Seconds since the epoch, None if the file does not say.
    expires: float | None
    plan: str
    document: Mapping[str, Any] = field(repr=False)

    def left(self, now: float) -> float | None:
        """Return how many seconds the token is still valid, None if that is not known."""
        return None if self.expires is None else self.expires - now


def read_document(login: Login, data: bytes) -> HostLogin:
    """Return the login in a credential file, or raise UnknownShapeError."""
    try:
        document = read_json(data)
    except NotJsonError as error:
        raise UnknownShapeError("it is not complete JSON") from error
    for role, token in login.tokens.items():
        _token(document, role, token)
    plan = value_at(document, login.plan) if login.plan else None
    return HostLogin(
        access=str(value_at(document, login.tokens[ACCESS].at)),
        expires=_expiry(login, document),
        plan=plan if isinstance(plan, str) else "",
        document=document,
    )


def for_proxy(login: Login, found: HostLogin | None, *, now: float) -> bytes:
    """Return the login as the proxy gets it: the access token alone, if any, and how it answers the client.

    The time that the token has left counts, not its date: the proxy may be in a virtual machine with another clock.
    """
    document = found.document if found else {}
    answer = login.refresh.answer if login.refresh else {}
    said: dict[str, object] = {
        "endpoints": login.refresh.endpoints if login.refresh else (),
        "begins": {role: _beginning(document, token) for role, token in login.tokens.items()},
        "answer": {name: _filled(document, text) for name, text in answer.items()},
    }
    if found:
        said |= {"value": found.access, "lifetime": found.left(now)}
    return json.dumps(said).encode("ascii")


def for_sandbox(login: Login, found: HostLogin, placeholders: Mapping[str, str], before: bytes = b"") -> str:
    """Return the credential file for the sandbox: placeholders, the real expiry, and the values that it may see.

    Everything else in the file `before` stays: the client may keep other sign-ins there.
    """
    document = _object(before)
    for pointer in login.copied:
        value = value_at(found.document, pointer)
        if _is_harmless(value):
            _put(document, pointer, value)
    if login.expires and login.expires.unit in PER_SECOND:
        _put(document, login.expires.at, value_at(found.document, login.expires.at))
    for role, token in login.tokens.items():
        _put(document, token.at, placeholders[role])
    text = json.dumps(document)
    if any(str(value_at(found.document, token.at)) in text for token in login.tokens.values()):
        raise UnknownShapeError("a token is also in a value that the sandbox would see")
    return text


def is_signed_in(login: Login, data: bytes) -> bool:
    """Return whether a sandbox's credential file has tokens, its own ones or placeholders."""
    return value_at(_object(data), login.tokens[ACCESS].at) is not None


def has_placeholders(login: Login, data: bytes, placeholders: Mapping[str, str]) -> bool:
    """Return whether a sandbox's credential file has the placeholders of this login, and no token of its own."""
    document = _object(data)
    texts = {role: value_at(document, token.at) for role, token in login.tokens.items()}
    return all(isinstance(text, str) and text.endswith(placeholders[role][-ENDING:]) for role, text in texts.items())


def expiry_of(login: Login, data: bytes) -> float:
    """Return when the token in a sandbox's credential file expires, 0 if that cannot be read."""
    try:
        return _expiry(login, _object(data)) or 0.0
    except UnknownShapeError:
        return 0.0


def _object(data: bytes) -> dict[str, Any]:
    try:
        document = read_json(data)
    except NotJsonError:
        return {}
    return document if isinstance(document, dict) else {}


def value_at(document: object, pointer: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """Return the value at a JSON pointer, None if there is none.

    >>> value_at({"a/b": {"c": 1}}, "/a~1b/c")
    1
    """
    for name in _names(pointer):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _names(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _put(document: dict[str, Any], pointer: str, value: object) -> None:
    *above, name = _names(pointer)
    for part in above:
        if not isinstance(document.get(part), dict):
            document[part] = {}
        document = document[part]
    document[name] = value


def _token(document: object, role: str, token: Token) -> None:
    value = value_at(document, token.at)
    if not isinstance(value, str) or not value or any(faults(value.encode("utf-8", "replace"))):
        raise UnknownShapeError(f"it has no {role} token at {token.at}")
    if token.claims and _claims(value) is None:
        raise UnknownShapeError(f"the {role} token at {token.at} is not a JWT")


def _expiry(login: Login, document: object) -> float | None:
    if login.expires is None:
        return None
    at, unit = login.expires.at, login.expires.unit
    value = value_at(document, at)
    if unit == "jwt":
        value = (_claims(value) or {}).get("exp") if isinstance(value, str) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UnknownShapeError(f"it has no expiry at {at}")
    seconds = value / PER_SECOND.get(unit, 1) if abs(value) < LAST * 1000 else LAST + 1
    if not 0 <= seconds <= LAST:
        raise UnknownShapeError(f"the expiry at {at} is not a date")
    return seconds


def _claims(token: str) -> Mapping[str, Any] | None:
    """Return the claims of a JWT, None if it is none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = read_json(base64.b64decode(parts[1] + "==", altchars=b"-_", validate=False))
    except ValueError:
        return None
    return claims if isinstance(claims, dict) else None


def _beginning(document: object, token: Token) -> str:
    """Return how the placeholder for a token begins: as the token, or as a JWT with some of its claims."""
    if token.begins:
        return token.begins
    value = value_at(document, token.at)
    found = (_claims(value) or {}) if isinstance(value, str) else {}
    claims: dict[str, Any] = {}
    for pointer in token.claims:
        one = value_at(found, pointer)
        if _is_harmless(one):
            _put(claims, pointer, one)
    parts = ({"alg": "RS256", "typ": "JWT"}, claims)
    return "".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") + "." for part in parts)


def _is_harmless(value: object) -> bool:
    """Return whether a value is a text, a number or a list of texts."""
    if isinstance(value, list):
        return len(value) <= 100 and all(isinstance(one, str) and _is_harmless(one) for one in value)
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= MOST_COPIED)


def _filled(document: object, text: str) -> str:
    """Return a value of the answer: `{/pointer}` is a copied value, a list joined by spaces."""
    copied = COPIED.fullmatch(text)
    if not copied:
        return text
    value = value_at(document, copied[1])
    return " ".join(map(str, value)) if isinstance(value, list) else str(value if _is_harmless(value) else "")
