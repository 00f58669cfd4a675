"""`watch --plain`: prints each decision and each question as lines, and reads answers from stdin."""

import re
import threading
from collections.abc import Iterable, Iterator

from agent_sandbox.cli.steps.decision_line import decision_line
from agent_sandbox.cli.steps.watching.connection import LAYERS, Connection
from agent_sandbox.cli.terminal.output import emit_lines, say, say_problems
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.proxy.decisions import is_probe
from agent_sandbox.runtime.proxy.reports import Dropped, Question, Reply, Report, State, groups

ANSWER = re.compile(r"(?P<number>[0-9]{1,9})\s*(?P<word>[a-z])", re.IGNORECASE)
GROUP = re.compile(r"(?P<domain>\*\.\S+)\s*d", re.IGNORECASE)
WORDS = {
    "a": "once",
    "h": "for an hour",
    "s": "until the sandbox stops",
    "p": "for the project (adds the line to policy.yaml)",
    "u": "for you (adds it to your own policy, for all your projects)",
    "d": "deny",
}
ANSWERS = {"a": "once", "h": "hour", "s": "stop", "d": "deny"}
WAITS = "connected; these requests wait for your answer: {}"
RULES_WAIT = "connected; only requests of rules with `ask: true` wait for your answer: `settings` sets no `ask`"
HELP = (
    "Type a question's number and a letter, such as 3a, then Enter:",
    *(f"  {letter}  {'allow ' if letter != 'd' else ''}{meaning}" for letter, meaning in WORDS.items()),
    "Others: `g` lists grants, `3e` ends grant 3, `*.example.net d` denies all questions of a domain, `q` ends.",
)


class Plain:
    """Shows what a connection reports. Only the reports' thread prints questions; the other one reads answers."""

    def __init__(self) -> None:
        self._state, self._connected = State(), False
        self._shown: set[int] = set()
        self._groups: dict[str, int] = {}
        self._lock = threading.Lock()

    def report(self, found: Report) -> None:
        """Print a report."""
        with self._lock:
            match found:
                case State():
                    if not self._connected:
                        self._connected = True
                        say(WAITS.format(found.ask) if found.ask else RULES_WAIT)
                    self._state = found
                    emit_lines(self._news(found))
                case Reply(error=error):
                    say(f"not done: {error}" if error else "done")
                case Dropped(count=count):
                    say(f"{count} decisions came too fast and are not shown; `agent-sandbox proxy logs` has them")
                case _ if not is_probe(found):
                    emit_lines([decision_line(found)])

    def lost(self, why: str) -> None:
        """Print that the connection is gone, and forget the questions: their numbers mean nothing to a new proxy."""
        with self._lock:
            self._connected, self._state, self._groups = False, State(), {}
            self._shown.clear()
            say(why)

    def _news(self, state: State) -> Iterator[str]:
        self._shown &= {question.id for question in state.questions}
        for name, several in groups(state.questions):
            if name and self._groups.get(name, 0) < len(several):
                yield f"? {len({one.host for one in several})} hosts under {name} wait; `{name} d` denies them all"
                self._groups[name] = len(several) * 2  # the next line when it has doubled
                self._shown.update(one.id for one in several)
            for question in several if not name else ():
                if question.id not in self._shown:
                    self._shown.add(question.id)
                    yield from _lines(question)

    def command(self, text: str, connection: Connection) -> bool:
        """Do what a line of stdin says; return whether to go on."""
        text = text.strip()
        try:
            if text.lower() in {"q", "quit", "exit"}:
                return False
            if text.lower() == "g":
                emit_lines(self._grants())
            elif found := ANSWER.fullmatch(text):
                self._answer(int(found["number"]), found["word"].lower(), connection)
            elif found := GROUP.fullmatch(text):
                self._deny_all(found["domain"].lower(), connection)
            elif text:
                emit_lines(HELP)
        except UserError as error:
            say_problems(error.problems)
        return True

    def _answer(self, number: int, word: str, connection: Connection) -> None:
        question = next((one for one in self._state.questions if one.id == number), None)
        if word == "e":
            connection.answer(number, "end")
        elif word not in WORDS:
            emit_lines(HELP)
        elif question is None or number not in self._shown:
            say(f"there is no question {number}: the client left, it was answered, or it timed out")
        elif word in LAYERS:
            connection.allow_in(LAYERS[word], question)
        else:
            connection.answer_for(number, ANSWERS[word])

    def _deny_all(self, domain: str, connection: Connection) -> None:
        several = next((several for name, several in groups(self._state.questions) if name == domain), ())
        if not several:
            say(f"no group of questions is called {domain}")
        for question in several:
            connection.answer(question.id, "deny")

    def _grants(self) -> Iterator[str]:
        for grant in self._state.grants:
            left = (
                f"{grant.seconds_left // 60 + 1} minutes left" if grant.seconds_left is not None else "until it stops"
            )
            yield f"{grant.id}  {grant.rule}  {left}, by {grant.who}"
        if not self._state.grants:
            yield "no grants"


def _lines(question: Question) -> Iterator[str]:
    yield styled((f"? {question.id}", "title"), f"  {question.method} {question.url}")
    if question.details:
        yield f"     with {question.details}"
    yield f"     {question.reason}"
    if question.services:
        yield f"     allowed by the service {', or '.join(question.services)}"
    if question.rule:
        yield f"     for longer than once: {question.rule}"
    keys = ("a once", "h hour", "s until it stops", *(("p project", "u you") if question.fits_policy else ()), "d deny")
    yield f"     {', '.join(f'{question.id}{key}' for key in keys)}; {question.seconds_left} seconds left"


def read_answers(lines: Iterable[str], plain: Plain, connection: Connection) -> None:
    """Do what each line says, until one says to end. Without a terminal, the end of stdin ends nothing."""
    for line in lines:
        if not plain.command(line, connection):
            connection.end()
            return
