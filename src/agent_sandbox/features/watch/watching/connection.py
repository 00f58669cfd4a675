"""The connection of `watch` to one stack: one command in the proxy container, kept open, and answers over it."""

import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.engines.place import Role
from agent_sandbox.features.policy.layer_rule import RuleLayer, write_layer_rule
from agent_sandbox.features.proxy.reports import Question, Report, State, read_report
from agent_sandbox.features.stack.execute import driver, require_running
from agent_sandbox.features.watch.watching.added_notes import AddedNotes, sandbox_clients
from agent_sandbox.features.watch.watching.desktop import Desktop
from agent_sandbox.features.watch.watching.stack_ports import Inside, StackPorts
from agent_sandbox.features.watch.watching.webhook import Webhook
from agent_sandbox.host.process import Input
from agent_sandbox.host.user_name import user_name
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project
from agent_sandbox.stack.containers import CONTROL, PROGRAM

AGAIN_SECONDS = (1.0, 2.0, 5.0)
HOUR = 3_600
LAYERS = {"p": RuleLayer.PROJECT, "u": RuleLayer.USER}
SCOPES = {"once": "once", "hour": "time", "stop": "stop", "deny": "deny"}
LASTING = frozenset({"hour", "stop"})
# Keys that come so soon after another question appeared were meant for the one before it.
SETTLE_SECONDS = 0.7
# What a screen says when the question that the user reads disappears without an answer from that screen.
GONE = "gone: {}: its client left, it was answered elsewhere, or it timed out"
CLOSED = "the connection to the proxy is closed; it is opened again"
ONE_QUIET = threading.Lock()


class Connection:
    """One project's proxy. `on_report` gets what it reports; `on_lost` is called when the connection breaks.

    `on_ports` gets what listens in the sandbox, once something follows `ports`.
    """

    def __init__(
        self,
        project: Project,
        *,
        on_report: Callable[[Report], None],
        on_lost: Callable[[str], None],
        on_ports: Callable[[Inside], None] = lambda _: None,
    ) -> None:
        self.project = project
        self.ports = StackPorts(project, on_ports)
        self._on_report = on_report
        self._on_lost = on_lost
        self._input: Input | None = None
        self._over = threading.Event()
        self._who = user_name()
        self._desktop = Desktop()
        self._webhook = Webhook(project.root, project.name)
        self._notes = AddedNotes(partial(sandbox_clients, project), self._report_again)
        self._lock = threading.Lock()
        self._state, self._since = State(), 0.0

    def end(self) -> None:
        """End `watch`, from another thread."""
        self._over.set()
        self._webhook.end()
        self.ports.end()
        if self._input is not None:
            self._input.close()

    def watch(self, *, answers: bool, asks: bool = False) -> None:
        """Pass on reports until `end` is called. Connects again after the proxy or the engine has restarted."""
        require_running(self.project, "proxy")
        proxy = Role(project=self.project, service="proxy")
        options = (*(("--answers",) if answers else ()), *(("--asks",) if asks else ()), "--control", CONTROL)
        tried = 0
        while not self._over.is_set():
            connected = False

            def pass_on(line: str) -> None:
                nonlocal connected
                found = read_report(line)
                if found is not None:
                    connected = True
                    if answers:
                        self._notify(found)
                    self._report(found)

            with suppress(UserError):
                command = driver().spawn(proxy, *PROGRAM, "watch", *options, stdin=True)
                command.watch(on_line=pass_on, on_start=self._connect)
            self._input = None
            if self._over.is_set():
                return
            tried = 0 if connected else tried + 1
            self._webhook.report(State())
            with self._lock:
                self._state = State()
            self._on_lost(f"{self.project.name}: the proxy does not answer; trying again")
            self._over.wait(AGAIN_SECONDS[min(tried, len(AGAIN_SECONDS) - 1)])

    def _report(self, found: Report) -> None:
        if not isinstance(found, State):
            self._on_report(found)
            return
        with self._lock:
            self._state, self._since = found, time.monotonic()
            self._on_report(self._notes.to(found))

    def _report_again(self) -> None:
        """Report the same questions with what was found out about them since."""
        with self._lock:
            passed = int(time.monotonic() - self._since)
            questions = (replace(one, seconds_left=max(0, one.seconds_left - passed)) for one in self._state.questions)
            if self._state.questions and not self._over.is_set():
                self._on_report(self._notes.to(replace(self._state, questions=tuple(questions))))

    def _notify(self, found: Report) -> None:
        match found:
            case State():
                self._desktop.report(found)
                self._webhook.report(found)
            case Mapping():
                self._webhook.record(found)

    def _connect(self, to_proxy: Input) -> None:
        self._input = to_proxy
        if self._over.is_set():
            to_proxy.close()

    def answer(self, number: int, scope: str, *, seconds: int | None = None) -> None:
        """Send an answer, or end a grant with the scope `end`. Raises UserError if there is no connection."""
        words = {"verb": "answer", "id": number, "scope": scope, "who": self._who}
        try:
            if self._input is None:
                raise BrokenPipeError
            self._input.say(json.dumps({**words, "seconds": seconds} if seconds else words))
        except OSError as error:
            raise UserError([Problem(where=self.project.name, what=CLOSED)]) from error

    def answer_for(self, question: Question, word: str) -> None:
        """Answer with one of the words of `SCOPES`. Raises UserError if a lasting answer has no rule to grant."""
        if word in LASTING:
            _require_rule(question)
        self.answer(question.id, SCOPES[word], seconds=HOUR if word == "hour" else None)

    def allow_quietly(self, question: Question, layer: RuleLayer) -> str:
        """Allow it in a layer from a screen; return what the command would have printed."""
        with quiet() as said:
            self.allow_in(layer, question)
        return said.getvalue().strip() or "done"

    def allow_in(self, layer: RuleLayer, question: Question) -> None:
        """Write the rule into the layer's policy and load it; the proxy then decides all questions again."""
        self.write_rule(rule_for(question), layer)

    def write_rule(self, rule: str, layer: RuleLayer) -> None:
        """Write a rule into the layer's policy and load it."""
        write_layer_rule(self.project, rule, layer)


def rule_for(question: Question) -> str:
    """Return the entry of `allow` that would answer the question for good, or raise UserError if there is none."""
    _require_rule(question)
    if not question.fits_policy:
        what, hint = "its rule has `ask: true`", "allow it for an hour, or remove `ask` from the policy"
        raise UserError([Problem(where=question.url, what=what, hint=hint)])
    return question.rule


def _require_rule(question: Question) -> None:
    if not question.lasting:
        what = "no rule can express exactly this request"
        raise UserError([Problem(where=question.url, what=what, hint="allow it once, or deny it")])


@contextmanager
def quiet() -> Iterator[io.StringIO]:
    """Capture what a command prints, and let it ask nothing. Threads take turns: the streams are the process's."""
    with ONE_QUIET, Path(os.devnull).open(encoding="utf-8") as nothing:
        said, before = io.StringIO(), (sys.stdin, sys.stdout, sys.stderr)
        sys.stdin, sys.stdout, sys.stderr = nothing, said, said
        try:
            yield said
        finally:
            sys.stdin, sys.stdout, sys.stderr = before
