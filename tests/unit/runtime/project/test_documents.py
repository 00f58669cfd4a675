from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.render.formats import foreign
from agent_sandbox.runtime.project.documents import read_document

TEXT = "name: app\nlist: [1, yes]\nnothing:\n"
DOCUMENT = {"name": "app", "list": ["1", "yes"], "nothing": ""}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the cached documents."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "agent-sandbox" / "documents"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed."""
    texts: list[str] = []

    def counted(text: str, **named: Any) -> Any:  # noqa: ANN401 - as the parser's
        texts.append(text)
        return load(text, **named)

    load = foreign.load_foreign
    monkeypatch.setattr(foreign, "load_foreign", counted)
    return texts


@pytest.mark.usefixtures("cache")
def test_parses_each_text_once(parsed: list[str]) -> None:
    assert [read_document(TEXT, file=file) for file in ("a.yml", "b.yml")] == [DOCUMENT, DOCUMENT]
    assert read_document(f"{TEXT}more: 1\n", file="a.yml") == {**DOCUMENT, "more": "1"}
    assert parsed == [TEXT, f"{TEXT}more: 1\n"]


@pytest.mark.usefixtures("cache")
def test_a_text_with_a_problem_is_not_cached(parsed: list[str]) -> None:
    for file in ("a.yml", "b.yml"):
        with pytest.raises(UserError, match=rf"{file}:2:1: key `a` is here twice"):
            read_document("a: 1\na: 2\n", file=file)
    assert len(parsed) == 2


@pytest.mark.usefixtures("cache")
def test_parses_again_after_the_parser_changed(
    parsed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_document(TEXT, file="a.yml")
    later = tmp_path / "foreign.py"
    later.write_text("# a later version")
    monkeypatch.setattr("agent_sandbox.runtime.project.documents.PARSER", later)
    read_document(TEXT, file="a.yml")
    assert parsed == [TEXT, TEXT]


@pytest.mark.usefixtures("cache")
def test_a_document_cached_with_one_limit_is_not_used_for_a_lower_limit() -> None:
    assert read_document("[a, b]", file="a.yml") == ["a", "b"]
    with pytest.raises(UserError, match="more than 2 values"):
        read_document("[a, b]", file="a.yml", most=2)


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    "text", ["name: \udcc3\udca9\n", "name: \ud800\n"], ids=ascii
)  # the bytes of `é`, and a lone surrogate
def test_rejects_text_that_is_not_utf8_although_similar_text_is_cached(text: str) -> None:
    assert read_document("name: é\n", file="a.yml") == {"name": "é"}
    with pytest.raises(UserError, match="not UTF-8 text"):
        read_document(text, file="a.yml")


@pytest.mark.parametrize("damage", [b"", b"[]", b"0" * 64 + b"\n[]"])
def test_parses_again_if_the_cached_document_is_damaged(cache: Path, parsed: list[str], damage: bytes) -> None:
    read_document(TEXT, file="a.yml")
    (stored,) = cache.iterdir()
    stored.write_bytes(damage)
    assert read_document(TEXT, file="a.yml") == DOCUMENT
    assert len(parsed) == 2


def test_parses_again_if_the_cached_document_is_not_json(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_sandbox.runtime.project.documents.json.dumps", lambda _: "not JSON")
    read_document(TEXT, file="a.yml")
    assert len(list(cache.iterdir())) == 1
    assert read_document(TEXT, file="a.yml") == DOCUMENT


def test_uses_no_cache_inside_a_project_that_the_agent_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parsed: list[str]
) -> None:
    (tmp_path / ".devcontainer").mkdir()  # the agent can write to a cache inside its project
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert [read_document(TEXT, file="a.yml") for _ in range(2)] == [DOCUMENT, DOCUMENT]
    assert len(parsed) == 2
    assert not (tmp_path / "cache").exists()
