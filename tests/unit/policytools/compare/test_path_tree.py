from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.http.headers import header_pattern
from agent_sandbox.policy.http.query import QueryPattern
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from agent_sandbox.policytools.compare.path_tree import PathTree
from table_tests import each

HOST = parse_host_pattern("a.test")


def asking(path: str | None, *, x: str = "", header: str = "") -> Conditions:
    kind, _, text = (path or "").partition(" ")
    return Conditions(
        host=HOST,
        path=parse_path_pattern(PathKind(kind), text.removesuffix(" any case")) if path else None,
        query=QueryPattern(parameters=(("x", x),)) if x else None,
        headers=header_pattern({header: "1"}) if header else None,
    )


def tree_of(*asked: Conditions) -> PathTree:
    origin = Origin(file="policy.yaml", line=1, layer="project")
    return PathTree([Rule(effect=Effect.ALLOW, conditions=one, origin=origin) for one in asked])


def found(tree: PathTree, asked: Conditions) -> list[str]:
    return [str(rule).removeprefix("any method a.test") for rule in tree.taking(asked)]


PATHS = (
    *(
        None,
        "prefix /a",
        "prefix /a/b",
        "exact /a/b",
        "glob /a/*",
        "glob /a/b*",
        "glob /a/*b",
        "glob /**",
        "glob /**/c",
    ),
    *("glob /*/b", "glob /b/**/c"),
)


@each(
    ("path", "expected"),
    [
        (None, ["", "/**"]),
        ("exact /a", ["", "/a/...", "/**"]),
        ("exact /a/b", ["", "/a/...", "/a/b/...", "/a/b", "/a/*", "/a/b*", "/a/*b", "/**", "/*/b"]),
        ("prefix /a/b", ["", "/a/...", "/a/b/...", "/**"]),
        ("glob /a/*", ["", "/a/...", "/a/*", "/**"]),
        ("glob /a/bx*b", ["", "/a/...", "/a/*", "/a/b*", "/a/*b", "/**"]),
        ("exact /b/c", ["", "/**", "/**/c", "/b/**/c"]),
        ("glob /b/**/x/c", ["", "/**", "/**/c", "/b/**/c"]),
        ("glob /x/**", ["", "/**"]),
        ("exact /A/b", ["", "/**", "/*/b"]),
    ],
)
def test_finds_rules_whose_path_covers_the_given_path(path: str | None, expected: list[str]) -> None:
    assert found(tree_of(*map(asking, PATHS)), asking(path)) == expected
