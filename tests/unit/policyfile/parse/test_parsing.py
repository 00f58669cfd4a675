from pathlib import Path

import pytest

from agent_sandbox.policyfile.catalogue import Catalogue
from agent_sandbox.policyfile.parse.parsing import parse_layer
from agent_sandbox.problems import UserError


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
