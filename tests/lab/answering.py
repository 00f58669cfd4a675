"""A person who gives every question the same answer at once: the attacks have to hold whatever people answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import pytest

from watching import Person

# How the attack suite is run with somebody who answers: `deny` or `allow`.
SWITCH = "AGENT_SANDBOX_ATTACK_PERSON"
SCOPES = {"deny": "deny", "allow": "once"}


@contextmanager
def nobody_answers() -> Iterator[None]:
    """Start proxies without that person."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(SWITCH, raising=False)
        yield


class Answering:
    """Wants to be asked about every unlisted host, and answers in a thread until the proxy ends."""

    def __init__(self, control: str, answer: str) -> None:
        self._person = Person(control, asks=True)
        self._scope = SCOPES[answer]
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self.answered = 0

    def __enter__(self) -> Self:
        """Begin."""
        self._person.__enter__()
        self._person.control.settimeout(None)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave."""
        with suppress(OSError):
            self._person.control.shutdown(2)
        self._thread.join(30)
        self._person.__exit__()

    def _answer(self) -> None:
        given: set[int] = set()
        with suppress(OSError, ValueError):  # the proxy has ended
            while True:
                for question in self._person.state["questions"]:
                    if question["id"] not in given:
                        given.add(question["id"])
                        self.answered += 1
                        self._person.say(verb="answer", id=question["id"], scope=self._scope, who="everybody")
                self._person.read()
