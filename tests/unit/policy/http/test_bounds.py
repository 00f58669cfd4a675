from collections.abc import Callable

import pytest

from agent_sandbox.policy import Ambiguous
from agent_sandbox.policy.http.bounds import MAX_MESSAGE, MAX_OPERATION, check_fields, check_target, too_large
from table_tests import each


@each(
    ("target", "excess"),
    [
        ("/" + "a" * 32_768, "the target longer than 32768 characters"),
        ("/" + "a" * 8_192, "the path longer than 8192 characters"),
        ("/a" * 101, "the path has more than 100 segments"),
        ("/a" + "%2Fa" * 50 + "%2fa" * 50, "the path has more than 100 segments"),
        ("/" * 101, "the path has more than 100 segments"),
        ("/?" + "&" * 500, "the query has more than 500 parameters"),
        ("/?" + "a=1;" * 500, "the query has more than 500 parameters"),
        ("/?" + "a&b;" * 250, "the query has more than 500 parameters"),
    ],
)
def test_refuses_target_over_a_limit(target: str, excess: str) -> None:
    assert refusal(lambda: check_target(target)) == excess


@each(
    "target",
    [
        "/?" + "a" * 32_766,
        "/" + "a" * 8_191,
        "/a" * 100,
        "/a" + "%2Fa" * 99,
        "/?" + "&" * 499,
        # Slashes count only in the path, and parameter separators only in the query.
        "/?" + "/" * 1_000,
        "/" + "&;" * 500,
    ],
)
def test_accepts_target_at_a_limit(target: str) -> None:
    assert refusal(lambda: check_target(target)) == ""


@each(
    ("fields", "excess"),
    [
        ((("x", ""),) * 201, "the request has more than 200 header fields"),
        ((("x", "a," * 1_000),), "the header fields list more than 1000 elements"),
        ((("x", "a;" * 10),) * 100, "the header fields list more than 1000 elements"),
        ((("x", "a" * 60_000),), ""),
        ((("x", ""),) * 200, ""),
        ((("x", "a," * 999),), ""),
    ],
)
def test_refuses_header_fields_only_over_a_limit(fields: tuple[tuple[str, str], ...], excess: str) -> None:
    assert refusal(lambda: check_fields(fields)) == excess


def refusal(check: Callable[[], None]) -> str:
    try:
        check()
    except Ambiguous as excess:
        return str(excess)
    return ""


def test_does_not_count_parts_of_a_short_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("agent_sandbox.policy.http.bounds._check")
    check_target("/" + "a" * 99)


def test_the_message_for_a_large_body_names_the_limit() -> None:
    assert [too_large(most) for most in (MAX_OPERATION, MAX_MESSAGE)] == [
        "a body of more than 256 KiB",
        "a body of more than 1024 KiB",
    ]
