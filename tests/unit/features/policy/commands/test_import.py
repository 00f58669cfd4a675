from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands.import_ import import_
from agent_sandbox.policytools.importing.old_services import old_hosts
from agent_sandbox.policytools.importing.records import HEADER


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_converts_an_allow_list_to_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    Path("list.txt").write_text("GET https://a.test/v1/*\nPOST https://a.test/a/*/b\n")
    assert exit_code(lambda: import_([Path("list.txt")])) == 0
    lines = "  - GET https://a.test/v1/**\n  - POST https://a.test/a/*/b\n"
    note = "list.txt:2: a `*` inside a path matches part of one segment here; `**` would match several\n"
    assert capsys.readouterr() == (f"{HEADER}\nversion: 1\n\nallow:\n{lines}", note)


def test_combines_several_policy_files_of_which_a_later_one_wins(capsys: pytest.CaptureFixture[str]) -> None:
    Path("user.policy").write_text("domains:\n  - a.test\n  - b.test\n")
    Path("project.yaml").write_text(
        "domains:\n  - {host: b.test, merge_mode: replace, rules: [{methods: [GET]}]}\n  - c.test\n"
    )
    assert exit_code(lambda: import_([Path("user.policy"), Path("project.yaml")])) == 0
    told = capsys.readouterr()
    replaced = "  - host: b.test\n    merge_mode: replace\n    rules:\n      - {methods: [GET]}\n"
    assert told.out == f"{HEADER}\nversion: 1\n\ndomains:\n  - a.test\n{replaced}  - c.test\n"
    assert told.err == (
        "user.policy: every port was allowed; here only 443 and 80 are: name others under `ports`\n"
        "user.policy: every method was allowed; here only DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT are:"
        " name others under `methods`\n"
        "user.policy: GET implies HEAD here\n"
    )


def test_prints_no_policy_if_a_file_has_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    Path("list.txt").write_text("GTE https://a.test/\n")
    assert exit_code(lambda: import_([Path("list.txt")])) == 1
    assert capsys.readouterr() == ("", "error: list.txt:1: unknown method 'GTE'\n  hint: did you mean `GET`?\n")
    assert exit_code(lambda: import_([Path("list.txt"), Path("list.txt")])) == 1
    expected = "error: list.txt: an allow-list cannot be combined with other files\n  hint: import it alone\n"
    assert capsys.readouterr() == ("", expected * 2)


def test_counts_entries_that_are_left_out_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old.yaml").write_text(
        "services: [nonesuch]\ndomains:\n  - a.test\n  - {host: b.test, rules: [{path: {exact: /..}}]}\n"
    )
    assert exit_code(lambda: import_([Path("old.yaml")])) == 1
    told = capsys.readouterr()
    assert told.out == f"{HEADER}\nversion: 1\n\ndomains:\n  - a.test\n"
    known = ", ".join(sorted(old_hosts()))
    assert told.err.splitlines()[0] == (
        f"old.yaml:1: left out: unknown service 'nonesuch'; name its hosts under `domains` (known: {known})"
    )
    assert told.err.splitlines()[1] == "old.yaml:4: left out: the path contains a dot segment: '/..'"
    assert told.err.splitlines()[-1] == "1 entry written, 2 left out: this is not the whole policy"


def test_exits_with_1_if_a_line_of_an_allow_list_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("list.txt").write_text("GET https://*.a.test/v1\nGET https://a.test/v1\n")
    assert exit_code(lambda: import_([Path("list.txt")])) == 1
    told = capsys.readouterr()
    assert told.out == f"{HEADER}\nversion: 1\n\nallow:\n  - GET https://a.test/v1\n"
    assert told.err == (
        "list.txt:1: left out: 'https://*.a.test/v1' has a path with a wildcard host, which an allow-list never allows;"
        " write a line for each host\n1 entry written, 1 left out: this is not the whole policy\n"
    )
