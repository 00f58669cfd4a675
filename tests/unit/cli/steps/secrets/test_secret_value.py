import io
import sys
from collections.abc import Callable

import pytest
import typer

from agent_sandbox.cli.steps.secrets.secret_value import read_value
from agent_sandbox.problems import Problem, UserError
from fake_tty import Person
from table_tests import each

VALUE = b"correct horse"
SHORT = Problem(
    where="x",
    what="it has fewer than 8 characters",
    hint="echoes of a short secret cannot be told from other text in responses; create a longer one",
)
LINES = Problem(where="x", what="it has more than one line", hint="give only the line with the secret")
ODD = Problem(
    where="x",
    what="it contains characters that are not printable ASCII",
    hint="a header cannot carry others; give encoded secrets (base64, hex) in their encoded form",
)
SPACE = Problem(where="x", what="it begins or ends with a space", hint="a header value cannot; give only the secret")
LONG = Problem(where="x", what="it is longer than 64 KiB", hint="a secret is one line, as in a header")
NONE = Problem(where="x", what="the value is empty", hint="pipe it in, or run this at a terminal, which asks for it")

type Pipe = Callable[[bytes], None]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Pipe:
    return lambda said: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(said)))


@each("end", [b"", b"\n", b"\r\n"])
def test_strips_one_line_ending_from_a_piped_value(end: bytes, pipe: Pipe) -> None:
    pipe(VALUE + end)
    assert read_value("x") == VALUE


def test_accepts_a_value_of_the_maximum_length(pipe: Pipe) -> None:
    pipe(b"x" * 65536 + b"\r\n")
    assert read_value("x") == b"x" * 65536


@each(
    ("said", "problems"),
    [
        (b"", [NONE]),
        (b"\n", [NONE]),
        (b"1234567\n", [SHORT]),
        (VALUE + b"\n\n", [LINES]),
        (VALUE + b"\r", [LINES]),
        (b"one\ntwo", [LINES, SHORT]),
        (VALUE + b"\0", [ODD]),
        (VALUE + b"\t", [ODD]),
        (VALUE + b"\x7f", [ODD]),
        ("pässwörter".encode(), [ODD]),
        (VALUE + b"\xff", [ODD]),
        (VALUE + b" ", [SPACE]),
        (b" " + VALUE, [SPACE]),
        (b" a\n\0", [LINES, ODD, SPACE, SHORT]),
        (b"x" * 65537, [LONG]),
        (b"x" * 1_000_000, [LONG]),
    ],
)
def test_rejects_invalid_values_without_showing_them(said: bytes, problems: list[Problem], pipe: Pipe) -> None:
    pipe(said)
    with pytest.raises(UserError) as caught:
        read_value("x")
    assert list(caught.value.problems) == problems


def test_asks_for_the_value_once_at_a_terminal_without_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, bool]]] = []

    def prompt(text: str, **how: bool) -> str:
        asked.append((text, how))
        return VALUE.decode()

    monkeypatch.setattr(sys, "stdin", Person())
    monkeypatch.setattr(typer, "prompt", prompt)
    assert read_value("x") == VALUE
    assert asked == [("value of x", {"hide_input": True, "err": True})]


@each("typed", ["pässwörter", "correct horse\udcff"])
def test_validates_typed_values_as_well(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Person())
    monkeypatch.setattr(typer, "prompt", lambda *_, **__: typed)
    with pytest.raises(UserError) as caught:
        read_value("x")
    assert list(caught.value.problems) == [ODD]


def test_aborting_the_prompt_raises_keyboard_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def prompt(*_: object, **__: object) -> str:
        raise typer.Abort

    monkeypatch.setattr(sys, "stdin", Person())
    monkeypatch.setattr(typer, "prompt", prompt)
    with pytest.raises(KeyboardInterrupt):
        read_value("x")
