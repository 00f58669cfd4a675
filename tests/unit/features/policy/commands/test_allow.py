from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands.allow import allow
from fake_docker import FakeDocker
from fake_stack import with_containers

APPLY = "then: agent-sandbox proxy reload\n"
NEXT = "no sandbox runs: the next agent-sandbox up loads it\n"
WHERE = ".devcontainer/policy.yaml"


def test_adds_a_request_as_a_line_under_allow(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("get https://a.test/*")) == 0
    assert policy.read_text() == f"{before}allow:\n  - GET https://a.test/*\n"
    assert capsys.readouterr() == (f"{WHERE}:9: added `- GET https://a.test/*` under `allow`\n", NEXT)
    assert exit_code(lambda: allow("POST", "https://a.test/:", policy=policy)) == 0
    assert capsys.readouterr() == (f'{WHERE}:10: added `- "POST https://a.test/:"` under `allow`\n', APPLY)


def test_names_the_command_that_starts_a_stopped_stack_with_the_given_path(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says("ps --all")
    assert exit_code(lambda: allow("a.test", path=project)) == 0
    assert capsys.readouterr().err == f"no sandbox runs: the next agent-sandbox up --path {project} loads it\n"
    assert exit_code(lambda: allow("b.test", path=project, no_reload=True)) == 0
    assert capsys.readouterr().err == f"then: agent-sandbox proxy reload --path {project}\n"


@pytest.mark.parametrize(
    "asked",
    [
        "POST https://git.test/o/n.git/git-receive-pack",
        "GET https://git.test/o/n.git/info/refs?service=git-receive-pack",
    ],
)
def test_allowing_a_git_push_adds_rules_for_both_of_its_requests(
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
    assert capsys.readouterr() == (told, NEXT)


def test_a_dry_run_shows_the_difference_and_changes_nothing(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("GET https://a.test/", dry_run=True)) == 0
    expected = (
        f"--- a/{WHERE}\n+++ b/{WHERE}\n@@ -5,3 +5,5 @@\n     rules: [{{methods: [GET], path: {{prefix: /v1/}}}}]\n"
        " deny:\n   - POST https://example.org/admin\n+allow:\n+  - GET https://a.test/\n"
    )
    assert (capsys.readouterr(), policy.read_text()) == ((expected, ""), before)


def test_names_the_rule_that_already_allows_the_request(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("GET https://example.org/a")) == 0
    expected = "GET https://example.org/a is already allowed, by policy.yaml:3: any method example.org\n"
    assert (capsys.readouterr(), policy.read_text()) == ((expected, ""), before)


def test_rejects_a_request_that_a_deny_matches_completely(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = policy.read_text()
    assert exit_code(lambda: allow("POST https://example.org/admin")) == 1
    expected = (
        f"error: {WHERE}: POST https://example.org/admin is denied by policy.yaml:7"
        " (POST https://example.org/admin), and a deny always wins\n"
        "  hint: narrow or remove that entry; nothing was changed\n"
    )
    assert (capsys.readouterr(), policy.read_text()) == (("", expected), before)


def test_notes_a_deny_that_matches_part_of_the_request(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("deny: [POST https://a.test/admin]\n")
    assert exit_code(lambda: allow("POST https://a.test/*")) == 0
    told = "part of it is still denied, by policy.yaml:1: POST https://a.test/admin\n"
    assert capsys.readouterr() == (f"{WHERE}:3: added `- POST https://a.test/*` under `allow`\n", told + NEXT)


def test_a_route_of_a_web_framework_is_added_with_a_warning(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy.write_text("version: 1\n")
    assert exit_code(lambda: allow("GET https://a.test/users/{id}")) == 0
    told = "agent-sandbox policy allow 'GET https://a.test/users/*'"
    assert capsys.readouterr() == (
        f"{WHERE}:3: added `- GET https://a.test/users/{{id}}` under `allow`\n",
        f"careful: it matches only this text; for any value there: {told}\n{NEXT}",
    )


def test_notes_a_rule_that_asks_about_part_of_the_request(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = "domains: [{host: a.test, rules: [{methods: [DELETE], path: {exact: /x}, ask: true}]}]\n"
    policy.write_text(before)
    assert exit_code(lambda: allow("a.test")) == 0
    told = "a person is still asked about part of it, by policy.yaml:1: DELETE a.test/x\n"
    assert told in capsys.readouterr().err
    policy.write_text(before)
    assert exit_code(lambda: allow("POST https://a.test/x")) == 0
    assert "a person" not in capsys.readouterr().err


def test_rejects_a_url_without_a_method_and_suggests_get(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.exists()
    assert exit_code(lambda: allow("https://a.test/")) == 1
    expected = (
        "error: https://a.test/: not `METHOD URL`: 'https://a.test/'\n  hint: add a method: `GET https://a.test/`\n"
    )
    assert capsys.readouterr() == ("", expected)


@pytest.mark.parametrize("asked", ["GET https://a.test/x", "GET https://example.org/x"])
def test_the_running_proxy_loads_the_policy_even_if_the_request_is_already_allowed(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    docker.says("agent_sandbox.proxy reload", out='{"ok": true, "digest": "0123456789abcdef"}')
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: allow(asked)) == 0
    assert ("- GET https://a.test/x\n" in (project / WHERE).read_text()) is (asked == "GET https://a.test/x")
    assert capsys.readouterr().err == "policy loaded, digest 0123456789ab\n"


def test_an_invalid_policy_of_the_proxy_is_an_error_after_the_edit(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says("agent_sandbox.proxy reload", out='{"ok": false, "problems": ["services/x.yaml: not valid"]}', code=1)
    with_containers(docker, proxy="healthy")
    assert exit_code(lambda: allow("a.test")) == 1
    assert "domains: [example.org, a.test]\n" in (project / WHERE).read_text()
    assert capsys.readouterr().err == (
        "error: services/x.yaml: not valid\n"
        "error: nothing was changed: the previous policy stays in force until the proxy restarts\n"
    )


@pytest.mark.parametrize("option", ["dry_run", "no_reload", "policy"])
def test_loads_nothing_in_a_dry_run_without_reload_or_for_another_file(
    project: Path, docker: FakeDocker, option: str
) -> None:
    options = {option: project / WHERE if option == "policy" else True}
    assert exit_code(lambda: allow("GET https://a.test/x", **options)) == 0  # type: ignore[arg-type] # by its name
    assert docker.calls == []
