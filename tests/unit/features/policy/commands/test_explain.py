import json
from functools import partial
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands.explain import explain
from agent_sandbox.policy.explain.advice import PLAINLY

LINE = """\
agent-sandbox policy allow '{0}'
  or        - {0}
            under `allow` in .devcontainer/policy.yaml
"""
APPLY = f"""\
{LINE}\
            then: agent-sandbox proxy reload
"""


def test_a_denial_shows_the_nearest_rule_and_a_line_that_would_allow_the_request(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert policy.exists()
    assert exit_code(lambda: explain("post", "https://api.example.com/v2/x?b=1#c")) == 0
    expected = (
        "deny  POST https://api.example.com/v2/x?b=1\n"
        "      ^^^^                         ^^^^\n"
        "  because   host api.example.com is allowed, method POST and path /v2/x are not\n"
        "  nearest   policy.yaml:5 (project) allows GET, HEAD api.example.com/v1/...\n"
        "              but not method POST and not path /v2/x\n"
        f"  to allow  {APPLY.format('POST https://api.example.com/v2/x?b=1')}"
    )
    assert capsys.readouterr() == (expected, "")


def test_a_denial_of_another_project_names_the_reload_of_that_project(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = policy.absolute().parent.parent
    assert exit_code(lambda: explain("post", "https://api.example.com/v2/x", path=root)) == 0
    told = capsys.readouterr().out
    assert f"  to allow  agent-sandbox policy allow 'POST https://api.example.com/v2/x' --path {root}\n" in told
    assert told.endswith(f"\n            then: agent-sandbox proxy reload --path {root}\n")


def test_explain_without_a_method_explains_a_get(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.exists()
    assert exit_code(lambda: explain("https://api.example.com/v1/x")) == 0
    assert capsys.readouterr().out.startswith("allow  GET https://api.example.com/v1/x\n")


def test_suggests_the_service_of_a_git_server_before_the_line(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.exists()
    assert exit_code(lambda: explain("GET", "https://github.com/o/n/info/refs?service=git-upload-pack")) == 0
    expected = (
        "  to allow  - {name: github, repos: [o/n], git: {access: read}}\n"
        "            under `services`\n"
        "            then: agent-sandbox proxy reload\n"
        "  or        - github\n"
        "            under `services`, with everything else that it allows\n"
        f"  or        {LINE.format('GET https://github.com/o/n/info/refs?service=git-upload-pack')}"
    )
    assert capsys.readouterr().out.endswith(expected)


PUSH = "POST https://github.com/o/n.git/git-receive-pack"
START = "GET https://github.com/o/n.git/info/refs?service=git-receive-pack"
COMMAND = "run `agent-sandbox secret setup github --repo o/n` on the host machine: it asks for a token if there is none"


@pytest.mark.parametrize(
    ("named", "options", "place"),
    [
        (
            "{name: github, repos: [o/n], git: {access: read}}",
            "git: {access: readwrite}",
            "instead of the entry at policy.yaml:2",
        ),
        (
            "{name: github, repos: [{name: O/n, access: read}, a/b], git: {access: readwrite}}",
            "git: {access: readwrite}",
            "instead of the entry at policy.yaml:2",
        ),
        (
            "github",
            "git: {access: readwrite}, web: {access: read}, api: {access: read}",
            "instead of the entry at policy.yaml:2 for all repositories: it then denies the others",
        ),
    ],
)
def test_a_denied_push_names_the_options_of_the_service_that_allow_it(
    policy: Path, capsys: pytest.CaptureFixture[str], named: str, options: str, place: str
) -> None:
    policy.write_text(f"services:\n  - {named}\n")
    expected = (
        f"  to allow  {COMMAND}\n"
        f"  or        - {{name: github, repos: [{'a/b, ' * ('a/b' in named)}o/n], {options}}}\n"
        f"            under `services`, {place}\n"
        "            then: agent-sandbox proxy reload\n"
    )
    for line in (PUSH, START):
        assert exit_code(partial(explain, *line.split())) == 0
        assert capsys.readouterr().out.endswith(expected)


def test_a_denied_push_to_a_server_without_a_service_names_the_command_that_allows_it(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text("domains: [{host: git.test, rules: [{methods: [GET]}]}]\n")
    assert exit_code(lambda: explain("https://git.test/o/n.git/info/refs?service=git-receive-pack")) == 0
    out = capsys.readouterr().out
    assert (
        "  because   this request starts a git push, which is denied: host git.test is allowed, method POST is not"
        in out
    )
    assert out.endswith(
        "  to allow  run `agent-sandbox policy allow 'POST https://git.test/o/n.git/git-receive-pack'`"
        " on the host machine\n"
    )


def test_json_output_lists_the_choices_that_would_allow_the_request(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text("services: [github]\n")
    assert exit_code(lambda: explain("POST", "https://api.github.com/repos/o/n/issues", json=True)) == 0
    parts = {"git": {"access": "read"}, "web": {"access": "read"}, "api": {"access": "readwrite"}}
    options = {"repos": ["o/n"], **parts}
    assert json.loads(capsys.readouterr().out)["to_allow"]["choices"] == [
        {"entry": {"name": "github", **options}, "instead_of": "policy.yaml:1", "closes_others": True}
    ]


def test_an_allowed_request_names_the_rule(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: explain("GET", "https://example.org", policy=policy)) == 0
    expected = "allow  GET https://example.org/\n  rule      policy.yaml:3 (project) allows any method example.org\n"
    assert capsys.readouterr() == (expected, "")


def test_a_deny_names_its_reason_and_the_allow_that_it_overrules(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text("domains: [a.test]\ndeny:\n  - {host: a.test, reason: it leaks}\n")
    assert exit_code(lambda: explain("GET", "https://a.test/")) == 0
    expected = (
        "deny  GET https://a.test/\n"
        "  rule      policy.yaml:3 (project) denies any method a.test\n"
        "  because   it leaks\n"
        "  also      policy.yaml:1 (project) allows any method a.test\n"
        "  to allow  a deny always wins: remove or narrow the entry at policy.yaml:3\n"
    )
    assert capsys.readouterr() == (expected, "")


def test_json_output_has_every_field(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: explain("PUT", "https://api.example.com/v1/x", policy=policy, json=True)) == 0
    nearest = {
        "effect": "allow",
        "rule": "GET, HEAD api.example.com/v1/...",
        "reason": "",
        "file": "policy.yaml",
        "line": 5,
        "layer": "project",
        "differs": ["method PUT"],
    }
    assert json.loads(capsys.readouterr().out) == {
        "policy": ".devcontainer/policy.yaml",
        "effect": "deny",
        "method": "PUT",
        "url": "https://api.example.com/v1/x",
        "rule": None,
        "file": None,
        "line": None,
        "layer": None,
        "reason": "host api.example.com is allowed, method PUT is not",
        "cause": "request",
        "matched": [],
        "notes": [],
        "nearest": [nearest],
        "to_allow": {
            "section": "allow",
            "line": "- PUT https://api.example.com/v1/x",
            "choices": [],
            "services": [],
            "git_command": None,
            "resolve": None,
            "in_the_way": None,
            "without": None,
        },
    }


def test_json_output_names_rule_file_and_line_of_a_deny(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: explain("POST", "https://example.org/admin", policy=policy, json=True)) == 0
    got = json.loads(capsys.readouterr().out)
    assert {key: got[key] for key in ("effect", "rule", "file", "line", "layer", "reason", "cause")} == {
        "effect": "deny",
        "rule": "policy.yaml:7",
        "file": "policy.yaml",
        "line": 7,
        "layer": "project",
        "reason": "denied by policy.yaml:7",
        "cause": "rule",
    }
    assert [rule["line"] for rule in got["matched"]] == [7, 3]


def test_explains_that_an_ambiguous_request_is_denied(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: explain("GET", "https://example.org/a/../b", policy=policy)) == 0
    expected = "deny  GET https://example.org/a/../b\n  because   ambiguous: the path contains a dot segment\n"
    assert capsys.readouterr().out == expected


def test_an_invalid_policy_explains_nothing(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("version: 1\ndomainz: [x]\n")
    assert exit_code(lambda: explain("GET", "https://example.org/")) == 1
    assert capsys.readouterr().err.startswith("error: .devcontainer/policy.yaml:2:1: unknown key 'domainz'\n")


def test_considers_the_given_headers_and_body_size(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = "{methods: [POST], headers: {content-type: application/json}, max_body: 1KiB}"
    policy.write_text(f"domains:\n  - host: a.test\n    rules: [{rule}]\n")
    header = ["Content-Type: application/json"]
    assert exit_code(lambda: explain("POST", "https://a.test/", header=header, body="1000")) == 0
    assert capsys.readouterr().out.startswith("allow  POST https://a.test/\n")
    assert exit_code(lambda: explain("POST", "https://a.test/", body="1MiB")) == 0
    got = capsys.readouterr().out.splitlines()
    assert got[1:4] == [
        "  because   host a.test is allowed, header content-type (none) and a body of 1MiB are not",
        "  nearest   policy.yaml:3 (project) allows POST a.test with content-type: application/json up to 1KiB",
        "              but not header content-type (none) and not a body of 1MiB",
    ]


def test_suggests_no_command_for_a_line_that_needs_yaml_quotes(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: explain("GET", "https://a.example/x:", policy=policy)) == 0
    expected = [
        "  to allow  - 'GET https://a.example/x:'",
        "            under `allow` in .devcontainer/policy.yaml",
        "            then: agent-sandbox proxy reload",
    ]
    assert capsys.readouterr().out.splitlines()[3:] == expected


def test_notes_that_passthrough_allows_all_requests_to_the_host(
    policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.write_text("domains: [{host: a.test, inspect: false}]\n")
    assert exit_code(lambda: explain("GET", "https://a.test/")) == 0
    note = "  note      TLS to this host is not inspected: all requests inside pass"
    assert capsys.readouterr().out.splitlines()[-1] == note


def test_the_suggested_command_names_another_policy_file(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.rename("other policy.yaml")
    assert exit_code(lambda: explain("GET", "https://a.test/", policy=Path("other policy.yaml"))) == 0
    command = "agent-sandbox policy allow 'GET https://a.test/' --policy 'other policy.yaml'"
    lines = capsys.readouterr().out.splitlines()
    assert f"  to allow  {command}" in lines
    assert "            under `allow` in other policy.yaml" in lines


def test_suggests_allowing_npm_for_a_request_from_npm(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("domains: [a.test]\n")
    assert exit_code(lambda: explain("GET", "https://b.test/x", header=["User-Agent: npm/10.2 node/v20"])) == 0
    assert "\n  to allow  for everything that npm fetches: agent-sandbox policy allow npm\n" in capsys.readouterr().out


ONE = "methods: [POST], schemes: [https], path: {exact: '/graphql'}, graphql: {mutation: [addComment]}"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (None, "it depends on the GraphQL operation: pass it with --graphql '{ viewer { login } }'"),
        ("{ viewer @skip(if: true) { id } }", PLAINLY),
        ("mutation { addComment { id } }", f"- {{host: a.test, ports: [443], rules: [{{{ONE}}}]}}"),
    ],
)
def test_explains_a_graphql_request_by_its_operation(
    policy: Path, capsys: pytest.CaptureFixture[str], document: str | None, expected: str
) -> None:
    policy.write_text("domains: [{host: a.test, rules: [{graphql: {query: [viewer]}}]}]\n")
    assert exit_code(lambda: explain("POST", "https://a.test/graphql", graphql=document)) == 0
    assert f"  to allow  {expected}" in capsys.readouterr().out.splitlines()
    assert exit_code(lambda: explain("POST", "https://a.test/graphql", graphql="{ viewer { id } }")) == 0
    assert capsys.readouterr().out.startswith("allow  POST https://a.test/graphql\n")


LISTED = "methods: [POST], schemes: [https], path: {exact: '/mcp'}, mcp: {tools: [delete]}"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (None, "it depends on the MCP message: pass it with --mcp 'tools/call search'"),
        ("tools/call delete", f"- {{host: a.test, ports: [443], rules: [{{{LISTED}}}]}}"),
        ("prompts/list", "- {host: a.test, ports: [443], rules: [{methods: [POST], schemes: [https], path: {exact: "),
    ],
)
def test_explains_an_mcp_request_by_its_message(
    policy: Path, capsys: pytest.CaptureFixture[str], message: str | None, expected: str
) -> None:
    policy.write_text("domains: [{host: a.test, rules: [{mcp: {tools: [search]}}]}]\n")
    assert exit_code(lambda: explain("POST", "https://a.test/mcp", mcp=message)) == 0
    assert f"  to allow  {expected}" in capsys.readouterr().out
    assert exit_code(lambda: explain("POST", "https://a.test/mcp", mcp="tools/call search")) == 0
    assert capsys.readouterr().out.startswith("allow  POST https://a.test/mcp\n")
