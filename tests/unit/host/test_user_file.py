from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from agent_sandbox.host.user_file import MOST_BYTES, read_user_file
from agent_sandbox.policyfile.parse.checking import where_is
from agent_sandbox.problems import UserError
from table_tests import each


class Part(BaseModel):
    """An item."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str


class Spec(BaseModel):
    """A file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    parts: list[Part]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file of the user, beside the project `app`."""
    (tmp_path / "app").mkdir()
    folder = tmp_path / "config"
    folder.mkdir(mode=0o700)
    (folder / "x.yaml").write_text("parts:\n- name: a\n")
    return folder / "x.yaml"


def test_reads_a_file_into_its_model_and_finds_the_place_of_a_value(file: Path) -> None:
    spec, document = read_user_file(file, file.parent.parent / "app", Spec, parts={"parts": Part})
    assert spec == Spec(parts=[Part(name="a")])
    assert where_is(document, "F", ("parts", 0, "name")) == "F:2:9"
    assert where_is(document, "F", ("parts", 0, "other")) == "F:2:3"
    assert where_is(document, "F", ()) == "F:1:1"


def test_an_unknown_key_is_reported_with_the_known_ones(file: Path) -> None:
    file.write_text("parts:\n- nmae: a\n  name: b\nother: 1\n")
    with pytest.raises(UserError) as raised:
        read_user_file(file, file.parent.parent / "app", Spec, parts={"parts": Part})
    assert [str(one).removeprefix(f"{file}:") for one in raised.value.problems] == [
        "2:3: unknown key 'nmae'; did you mean `name`?",
        "4:1: unknown key 'other'; known: parts",
    ]


@each(
    ("text", "problem"),
    [
        ("parts:\n- name: 123456\n", "2:9: text expected"),
        ("parts:\n- name: 0123456\n", "2:9: YAML parsers differ on this word; quote it"),
        ("parts:\n- name: !s3cret\n", "2:9: a tag; remove it; only plain values are allowed"),
        ("parts:\n- name: &s3cret\n", "2:9: an anchor; remove it; write each value where it is used"),
        ("parts:\n- name: *s3cret\n", "2:9: an alias; write the value out"),
        ("parts:\n- name: @s3cret\n", "2:9: invalid YAML: found character that cannot start any token"),
        ("parts: [s3cret]\n", "1:9: keys and values expected"),
        ("parts: s3cret\n", "1:8: list expected"),
        ("s3cret\n", "1:1: keys and values expected"),
    ],
)
def test_no_problem_repeats_what_may_be_a_secret(text: str, problem: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(UserError) as raised:
        read_user_file(file, file.parent.parent / "app", Spec)
    assert str(raised.value) == f"{file}:{problem}"


@each(
    ("content", "problem"),
    [
        (b"parts:\n- name: a\0\n", "2:10: a character that is not allowed in a text file: '\\x00'; remove it"),
        (b"parts: # a\rparts: []\n", "1:11: a character that is not allowed in a text file: '\\r'; remove it"),
        (b"parts:\n- name: \xe9\n", "2:9: byte 0xe9 is not UTF-8; save the file as UTF-8"),
    ],
)
def test_a_character_that_hides_something_is_reported_at_its_place(content: bytes, problem: str, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(UserError) as raised:
        read_user_file(file, file.parent.parent / "app", Spec)
    assert str(raised.value) == f"{file}:{problem}"


def test_rejects_a_large_file_and_a_directory(file: Path) -> None:
    file.write_text("#" * (MOST_BYTES + 1))
    with pytest.raises(UserError, match="longer than 256 KiB"):
        read_user_file(file, file.parent.parent / "app", Spec)
    file.unlink()
    file.mkdir(mode=0o700)
    with pytest.raises(UserError, match="not a regular file"):
        read_user_file(file, file.parent.parent / "app", Spec)
