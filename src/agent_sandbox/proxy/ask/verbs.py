"""The verbs of the control socket for questions and grants, and the state that watchers get."""

from collections.abc import Mapping

from agent_sandbox.policy import Policy
from agent_sandbox.printable import printable
from agent_sandbox.proxy.ask.grant_book import Grant, GrantBook, Scope
from agent_sandbox.proxy.ask.questions import Question, Questions
from agent_sandbox.proxy.control.channel import Answer

LONGEST_PATH, LONGEST_HEADERS, LONGEST_NAME = 300, 300, 64


def answer_verb(questions: Questions, grants: GrantBook, question: Mapping[str, object]) -> Answer:
    """Answer an open question, or end a grant. What it takes: `id`, `scope`, `who`, `seconds`."""
    number, seconds = question.get("id"), question.get("seconds")
    who = printable(str(question.get("who") or "somebody"))[:LONGEST_NAME]
    if not isinstance(number, int) or isinstance(number, bool):
        return {"error": "no `id`"}
    if question.get("scope") == "end":
        return {"ok": True} if grants.end(number, f"{who} ended it") else {"error": "there is no such grant"}
    try:
        scope = Scope(str(question.get("scope")))
    except ValueError:
        return {"error": f"unknown scope; known: {', '.join((*Scope, 'end'))}"}
    lasts = float(seconds) if isinstance(seconds, int) and not isinstance(seconds, bool) and seconds > 0 else None
    if scope is Scope.TIME and lasts is None:
        return {"error": "no `seconds`"}
    why = questions.answer(number, scope, who=who, seconds=lasts)
    return {"error": why} if why else {"ok": True}


def state(questions: Questions, grants: GrantBook, policy: Policy, *, now: float) -> Answer:
    """Return the open questions and the grants, bounded and escaped: their texts come from the sandbox."""
    timeout = policy.settings.ask_timeout
    return {
        "ask": questions.about(policy),
        "questions": [_question(one, timeout=timeout, now=now) for one in questions],
        "grants": [_grant(one, now=now) for one in grants],
    }


def _question(question: Question, *, timeout: int, now: float) -> Answer:
    request = question.request
    path, headers = printable(request.path), printable(question.headers)
    return {
        "id": question.id,
        "scheme": request.scheme,
        "host": request.host,
        "port": request.port,
        "method": request.method,
        "path": path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}... ({len(path)} characters)",
        "query": len(request.query),
        "body": request.body_size,
        "requests": len(question.waiting),
        "reason": printable(question.reason),
        "services": list(question.services),
        "tool": question.tool,
        "client": question.client,
        "headers": headers if len(headers) <= LONGEST_HEADERS else f"{headers[:LONGEST_HEADERS]}...",
        "websocket": question.websocket,
        "http2": question.http2,
        "rule": printable(question.offer.text),
        "asked_by_rule": question.offer.asked_by_rule,
        "seconds_left": max(0, round(question.asked + timeout - now)),
    }


def _grant(grant: Grant, *, now: float) -> Answer:
    left = None if grant.until is None else max(0, round(grant.until - now))
    return {"id": grant.number, "rule": printable(grant.text), "who": grant.who, "seconds_left": left}
