from pathlib import Path

import pytest

from agent_sandbox.policyfile.catalogue import Catalogue
from agent_sandbox.policyfile.parse.parsing import parse_layer
from agent_sandbox.problems import UserError

TWICE = """\
services:
  - github
  - claude
  - {name: github, readonly: true}
  - github
domains:
  - {host: A.test, merge_mode: replace, rules: [{methods: [GET]}]}
  - a.test
  - host: a.test.
    merge_mode: replace
"""


def test_a_layer_returns_the_line_of_an_entry() -> None:
    layer = parse_layer("domains:\n  - a.test", name="team", file="t", shown="t", services=())
    assert str(layer.origin("domains", 0)) == "t:2"


def test_reports_at_most_100_problems_and_counts_the_rest() -> None:
    with pytest.raises(UserError) as error:
        parse_layer("domains:\n" + "  - '*a'\n" * 103, name="x", file="p", shown="p", services=())
    assert len(error.value.problems) == 101
    assert str(error.value.problems[-1]) == "and 3 more problems"


OPTIONS = "options: {repos: repositories, git: {access: [read, readwrite]}}\n"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{name: forge, repo: [a/b]}", "2:19: service forge has no option 'repo'; did you mean `repos`?"),
        (
            "{name: forge, repos: [a]}",
            "2:27: not a repository: 'a'; write `owner/name`, or \"owner/*\" for all of an owner",
        ),
        ("{name: forge, git: {access: write}}", "2:33: unknown access 'write'; did you mean `readwrite`?"),
        ("{name: forge, git: {acces: read}}", "2:24: `git` needs `access`; write `git: {access: read}`"),
        ("{name: plain, git: {}}", "2:19: service plain has no option 'git'; known: budget, merge_mode, readonly"),
        ("{name: plain, readonly: 1}", "2:29: `true` or `false` expected, not `1`"),
    ],
)
def test_reports_invalid_options_of_a_service_with_their_place(tmp_path: Path, entry: str, message: str) -> None:
    (tmp_path / "forge.yaml").write_text(f"{OPTIONS}domains: [a.test]")
    (tmp_path / "plain.yaml").write_text("domains: [b.test]")
    text = f"services:\n  - {entry}"
    with pytest.raises(UserError) as error:
        parse_layer(text, name="x", file="p", shown="p", services=Catalogue(folder=tmp_path))
    assert str(error.value) == f"p:{message}"


def test_rejects_keys_of_service_files_in_a_policy(tmp_path: Path) -> None:
    rule = "domains: [{host: a.test, rules: [{when: {git: read}}]}]"
    (tmp_path / "forge.yaml").write_text(f"{OPTIONS}{rule}")
    assert len(Catalogue(folder=tmp_path)["forge"].spec.domains) == 1
    with pytest.raises(UserError) as error:
        parse_layer(f"{OPTIONS}{rule}", name="x", file="p", shown="p", services=())
    assert [str(problem).partition(";")[0] for problem in error.value.problems] == [
        "p:1:1: unknown key 'options'",
        "p:2:35: unknown key 'when'",
    ]


def told(text: str) -> list[str]:
    with pytest.raises(UserError) as raised:
        parse_layer(text, name="project", file="p.yaml", shown="p.yaml", services=("github", "claude"))
    return [str(problem) for problem in raised.value.problems]


def test_reports_both_places_of_a_duplicate_entry() -> None:
    one = "keep one entry with the options of both"
    merged = "merge the two entries into one"
    assert told(TWICE) == [
        f"p.yaml:4:5: service `github` is named at p.yaml:2:5, too; {one}",
        f"p.yaml:5:5: service `github` is named at p.yaml:2:5, too; {one}",
        f"p.yaml:9:5: `a.test` replaces lower layers at p.yaml:7:5, too; {merged}",
    ]


def test_reports_duplicates_together_with_problems_of_a_restricting_layer() -> None:
    assert len(told(f"tighten: true\n{TWICE}")) == 5


def test_a_host_can_have_several_entries() -> None:
    text = "domains: [a.test, {host: a.test, ports: [8443]}, {host: a.test, merge_mode: replace, ports: [81]}]"
    assert len(parse_layer(text, name="p", file="p", shown="p", services=()).spec.domains) == 3
