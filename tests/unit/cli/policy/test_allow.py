from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.cli.policy.allow import allow
from fake_docker import FakeDocker
from fake_stack import with_containers

APPLY = "then: agent-sandbox proxy reload\n"
WHERE = ".devcontainer/policy.yaml"


def test_a_request_becomes_a_line_of_the_policy(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("get https://a.test/*")) == 0
    assert policy.read_text() == f"{before}allow:\n  - GET https://a.test/*\n"
    assert capsys.readouterr() == (f"{WHERE}:9: added `- GET https://a.test/*` under `allow`\n", APPLY)
    assert exit_code(lambda: allow("POST", "https://a.test/:", policy=policy)) == 0
    assert capsys.readouterr().out == f'{WHERE}:10: added `- "POST https://a.test/:"` under `allow`\n'


def test_the_next_step_names_the_stack_that_the_command_named(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: allow("a.test", path=project)) == 0
    assert capsys.readouterr().err == f"then: agent-sandbox proxy reload --path {project}\n"


@pytest.mark.parametrize(
    "asked",
    [
        "POST https://git.test/o/n.git/git-receive-pack",
        "GET https://git.test/o/n.git/info/refs?service=git-receive-pack",
    ],
)
def test_a_push_gets_the_rules_for_both_of_its_requests(
    policy: Path, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    before = policy.read_text()
    post, get = (
        "POST https://git.test/o/n.git/git-receive-pack",
        "GET https://git.test/o/n.git/info/refs?service=git-receive-pack",
    )
    assert exit_code(lambda: allow(asked, dry_run=True)) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("+ ")] == [
        f"+  - {post}",
        f"+  - {get}",
    ]
    assert exit_code(lambda: allow(asked)) == 0
    assert policy.read_text() == f"{before}allow:\n  - {post}\n  - {get}\n"
    told = f"{WHERE}:9: added `- {post}` under `allow`\n{WHERE}:10: added `- {get}` under `allow`\n"
    assert capsys.readouterr() == (told, APPLY)


def test_a_dry_run_shows_the_difference_and_changes_nothing(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("GET https://a.test/", dry_run=True)) == 0
    expected = (
        f"--- a/{WHERE}\n+++ b/{WHERE}\n@@ -5,3 +5,5 @@\n     rules: [{{methods: [GET], path: {{prefix: /v1/}}}}]\n"
        " deny:\n   - POST https://example.org/admin\n+allow:\n+  - GET https://a.test/\n"
    )
    assert (capsys.readouterr(), policy.read_text()) == ((expected, ""), before)


def test_what_is_allowed_already_says_by_which_rule(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("GET https://example.org/a")) == 0
    expected = "GET https://example.org/a is already allowed, by policy.yaml:3: any method example.org\n"
    assert (capsys.readouterr(), policy.read_text()) == ((expected, ""), before)


def test_a_deny_that_takes_everything_refuses_it(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("POST https://example.org/admin")) == 1
    expected = (
        f"error: {WHERE}: POST https://example.org/admin is denied by policy.yaml:7"
        " (POST https://example.org/admin), and a deny always wins\n"
        "  hint: narrow or remove that entry; nothing was changed\n"
    )
    assert (capsys.readouterr(), policy.read_text()) == (("", expected), before)


def test_a_deny_that_takes_a_part_is_told(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("deny: [POST https://a.test/admin]\n")
    assert exit_code(lambda: allow("POST https://a.test/*")) == 0
    told = "part of it is still denied, by policy.yaml:1: POST https://a.test/admin\n"
    assert capsys.readouterr() == (f"{WHERE}:3: added `- POST https://a.test/*` under `allow`\n", told + APPLY)


def test_a_route_of_a_web_framework_is_added_with_a_warning(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("version: 1\n")
    assert exit_code(lambda: allow("GET https://a.test/users/{id}")) == 0
    told = "agent-sandbox policy allow 'GET https://a.test/users/*'"
    assert capsys.readouterr() == (
        f"{WHERE}:3: added `- GET https://a.test/users/{{id}}` under `allow`\n",
        f"careful: it matches only this text; for any value there: {told}\n{APPLY}",
    )


def test_a_rule_that_asks_about_a_part_is_told(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = "domains: [{host: a.test, rules: [{methods: [DELETE], path: {exact: /x}, ask: true}]}]\n"
    policy.write_text(before)
    assert exit_code(lambda: allow("a.test")) == 0
    told = "a person is still asked about part of it, by policy.yaml:1: DELETE a.test/x\n"
    assert told in capsys.readouterr().err
    policy.write_text(before)
    assert exit_code(lambda: allow("POST https://a.test/x")) == 0
    assert "a person" not in capsys.readouterr().err


def test_what_is_no_rule_says_how_to_write_one(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.exists()
    assert exit_code(lambda: allow("https://a.test/")) == 1
    expected = (
        "error: https://a.test/: not `METHOD URL`: 'https://a.test/'\n  hint: add a method: `GET https://a.test/`\n"
    )
    assert capsys.readouterr() == ("", expected)


def test_reload_loads_the_added_rule_into_the_running_proxy(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says("agent_sandbox.proxy reload", out='{"ok": true, "digest": "0123456789abcdef"}')
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: allow("GET https://a.test/x", reload=True)) == 0
    assert "- GET https://a.test/x\n" in (project / WHERE).read_text()
    assert capsys.readouterr().err == "policy loaded, digest 0123456789ab\n"


def test_reload_of_a_rule_that_is_there_already_still_loads_it(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("agent_sandbox.proxy reload", out='{"ok": true, "digest": "0123456789abcdef"}')
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: allow("GET https://example.org/x", reload=True)) == 0
    assert capsys.readouterr().err == "policy loaded, digest 0123456789ab\n"


def test_dry_run_with_reload_loads_nothing(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    assert exit_code(lambda: allow("GET https://a.test/x", dry_run=True, reload=True)) == 0
    assert docker.calls == []


def test_reload_is_refused_for_another_policy_file(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("GET https://a.test/", policy=policy, reload=True)) == 1
    expected = "error: --policy: --reload loads the project's policy\n  hint: leave out --policy or --reload\n"
    assert (capsys.readouterr(), policy.read_text()) == (("", expected), before)
