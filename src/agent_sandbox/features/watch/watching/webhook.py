"""Send questions, and the answers if the user wants that, to the user's webhook. Nothing here delays a question.

A thread sends what is new at most once in a few seconds. What could not be sent is tried again while it waits.
"""

import hashlib
import hmac
import html
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.audit_event import Event
from agent_sandbox.features.proxy.reports import Question, State
from agent_sandbox.features.secrets.sources.fetch import Host, fetch
from agent_sandbox.features.watch.webhook_file import WebhookSpec, read_webhook, webhook_file
from agent_sandbox.features.watch.webhook_outcome import Failure, SenderLock, forget_failure, save_failure
from agent_sandbox.host.post import SECONDS, NotSentError, post
from agent_sandbox.problems import UserError

PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 5.0, 60.0
MOST = 64  # the proxy lets no more requests wait
TEXT_LONGEST = 200
HEADER = "Agent-Sandbox-Signature"

type Answer = Mapping[str, str]


class Message(Struct, frozen=True, kw_only=True):
    """One message, not sent yet."""

    questions: Sequence[Question]
    closed: Sequence[int]
    answers: Sequence[Answer]


class Webhook:
    """Sends what a connection reports about one project. `report` and `record` may be called from any thread."""

    def __init__(  # noqa: PLR0913 - the user, the project, and what tests set
        self,
        root: Path,
        name: str,
        *,
        environ: Mapping[str, str] = os.environ,
        pause: float = PAUSE_SECONDS,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root, self._name, self._environ, self._clock = root, name, environ, clock
        self._pause, self._seconds = pause, seconds
        self._file = webhook_file(environ)
        self._lock, self._wake, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._turn = SenderLock(root, environ)
        self._thread: threading.Thread | None = None
        self._state, self._sent = State(), frozenset[int]()
        self._closed: deque[int] = deque(maxlen=MOST)
        self._answers: deque[Answer] = deque(maxlen=MOST)

    def report(self, state: State) -> None:
        """Take the open questions."""
        if self._file is None:
            return
        with self._lock:
            self._state = state
            open_now = {one.id for one in state.questions}
            self._closed.extend(sorted(self._sent - open_now))
            self._sent &= open_now
            self._rouse()

    def record(self, record: Mapping[str, Any]) -> None:
        """Take a decision; only answers are sent."""
        if self._file is None or record.get("event") != Event.GRANT or not record.get("method"):
            return
        with self._lock:
            self._answers.append({name: str(record.get(name, "")) for name in ("host", "method", "decision", "reason")})
            self._rouse()

    def end(self) -> None:
        """Stop sending."""
        self._over.set()
        self._wake.set()
        self._turn.release()

    def _rouse(self) -> None:
        """Have the thread look, and start it when there is something to send; the caller holds the lock."""
        if self._thread is None and (self._state.questions or self._answers):
            self._thread = threading.Thread(target=self._send_all, daemon=True)
            self._thread.start()
        self._wake.set()

    def _send_all(self) -> None:
        send, pause = None, self._pause
        while not self._over.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._over.is_set() or not self._turn.take():
                continue
            send = send or self._sender()
            pause = self._pause if send is not None and send() else min(pause * 2, LONGEST_PAUSE_SECONDS)
            self._over.wait(pause)

    def _sender(self) -> Callable[[], bool] | None:
        """Return a function that sends what is new, and returns whether that worked; None if the file has problems."""
        try:
            spec = read_webhook(self._file or Path(), self._root)
            key = fetch("the webhook's key", spec.key, Host(root=self._root, environ=self._environ)).value
        except UserError as error:
            self._failed("; ".join(map(str, error.problems)))
            return None
        return partial(self._send, spec, key)

    def _send(self, spec: WebhookSpec, key: bytes) -> bool:
        message = self._new(answers="answers" in spec.include)
        if message is None:
            return True
        now = int(self._clock())
        body = json.dumps(shown(message, name=self._name, now=now, path="path" in spec.include)).encode()
        try:
            post(spec.url, body, {HEADER: signature(key, body, now=now)}, seconds=self._seconds)
        except NotSentError as error:
            with self._lock:
                self._closed.extendleft(reversed(message.closed))
                self._answers.extendleft(reversed(message.answers))
            self._wake.set()  # once more, if something still waits then
            return self._failed(f"{spec.shown}: {error}")
        with self._lock:
            told = frozenset(one.id for one in message.questions)
            now_open = {one.id for one in self._state.questions}
            self._sent |= told & now_open
            self._closed.extend(sorted(told - now_open))
            if now_open - self._sent:
                self._wake.set()
        forget_failure(self._root, self._environ)
        return True

    def _new(self, *, answers: bool) -> Message | None:
        with self._lock:
            questions = [one for one in self._state.questions if one.id not in self._sent][:MOST]
            closed, said = (tuple(self._closed), tuple(self._answers)) if answers else ((), ())
            self._closed.clear()
            self._answers.clear()
        return Message(questions=questions, closed=closed, answers=said) if questions or closed or said else None

    def _failed(self, why: str) -> bool:
        now = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        save_failure(self._root, Failure(why=why, time=now), self._environ)
        return False


def shown(message: Message, *, name: str, now: int, path: bool) -> Mapping[str, Any]:
    """Return a message as JSON. Without `path`, it has nothing of a request but host, method and the rule's reason."""
    return {
        "version": 1,
        "sandbox": name,
        "time": now,
        "text": _text(message, name),
        "questions": [_question(one, path=path) for one in message.questions],
        "closed": list(message.closed),
        "answers": [_answer(one, path=path) for one in message.answers],
    }


def _question(question: Question, *, path: bool) -> Mapping[str, Any]:
    asked = {
        "id": question.id,
        "host": question.host,
        "method": question.method,
        "reason": question.reason if path else _reason(question),
        "seconds_left": question.seconds_left,
    }
    return {**asked, "url": question.url, "rule": question.rule} if path else asked


def _reason(question: Question) -> str:
    """Return the reason without what differs from the nearest rule: the path, and names in the query and the body."""
    before, differs, _ = question.reason.partition(f"host {question.host} is allowed, ")
    return f"{before}{differs}this request is not" if differs else before


def _answer(answer: Answer, *, path: bool) -> Answer:
    # After the colon comes the rule, which has a path.
    return answer if path else {**answer, "reason": answer["reason"].partition(": ")[0]}


def _text(message: Message, name: str) -> str:
    """Return one line for people. Chat programs read `<`, `>` and `&` in it as markup."""
    if message.questions:
        first, *others = message.questions
        more = f" and {len(others)} more wait" if others else " waits"
        line = f"{first.method} {first.host}{more} for an answer in {name}"
    elif message.answers:
        one = _answer(message.answers[-1], path=False)
        line = f"{one['method']} {one['host']} in {name}: {one['reason']}"
    else:
        line = f"{len(message.closed)} closed in {name}"
    return html.escape(line[:TEXT_LONGEST], quote=False)


def signature(key: bytes, body: bytes, *, now: int) -> str:
    """Return the value of the header: the time, and the HMAC of the time and the body."""
    signed = hmac.new(key, b"%d." % now + body, hashlib.sha256)
    return f"t={now},v1={signed.hexdigest()}"
