from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.path import canonical_path, in_lower_case, readings, served_as
from table_tests import each

VECTORS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "vectors/paths.yaml").read_text("utf-8"))


@each("vector", VECTORS)
def test_a_path_has_one_canonical_form_or_is_ambiguous(vector: dict[str, Any]) -> None:
    if "is" in vector:
        assert canonical_path(vector["path"]) == vector["is"], vector["why"]
        assert list(readings(vector["is"])) == vector.get("reads", [vector["is"]]), vector["why"]
        return
    with pytest.raises(Ambiguous) as doubt:
        canonical_path(vector["path"])
    assert str(doubt.value) == f"the path contains {vector['doubt']}", vector["why"]


@each("path", ["", "*", "x", "http://allowed.test/", "?x"])
def test_rejects_a_path_that_does_not_start_with_a_slash(path: str) -> None:
    with pytest.raises(Ambiguous, match="the path does not start with `/`"):
        canonical_path(path)


def test_keeps_an_encoded_slash_if_allowed_and_reads_it_both_ways() -> None:
    path = canonical_path("/@scope%2fname", encoded_slash=True)
    assert path == "/@scope%2Fname"
    assert readings(path) == ("/@scope%2Fname", "/@scope/name")


@each("path", ["/a%2f%2e%2e%2fb", "/a%2f..%2fb", "/a%2f%2fb", "/a/%2fb", "/a%2f..;x", "/a%2f;x/b"])
def test_encoded_slash_option_does_not_permit_other_ambiguities(path: str) -> None:
    with pytest.raises(Ambiguous):
        canonical_path(path, encoded_slash=True)


@each(
    ("reading", "expected"),
    [
        ("/A%2FB", "/a%2fb"),
        ("/%C3%89", "/%c3%a9"),
        ("/%D0%96x", "/%d0%b6x"),
        ("/%C3%9F", "/ss"),
        ("/%E2%84%AA", "/k"),
        ("/%C3x%FF", "/%c3x%ff"),
    ],
)
def test_lowers_encoded_non_ascii_letters_and_keeps_invalid_utf_8(reading: str, expected: str) -> None:
    assert in_lower_case(reading) == expected == in_lower_case(expected)


@each(
    ("path", "served"),
    [
        ("/a/b", {"/a/b"}),
        ("/a/", {"/a/", "/a"}),
        ("/a.", {"/a.", "/a"}),
        ("/a./b%20", {"/a./b ", "/a/b"}),
        ("/A.txt::$DATA", {"/a.txt::$data", "/a.txt"}),
        ("/a%253Fb", {"/a%253fb", "/a?b", "/a"}),
        ("/a:1:2", {"/a:1:2"}),
        ("/%252561", {"/%252561", "/a"}),
        ("/%2520", {"/%2520", "/ ", "/"}),
        ("/", {"/"}),
    ],
)
def test_a_deny_sees_what_servers_make_of_a_path(path: str, served: set[str]) -> None:
    assert set(served_as(readings(path))) == served
