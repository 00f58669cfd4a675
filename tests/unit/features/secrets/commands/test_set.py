import io
import json
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.images import DIGEST_LABEL, proxy_name
from agent_sandbox.project.installed import images_of, open_project
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers
from run_cli import Ask

VALUE = "correct-horse-battery"
PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"


@pytest.fixture
def running(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Fake a proxy that stores the value it gets beside the log of its calls; put a value on stdin."""
    assert project.exists()
    told = docker.folder / "told"
    docker.says(f"{PROGRAM} secret set", script=f"cat >{told}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{VALUE}\n".encode())))
    return with_containers(docker, proxy="healthy")


def test_passes_the_value_from_stdin_to_the_proxy_and_stores_it_nowhere_else(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "set", "tracker.token", "--host", "API.example.com", "--host", "b.test")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == (
        "tracker.token is now injected into requests to api.example.com, b.test where the policy says so\n"
        "no rule of the policy injects tracker.token yet (docs/secrets.md)\n"
    )
    hosts = "--host api.example.com --host b.test"
    expected = f"exec -T proxy {PROGRAM} secret set tracker.token {hosts} --folder /state/secrets"
    assert running.calls[-1] == f"{compose_line(Path.cwd())} {expected}"
    assert (running.folder / "told").read_text() == VALUE
    left = [file for folder in (Path.cwd(), Path.home()) for file in folder.rglob("*") if file.is_file()]
    assert left
    assert [file for file in (*left, running.folder / "calls") if VALUE.encode() in file.read_bytes()] == []


def test_rejects_invalid_names_and_hosts_before_reading_stdin(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "set", "a b", "--host", "*.example.com")
    assert answer.code == 1
    assert [line for line in answer.err.splitlines() if line.startswith("error")] == [
        "error: NAME: not a secret name: 'a b'",
        "error: --host: `*.example.com` is a wildcard, but a secret is bound to single hosts",
    ]
    assert running.calls == []
    assert sys.stdin.read() == f"{VALUE}\n"


def test_a_missing_host_is_a_usage_error(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "set", "a")
    assert answer.code == 2
    assert "Missing option '--host'" in answer.err
    assert running.calls == []


def test_rejects_a_value_as_an_argument_without_printing_it(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "set", "a", "hunter2hunter2", "--host", "a.test")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: a: the value cannot be an argument: it would stay in your shell history\n"
        "  hint: pipe it in, or leave it out to be asked for it\n"
    )
    assert running.calls == []


def test_a_value_that_is_too_short_does_not_reach_the_proxy(
    running: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hunter2\n")))
    answer = ask("secret", "set", "a", "--host", "a.test")
    assert (answer.code, answer.err.splitlines()[0]) == (1, "error: a: it has fewer than 8 characters")
    assert "hunter2" not in answer.out + answer.err
    assert not (running.folder / "told").exists()


def test_a_value_can_be_set_before_the_first_up(running: FakeDocker, ask: Ask) -> None:
    running.rules.clear()
    current = {image.name: image.digest for image in images_of(open_project(None, cwd=Path.cwd()))}
    labels = {"tags": [proxy_name()], "labels": {DIGEST_LABEL: current[proxy_name()]}}
    running.says("run --rm", script=f"cat >{running.folder / 'told'}")
    running.says("ps --all").says("image inspect", out=json.dumps(labels)).says("image prune")
    answer = ask("secret", "set", "a", "--host", "a.test")
    assert (answer.code, answer.out) == (0, "")
    own = "run --rm --no-deps -T proxy secret set a --host a.test --folder /state/secrets"
    assert running.calls[-1] == f"{compose_line(Path.cwd())} {own}"
    assert (running.folder / "told").read_text() == VALUE


def test_set_fails_without_reading_stdin_if_the_proxy_cannot_be_built(
    project: Path, docker: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.exists()
    docker.says("ps --all").says("image inspect", err="Error: No such image: x", code=1)
    docker.says("build", err="ERROR: no space left\n", code=1)
    monkeypatch.setattr(sys, "stdin", None)
    assert ask("secret", "set", "a", "--host", "a.test").code == 1


def test_prints_the_error_of_the_proxy(running: FakeDocker, ask: Ask) -> None:
    running.rules.clear()
    running.says(f"{PROGRAM} secret set", err="secret a: the volume is full\n", code=1)
    with_containers(running, proxy="healthy")
    answer = ask("secret", "set", "a", "--host", "a.test")
    assert (answer.code, answer.err) == (1, "error: secret a: the volume is full\n")


def test_a_project_that_is_not_trusted_gets_no_secret(
    running: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    answer = ask("secret", "set", "a", "--host", "a.test")
    assert answer.code == 1
    assert "not trusted yet: " in answer.err
    assert not (running.folder / "told").exists()


def test_sets_a_secret_even_if_the_policy_is_invalid(running: FakeDocker, ask: Ask, project: Path) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("domains: [")
    answer = ask("secret", "set", "a", "--host", "a.test")
    assert (answer.code, answer.err) == (0, "a is now injected into requests to a.test where the policy says so\n")
    assert running.calls


HELD = Recipe(name="a", hosts=("a.test",), source="env:A_KEY")


def test_stores_the_source_and_passes_its_value_only_to_the_proxy(
    running: FakeDocker, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "the value of it")
    answer = ask("secret", "set", "a", "--host", "a.test", "--from", "env:A_KEY")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("a is now injected into requests to a.test where the policy says so\n")
    assert running.calls[-1].endswith("secret set a --host a.test --source env --folder /state/secrets")
    assert (running.folder / "told").read_text() == "the value of it"
    assert recipes_of(project, os.environ).load() == (HELD,)
    left = [file for folder in (project, Path.home()) for file in folder.rglob("*") if file.is_file()]
    assert [file for file in (*left, running.folder / "calls") if b"the value of it" in file.read_bytes()] == []


def test_stores_the_time_to_live_with_the_source(
    running: FakeDocker, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "the value of it")
    assert ask("secret", "set", "a", "--host", "a.test", "--from", "env:A_KEY", "--ttl", "8h").code == 0
    assert running.calls[-1].endswith("secret set a --host a.test --source env --ttl 28800 --folder /state/secrets")
    assert recipes_of(project, os.environ).load() == (replace(HELD, ttl=28_800.0),)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ("--ttl", "8h"),
            "a value without a source cannot be fetched again\n  hint: use it with --from, or leave it out",
        ),
        (
            ("--from", "env:A_KEY", "--ttl", "1s"),
            (
                "not a time to live: '1s'\n"
                "  hint: write a number with a unit, such as 30m, 8h or 7d; at least 30s, at most 365d"
            ),
        ),
    ],
)
def test_an_invalid_time_to_live_is_an_error(running: FakeDocker, ask: Ask, more: tuple[str, ...], said: str) -> None:
    assert ask("secret", "set", "a", "--host", "a.test", *more).err == f"error: --ttl: {said}\n"
    assert running.calls == []


def test_does_not_store_a_source_that_gives_no_value(
    running: FakeDocker, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A_KEY", raising=False)
    answer = ask("secret", "set", "a", "--host", "a.test", "--from", "env:A_KEY")
    assert answer.code == 1
    assert answer.err.startswith("error: env:A_KEY: the source of a gives no value: the variable A_KEY is not set\n")
    assert (recipes_of(project, os.environ).load(), (running.folder / "told").exists()) == ((), False)


def test_a_source_can_be_set_before_the_first_up(
    project: Path, docker: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_KEY", "the value of it")
    docker.says("ps --all")
    answer = ask("secret", "set", "a", "--host", "a.test", "--from", "env:A_KEY")
    assert (answer.code, answer.err) == (0, "a will be fetched from its source by agent-sandbox up\n")
    assert recipes_of(project, os.environ).load() == (HELD,)


def test_a_value_from_stdin_replaces_a_source(running: FakeDocker, ask: Ask, project: Path) -> None:
    recipes_of(project, os.environ).add(HELD)
    assert ask("secret", "set", "a", "--host", "a.test").code == 0
    assert (recipes_of(project, os.environ).load(), (running.folder / "told").read_text()) == ((), VALUE)
