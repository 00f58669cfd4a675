from agent_sandbox.cli.terminal.excerpt import excerpt
from agent_sandbox.problems import Problem
from table_tests import each

YAML = 'version: 1\ndomains: [a b, c]\n  - "x y"  \n\t- a'
LINES = [*YAML.split("\n"), f"{' ' * 200}a", "", "- git@a.test:o/r,s  # x", "x: {a:b, c: d}", "y: [a, {b: c}, {d"]


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
