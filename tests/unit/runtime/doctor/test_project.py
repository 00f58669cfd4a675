import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.images import Owner, agent_name, proxy_name
from agent_sandbox.render.header import stamped
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.doctor import project as checks
from agent_sandbox.runtime.doctor.machine import Machine
from agent_sandbox.runtime.doctor.result import CheckResult, Status, fail, ok, warn
from agent_sandbox.runtime.init.facts import owner_of
from agent_sandbox.runtime.project.installed import images_of, read_project
from agent_sandbox.stack.naming import stack_name
from fake_docker import FakeDocker
from fake_stack import trust

AGENT = known_agents(data_root() / "templates")[0]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Look at a project that is as init leaves it."""
    owner, name = owner_of(tmp_path), stack_name("app", str(tmp_path))
    image = agent_name(AGENT, owner)
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").write_text(
        stamped(
            f'name: {name}\nx-agent-sandbox: {{agent: {AGENT}, dev: "{owner.uid}:{owner.gid}"}}\n'
            f'services: {{proxy: {{image: "{proxy_name()}"}}, agent: {{image: "{image}"}}}}\n',
            comment="#",
        )
    )
    (tmp_path / ".devcontainer" / "policy.yaml").write_text(f"version: 1\nservices: [{AGENT}]\n")
    (tmp_path / ".env").write_text(f"COMPOSE_FILE=.devcontainer/docker-compose.yml\nCOMPOSE_PROJECT_NAME={name}\n")
    trust(tmp_path)
    return Machine(path=tmp_path, cwd=tmp_path)


@pytest.mark.parametrize("check", [checks.templates, checks.stack, checks.policy, checks.dotenv])
def test_a_project_as_init_leaves_it_is_fine(machine: Machine, check: Callable[[Machine], CheckResult]) -> None:
    assert check(machine).status is Status.OK


def test_a_copied_project_is_told_from_its_original(machine: Machine) -> None:
    root, name = machine.project.root, machine.project.name
    (root / ".devcontainer").rename(root / "copy")
    (root / "other").mkdir()
    (root / "copy").rename(root / "other" / ".devcontainer")
    found = checks.stack(Machine(path=root / "other", cwd=root))
    assert (found.status, found.what) == (
        Status.FAIL,
        f"{name} belongs to another directory: this project was moved, copied or cloned",
    )


def test_what_the_user_has_not_looked_at_is_a_warning(machine: Machine) -> None:
    file = machine.project.root / ".devcontainer" / "docker-compose.yml"
    file.write_text(f"{file.read_text()}# mine\n")
    what = ".devcontainer/docker-compose.yml is not trusted"
    assert checks.stack(machine) == warn("stack", what, "agent-sandbox trust shows it and asks")


def test_a_policy_that_denies_everything_is_a_warning(machine: Machine) -> None:
    machine.project.policy.write_text("version: 1\n")
    assert checks.policy(machine).status is Status.WARN


def test_a_policy_that_is_closed_to_the_proxy_is_a_failure(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_layer_that_is_closed_to_the_proxy_is_a_failure_where_the_stack_has_it(
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
    assert checks.policy(machine) == warn(
        "policy", f"{told}: add `- {AGENT}` under `services` in .devcontainer/policy.yaml"
    )


@pytest.mark.parametrize(
    ("text", "status", "what"),
    [
        (None, Status.WARN, "there is no .env: plain `docker compose` does not find the stack"),
        ("A=1\n", Status.WARN, "COMPOSE_FILE in .env does not name .devcontainer/docker-compose.yml"),
        (
            "COMPOSE_FILE=a.yml:.devcontainer/docker-compose.yml\nCOMPOSE_PROJECT_NAME=other\n",
            Status.FAIL,
            "COMPOSE_PROJECT_NAME in .env is other, the stack is ",
        ),
        (
            "COMPOSE_FILE=.devcontainer/docker-compose.yml\n",
            Status.FAIL,
            "COMPOSE_PROJECT_NAME in .env is not set, the stack is ",
        ),
    ],
)
def test_a_dotenv_that_leads_elsewhere_is_told(machine: Machine, text: str | None, status: Status, what: str) -> None:
    file = machine.project.root / ".env"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    found = checks.dotenv(machine)
    assert (found.status, found.what[: len(what)]) == (status, what)
    assert found.hint.startswith(f"agent-sandbox init {AGENT} ")


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


def test_images_that_are_current_are_named(machine: Machine, docker: FakeDocker) -> None:
    wanted = images_of(read_project(machine.project.root))
    lines = ({"tags": [i.name], "labels": {"agent-sandbox.digest": i.digest}} for i in wanted)
    docker.says("image inspect", out="\n".join(map(json.dumps, lines)))
    assert checks.images(machine) == ok("images", ", ".join(image.name for image in wanted))


def with_engine(machine: Machine, *security: str, local: bool = True) -> Machine:
    kernel = os.uname().release if local else "elsewhere"
    machine.info = {"KernelVersion": kernel, "SecurityOptions": list(security)}
    return machine


def test_the_owner_inside_is_the_owner_outside(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "belongs_to_root", lambda _: False)
    owner = owner_of(machine.project.root)
    expected = ok("owner", f"dev is {owner.uid}:{owner.gid}, like the project's owner")
    assert checks.owner(with_engine(machine, "name=seccomp,profile=builtin")) == expected


def test_another_owner_could_not_write(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "owner_of", lambda _: Owner(uid=501, gid=20))
    found = checks.owner(with_engine(machine))
    assert (found.status, found.what.partition(",")[0]) == (Status.FAIL, "the files belong to 501:20")


@pytest.mark.parametrize(("option", "kind"), [("name=rootless", "rootless"), ("name=userns", "userns-remap")])
def test_an_engine_that_maps_users_is_asked_who_dev_is_outside(
    machine: Machine, docker: FakeDocker, option: str, kind: str
) -> None:
    docker.says("ps --all")
    what = f"this Docker engine maps users ({kind}): the uid of dev on the host is known once the stack runs"
    expected = warn("owner", what, "agent-sandbox up, then agent-sandbox doctor")
    assert checks.owner(with_engine(machine, option)) == expected


def test_an_engine_in_a_machine_of_its_own_maps_owners_itself(machine: Machine) -> None:
    assert checks.owner(with_engine(machine, local=False)).status is Status.OK


def test_a_layer_that_the_stack_does_not_see_is_a_warning(machine: Machine, fenced: Path) -> None:
    (fenced / "etc").mkdir()
    (fenced / "etc" / "policy.yaml").write_text("deny: [a.test]")
    mended = f"agent-sandbox init {AGENT}, then agent-sandbox up"
    told = f"{fenced}/etc/policy.yaml exists, but the stack was made without it: {mended}"
    assert checks.policy(machine) == warn("policy", told)


def test_a_project_of_roots_is_one_that_the_agent_cannot_write(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "belongs_to_root", lambda _: True)
    owner = owner_of(machine.project.root)
    what = f"the files belong to root, but dev inside is {owner.uid}:{owner.gid}: the agent can only read them"
    hint = f"chown -R {owner.uid}:{owner.gid} {shlex.quote(str(machine.project.root))}"
    assert checks.owner(with_engine(machine, "name=seccomp,profile=builtin")) == fail("owner", what, hint)


def with_machine(docker: FakeDocker, *, memory: int, cpus: int) -> None:
    docker.says("info --format", out=json.dumps({"MemTotal": memory, "NCPU": cpus}))


def test_limits_that_fit_the_engines_machine_are_fine(docker: FakeDocker, machine: Machine) -> None:
    with_machine(docker, memory=16 << 30, cpus=2)
    assert checks.limits(machine) == ok("limits", "memory 8g, cpus 4, pids 4096")


def test_an_agent_that_may_use_all_of_the_machine_is_told(docker: FakeDocker, machine: Machine) -> None:
    with_machine(docker, memory=4 << 30, cpus=2)
    hint = f"agent-sandbox init {AGENT} --memory SIZE --cpus NUMBER, then agent-sandbox up"
    what = "the agent's limits are above what the Docker host has: memory 8g of 4.0 GiB"
    assert checks.limits(machine) == warn("limits", what, hint)


def test_processors_that_somebody_asked_for_and_there_are_not_are_told(docker: FakeDocker, machine: Machine) -> None:
    with_machine(docker, memory=16 << 30, cpus=2)
    compose = machine.project.root / ".devcontainer" / "docker-compose.yml"
    text = compose.read_text().replace(
        f"{{agent: {AGENT},", f"{{agent: {AGENT}, title: x, ide: none, limits: {{cpus: 3}},"
    )
    compose.write_text(text)
    assert checks.limits(machine).what == "the agent's limits are above what the Docker host has: cpus 3 of 2"


def test_limits_that_the_engine_cannot_hold_are_told(docker: FakeDocker, machine: Machine) -> None:
    held = {"MemTotal": 16 << 30, "NCPU": 4, "MemoryLimit": True, "CpuCfsQuota": False, "PidsLimit": False}
    docker.says("info --format", out=json.dumps(held))
    what = "this engine cannot limit cpus, pids: the agent may use all of the machine"
    assert checks.limits(machine).what == what
