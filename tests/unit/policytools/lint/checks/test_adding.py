from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.policy import compile_policy
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.policytools.edit.comments import comments_by_line
from agent_sandbox.policytools.importing.records import conditions_of
from agent_sandbox.policytools.lint.checks import adding
from agent_sandbox.policytools.lint.checks.adding import adds_up, requests_beside
from agent_sandbox.policytools.lint.subject import Finding, Subject
from table_tests import each

SERVICES = dict(shipped_services())
EXAMPLES = Path(__file__).resolve().parents[5] / "docs" / "policy" / "examples"
SCOPED = "services: [{name: github, repos: [o/r], api: {access: read}}]\n"
GITHUB = "`{}` also allows DELETE https://{}, which service `github` at line 1 does not"
CODEX = "service `codex` also allows GET https://api.openai.com/v1/models/x, which the entry for {} at line 3 does not"
VSCODE = (
    "service `vscode` also allows GET https://a.gallery.vsassets.io/,"
    " which the entry for a.gallery.vsassets.io at line 3 does not"
)
GET = "rules: [{methods: [GET]}]"
MODELS = "{methods: [GET], path: {exact: /v1/models}}"


def found(text: str) -> list[Finding]:
    layer = parse_layer(text, name="project", file="p", shown="p", services=SERVICES)
    policy = compile_policy([layer], SERVICES)
    return list(adds_up(Subject(layer=layer, comments=comments_by_line(text), policy=policy)))


def told(text: str) -> list[tuple[int, str]]:
    return [(one.line, one.what) for one in found(text)]


def test_finds_a_wildcard_that_widens_a_service_limited_to_repositories() -> None:
    what = (
        "`*.github.com` also allows DELETE https://api.github.com/repos/o/r, which service `github` at line 1 does not"
    )
    fix = "name the hosts instead of `*.github.com`, or deny what should not be allowed"
    expected = [Finding(line=2, what=what, why=adding.WHY, fix=fix)]
    assert found(f'{SCOPED}domains: ["*.github.com"]\n') == expected


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (
            'domains:\n  - "*.a.test"\n  - {host: b.a.test, rules: [{methods: [GET]}]}\n',
            2,
            "`*.a.test` also allows DELETE https://b.a.test/, which the entry for b.a.test at line 3 does not",
        ),
        (
            'domains:\n  - .a.test\n  - {host: "*.b.a.test", rules: [{methods: [GET]}]}\n',
            2,
            "`.a.test` also allows DELETE https://b.a.test/, which the entry for .b.a.test at line 3 does not",
        ),
        (
            f"services: [codex]\ndomains:\n  - {{host: api.openai.com, rules: [{MODELS}]}}\n",
            3,
            CODEX.format("api.openai.com"),
        ),
        (
            f"services: [codex]\ndomains:\n  - {{host: '*.api.openai.com', rules: [{MODELS}]}}\n",
            3,
            CODEX.format(".api.openai.com"),
        ),
        (
            "services: [vscode]\ndomains:\n  - {host: a.gallery.vsassets.io, rules: [{methods: [PUT]}]}\n",
            3,
            VSCODE,
        ),
        (
            "services: [{name: github, repos: [o/r]}]\ndomains:\n  - .github.com\n",
            3,
            GITHUB.format(".github.com", "github.com/o/r.git/info/refs"),
        ),
    ],
)
def test_finds_requests_allowed_beyond_narrower_rules(text: str, line: int, what: str) -> None:
    assert (line, what) in told(text)


@pytest.mark.parametrize(
    "text",
    [
        'domains: ["*.a.test", b.a.test]\n',
        f'domains: [{{host: "*.a.test", {GET}}}, {{host: b.a.test, {GET}}}]\n',
        "services: [codex]\n",
        "services: [github, vscode]\ndomains: [github.com]\n",
        f"services: [codex]\ndomains: [{{host: '*.openai.com', rules: [{MODELS}]}}]\n",
        f"services: [codex]\ndomains: [{{host: '*.openai.com', merge_mode: replace, rules: [{MODELS}]}}]\n",
        f"services: [codex]\ndomains: [{{host: api.openai.com, merge_mode: replace, rules: [{MODELS}]}}]\n",
        # The older product has no service `rust`.
        "services: [rust]\ndomains: [{host: index.crates.io, rules: [{methods: [POST]}]}]\n",
        # A deny removes the difference.
        f'{SCOPED}domains: ["*.github.com"]\ndeny: [api.github.com, github.com]\n',
        'allow_all: true\ndomains: ["*", {host: a.test, rules: [{methods: [GET]}]}]\n',
        # A short form line is an addition and does not look like a limit.
        'domains: ["*.a.test"]\nallow: [GET https://b.a.test/]\n',
    ],
)
def test_ignores_entries_that_do_not_widen_narrower_rules(text: str) -> None:
    assert told(text) == []


def test_reports_one_finding_for_many_entries_below_a_wildcard() -> None:
    entries = "".join(f"  - {{host: h{number}.a.test, rules: [{{methods: [GET]}}]}}\n" for number in range(50))
    assert [line for line, _ in told(f'domains:\n  - "*.a.test"\n{entries}')] == [2]


def test_limits_the_number_of_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = "".join(f"  - '*.{name}.test'\n  - {{host: x.{name}.test, {GET}}}\n" for name in "abc")
    counts = []
    for most in (0, 1, adding.MAX_COMPARED):  # the first comparison is always made
        monkeypatch.setattr(adding, "MAX_COMPARED", most)
        counts.append(len(found(f"domains:\n{entries}")))
    assert counts == [1, 2, 3]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_finds_nothing_in_the_documented_examples(example: Path) -> None:
    text = example.read_text("utf-8")
    assert told(text) == []


def first(wide: dict[str, Any], *narrow: dict[str, Any]) -> str:
    (asked,) = conditions_of([{"host": "a.test", **wide}])
    others = conditions_of([{"host": "a.test", **one} for one in narrow])
    return next((f"{one.method} {one.url}" for one in requests_beside(asked, others)), "")


READS: dict[str, Any] = {"rules": [{"methods": ["GET"]}]}
ITEMS = {"rules": [{"methods": ["GET"], "path": {"prefix": "/items/"}}]}


@each(
    ("wide", "narrow", "request"),
    [
        ({}, [READS], "DELETE https://a.test/"),
        ({}, [ITEMS], "DELETE https://a.test/items/"),
        (READS, [ITEMS], "GET https://a.test/"),
        (READS, [READS], ""),
        (ITEMS, [READS], ""),
        ({}, [{}], ""),
        (ITEMS, [], "GET https://a.test/items/"),
        ({"rules": [{"path": {"glob": "/*/x/**"}}]}, [READS], "DELETE https://a.test/x/x/x/y"),
        (
            {"rules": [{"path": {"prefix": "/v1"}}]},
            [{"rules": [{"path": {"exact": "/v1"}}]}],
            "DELETE https://a.test/v1/x",
        ),
        ({"rules": [{"schemes": ["http"], "query": {"exact": {"q": "1"}}}]}, [READS], "DELETE http://a.test/?q=1"),
        # Bodies are not tried.
        ({"rules": [{"graphql": {"query": ["viewer"]}}]}, [], ""),
    ],
)
def test_finds_a_request_that_one_rule_matches_and_the_others_do_not(
    wide: dict[str, Any], narrow: list[dict[str, Any]], request: str
) -> None:
    assert first(wide, *narrow) == request
