import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands.check import check
from agent_sandbox.policyfile import load_policy


def test_reports_a_valid_policy_in_one_line(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = load_policy(policy).digest[:12]
    assert exit_code(check) == 0
    assert capsys.readouterr() == (f".devcontainer/policy.yaml: valid, 3 rules, digest {digest}\n", "")


def test_reports_every_problem_with_line_and_column(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("version: 1\ndomainz: [x]\nservicez: []\n")
    assert exit_code(check) == 1
    expected = (
        "error: .devcontainer/policy.yaml:2:1: unknown key 'domainz'\n"
        "  2 | domainz: [x]\n    | ^^^^^^^\n"
        "  hint: did you mean `domains`?\n"
        "error: .devcontainer/policy.yaml:3:1: unknown key 'servicez'\n"
        "  3 | servicez: []\n    | ^^^^^^^^\n"
        "  hint: did you mean `services`?\n"
    )
    assert capsys.readouterr() == ("", expected)


def test_reports_that_an_empty_policy_denies_everything(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("version: 1\ndomains: []\n")
    assert exit_code(check) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("everything is denied: ")


def test_json_output_has_the_same_result_as_the_text(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, digest = str(policy), load_policy(policy).digest
    assert exit_code(lambda: check(json=True)) == 0
    expected = {"file": name, "valid": True, "problems": [], "digest": digest, "rules": 3, "layers": []}
    expected["warnings"] = []
    assert json.loads(capsys.readouterr().out) == expected
    policy.write_text("version: 1\ndomainz: [x]\n")
    assert exit_code(lambda: check(json=True)) == 1
    problem = {"where": f"{name}:2:1", "what": "unknown key 'domainz'", "hint": "did you mean `domains`?"}
    assert json.loads(capsys.readouterr().out) == {"file": name, "valid": False, "problems": [problem]}


def test_reports_a_given_file_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: check(tmp_path / "missing.yaml")) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}/missing.yaml: no such file\n")


def test_reports_a_file_that_is_not_utf8(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_bytes(b"domains: [\xff]")
    assert exit_code(lambda: check(policy=policy)) == 1
    told = "error: .devcontainer/policy.yaml:1:11: byte 0xff is not UTF-8\n  hint: save the file as UTF-8\n"
    assert capsys.readouterr().err == told


def test_lists_the_other_layers_of_the_policy(policy: Path, capsys: pytest.CaptureFixture[str], fenced: Path) -> None:
    organisation = fenced / "etc" / "policy.yaml"
    organisation.parent.mkdir()
    organisation.write_text("domains: [example.org]")
    assert exit_code(lambda: check(policy)) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(".devcontainer/policy.yaml: valid, 3 rules")
    assert second == f"with organisation/policy.yaml: {organisation}, which limits what all other layers allow"
    organisation.write_text("deny: [example.net]")
    assert exit_code(lambda: check(policy)) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"with organisation/policy.yaml: {organisation}"]
    assert exit_code(lambda: check(policy, json=True)) == 0
    told = json.loads(capsys.readouterr().out)["layers"]
    assert told == [{"name": "organisation", "file": str(organisation)}]


def test_shows_no_source_line_for_a_problem_of_another_layer(
    policy: Path, capsys: pytest.CaptureFixture[str], fenced: Path
) -> None:
    organisation = fenced / "etc" / "policy.yaml"
    organisation.parent.mkdir()
    organisation.write_text("domainz: []")
    assert exit_code(lambda: check(policy)) == 1
    told = f"error: {organisation}:1:1: unknown key 'domainz'\n  hint: did you mean `domains`?\n"
    assert capsys.readouterr().err == told


def test_warns_about_a_wildcard_that_allows_more_than_a_service(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text('services: [{name: github, repos: [o/r], api: {access: read}}]\ndomains: ["*.github.com"]\n')
    assert exit_code(check) == 0
    told = capsys.readouterr()
    what = (
        "`*.github.com` also allows DELETE https://api.github.com/repos/o/r, which service `github` at line 1 does not"
    )
    mend = "name the hosts instead of `*.github.com`, or deny what should not be allowed"
    assert told.err == f"warning: {policy}:2: {what}\n  hint: {mend}\n"
    assert exit_code(lambda: check(json=True)) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert (warning["check"], warning["line"], warning["what"], warning["mend"]) == ("adds-up", 2, what, mend)


def test_does_not_print_accepted_warnings(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    services = "services: [{name: github, repos: [o/r], api: {access: read}}]\n"
    policy.write_text(f'{services}domains:\n  # accepted: adds-up, all of it is meant\n  - "*.github.com"\n')
    assert exit_code(check) == 0
    assert capsys.readouterr().err == ""


def test_warns_of_an_allow_that_a_deny_of_the_file_hides(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("domains: [a.corp.test, b.test]\ndeny: ['*.corp.test']\n")
    assert exit_code(check) == 0
    assert capsys.readouterr().err == (
        f"warning: {policy}:1: `any method a.corp.test` is never allowed: the deny at policy.yaml:2 covers it\n"
        "  hint: remove one of them, or narrow the deny\n"
    )


def test_rejects_one_variable_for_two_secrets(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "{{secret: {}, transform: {{type: bearer}}, client_shim: {{kind: env, name: A_TOKEN}}}}"
    entry = "  - {{host: {}, transform: {{request: {{headers: {{X: {}}}}}}}}}\n"
    policy.write_text("domains:\n" + "".join(entry.format(f"{one}.test", key.format(one)) for one in "ab"))
    assert exit_code(check) == 1
    told = capsys.readouterr().err.splitlines()
    assert (
        told[0] == "error: policy.yaml:3: the variable A_TOKEN cannot be a placeholder for both b and a (policy.yaml:2)"
    )
    assert told[-1] == "  hint: write another `client_shim: {kind: env, name: NAME}` in one of the two"


def test_notes_a_service_that_is_not_resolved_yet(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("services: [npm, go]\n")
    assert exit_code(check) == 0
    assert capsys.readouterr().err == (
        "note: node is not resolved here yet, so it allows nothing: "
        "agent-sandbox policy allow npm takes its registry from npm's configuration on this machine\n"
    )
