import json
import re
import sys
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.cli.terminal import output
from agent_sandbox.cli.terminal.output import emit, emit_json, emit_lines, excerpt, rendered, say, say_problems, table
from agent_sandbox.cli.terminal.style import styled
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem
from agent_sandbox.resources import data_root
from fake_tty import Screen
from real_terminal import on_terminal
from run_cli import Ask
from table_tests import each

RED, BOLD, END = "\x1b[1;31m", "\x1b[1m", "\x1b[0m"
POLICY = "version: 1\nallow: [GET https://a.test/docs/**]\n"
ROWS = [("1", ("deny", "deny"), "GET https://example.com/a"), ("22", ("allow", "allow"), "日本\x1b[2J")]
HEADINGS = (">NO", "DECISION", "REQUEST")
YAML = 'version: 1\ndomains: [a b, c]\n  - "x y"  \n\t- a'
LINES = [*YAML.split("\n"), f"{' ' * 200}a", "", "- git@a.test:o/r,s  # x", "x: {a:b, c: d}", "y: [a, {b: c}, {d"]


def test_prints_data_to_stdout_and_messages_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    emit("data")
    say("talk")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("data\n", "talk\n")


def test_json_is_ascii_without_escape_codes(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"b": "ü\x1b", "a": [1]})
    out = capsys.readouterr().out
    assert json.loads(out) == {"b": "ü\x1b", "a": [1]}
    assert out.isascii()
    assert "\x1b" not in out


def test_escapes_control_characters_in_names(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\x1b[2J\x07\x9b\x7f\r b")
    assert capsys.readouterr().err == "a\\x1b[2J\\x07\\x9b\\x7f\\x0d b\n"


def test_keeps_lines_and_letters(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\tbü 日本") == "a\tbü 日本"
    emit("a\n\nb")
    assert capsys.readouterr().out == "a\n\nb\n"


def test_escapes_line_ends_and_text_direction_in_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert printable("a\nb\u202ec\u2066d\u2028e\u200f") == "a\\x0ab\\u202ec\\u2066d\\u2028e\\u200f"
    say_problems([Problem(where="a\nerror: b", what="two\nlines", hint="c\nd")])
    assert capsys.readouterr().err == "error: a\\x0aerror: b: two\nlines\n  hint: c\\x0ad\n"


PROBLEM = Problem(where="policy.yaml:3:5", what="unknown key 'hots' in an entry", hint="did you mean `host`?")


@each(
    ("width", "expected"),
    [
        (0, "error: policy.yaml:3:5: unknown key 'hots' in an entry\n  hint: did you mean `host`?\n"),
        (120, "error: policy.yaml:3:5: unknown key 'hots' in an entry\n  hint: did you mean `host`?\n"),
        (
            40,
            "error: policy.yaml:3:5: unknown key\n       'hots' in an entry\n  hint: did you mean `host`?\n",
        ),
        (30, "error: policy.yaml:3:5:\n       unknown key 'hots' in\n       an entry\n  hint: did you mean `host`?\n"),
    ],
)
def test_a_problem_is_wrapped_behind_its_label_and_only_the_label_is_coloured(width: int, expected: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        screen = Screen()
        patched.setattr(sys, "stderr", screen)
        patched.setenv("COLUMNS", str(width))
        patched.setenv("NO_COLOR", "1")
        say_problems([PROBLEM])
        plain = screen.getvalue()
        patched.setenv("NO_COLOR", "")
        patched.setenv("TERM", "xterm")
        say_problems([PROBLEM])
    assert plain == expected
    coloured = expected.replace("error:", f"{RED}error:{END}").replace("  hint:", f"{BOLD}  hint:{END}")
    assert screen.getvalue().removeprefix(plain) == coloured


def test_untrusted_text_contains_no_style_of_ours() -> None:
    for forged in ("\x1b[32mallow\x1b[0m", "\x9b32mallow", "\x1b]8;;x\x07", "a\r\x1b[2Kallow"):
        for line in (forged, styled(forged), styled(("deny", "deny"), " ", forged), styled((forged, "deny"))):
            text = rendered(line, width=80, colour=True)
            ours = text.replace(RED, "").replace(END, "")
            assert printable(forged) in ours
            assert ours.isprintable()
            assert text.count("\x1b") == (0 if ours == text else 2)


def test_a_styled_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(("deny", "deny"), "  a\nallow  b")
    emit_lines([styled("a\nallow"), "b\nc"])
    assert capsys.readouterr() == ("a\\x0aallow\nb\nc\n", "deny  a\\x0aallow  b\n")


def test_a_fixed_line_is_not_wrapped() -> None:
    line = styled("a " * 40, fixed=True)
    assert rendered(line, width=20, colour=False) == "a " * 40


def test_a_style_goes_on_in_the_next_row_but_not_into_its_indent() -> None:
    assert rendered(styled("x ", ("aaaa bbbb", "deny"), " c"), width=8, colour=True) == (
        f"x {RED}aaaa{END}\n  {RED}bbbb{END} c"
    )


def test_json_and_data_are_neither_wrapped_nor_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    emit_json({"a": "b c " * 20})
    emit("b c " * 20)
    assert screen.getvalue() == f'{{\n  "a": "{"b c " * 20}"\n}}\n{"b c " * 20}\n'


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Return a policy file in an empty directory."""
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return file


EXPLAIN = ("policy", "explain", "--policy", "policy.yaml")


COMMAND = "agent-sandbox policy allow 'POST https://a.test/docs/x' --policy policy.yaml"


def test_explain_on_a_real_terminal(policy: Path) -> None:
    shown = on_terminal(*EXPLAIN, "POST", "https://a.test/docs/x", folder=policy.parent, columns=60)
    assert shown.splitlines() == [
        f"{RED}deny{END}  POST https://a.test/docs/x",
        f"      {RED}^^^^{END}",
        f"  {BOLD}because{END}   host a.test is allowed, method POST is not",
        f"  {BOLD}nearest{END}   policy.yaml:2 (project) allows GET, HEAD",
        "            https://a.test/docs/**",
        "              but not method POST",
        f"  {BOLD}to allow{END}  {BOLD}{COMMAND}{END}",
        f"  {BOLD}or{END}        - POST https://a.test/docs/x",
        "            under `allow` in policy.yaml",
        "            then: agent-sandbox proxy reload",
    ]


def test_explain_colours_what_differs_in_a_request_that_is_longer_than_the_terminal(policy: Path) -> None:
    shown = on_terminal(*EXPLAIN, "GET", "https://a.test/other/0123", folder=policy.parent, columns=30)
    request, because, *_ = shown.splitlines()
    assert request == f"{RED}deny{END}  GET https://a.test/{RED}other/0123{END}"
    assert because.startswith(f"  {BOLD}because{END}")


def test_without_colour_a_real_terminal_gets_no_escape_codes(policy: Path) -> None:
    never = ("--color", "never", *EXPLAIN)
    for argv, environ in ((never, {}), (EXPLAIN, {"NO_COLOR": "1"}), (EXPLAIN, {"TERM": "dumb"})):
        shown = on_terminal(*argv, "GET", "https://a.test/docs/x", folder=policy.parent, columns=40, **environ)
        assert shown.splitlines() == [
            "allow  GET https://a.test/docs/x",
            "  rule      policy.yaml:2 (project)",
            "            allows GET, HEAD",
            "            https://a.test/docs/**",
        ]


def test_check_on_a_real_terminal(policy: Path) -> None:
    policy.write_text("version: 1\ndomainz: [a.test]\n")
    shown = on_terminal("policy", "check", "policy.yaml", folder=policy.parent, columns=40)
    assert shown.splitlines() == [
        f"{RED}error:{END} policy.yaml:2:1: unknown key",
        "       'domainz'",
        "  2 | domainz: [a.test]",
        "    | ^^^^^^^",
        f"{BOLD}  hint:{END} did you mean `domains`?",
    ]


def test_doctor_on_a_real_terminal(tmp_path: Path) -> None:
    shown = on_terminal("doctor", folder=tmp_path, columns=80, PATH=str(tmp_path))
    agents = len(known_agents(data_root() / "templates"))
    hint = [line for line in shown.splitlines() if line.startswith(" " * 18)]  # this machine's own
    assert "docker" in "".join(hint)
    assert shown.splitlines() == [
        f"{RED}fail{END}  docker      docker: the docker command was not found",
        *hint,
        rendered(
            styled(("ok", "ok"), f"    templates   {agents} agents: `agent-sandbox agents` lists them"),
            width=80,
            colour=True,
        ),
        f"{RED}1 to fix{END}",
    ]


COMMANDS = (
    ("policy", "explain", "POST", "https://a.test/docs/x", "--policy", "policy.yaml"),
    ("policy", "explain", "GET", "https://github.com/o/r.git/info/refs", "--policy", "policy.yaml"),
    ("policy", "check", "policy.yaml"),
    ("policy", "check", "broken.yaml"),
    ("policy", "lint", "risky.yaml"),
    ("policy", "show", "policy.yaml"),
    ("policy", "test", "risky.yaml"),
    ("policy", "services"),
    ("policy", "services", "github"),
    ("policy", "allow", "GET https://b.test/", "--policy", "policy.yaml", "--dry-run"),
    ("status",),
    ("version",),
    ("help",),
)
RISKY = "version: 1\ndomains: ['*.a.test']\ntests: [{deny: GET https://b.a.test/, reason: why}]\n"
CODES = re.compile(r"\x1b\[[0-9;]*m")


def test_a_terminal_shows_the_words_of_a_pipe_within_its_width(
    policy: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(policy.parent)
    (policy.parent / "broken.yaml").write_text("version: 1\ndomainz: [a.test]\nallow: [GET]\n")
    (policy.parent / "risky.yaml").write_text(RISKY)
    for argv in COMMANDS:
        piped = ask(*argv)
        for width in (40, 80, 120):
            screen = Screen()
            with monkeypatch.context() as patched:
                patched.setenv("COLUMNS", str(width))
                patched.setenv("TERM", "xterm")
                patched.setattr(sys, "stdout", screen)
                patched.setattr(sys, "stderr", screen)
                assert ask(*argv).code == piped.code
            shown = CODES.sub("", screen.getvalue())
            # Carets below a request that is wider than the terminal are colours there.
            both = (shown, f"{piped.out}{piped.err}")
            said, expected = (sorted(word for word in text.split() if word.strip("^")) for text in both)
            assert said == expected, argv
            # A command to copy, a line above its carets and a word that fits nowhere stay in one piece.
            fixed = {line.strip() for line in f"{piped.out}{piped.err}".splitlines()}
            wide = [row for row in shown.splitlines() if len(row) > width and row.strip() not in fixed]
            breakable = [row for row in wide if "agent-sandbox policy" not in row and len(row.split()[-1]) < width // 2]
            assert breakable == [], (argv, width)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert [*table(HEADINGS, ROWS, cut=2)] == [
        "NO  DECISION  REQUEST",
        " 1  deny      GET https://example.com/a",
        "22  allow     日本\\x1b[2J",
    ]


def test_a_row_without_trailing_cells_is_shorter() -> None:
    assert [*table(HEADINGS, [("1", "", "")], cut=2)] == ["NO  DECISION  REQUEST", " 1"]


@each(
    ("width", "expected"),
    [
        (0, "1  a.test  /xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
        (40, "1  a.test  /xxxxxxxxxxxxxxxxxxxxxxxxx..."),
        (20, "1  a.test  /xxxxxxxxxxxxxxxx..."),
    ],
)
def test_one_column_is_shortened_until_a_row_fits(width: int, expected: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "width_of", lambda *_: width)
        _, row = table(("N", "HOST", "PATH"), [("1", "a.test", "/" + "x" * 38)], cut=2)
    assert row == expected


def test_only_marked_cells_have_a_style() -> None:
    _, row, _ = table(HEADINGS, ROWS, cut=2)
    assert [part for part in row.parts if part[1]] == [("deny", "deny")]


@each(
    ("where", "expected"),
    [
        ("p:1:1", ["  1 | version: 1", "    | ^^^^^^^"]),
        ("a:b/p:2:11", ["  2 | domains: [a b, c]", "    |           ^"]),
        ("p:2:16", ["  2 | domains: [a b, c]", "    |                ^"]),
        ("p:3:5", ['  3 |   - "x y"', "    |     ^^^^^"]),
        ("p:4:2", ["  4 | \t- a"]),
        ("p:5:201", [f"  5 | {' ' * 100}"]),
        ("p:6:1", ["  6 | ", "    | ^"]),
        ("p:7:3", ["  7 | - git@a.test:o/r,s  # x", "    |   ^^^^^^^^^^^^^^^^"]),
        ("p:8:1", ["  8 | x: {a:b, c: d}", "    | ^"]),
        ("p:8:5", ["  8 | x: {a:b, c: d}", "    |     ^^^"]),
        ("p:8:10", ["  8 | x: {a:b, c: d}", "    |          ^"]),
        ("p:8:13", ["  8 | x: {a:b, c: d}", "    |             ^"]),
        ("p:8:4", ["  8 | x: {a:b, c: d}", "    |    ^^^^^^^^^^^"]),
        ("p:9:8", ["  9 | y: [a, {b: c}, {d", "    |        ^^^^^^"]),
        ("p:9:16", ["  9 | y: [a, {b: c}, {d", "    |                ^^"]),
        ("p:10:1", []),
        ("p:0:1", []),
        ("p:1", []),
        ("", []),
    ],
)
def test_places_a_caret_below_the_word_of_the_problem(where: str, expected: list[str]) -> None:
    assert excerpt(Problem(where=where, what="x"), LINES) == "\n".join(expected)
