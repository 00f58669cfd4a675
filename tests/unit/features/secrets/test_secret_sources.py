import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from msgspec.structs import replace

from agent_sandbox.features.secrets import secret_sources as subject
from agent_sandbox.features.secrets.secret_sources import give, read_value, sync_after_start
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.features.secrets.sources.value import Fetched
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import read_project
from fake_docker import FakeDocker
from fake_tty import Person
from table_tests import each

RECIPE = Recipe(name="a", hosts=("a.test",), source="env:A_KEY")
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


def test_a_failed_source_removes_the_previous_value_from_the_proxy(project: Path, docker: FakeDocker) -> None:
    docker.says("secret set")
    with pytest.raises(UserError):
        give(read_project(project), RECIPE)
    assert [call.partition(" secret ")[2] for call in docker.calls] == [
        "set a --host a.test --unresolved --folder /state/secrets"
    ]


def test_a_value_that_has_not_expired_stays_if_it_cannot_be_renewed(project: Path, docker: FakeDocker) -> None:
    with pytest.raises(UserError):
        give(read_project(project), RECIPE, keeps=True)
    assert docker.calls == []


@pytest.mark.parametrize(
    ("ttl", "left", "told"),
    [
        (None, None, ""),
        (60.0, None, "--ttl 60 "),
        (None, 90.4, "--ttl 90 "),
        (60.0, 90.0, "--ttl 60 "),
        (99.0, 90.0, "--ttl 90 "),
    ],
)
def test_a_value_expires_at_the_earlier_of_its_ttl_and_its_source(  # noqa: PLR0917 - the rows
    project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, ttl: float | None, left: float | None, told: str
) -> None:
    docker.says("secret set")
    monkeypatch.setattr(subject, "fetched", lambda *_: Fetched(value=b"correct horse", left=left))
    assert give(read_project(project), replace(RECIPE, ttl=ttl)) == min(filter(None, (ttl, left)), default=None)
    assert docker.calls[-1].endswith(f"secret set a --host a.test --source env {told}--folder /state/secrets")


def test_warns_about_a_damaged_source_file_after_a_start(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    recipes = recipes_of(project, os.environ)
    recipes.add(RECIPE)
    (file,) = recipes.folder.iterdir()
    file.write_text("damaged")
    sync_after_start(read_project(project))
    told = f"warning: {file}: this file is damaged; remove it, and set the secrets again\n"
    assert (capsys.readouterr().err, docker.calls) == (told, [])


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
