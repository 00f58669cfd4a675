import json

import pytest

from agent_sandbox.cli.terminal.output import emit, emit_json, say, say_problems
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem


def test_data_goes_to_stdout_and_talk_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    emit("data")
    say("talk")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("data\n", "talk\n")


def test_json_is_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"b": "ü\x1b", "a": [1]})
    out = capsys.readouterr().out
    assert json.loads(out) == {"b": "ü\x1b", "a": [1]}
    assert out.isascii()
    assert "\x1b" not in out


def test_a_name_can_not_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2J\x07\x9b\x7f\r b")
    assert capsys.readouterr().err == "a\\x1b[2J\\x07\\x9b\\x7f\\x0d b\n"


def test_lines_and_letters_stay(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\tbü 日本") == "a\tbü 日本"
    emit("a\n\nb")
    assert capsys.readouterr().out == "a\n\nb\n"


def test_a_name_can_neither_end_a_line_nor_turn_it_round(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\nb\u202ec\u2066d\u2028e\u200f") == "a\\x0ab\\u202ec\\u2066d\\u2028e\\u200f"
    say_problems([Problem(where="a\nerror: b", what="two\nlines", hint="c\nd")])
    assert capsys.readouterr().err == "error: a\\x0aerror: b: two\nlines\n  hint: c\\x0ad\n"


def test_each_problem_has_its_line_and_its_hint(capsys: pytest.CaptureFixture[str]) -> None:
    say_problems([Problem(where="f:1:2", what="wrong", hint="mend"), Problem(where="", what="too")])
    assert capsys.readouterr().err == "error: f:1:2: wrong\n  hint: mend\nerror: too\n"
