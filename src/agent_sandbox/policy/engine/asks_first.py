"""Requests that a rule allows, but a person is asked about first: writes and uploads that no rule is explicit about."""

from collections.abc import Sequence

from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.engine.settings import Settings
from agent_sandbox.policy.http.body_size import shown_size
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policy.http.request import Request

READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Over HTTP/2, other requests rarely say that they have no body.
UPLOADING = frozenset({"POST", "PUT", "PATCH"})


def why_asked(settings: Settings, request: Request, rules: Sequence[Rule]) -> str:
    """Return why a person is asked about a request that these rules allow; "" if nobody is.

    A rule that names its methods, or the size of a body, has answered that question already.
    """
    if (
        settings.asks_about("writes")
        and request.method not in READING
        and not any(rule.conditions.methods not in {None, STANDARD} for rule in rules)
    ):
        return f"`ask: writes` has a person allow {request.method}"
    if _is_sized(rules) or settings.ask_uploads < 0:
        return ""
    unknown = request.body_size is None and request.method in UPLOADING
    if unknown or (request.body_size or 0) > settings.ask_uploads:
        return f"`ask: uploads` has a person allow a body of {_size(request)}"
    return ""


def unasked_body(settings: Settings, rules: Sequence[Rule]) -> int | None:
    """Return the largest body that nobody was asked about, for a request that does not say how large its body is."""
    return None if _is_sized(rules) or settings.ask_uploads < 0 else settings.ask_uploads


def _is_sized(rules: Sequence[Rule]) -> bool:
    asked = (rule.conditions for rule in rules)
    return any(one.max_body is not None or one.graphql is not None for one in asked)


def _size(request: Request) -> str:
    return "unknown size" if request.body_size is None else shown_size(request.body_size)
