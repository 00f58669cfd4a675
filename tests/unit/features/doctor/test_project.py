import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.protocol import Machine
from agent_sandbox.engines.result import CheckResult, Status, fail, ok, warn
from agent_sandbox.features.doctor import project as checks
from agent_sandbox.features.doctor.project import firewall
from agent_sandbox.features.watch.webhook_outcome import Failure, save_failure
from agent_sandbox.project.installed import images_of, read_project
from agent_sandbox.resources import data_root
from fake_docker import FakeDocker
from fake_refusals import refusals_said
from fake_stack import trust, with_containers, write_stack_file

AGENT = known_agents(data_root() / "templates")[0]
PLACES = [(["tcp", "192.0.2.1", 22], 80_000, 3), (["udp", "192.0.2.1", 53], 80_000, 1)]
NOT_COUNTED = warn(
    "firewall",
    "what the firewall refuses is not counted",
    "agent-sandbox logs firewall says why, and agent-sandbox up updates a stack of an earlier version",
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with a project as init leaves it."""
    name = write_stack_file(tmp_path, AGENT)
    (tmp_path / ".devcontainer" / "policy.yaml").write_text(f"version: 1\nservices: [{AGENT}]\n")
    (tmp_path / ".env").write_text(f"COMPOSE_FILE=.devcontainer/docker-compose.yml\nCOMPOSE_PROJECT_NAME={name}\n")
    trust(tmp_path)
    return Machine(path=tmp_path, cwd=tmp_path, driver=DRIVER)


@pytest.mark.parametrize("check", [checks.templates, checks.stack, checks.policy])
def test_checks_pass_on_a_project_as_init_leaves_it(machine: Machine, check: Callable[[Machine], CheckResult]) -> None:
    assert check(machine).status is Status.OK


def test_a_copied_project_is_a_failure(machine: Machine) -> None:
    root, name = machine.project.root, machine.project.name
    (root / ".devcontainer").rename(root / "copy")
    (root / "other").mkdir()
    (root / "copy").rename(root / "other" / ".devcontainer")
    found = checks.stack(Machine(path=root / "other", cwd=root, driver=DRIVER))
    assert (found.status, found.what) == (
        Status.FAIL,
        f"{name} belongs to another directory: this project was moved, copied or cloned",
    )


def test_an_untrusted_compose_file_is_a_warning(machine: Machine) -> None:
    file = machine.project.root / ".devcontainer" / "docker-compose.yml"
    file.write_text(f"{file.read_text()}# mine\n")
    what = ".devcontainer/docker-compose.yml is not trusted"
    assert checks.stack(machine) == warn("stack", what, "agent-sandbox trust shows it and asks")


def test_the_rules_of_a_policy_are_counted(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "missing_services", lambda *_: ())
    machine.project.policy.write_text("version: 1\nallow: [GET https://a.test/x]\n")
    assert re.fullmatch(r"1 rule, digest [0-9a-f]{12}", checks.policy(machine).what)


def test_a_policy_that_denies_everything_is_a_warning(machine: Machine) -> None:
    machine.project.policy.write_text("version: 1\n")
    assert checks.policy(machine).status is Status.WARN


def test_a_policy_that_the_proxy_cannot_read_is_a_failure(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = machine.project.policy
    what = "the proxy runs as another user, cannot read these and denies everything: "
    monkeypatch.setattr(Machine, "is_local", True)
    policy.chmod(0o640)
    assert checks.policy(machine) == fail("policy", f"{what}{policy}", f"chmod -R o+rX {shlex.quote(str(policy))}")
    policy.parent.chmod(0o750)
    assert checks.policy(machine).hint == f"chmod -R o+rX {shlex.quote(str(policy.parent))}"
    monkeypatch.setattr(Machine, "is_local", False)
    assert checks.policy(machine).status is Status.OK
    policy.parent.chmod(0o755)
    policy.chmod(0o644)


def test_a_layer_that_the_proxy_cannot_read_is_a_failure_if_the_stack_mounts_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, compose = (
        machine.project.root / "it's" / "agent-sandbox",
        machine.project.policy.with_name("docker-compose.yml"),
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    monkeypatch.setattr(Machine, "is_local", True)
    folder.mkdir(parents=True)
    layer = folder / "policy.yaml"
    layer.write_text("deny: [a.test]\n")
    layer.chmod(0o600)
    assert checks.policy(machine).status is Status.WARN  # the stack was made without it
    said = compose.read_text()
    compose.write_text(said.replace("proxy: {", f'proxy: {{volumes: [{{source: "{folder}", target: /layers/user}}], '))
    trust(machine.project.root)
    what = f"the proxy runs as another user, cannot read these and denies everything: {layer}"
    assert checks.policy(machine) == fail("policy", what, f"chmod o+rX {shlex.quote(str(layer))}")
    folder.chmod(0o700)
    both = f"{shlex.quote(str(folder))} {shlex.quote(str(layer))}"
    assert checks.policy(machine).hint == f"chmod o+rX {both}"
    folder.chmod(0o755)
    layer.chmod(0o644)
    assert checks.policy(machine).status is Status.OK


def test_a_policy_without_the_service_of_its_agent_is_a_warning(machine: Machine) -> None:
    machine.project.policy.write_text("version: 1\ndomains: [example.org]\n")
    told = f"no policy names the service `{AGENT}`, which {AGENT} needs for its API"
    assert checks.policy(machine) == warn("policy", f"{told}: agent-sandbox policy allow {AGENT}")


def test_images_are_missing_outdated_or_current(machine: Machine, docker: FakeDocker) -> None:
    wanted = images_of(read_project(machine.project.root))
    current, old = ({"tags": [i.name], "labels": {"agent-sandbox.digest": i.digest}} for i in wanted[:2])
    old["labels"] = {}
    docker.says("image inspect", out=f"{json.dumps(current)}\n{json.dumps(old)}\n", err="No such image: x", code=1)
    found = checks.images(machine)
    assert (found.status, found.what) == (
        Status.WARN,
        f"{wanted[2].name} is missing, {wanted[1].name} is outdated",
    )


def test_lists_current_images(machine: Machine, docker: FakeDocker) -> None:
    wanted = images_of(read_project(machine.project.root))
    lines = ({"tags": [i.name], "labels": {"agent-sandbox.digest": i.digest}} for i in wanted)
    docker.says("image inspect", out="\n".join(map(json.dumps, lines)))
    assert checks.images(machine) == ok("images", ", ".join(image.name for image in wanted))


def test_a_layer_that_the_stack_does_not_mount_is_a_warning(machine: Machine, fenced: Path) -> None:
    (fenced / "etc").mkdir()
    (fenced / "etc" / "policy.yaml").write_text("deny: [a.test]")
    told = f"{fenced}/etc/policy.yaml exists, but the stack was made without it: agent-sandbox up"
    assert checks.policy(machine) == warn("policy", told)


def test_a_service_whose_registry_has_changed_is_a_warning(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def stale(*_: object, afresh: bool) -> tuple[str, ...]:
        asked.append(afresh)
        return ("it changed",)

    monkeypatch.setattr(checks, "stale_services", stale)
    assert (checks.policy(machine), asked) == (warn("policy", "it changed"), [True])


def test_checks_the_webhook_only_if_one_is_configured(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    assert [*checks.webhook(machine)] == []
    file = folder / "agent-sandbox" / "webhook.yaml"
    file.parent.mkdir()
    file.write_text("version: 1\nurl: https://hooks.test/secret-path\nkey: env:KEY\n")
    monkeypatch.delenv("KEY", raising=False)
    missing = "the source of the webhook's key gives no value: the variable KEY is not set"
    fix = f"fix `key` in {file}, or what it names: no question is sent without the key"
    assert [*checks.webhook(machine)] == [warn("webhook", missing, fix)]
    monkeypatch.setenv("KEY", "correct-horse-battery")
    assert [*checks.webhook(machine)] == [ok("webhook", "questions are sent to https://hooks.test")]
    save_failure(machine.project.root, Failure(why="it answers 500", time="2026-01-02T10:00:00Z"), os.environ)
    what = "the last message did not arrive: it answers 500 (2026-01-02T10:00:00Z)"
    assert [*checks.webhook(machine)] == [warn("webhook", what, f"edit {file}")]


@pytest.mark.parametrize(
    ("states", "said", "expected"),
    [
        ({}, "", ok("firewall", "not running")),
        ({"firewall": "exited", "agent": "exited"}, "", ok("firewall", "not running")),
        ({"firewall": "healthy", "agent": "starting"}, refusals_said(started=False), ok("firewall", "not running")),
        ({"firewall": "healthy", "agent": "healthy"}, "no nft", NOT_COUNTED),
        (
            {"firewall": "healthy", "agent": "healthy"},
            refusals_said(places=PLACES),
            ok("firewall", "4 refused in the last day: agent-sandbox logs --firewall"),
        ),
    ],
)
def test_reports_refusals_of_a_running_firewall_and_warns_if_they_are_not_counted(
    tmp_path: Path, docker: FakeDocker, states: dict[str, str], said: str, expected: CheckResult
) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").write_text(
        'name: app-1\nx-agent-sandbox: {agent: example, dev: "1000:1000"}\nservices: {}\n'
    )
    docker.says("exec firewall0000", out=said)
    with_containers(docker, **states)
    assert firewall(Machine(path=tmp_path, cwd=tmp_path, driver=DRIVER)) == expected
