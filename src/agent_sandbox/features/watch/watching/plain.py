"""`watch --plain`: prints each decision and each question as lines, and reads answers from stdin."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator

from agent_sandbox.cli.terminal.output import emit_lines, say, say_problems
from agent_sandbox.cli.terminal.style import parts_of, styled
from agent_sandbox.counted import counted
from agent_sandbox.features.ports.live_ports import offers, parsed_port
from agent_sandbox.features.proxy.decisions import is_probe
from agent_sandbox.features.proxy.reports import Dropped, Question, Reply, Report, State, groups
from agent_sandbox.features.traffic.decision_line import decision_line
from agent_sandbox.features.watch.watching.connection import LAYERS, Connection
from agent_sandbox.features.watch.watching.details import NO_RULE
from agent_sandbox.features.watch.watching.stack_ports import Inside
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project

ANSWER = re.compile(r"(?P<number>[0-9]{1,9})\s*(?P<word>[a-z])", re.IGNORECASE)
GROUP = re.compile(r"(?P<domain>\*\.\S+)\s*d", re.IGNORECASE)
PORT = re.compile(r"(?P<word>open|close)\s+(?P<port>\S+)", re.IGNORECASE)
NUMBERED = re.compile(r"(?P<number>[0-9]{1,3})\.\s*(?P<rest>.*)", re.ASCII)
QUIT = frozenset({"q", "quit", "exit"})
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
RULES_WAIT = "connected; you are asked only where a rule has `ask: true`, because `settings` sets no `ask`"
HELP = (
    "Type a question's number and a letter, such as 3a, then Enter:",
    *(f"  {letter}  {'allow ' if letter != 'd' else ''}{meaning}" for letter, meaning in WORDS.items()),
    "Others: `g` lists grants, `3e` ends grant 3, `*.example.net d` denies all questions of a domain, `q` ends.",
    "`open 8080` opens port 8080 of the sandbox on this machine, and `close 8080` closes it.",
)


class Plain:
    """Shows what a connection reports. Only the reports' thread prints questions; the other one reads answers.

    Each line begins with the `label`, such as `2.`, if there is one: then `2.3a` answers question 3.
    """

    def __init__(self, label: Callable[[], str] = str) -> None:
        self._label = label
        self._state, self._connected = State(), False
        self._shown: set[int] = set()
        self._senders: set[int] = set()
        self._groups: dict[str, int] = {}
        self._listening: set[int] = set()
        self._lock = threading.Lock()

    def report(self, found: Report) -> None:
        """Print a report."""
        with self._lock:
            match found:
                case State():
                    if not self._connected:
                        self._connected = True
                        self._say(WAITS.format(found.ask) if found.ask else RULES_WAIT)
                    self._state = found
                    self._emit(self._news(found))
                case Reply(error=error):
                    self._say(f"not done: {error}" if error else "done")
                case Dropped(count=count):
                    self._say(
                        f"{counted(count, 'decision')} came too fast to be shown; `agent-sandbox proxy logs` has them"
                    )
                case _ if not is_probe(found):
                    self._emit([decision_line(found)])

    def report_ports(self, found: Inside) -> None:
        """Print what listens in the sandbox now and did not before."""
        with self._lock:
            new = [one for one in reversed(found.ports) if one.port not in self._listening and not one.here]
            self._listening = {one.port for one in found.ports}
            for line in offers([(one.port, one.command) for one in new], found.more if new else 0):
                self._say(line)
            if new:
                self._say(f"`{self._label()}open {new[-1].port}` opens {new[-1].port} on this machine")
            if found.note:
                self._say(found.note)

    def lost(self, why: str) -> None:
        """Print that the connection is gone, and forget the questions: their numbers mean nothing to a new proxy."""
        with self._lock:
            self._connected, self._state, self._groups = False, State(), {}
            self._shown.clear()
            self._say(why)

    def _say(self, text: str) -> None:
        say(*self._mark, text)

    def _emit(self, lines: Iterable[str]) -> None:
        emit_lines(styled(*self._mark, *parts_of(line)) for line in lines)

    @property
    def _mark(self) -> tuple[str, ...]:
        label = self._label()
        return (f"{label} ",) if label else ()

    def _news(self, state: State) -> Iterator[str]:
        self._shown &= {question.id for question in state.questions}
        self._senders &= self._shown
        for name, several in groups(state.questions):
            if name and self._groups.get(name, 0) < len(several):
                hosts = len({one.host for one in several})
                yield f"? {hosts} hosts under {name} wait; `{self._label()}{name} d` denies them all"
                self._groups[name] = len(several) * 2  # the next line when it has doubled
                self._shown.update(one.id for one in several)
            for question in several if not name else ():
                if question.id not in self._shown:
                    self._shown.add(question.id)
                    yield from _lines(question, self._label())
                elif question.sender and question.id not in self._senders:
                    yield f"     {question.id} was {question.shown_sender}"
                if question.sender:
                    self._senders.add(question.id)

    def command(self, text: str, connection: Connection) -> bool:
        """Do what a line of stdin says; return whether to go on."""
        text = text.strip()
        try:
            if text.lower() in QUIT:
                return False
            if text.lower() == "g":
                self._emit(self._grants())
            elif found := ANSWER.fullmatch(text):
                self._answer(int(found["number"]), found["word"].lower(), connection)
            elif found := GROUP.fullmatch(text):
                self._deny_all(found["domain"].lower(), connection)
            elif found := PORT.fullmatch(text):
                wanted = parsed_port(found["port"])
                if found["word"].lower() == "open":
                    connection.ports.open(wanted)
                else:
                    connection.ports.close(wanted.here)
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
            self._say(f"question {number} is no longer open: it was answered, it timed out, or the client left")
        elif word in LAYERS:
            connection.allow_in(LAYERS[word], question)
        else:
            connection.answer_for(question, ANSWERS[word])

    def _deny_all(self, domain: str, connection: Connection) -> None:
        several = next((several for name, several in groups(self._state.questions) if name == domain), ())
        if not several:
            self._say(f"no group of questions is called {domain}")
        for question in several:
            connection.answer(question.id, "deny")

    def _grants(self) -> Iterator[str]:
        for grant in self._state.grants:
            left = (
                f"{counted(grant.seconds_left // 60 + 1, 'minute')} left"
                if grant.seconds_left is not None
                else "until it stops"
            )
            yield f"{grant.id}  {grant.rule}  {left}, by {grant.who}"
        if not self._state.grants:
            yield "no grants"


def _lines(question: Question, label: str) -> Iterator[str]:
    yield styled((f"? {question.id}", "title"), f"  {question.method} {question.url}")
    if question.details:
        yield f"     with {question.details}"
    yield f"     {question.reason}"
    if question.services:
        yield f"     allowed by the service {', or '.join(question.services)}"
    yield from (f"     {note}" for note in question.notes)
    yield f"     for longer than once: {question.rule}" if question.lasting else f"     {NO_RULE}"
    lasting = ("h hour", "s until it stops") if question.lasting else ()
    keys = ("a once", *lasting, *(("p project", "u you") if question.fits_policy else ()), "d deny")
    left = counted(question.seconds_left, "second")
    yield f"     {', '.join(f'{label}{question.id}{key}' for key in keys)}; {left} left"


class Stacks:
    """The stacks that are shown as lines. With several, `2.3a` answers question 3 of the second one."""

    def __init__(self) -> None:
        self._all: list[tuple[Plain, Connection]] = []

    def connect(self, project: Project) -> Connection:
        """Return a connection to one more stack, whose reports are printed."""
        number = len(self._all) + 1
        plain = Plain(lambda: f"{number}." if len(self._all) > 1 else "")
        connection = Connection(project, on_report=plain.report, on_lost=plain.lost, on_ports=plain.report_ports)
        self._all.append((plain, connection))
        if number > 1:
            first = f"1. is {self._all[0][1].project.name}, " if number == 2 else ""
            say(f"{first}{number}. is {project.name}; `{number}.3a` answers its question 3")
        return connection

    def command(self, text: str) -> bool:
        """Do what a line of stdin says, for the stack that it names; return whether to go on."""
        found = NUMBERED.fullmatch(text.strip())
        if found and 0 < int(found["number"]) <= len(self._all):
            plain, connection = self._all[int(found["number"]) - 1]
            return plain.command(found["rest"], connection)
        if len(self._all) == 1:
            plain, connection = self._all[0]
            return plain.command(text, connection)
        if text.strip() and text.strip().lower() not in QUIT:
            say("begin with the stack's number and a dot, as in `2.3a`")
        return text.strip().lower() not in QUIT


def read_answers(lines: Iterable[str], command: Callable[[str], bool], end: Callable[[], None]) -> None:
    """Do what each line says, until one says to end. Without a terminal, the end of stdin ends nothing."""
    for line in lines:
        if not command(line):
            end()
            return
