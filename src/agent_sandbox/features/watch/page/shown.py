"""Convert what the page shows to JSON: bounded, with control and invisible characters escaped."""

from collections.abc import Mapping
from typing import Any

from agent_sandbox.features.proxy.decisions import asked, local_time, why
from agent_sandbox.features.proxy.reports import LONGEST_RULE, Grant, Question, groups
from agent_sandbox.features.watch.page.feed import Decision, News, Stack
from agent_sandbox.features.watch.page.today import Hosts, PolicyUse, Use
from agent_sandbox.features.watch.watching.rules import Change
from agent_sandbox.printable import printable
from agent_sandbox.size_text import size_text

LONGEST = 400
MOST_LINES = 200  # of a diff
MOST_POLICY_LINES = 2_000
MOST_QUESTIONS = 64  # what the proxy lets wait at once
NUMBERS = ("status", "bytes_in", "bytes_out", "duration_ms")
TEXTS = ("decision", "host", "rule", "cause", "tool", "event", "headers")

type Shown = Mapping[str, Any]


def news_shown(news: News) -> Shown:
    """Return news; `stacks` is left out if none has changed."""
    shown = {
        "records": [decision_shown(one) for one in news.decisions],
        "missed": news.missed,
        "notes": [text_shown(note) for note in news.notes],
    }
    return shown if news.stacks is None else {**shown, "stacks": [stack_shown(one) for one in news.stacks]}


def decision_shown(decision: Decision) -> Shown:
    """Return one decision. Its number is how the page asks for a rule."""
    record = decision.record
    return {
        "number": decision.number,
        "stack": decision.stack,
        "time": text_shown(local_time(str(record.get("time", "")), shape="%H:%M:%S")),
        "request": text_shown(asked(record)),
        **{name: text_shown(record.get(name) or "") for name in TEXTS},
        "reason": text_shown(why(record)),
        **{name: _number(record.get(name)) for name in NUMBERS},
    }


def stack_shown(stack: Stack) -> Shown:
    """Return the questions of a stack, those of many hosts of one domain together, the grants, and the ports."""
    state = stack.state
    several = groups(state.questions[:MOST_QUESTIONS])
    return {
        "name": stack.name,
        "connected": stack.connected,
        "ask": text_shown(state.ask),
        "groups": [
            {"name": text_shown(name), "questions": [_question(one) for one in group]} for name, group in several
        ],
        "grants": [_grant(one) for one in state.grants],
        "ports": [
            {"port": one.port, "command": text_shown(one.command), "here": one.here} for one in stack.inside.ports
        ],
        "more_ports": stack.inside.more,
    }


def request_shown(question: Question) -> str:
    """Return what a question is about, as the page shows it and repeats it with an answer."""
    return text_shown(f"{question.method} {question.url}", LONGEST * 3)


def _question(question: Question) -> Shown:
    return {
        "id": question.id,
        "host": text_shown(question.host),
        "request": request_shown(question),
        "details": text_shown(question.details),
        "reason": text_shown(question.reason, LONGEST * 2),
        "services": [text_shown(name) for name in question.services],
        "notes": [text_shown(note) for note in question.notes],
        "rule": text_shown(question.rule, LONGEST_RULE) if question.lasting else "",
        "fits_policy": question.fits_policy,
        "seconds_left": question.seconds_left,
    }


def change_shown(change: Change) -> Shown:
    """Return a planned change, its diff line by line."""
    return {
        "id": change.id,
        "layer": change.layer,
        "rule": text_shown(change.rule, LONGEST_RULE),
        "diff": [text_shown(line) for line in change.diff.split("\n")[:MOST_LINES]],
        "warnings": [text_shown(warning) for warning in change.warnings],
        "services": [text_shown(name) for name in change.services],
    }


def hosts_shown(hosts: Hosts) -> Shown:
    """Return the hosts with their counts; the counts of a slot are allowed and denied."""
    return {
        "hosts": [
            {
                "host": text_shown(total.host),
                "requests": total.requests,
                "denied": total.denied,
                "sent": size_text(total.sent),
                "received": size_text(total.received),
                "last": local_time(total.last, shape="%H:%M:%S"),
                "slots": [*zip(slots.allowed, slots.denied, strict=True)],
            }
            for total, slots in hosts.rows
        ],
        "count": hosts.count,
        "times": [f"{time:%H:%M}" for time in hosts.times],
    }


def policy_shown(policy: PolicyUse) -> Shown:
    """Return the lines of the policy file, each with what its rules decided."""
    lines = enumerate(policy.text[:MOST_POLICY_LINES], start=1)
    return {
        "lines": [
            {"text": text_shown(text), "uses": [_use(use) for use in policy.uses.get(number, ())]}
            for number, text in lines
        ],
        "more": max(0, len(policy.text) - MOST_POLICY_LINES),
        "others": [_use(use) for use in policy.others],
    }


def _use(use: Use) -> Shown:
    return {"what": text_shown(use.what), "allowed": use.allowed, "denied": use.denied}


def _grant(grant: Grant) -> Shown:
    rule, who = text_shown(grant.rule, LONGEST_RULE), text_shown(grant.who)
    return {"id": grant.id, "rule": rule, "who": who, "seconds_left": grant.seconds_left}


def text_shown(value: object, longest: int = LONGEST) -> str:
    """Return a value as one printable line of bounded length."""
    text = printable(str(value)[: longest * 2])
    return text if len(text) <= longest else f"{text[:longest]}..."


def _number(value: object) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if fits else None  # type: ignore[return-value] # `fits` says that it is a number
