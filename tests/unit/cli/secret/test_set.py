import io
import json
import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.images import DIGEST_LABEL, proxy_name
from agent_sandbox.runtime.project.installed import images_of, open_project
from agent_sandbox.runtime.sources.recipes import Recipe, recipes_of
from fake_docker import FakeDocker
from fake_stack import compose_line, with_containers
from run_cli import Ask

VALUE = "correct-horse-battery"
PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"


@pytest.fixture
def running(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Have a proxy that keeps what it is told beside the log of its calls, and a value on our stdin."""
    assert project.exists()
    told = docker.folder / "told"
    docker.says(f"{PROGRAM} secret set", script=f"cat >{told}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{VALUE}\n".encode())))
    return with_containers(docker, proxy="healthy")


def test_a_value_goes_from_stdin_to_the_proxys_and_nowhere_else(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "set", "tracker.token", "--host", "API.example.com", "--host", "b.test")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == (
        "tracker.token is now injected into requests to api.example.com, b.test where the policy says so\n"
        "no rule of the policy injects tracker.token yet\n"
    )
    hosts = "--host api.example.com --host b.test"
    expected = f"exec -T proxy {PROGRAM} secret set tracker.token {hosts} --folder /state/secrets"
    assert running.calls[-1] == f"{compose_line(Path.cwd())} {expected}"
    assert (running.folder / "told").read_text() == VALUE
    left = [file for folder in (Path.cwd(), Path.home()) for file in folder.rglob("*") if file.is_file()]
    assert left
    assert [file for file in (*left, running.folder / "calls") if VALUE.encode() in file.read_bytes()] == []


def test_what_is_wrong_with_name_and_hosts_is_told_before_anything_is_read(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "set", "a b", "--host", "*.example.com")
    assert answer.code == 1
    assert [line for line in answer.err.splitlines() if line.startswith("error")] == [
        "error: NAME: not a secret name: 'a b'",
        "error: --host: `*.example.com` is a wildcard, but a secret is bound to single hosts",
    ]
    assert running.calls == []
    assert sys.stdin.read() == f"{VALUE}\n"


def test_a_secret_without_a_host_is_a_mistake_of_usage(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "set", "a")
    assert answer.code == 2
    assert "Missing option '--host'" in answer.err
    assert running.calls == []


def test_a_value_among_the_words_is_refused_and_not_shown(running: FakeDocker, ask: Ask) -> None:
    answer = ask("secret", "set", "a", "hunter2hunter2", "--host", "a.test")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: a: the value cannot be an argument: it would stay in your shell history\n"
        "  hint: pipe it in, or leave it out to be asked for it\n"
    )
    assert running.calls == []


def test_a_value_that_no_header_could_hold_never_reaches_the_proxy(
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


def test_what_the_proxy_refuses_is_told_as_it_says_it(running: FakeDocker, ask: Ask) -> None:
    running.rules.clear()
    running.says(f"{PROGRAM} secret set", err="secret a: the volume is full\n", code=1)
    with_containers(running, proxy="healthy")
    answer = ask("secret", "set", "a", "--host", "a.test")
    assert (answer.code, answer.err) == (1, "error: secret a: the volume is full\n")


def test_a_project_that_nobody_has_said_yes_to_is_given_nothing(
    running: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    answer = ask("secret", "set", "a", "--host", "a.test")
    assert answer.code == 1
    assert "not trusted yet: " in answer.err
    assert not (running.folder / "told").exists()


def test_a_policy_that_is_broken_is_no_matter_of_a_secret(running: FakeDocker, ask: Ask, project: Path) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text("domains: [")
    answer = ask("secret", "set", "a", "--host", "a.test")
    assert (answer.code, answer.err) == (0, "a is now injected into requests to a.test where the policy says so\n")
    assert running.calls


HELD = Recipe(name="a", hosts=("a.test",), source="env:A_KEY")


def test_a_source_is_remembered_and_its_value_goes_to_the_proxy_alone(
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


def test_a_time_to_live_goes_with_the_source(
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


def test_a_source_that_gives_nothing_is_not_remembered(
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


def test_a_value_that_is_typed_in_replaces_a_source(running: FakeDocker, ask: Ask, project: Path) -> None:
    recipes_of(project, os.environ).add(HELD)
    assert ask("secret", "set", "a", "--host", "a.test").code == 0
    assert (recipes_of(project, os.environ).load(), (running.folder / "told").read_text()) == ((), VALUE)
