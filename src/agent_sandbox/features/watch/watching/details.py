"""The details of a question and of a decided request, line by line. Most of their texts come from the sandbox."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import to_builtins

from agent_sandbox.features.proxy.decisions import why
from agent_sandbox.features.proxy.reports import Question
from agent_sandbox.features.traffic.record import record_of
from agent_sandbox.size_text import size_text

NO_RULE = "no rule can express this: allow once, or deny"


def question_lines(question: Question) -> Iterator[str]:
    """Yield what a person decides on, beside method and URL."""
    if question.details:
        yield f"with {question.details}"
    yield question.reason
    if question.services:
        yield f"allowed by the service {', or '.join(question.services)}"
    yield f"for longer than once: {question.rule}" if question.lasting else NO_RULE
    yield from question.notes


def record_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reason of a decision, then what else the audit record has about the request."""
    one = record_of(record)
    if said := why(to_builtins(one)):
        yield said
    facts = (
        one.rule and f"rule {one.rule}",
        "" if one.status is None else f"status {one.status}",
        one.bytes_out and f"sent {size_text(one.bytes_out)}",
        one.bytes_in and f"received {size_text(one.bytes_in)}",
        one.duration_ms and f"took {one.duration_ms:g} ms",
        one.tool and f"looks like {one.tool}",
        *(f"secret {use.secret} ({use.kind})" for use in one.secrets),
    )
    if shown := ", ".join(str(fact) for fact in facts if fact):
        yield shown
    if one.headers:
        yield f"headers: {one.headers}"
