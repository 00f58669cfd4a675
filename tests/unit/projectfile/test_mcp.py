import pytest

from agent_sandbox.agents.mcp import McpServer
from agent_sandbox.problems import UserError
from agent_sandbox.projectfile.mcp import MOST_SERVERS, MOST_TEXT
from agent_sandbox.projectfile.parsing import parse_project_file
from table_tests import each

EITHER = (
    "a server needs exactly one of `command` and `url`; "
    "write `{command: NAME, args: [...]}` or `{url: https://HOST/PATH}`"
)
ALIKE = "differently; put it into a script, and name that here"
ADDRESS = "write `https://HOST/PATH`"
PROGRAM = "write `{command: NAME, args: [...]}`"


@each(
    ("text", "expected"),
    [
        ("mcp:\n", []),
        ("mcp: {a: {command: x}}", [McpServer(name="a", command=("x",))]),
        (
            "mcp: {a-b: {command: ./x, args: [--y, ''], env: {A_1: 'b c'}}}",
            [McpServer(name="a-b", command=("./x", "--y", ""), env={"A_1": "b c"})],
        ),
        ("mcp: {a: {url: 'https://h.test/mcp?a=1'}}", [McpServer(name="a", url="https://h.test/mcp?a=1")]),
        ("mcp: {a: {url: 'http://localhost:3000'}}", [McpServer(name="a", url="http://localhost:3000")]),
    ],
)
def test_parses_servers_with_a_command_or_a_url(text: str, expected: list[McpServer]) -> None:
    assert [spec.server(name) for name, spec in parse_project_file(text, file="f").mcp.items()] == expected


@each(
    ("value", "problem"),
    [
        ("{}", f"1:10: {EITHER}"),
        ("{command: x, url: 'https://h/'}", f"1:10: {EITHER}"),
        ("{url: 'https://h/', args: [x]}", "1:10: `args` and `env` belong to a `command`, not to a `url`; remove them"),
        ("x", "1:10: keys and values expected, not 'x'"),
        ("{comand: x}", "1:11: unknown key 'comand'; did you mean `command`?"),
        ("{command: [x]}", "1:20: text expected, not a list"),
        ("{command: -x}", f"1:20: not a program: '-x'; {PROGRAM}"),
        ("{command: ' '}", f"1:20: not a program: ' '; {PROGRAM}"),
        ('{command: "a\\nb"}', "1:20: not one line of text; put it into a script, and name that here"),
        ("{command: $HOME/x}", f"1:20: agents expand '$HOME/x' {ALIKE}"),
        ("{command: x, args: ['{file:/x}']}", f"1:30: agents expand '{{file:/x}}' {ALIKE}"),
        ("{command: x, env: {A: '{env:B}'}}", f"1:32: agents expand '{{env:B}}' {ALIKE}"),
        ("{command: x, env: {A: 3}}", '1:32: text expected, not `3`; if you mean the text, quote it: "3"'),
        ("{command: x, env: {a-b: c}}", "1:28: not the name of a variable: 'a-b'; use letters, digits and `_`"),
        *(
            (f"{{url: '{url}'}}", f"1:16: not the URL of a server: '{url}'; {ADDRESS}")
            for url in ("ftp://h/", "https://u:p@h/", "https:///x", "https://h/a b", "h.test/mcp")
        ),
    ],
)
def test_reports_an_invalid_server_at_its_place(value: str, problem: str) -> None:
    with pytest.raises(UserError) as error:
        parse_project_file(f"mcp: {{a: {value}}}", file="f")
    assert str(error.value) == f"f:{problem}"


@each(
    ("text", "problem"),
    [
        ("mcp: [a]", "1:6: keys and values expected, not a list"),
        ("mcp: {a b: {command: x}}", "1:6: not the name of a server: 'a b'; use letters, digits, `-` and `_`"),
        (
            f"mcp: {{{', '.join(f'a{number}: {{command: x}}' for number in range(MOST_SERVERS + 1))}}}",
            "1:6: more than 30 servers; keep those that the agents need",
        ),
        (
            f"mcp: {{a: {{command: {'é' * (MOST_TEXT // 2)}}}}}",
            "1:6: more than 8000 bytes; put long commands into scripts, and name those here",
        ),
    ],
)
def test_reports_invalid_names_and_too_many_or_too_large_servers(text: str, problem: str) -> None:
    with pytest.raises(UserError) as error:
        parse_project_file(text, file="f")
    assert str(error.value) == f"f:{problem}"
