"""Reports of a container, which the agent can forge."""

import asyncio
import json
import sys

import pytest

from agent_sandbox.features.ports import reported as module
from agent_sandbox.features.ports.reported import LONGEST_REPORT, Listening, parse_clients, parse_report, watch_reports
from agent_sandbox.host.command import Command
from table_tests import each

ONE = {"port": 3000, "addresses": ["any"], "command": "node"}


@pytest.mark.parametrize(
    "text", ["", "{}x", '[{"port": "1", "addresses": [], "command": ""}]', "[1]", '[{"port": 1}]', "3", "[" * 9999]
    + [json.dumps([ONE | {"port": port}]) for port in (0, -1, 65536, 1.5)]
    + [json.dumps([ONE]) + " " * LONGEST_REPORT],
)  # fmt: skip
def test_an_invalid_report_is_none(text: str) -> None:
    assert parse_report(text) is None


def test_limits_the_length_of_a_command() -> None:
    found = parse_report(json.dumps([ONE | {"command": "y" * 9999}]))
    assert found
    assert [one.command for one in found] == ["y" * 200]


@each(
    ("said", "found"),
    [
        ({"a:1": "curl", "b:2": "x"}, {"a:1": "curl"}),
        ({"a:1": "y" * 9_999}, {"a:1": "y" * 200}),
        ({"a:1": "\x1b[2J\u202e\0"}, {"a:1": "\\x1b[2J\\u202e\\x00"}),
        ({"a:1": "curl" + " " * 60 + "\t\n\u2003? 7  GET"}, {"a:1": "curl ? 7 GET"}),
        ({"a:1": ["curl"]}, {}),
        (["a:1"], {}),
        (3, {}),
    ],
)
def test_returns_bounded_and_escaped_commands_of_requested_clients_only(said: object, found: dict[str, str]) -> None:
    assert parse_clients(json.dumps(said), ("a:1",)) == found


def test_a_command_cannot_fill_a_line_with_spaces() -> None:
    found = parse_report(json.dumps([ONE | {"command": "node" + " " * 60 + "\t\t3001 listens"}]))
    assert found
    assert [one.command for one in found] == ["node 3001 listens"]


def test_a_huge_report_about_clients_is_not_parsed() -> None:
    assert parse_clients(json.dumps({"a:1": "curl", "b:2": "y" * (1 << 20)}), ("a:1",)) == {}


def test_a_report_about_clients_that_is_not_json_is_empty() -> None:
    assert parse_clients("Traceback (most recent call last):", ("a:1",)) == {}


def reports(monkeypatch: pytest.MonkeyPatch, code: str) -> list[tuple[Listening, ...]]:
    async def main() -> list[tuple[Listening, ...]]:
        async with asyncio.timeout(20):
            return [found async for found in watch_reports(Command(argv=(sys.executable, "-c", code)))]

    monkeypatch.setattr(module, "SECONDS", 0)
    return asyncio.run(main())


def test_yields_each_report_until_the_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"import json; print([]); print(json.dumps([{ONE}]))"
    assert reports(monkeypatch, code) == [(), (Listening(port=3000, addresses=("any",), command="node"),)]


@pytest.mark.parametrize("line", ["x", "[" + " " * (1 << 18) + "]"])
def test_stops_at_a_report_that_is_invalid_or_too_long(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr("agent_sandbox.features.ports.forward.GRACE", 0.05)
    code = f"import sys\nprint('[]')\nfor _ in range(100): sys.stdout.write({line[:2]!r} + ' ' * {len(line)} + '\\n')"
    assert reports(monkeypatch, code) == [()]
