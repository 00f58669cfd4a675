import io
import sys
from pathlib import Path

import pytest

from fake_docker import FakeDocker
from run_cli import Ask
from secret_setup import accepting_proxy, policy, told

HOST, TOKEN = "npm.example.org", "npm_correcthorsebattery"
SENT = "the proxy sends npm.token to {}, to read; in the sandbox, NPM_TOKEN holds a placeholder for it"


def npm(docker: FakeDocker, registry: str) -> None:
    """Have an npm that names a registry."""
    program = docker.folder / "npm"
    program.write_text(f"#!/bin/sh\necho '{registry}'\n")
    program.chmod(0o755)


@pytest.fixture
def running(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Have a proxy that keeps what it is told, and a token on our stdin."""
    assert project.exists()
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY", "YARN_NPM_REGISTRY_SERVER", "YARN_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{TOKEN}\n".encode())))
    return accepting_proxy(docker)


@pytest.mark.parametrize(("rest", "port"), [("/", "443"), (":8443/", "8443"), ("/api/npm/main/", "443")])
def test_private_packages_are_read_with_a_token_that_only_the_proxy_has(
    running: FakeDocker, ask: Ask, project: Path, rest: str, port: str
) -> None:
    npm(running, f"https://{HOST}{rest}")
    path = f"/{rest.partition('/')[2].rstrip('/')}"
    below = f"\n      path: {{prefix: {path}}}" if path != "/" else ""
    policy(project, "version: 1\ndomains:\n  - a.test\n")
    answer = ask("secret", "setup", "npm")
    assert (answer.code, answer.err.splitlines()[-1]) == (0, SENT.format(f"{HOST}{path}"))
    assert policy(project) == (
        f"version: 1\ndomains:\n  - a.test\n  - host: {HOST}\n    ports: [{port}]\n    encoded_slash: true\n"
        "    transform:\n      request:\n        headers:\n          Authorization:\n"
        "            secret: npm.token\n            transform: {type: bearer}\n"
        "            client_shim: {kind: env, name: NPM_TOKEN, prefix: npm_}\n"
        f"    rules:\n    - methods: [GET, HEAD]{below}\n"
    )
    assert told(running) == [f"set npm.token --host {HOST} --folder /state/secrets"]
    assert (running.folder / "told").read_text() == TOKEN


def test_allows_only_paths_below_the_registrys_path(running: FakeDocker, ask: Ask, project: Path) -> None:
    npm(running, f"https://{HOST}/api/npm/main/")
    policy(project, "version: 1\n")
    assert ask("secret", "setup", "npm").code == 0

    def is_allowed(path: str) -> bool:
        return ask("policy", "explain", f"GET https://{HOST}{path}").out.startswith("allow ")

    assert [*map(is_allowed, ("/api/npm/main/a", "/api/npm/main/@a%2Fb"))] == [True, True]
    others = ("/api/v4/user", "/api/npm/mainx", "/", "/api/npm/main/..%2F..%2Fv4/user", "/api/npm/main%2F..%2Fx")
    assert [path for path in others if is_allowed(path)] == []


@pytest.mark.parametrize(
    ("registry", "what"),
    [
        ("http://npm.example.org/", "npm's registry is http://npm.example.org"),
        ("", "npm on this machine names no registry"),
    ],
)
def test_without_a_registry_over_https_nothing_changes(
    running: FakeDocker, ask: Ask, project: Path, registry: str, what: str
) -> None:
    npm(running, registry)
    before = policy(project, "version: 1\ndomains:\n  - a.test\n")
    answer = ask("secret", "setup", "npm")
    assert (answer.code, policy(project), told(running)) == (1, before, [])
    hint = "npm config set registry https://..., or add the entry by hand: agent-sandbox secret set --help"
    assert answer.err == f"error: npm: {what}\n  hint: {hint}\n"


def test_setup_with_a_source_works_before_the_first_up(
    project: Path, docker: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm(docker, f"https://{HOST}/")
    docker.says("ps --all")
    monkeypatch.setenv("TOKEN", TOKEN)
    policy(project, "version: 1\ndomains:\n  - a.test\n")
    answer = ask("secret", "setup", "npm", "--from", "env:TOKEN")
    assert (answer.code, "npm.token will be fetched from its source by agent-sandbox up" in answer.err) == (0, True)


def test_a_registry_that_the_project_names_gets_no_token(running: FakeDocker, ask: Ask, project: Path) -> None:
    npm(running, f"https://{HOST}/")
    policy(project, "version: 1\ndomains:\n  - a.test\n")
    (project / ".npmrc").write_text("registry=https://evil.example.org/\n")
    (project / "package-lock.json").write_text('{"resolved": "https://evil.example.org/a.tgz"}')
    assert ask("secret", "setup", "npm").code == 0
    assert told(running) == [f"set npm.token --host {HOST} --folder /state/secrets"]
