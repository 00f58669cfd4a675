"""What the proxy reports to `watch`: decisions, questions and grants. Many of its texts come from the sandbox."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent_sandbox.bounded_json import read_json
from agent_sandbox.counted import counted
from agent_sandbox.policy.http.body_size import shown_size
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.policy.match.public_suffix import is_public_suffix
from agent_sandbox.printable import printable

LONGEST = 400  # of a text
LONGEST_RULE = LONGEST * 3
LONGEST_NOTE = 160
FEW = 3  # questions of one domain that are shown one by one


class Question(Struct, frozen=True, kw_only=True):
    """A request that waits for an answer. `rule` is the entry of `allow` that would allow it, empty if none can.

    With `asked_by_rule`, the entry would not help in the policy, because a rule with `ask: true` asks nevertheless.
    `client` is the address of its connection. `risks` and `sender` are not the proxy's: this machine adds them.
    """

    id: int
    method: str
    url: str
    host: str
    details: str
    reason: str
    services: tuple[str, ...]
    rule: str
    requests: int
    seconds_left: int
    asked_by_rule: bool = False
    client: str = ""
    headers: str = ""
    risks: tuple[str, ...] = ()
    sender: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What else to know before an answer."""
        headers = f"headers: {self.headers}" if self.headers else ""
        found = (*(f"careful: {risk}" for risk in self.risks), self.shown_sender, headers)
        return tuple(_cut(one) for one in found if one)

    @property
    def shown_sender(self) -> str:
        """Which program sent it. The sandbox itself says so, and may lie."""
        return _cut(f"sent by (not verified): {self.sender}") if self.sender else ""

    @property
    def fits_policy(self) -> bool:
        """Whether an entry in the policy would answer it for good."""
        return self.lasting and not self.asked_by_rule

    @property
    def lasting(self) -> bool:
        """Whether its rule can be allowed for longer than once: there is one, and it is whole."""
        return 0 < len(self.rule) <= LONGEST_RULE


class Grant(Struct, frozen=True, kw_only=True):
    """A grant in force. `seconds_left` is None if it holds until the sandbox stops."""

    id: int
    rule: str
    who: str
    seconds_left: int | None


class State(Struct, frozen=True, kw_only=True):
    """Everything that is open. `ask` says which requests wait for a person; empty for none."""

    ask: str = ""
    questions: tuple[Question, ...] = ()
    grants: tuple[Grant, ...] = ()


class Reply(Struct, frozen=True, kw_only=True):
    """The proxy's answer to an answer; `error` is empty if it was accepted."""

    error: str


class Dropped(Struct, frozen=True, kw_only=True):
    """Decisions that came too fast to be reported."""

    count: int


type Report = Mapping[str, Any] | State | Reply | Dropped


def read_report(text: str) -> Report | None:
    """Return a line as a report, a decision as its audit record; None if it is not one."""
    try:
        match read_json(text):
            case {"record": dict(record)}:
                return record
            case {"state": dict(state)}:
                return _state(state)
            case {"answer": dict(answer)}:
                return Reply(error=_text(answer.get("error", "")))
            case {"dropped": int(count)}:
                return Dropped(count=count)
    except (KeyError, TypeError, ValueError):
        pass
    return None


def groups(questions: Iterable[Question]) -> Iterator[tuple[str, Sequence[Question]]]:
    """Yield the questions by domain; a domain of few is yielded as one group per question, without a name."""
    found: defaultdict[str, list[Question]] = defaultdict(list)
    for question in questions:
        found[domain_of(question.host)].append(question)
    for domain, several in found.items():
        if len({one.host for one in several}) > FEW:
            yield f"*.{domain}", several
        else:
            yield from (("", [one]) for one in several)


def domain_of(host: str) -> str:
    """Return the part of a name that somebody registered.

    >>> domain_of("a.b.example.co.uk"), domain_of("example.com")
    ('example.co.uk', 'example.com')
    """
    labels = host.split(".")
    for start in range(len(labels) - 1, 0, -1):
        if not is_public_suffix(".".join(labels[start:])):
            return ".".join(labels[start:])
    return host


def _state(value: Mapping[str, Any]) -> State:
    return State(
        ask=_text(value["ask"]),
        questions=tuple(map(_question, value.get("questions", ()))),
        grants=tuple(
            Grant(
                id=int(one["id"]),
                rule=_text(one["rule"]),
                who=_text(one["who"]),
                seconds_left=None if one["seconds_left"] is None else int(one["seconds_left"]),
            )
            for one in value.get("grants", ())
        ),
    )


def _question(value: Mapping[str, Any]) -> Question:
    scheme, host, port = _text(value["scheme"]), _text(value["host"]), int(value["port"])
    shown = host if port == DEFAULT_PORTS.get(scheme) else f"{host}:{port}"
    return Question(
        id=int(value["id"]),
        method=_text(value["method"]),
        url=f"{scheme}://{shown}{_text(value['path'])}",
        host=host,
        details=", ".join(_details(value)),
        reason=_text(value["reason"]),
        services=tuple(map(_text, value.get("services", ()))),
        rule=_text(value["rule"], LONGEST_RULE),
        requests=int(value["requests"]),
        seconds_left=int(value["seconds_left"]),
        asked_by_rule=value.get("asked_by_rule") is True,
        client=_text(value.get("client", "")),
        headers=_text(value.get("headers", "")),
    )


def _details(value: Mapping[str, Any]) -> Iterator[str]:
    if query := int(value["query"]):
        yield f"a query of {counted(query, 'character')}"
    if value.get("websocket"):
        yield "a WebSocket, which sends data for as long as it is open"
    body = value["body"]
    # Over HTTP/2 they rarely say.
    if body is None and not (value.get("http2") and value["method"] in {"GET", "HEAD"}):
        yield "a body of unknown size"
    elif body:
        yield f"a body of {shown_size(int(body))}"
    if tool := value.get("tool"):
        yield f"a client that looks like {_text(tool)}"
    if int(value["requests"]) > 1:
        yield f"{counted(int(value['requests']), 'request')} like it"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_NOTE else f"{text[:LONGEST_NOTE]}..."


def _text(value: object, longest: int = LONGEST) -> str:
    text = printable(str(value))
    return text if len(text) <= longest else f"{text[:longest]}..."
