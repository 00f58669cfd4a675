import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.terminal.output import WIDEST
from agent_sandbox.features.policy.commands.show import show
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.policyfile import load_policy


def test_shows_every_rule_with_its_line(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = load_policy(policy).digest[:12]
    assert exit_code(show) == 0
    expected = (
        f".devcontainer/policy.yaml, digest {digest}\n"
        "\n"
        "project  policy.yaml\n"
        "  allow  any method example.org            :3\n"
        "  allow  GET, HEAD api.example.com/v1/...  :5\n"
        "  deny   POST https://example.org/admin    :7\n"
        "\n"
        "everything else is denied\n"
    )
    assert capsys.readouterr() == (expected, "")


ALL_KINDS = """\
services: [github]
domains: [{host: a.test, inspect: false, reason: it pins}]
host_services: {ollama: {to: host:11434}}
settings: {block_status: 418}
"""


def test_lists_services_last_and_notes_passthrough_and_host_services(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text(ALL_KINDS)
    assert exit_code(lambda: show(policy=policy)) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown[3:5] == [
        "allow any method a.test :2 passthrough; it pins",
        "allow any method ollama on port 11434 :3 leads to host:11434",
    ]
    assert shown[6] == "service github services/github.yaml"
    assert shown[-2:] == ["everything else is denied", "block_status: 418"]
    assert exit_code(lambda: show(policy, json=True)) == 0
    places = json.loads(capsys.readouterr().out)["host_services"]
    assert places == [{"name": "ollama", "asked": "ollama", "ports": [11434], "to": "host"}]


def test_shows_the_upstream_proxy(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("domains: [a.test]\nsettings: {upstream: {proxy: 'http://proxy.corp.example:3128'}}\n")
    assert exit_code(lambda: show(policy=policy)) == 0
    told = "upstream: all allowed requests go through http://proxy.corp.example:3128 (policy.yaml:2)"
    assert capsys.readouterr().out.splitlines()[-1] == told


def test_shows_that_an_empty_policy_denies_everything_and_why(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("version: 1\n")
    assert exit_code(show) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["", "everything else is denied: policy.yaml allows nothing yet"]


def test_json_output_has_rules_and_settings(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: show(json=True)) == 0
    got = json.loads(capsys.readouterr().out)
    assert {key: got[key] for key in ("file", "digest", "refusal", "settings")} == {
        "file": ".devcontainer/policy.yaml",
        "digest": load_policy(policy).digest,
        "refusal": "",
        "settings": {
            "block_status": 403,
            "inspect": True,
            "reload": "restart",
            "upstream": None,
            "ask": "",
            "ask_timeout": 60,
            "http1": "auto",
            "sign_commits": "",
        },
    }
    assert [(rule["effect"], rule["host"], rule["origin"]["line"]) for rule in got["rules"]] == [
        ("allow", "example.org", 3),
        ("allow", "api.example.com", 5),
        ("deny", "example.org", 7),
    ]


def test_shows_the_organisation_layer_with_its_rules(
    policy: Path, capsys: pytest.CaptureFixture[str], fenced: Path
) -> None:
    organisation = fenced / "etc" / "policy.yaml"
    organisation.parent.mkdir()
    organisation.write_text("domains: [.example.org]\ndeny: [bad.example.org]")
    digest = load_here(policy, {}).digest[:12]
    assert exit_code(show) == 0
    expected = (
        f".devcontainer/policy.yaml, digest {digest}\n"
        f"with organisation/policy.yaml: {organisation}, which limits what all other layers allow\n"
        "\n"
        "organisation  organisation/policy.yaml\n"
        "  within  any method .example.org           :1\n"
        "  deny    any method bad.example.org        :2\n"
        "\n"
        "project  policy.yaml\n"
        "  allow   any method example.org            :3\n"
        "  allow   GET, HEAD api.example.com/v1/...  :5\n"
        "  deny    POST https://example.org/admin    :7\n"
        "\n"
        "everything else is denied\n"
    )
    assert capsys.readouterr() == (expected, "")
    assert exit_code(lambda: show(json=True)) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["layers"] == [{"name": "organisation", "file": str(organisation)}]
    ((restriction,),) = [[rule["host"] for rule in restriction["rules"]] for restriction in got["ceilings"]]
    assert (restriction, got["ceilings"][0]["layer"]) == (".example.org", "organisation")


def test_a_long_rule_does_not_shift_the_columns_of_other_rules(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = ", ".join(f"field{number}" for number in range(30))
    policy.write_text(f"domains: [a.test, {{host: b.test, reason: x, rules: [{{graphql: {{query: [{fields}]}}}}]}}]\n")
    assert exit_code(show) == 0
    long, short = capsys.readouterr().out.splitlines()[3:5]
    assert short == f"  allow  {'any method a.test':<{WIDEST}}  :1"
    assert long.endswith(", field9  :1  x")
