import json
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.commands import test as module
from fake_docker import FakeDocker
from fake_stack import with_containers
from run_cli import Ask

PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"
HELD = [{"name": "the.key", "hosts": ["api.openai.com"]}, {"name": "other", "hosts": ["a.test"]}]
URL = "https://api.openai.com/v1/models"


LOGGED: dict[str, object] = {
    "time": "2026-01-31T10:00:00.000Z",
    "event": "request",
    "decision": "allow",
    "host": "api.openai.com",
}
LOGGED |= {"scheme": "https", "port": 443, "method": "GET", "path": "/v1/models"}


def logged(*secrets: str, headers: str = "accept, secret-test-00ff", status: int | None = 200, **fields: object) -> str:
    """Return a line of the audit log for a request with these secrets."""
    used = [{"secret": name, "kind": "bearer", "source": "file", "age_s": 1} for name in secrets]
    return json.dumps(LOGGED | {"headers": headers, "secrets": used, "status": status} | fields) + "\n"


@pytest.fixture
def running(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    assert project.exists()
    monkeypatch.setattr(module, "token_hex", lambda _length: "00ff")
    monkeypatch.setattr(module, "sleep", lambda _seconds: None)
    docker.says(f"{PROGRAM} secret list", out=json.dumps(HELD))
    return with_containers(docker, proxy="healthy", agent="healthy")


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (200, 0, "200"),
        (302, 0, "302"),
        (429, 0, "429"),
        (401, 1, "401: it does not accept the.key"),
        (403, 1, "403: it does not accept the.key"),
        (404, 1, "404: that does not show whether it accepts the.key"),
        (503, 1, "503: that does not show whether it accepts the.key"),
    ],
)
def test_prints_the_status_that_the_server_answers_whatever_curl_says(
    running: FakeDocker, ask: Ask, status: int, code: int, said: str
) -> None:
    running.says("exec agent0000000 curl", out="200 \n").says("log --file", out=logged("the.key", status=status))
    answer = ask("secret", "test", "the.key")
    assert (answer.code, answer.out) == (code, "")
    assert answer.err == f"the.key was sent to api.openai.com, which answers {said}\n"
    (call,) = (call for call in running.calls if " curl --disable " in call)  # the agent can write ~/.curlrc
    assert call.endswith(f" -H secret-test-00ff: 1 -- {URL}")


ANSWERS = "the server answers 200, but the.key was not sent"
UNNAMED = "  hint: no rule of the policy injects the.key yet; they inject its.key (docs/secrets.md)\n"
UNLOGGED = (
    "whether the.key was sent is unknown: the audit log does not show the request\n"
    "  hint: with `inspect: false`, the proxy cannot inject secrets\n"
)
RULE = "agent-sandbox policy explain URL shows the rule that allows the request"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (logged(), f"{ANSWERS}\n{UNNAMED}"),
        (logged("other", "an.other"), f"{ANSWERS}; other, an.other was sent instead\n{UNNAMED}"),
        (logged("the.key", headers="accept") + logged("the.key", headers="secret-test-00ffee"), UNLOGGED),
        (logged("the.key", host="a.test") + logged("the.key", path="/") + logged("the.key", method="HEAD"), UNLOGGED),
        (logged("the.key", scheme="http") + logged("the.key", port=8443), UNLOGGED),
        (logged("the.key", status=None), "the request failed: no answer\n  hint: agent-sandbox proxy logs\n"),
        (
            logged("the.key", status=502, reason="cannot connect"),
            "the request failed: cannot connect\n  hint: agent-sandbox proxy logs\n",
        ),
    ],
)
def test_fails_if_the_secret_was_not_sent(running: FakeDocker, ask: Ask, project: Path, lines: str, said: str) -> None:
    running.says("exec agent0000000 curl").says("log --file", out=lines)
    with_rule(project, "api.openai.com", "its.key")
    answer = ask("secret", "test", "the.key")
    assert (answer.code, answer.err) == (1, f"error: {URL}: {said}")


@pytest.mark.parametrize(
    ("host", "hint"),
    [("a.test", RULE), ("b.test", "the policy injects other for b.test, but not for a.test")],
)
def test_says_where_the_policy_injects_a_secret_that_was_not_sent(
    running: FakeDocker, ask: Ask, project: Path, host: str, hint: str
) -> None:
    running.says("exec agent0000000 curl", out="")
    running.says("log --file", out=logged(host="a.test", path="/ping", status=404))
    with_rule(project, host, "other")
    answer = ask("secret", "test", "other", "--url", "https://a.test/ping")
    what = "the server answers 404, but other was not sent"
    assert (answer.code, answer.err) == (1, f"error: https://a.test/ping: {what}\n  hint: {hint}\n")


def with_rule(project: Path, host: str, secret: str) -> None:
    """Write a policy that injects one secret."""
    inject = f"{{request: {{headers: {{Authorization: {{secret: {secret}, transform: {{type: bearer}}}}}}}}}}"
    policy = f"version: 1\ndomains: [{{host: {host}, transform: {inject}}}]\n"
    (project / ".devcontainer" / "policy.yaml").write_text(policy)


def test_waits_for_the_record_of_the_request(running: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def write(seconds: float) -> None:
        pauses.append(seconds)
        (running.folder / "log").write_text(logged("the.key"))

    monkeypatch.setattr(module, "sleep", write)
    running.says("exec agent0000000 curl")
    running.says("log --file", script=f"cat {running.folder / 'log'} 2>/dev/null")
    assert (ask("secret", "test", "the.key").code, len(pauses)) == (0, 1)


def test_a_denial_is_reported_with_its_reason(running: FakeDocker, ask: Ask) -> None:
    denial = logged(decision="deny", reason="the proxy has no secret \x1b[2Jthe.key", status=403)
    running.says("exec agent0000000 curl", out="200 \n").says("log --file", out=denial)
    said = f"error: {URL}: the proxy has no secret \\x1b[2Jthe.key\n  hint: agent-sandbox policy explain {URL}\n"
    assert (ask("secret", "test", "the.key").code, ask("secret", "test", "the.key").err) == (1, said)


def test_a_failed_request_is_reported(running: FakeDocker, ask: Ask) -> None:
    running.says("exec agent0000000 curl", out="200 \n", err="curl: (28) timed out\n", code=28)
    answer = ask("secret", "test", "the.key")
    what = f"error: {URL}: the request failed: curl: (28) timed out\n  hint: agent-sandbox proxy logs\n"
    assert (answer.code, answer.err) == (1, what)


def test_a_git_token_is_tested_with_the_start_of_a_fetch(running: FakeDocker, ask: Ask, project: Path) -> None:
    running.rules.clear()
    running.says(f"{PROGRAM} secret list", out=json.dumps([{"name": "git.token", "hosts": ["gitlab.com"]}]))
    running.says("log --file", out=logged("git.token", host="gitlab.com", path="/me/app.git/info/refs"))
    with_containers(running, proxy="healthy", agent="healthy").says("exec agent0000000 curl")
    git = "git: {access: read, auth: {secret: git.token}}"
    entry = f"{{name: gitlab, repos: [{{name: me/app, access: read}}, me/lib], {git}}}"
    (project / ".devcontainer" / "policy.yaml").write_text(f"version: 1\nservices: [github, {entry}]\n")
    answer = ask("secret", "test", "git.token")
    assert (answer.code, answer.err) == (0, "git.token was sent to gitlab.com, which answers 200\n")
    address = "https://gitlab.com/me/app.git/info/refs?service=git-upload-pack"
    (call,) = (call for call in running.calls if " curl " in call)
    assert "Git-Protocol: version=2" in call
    assert call.endswith(f" -- {address}")


def test_requests_the_given_url(running: FakeDocker, ask: Ask) -> None:
    running.says("exec agent0000000 curl", out="")
    running.says("log --file", out=logged("other", host="a.test", path="/ping", status=204))
    answer = ask("secret", "test", "other", "--url", "https://a.test/ping")
    assert (answer.code, answer.err) == (0, "other was sent to a.test, which answers 204\n")


@pytest.mark.parametrize("asked", ["/ping", "/ping?a=1"])
def test_says_that_the_query_of_the_given_url_is_not_compared(running: FakeDocker, ask: Ask, asked: str) -> None:
    running.says("exec agent0000000 curl", out="")
    running.says("log --file", out=logged("other", host="a.test", path="/ping"))
    answer = ask("secret", "test", "other", "--url", f"https://a.test{asked}")
    note = "note: the audit log has no queries, so a program in the sandbox could have sent another one\n"
    said = f"other was sent to a.test, which answers 200\n{note if '?' in asked else ''}"
    assert (answer.code, answer.err) == (0, said)


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
    url = ("--url", "https://a.test/") if name == "none" else ()
    answer = ask("secret", "test", name, *url)
    assert (answer.code, answer.err) == (1, said)
    assert not any("curl" in call for call in running.calls)
