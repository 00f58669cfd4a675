"""Run test cases, requests with expected decisions, against a policy."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policyfile.parse.parsing import check_document
from agent_sandbox.policyfile.text.document import Document, parse_document
from agent_sandbox.policytools.explain.explaining import Explanation, answer, explain
from agent_sandbox.policytools.explain.request_line import RequestLine, read_request
from agent_sandbox.problems import Problem, UserError

SECTION = "tests"


class Case(Struct, frozen=True, kw_only=True):
    """A request with the expected effect, a reason and its origin."""

    origin: Origin
    expected: Effect
    line: RequestLine
    reason: str = ""


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of a case, with an explanation if it failed."""

    case: Case
    came: Explanation

    @property
    def passed(self) -> bool:
        """Whether the decision is the expected one."""
        return self.came.decision.effect is self.case.expected


def cases_of(layer: Layer) -> tuple[Case, ...]:
    """Return the cases of a policy file."""
    return tuple(
        Case(
            origin=layer.origin(SECTION, number),
            expected=spec.effect,
            line=RequestLine(
                method=spec.method,
                url=spec.url,
                headers=tuple((name.lower(), value) for name, value in (spec.headers or {}).items()),
                body_size=spec.body_size,
                graphql=spec.graphql,
                mcp=spec.mcp,
            ),
            reason=spec.reason,
        )
        for number, spec in enumerate(layer.spec.tests)
    )


def read_cases(text: str, *, file: str) -> tuple[Case, ...]:
    """Return the cases of a file that contains only the list, or raise UserError with every problem."""
    document = _as_section(parse_document(text, file=file))
    spec = check_document(document, file=file, services=())
    lines = {location: place.line for location, place in document.places.items()}
    return cases_of(Layer(name="cases", file=file, spec=spec, lines=lines))


def _as_section(document: Document) -> Document:
    """Return the document with its list as the section `tests` of a policy, so that one model reads both."""
    return replace(
        document,
        value={SECTION: document.value},
        places={(SECTION, *location): place for location, place in document.places.items()},
        keys={(SECTION, *location): place for location, place in document.keys.items()},
    )


def run_cases(policy: Policy, cases: Sequence[Case]) -> tuple[Outcome, ...]:
    """Return the outcome of every case; raise UserError if two cases contradict each other."""
    if problems := list(_contradictions(policy, cases)):
        raise UserError(problems)
    return tuple(_outcome(policy, case) for case in cases)


def _outcome(policy: Policy, case: Case) -> Outcome:
    held = Outcome(case=case, came=answer(policy, case.line))
    return held if held.passed else Outcome(case=case, came=explain(policy, case.line, offers=dict))


def _contradictions(policy: Policy, cases: Iterable[Case]) -> Iterable[Problem]:
    first: dict[Request | RequestLine, Case] = {}
    for case in cases:
        other = first.setdefault(_asked(policy, case.line), case)
        if other.expected is not case.expected:
            what = f"{case.line} should be {DONE[case.expected]} here, but {DONE[other.expected]} at {other.origin}"
            yield Problem(where=str(case.origin), what=what, hint="keep one of the two")


def _asked(policy: Policy, line: RequestLine) -> Request | RequestLine:
    """Return a key that is equal for two spellings of the same request."""
    try:
        return read_request(policy, line)
    except Ambiguous:
        return line


DONE = {Effect.ALLOW: "allowed", Effect.DENY: "denied"}
