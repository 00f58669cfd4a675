import json
from pathlib import Path

import pytest

from fake_docker import FakeDocker
from fake_stack import with_containers
from run_cli import Ask

PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"
HELD = [{"name": "the.key", "hosts": ["api.openai.com"]}, {"name": "other", "hosts": ["a.test"]}]
URL = "https://api.openai.com/v1/models"


@pytest.fixture
def running(project: Path, docker: FakeDocker) -> FakeDocker:
    assert project.exists()
    docker.says(f"{PROGRAM} secret list", out=json.dumps(HELD))
    return with_containers(docker, proxy="healthy", agent="healthy")


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (200, 0, "api.openai.com answers 200"),
        (429, 0, "api.openai.com answers 429"),
        (401, 1, "api.openai.com answers 401: it does not accept the.key"),
    ],
)
def test_prints_the_status_that_the_server_answers(
    running: FakeDocker, ask: Ask, status: int, code: int, said: str
) -> None:
    running.says("exec agent0000000 curl", out=f"a\nbody\n{status} ")
    answer = ask("secret", "test", "the.key")
    assert (answer.code, answer.out, answer.err) == (code, "", f"{said}\n")
    assert " curl --disable " in running.calls[-1]  # the agent can write ~/.curlrc
    assert running.calls[-1].endswith(f" -- {URL}")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            '{"reason": "the proxy has no secret the.key", "hint": "agent-sandbox secret set"}',
            f"error: {URL}: the proxy has no secret the.key\n  hint: agent-sandbox secret set\n",
        ),
        ("no JSON", f"error: {URL}: the proxy denies the request\n  hint: agent-sandbox proxy logs --denied\n"),
    ],
)
def test_a_denial_is_reported_with_its_reason(running: FakeDocker, ask: Ask, body: str, said: str) -> None:
    running.says("exec agent0000000 curl", out=f"{body}\n403 blocked")
    assert (ask("secret", "test", "the.key").code, ask("secret", "test", "the.key").err) == (1, said)


@pytest.mark.parametrize("out", ["", "\n000 ", "what the agent likes"])
def test_a_failed_request_is_reported(running: FakeDocker, ask: Ask, out: str) -> None:
    running.says("exec agent0000000 curl", out=out, err="curl: (28) timed out\n", code=28)
    answer = ask("secret", "test", "the.key")
    what = f"error: {URL}: the request failed: curl: (28) timed out\n  hint: agent-sandbox proxy logs\n"
    assert (answer.code, answer.err) == (1, what)


def test_a_git_token_is_tested_with_the_start_of_a_fetch(running: FakeDocker, ask: Ask, project: Path) -> None:
    running.rules.clear()
    running.says(f"{PROGRAM} secret list", out=json.dumps([{"name": "git.token", "hosts": ["gitlab.com"]}]))
    with_containers(running, proxy="healthy", agent="healthy").says("exec agent0000000 curl", out="x\n200 ")
    git = "git: {access: read, auth: {secret: git.token}}"
    entry = f"{{name: gitlab, repos: [{{name: me/app, access: read}}, me/lib], {git}}}"
    (project / ".devcontainer" / "policy.yaml").write_text(f"version: 1\nservices: [github, {entry}]\n")
    answer = ask("secret", "test", "git.token")
    assert (answer.code, answer.err) == (0, "gitlab.com answers 200\n")
    address = "https://gitlab.com/me/app.git/info/refs?service=git-upload-pack"
    assert "Git-Protocol: version=2" in running.calls[-1]
    assert running.calls[-1].endswith(f" -- {address}")


def test_requests_the_given_url(running: FakeDocker, ask: Ask) -> None:
    running.says("exec agent0000000 curl", out="\n204 ")
    answer = ask("secret", "test", "other", "--url", "https://a.test/ping")
    assert (answer.code, answer.err) == (0, "a.test answers 204\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "other",
            "error: other: no harmless request is known for its hosts\n  hint: name one: --url https://a.test/PATH\n",
        ),
        (
            "none",
            "error: none: the proxy has no such secret\n  hint: agent-sandbox secret list shows which are set\n",
        ),
    ],
)
def test_sends_nothing_without_a_known_url_or_secret(running: FakeDocker, ask: Ask, name: str, said: str) -> None:
    answer = ask("secret", "test", name)
    assert (answer.code, answer.err) == (1, said)
    assert not any("curl" in call for call in running.calls)
