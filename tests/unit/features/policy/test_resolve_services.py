import json
import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy import registries
from agent_sandbox.features.policy.commands.allow import allow
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.policy.resolve_services import agent_image, resolve_named
from agent_sandbox.features.stack.commands.build import build
from agent_sandbox.features.stack.commands.up import up
from agent_sandbox.features.trust.prompt import unseen_in
from agent_sandbox.features.trust.reach_diff import reaches
from agent_sandbox.images import agent_name
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.trust_snapshot import look
from agent_sandbox.project.trust_store import open_store
from fake_docker import FakeDocker
from fake_stack import trust

POLICY = ".devcontainer/policy.yaml"
NODE = ".devcontainer/services/node.yaml"
IS = "node is https://npm.example.org, named by npm's configuration"
NOTHING = (
    "{} allows nothing yet: no configuration of {} on this machine (agent-sandbox up also looks in the image) "
    "names a registry: {} {} --from FILE"
)
ASK = "run --rm --pull never --network none --read-only --cap-drop ALL"
SOURCES = "deb http://deb.example.org/debian trixie main"
RESOLVE = "agent-sandbox policy services resolve"


@pytest.fixture
def npm(project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have no tool but npm, which asks a mirror with a password, and return the project."""
    says = {"npm": "https://me:hunter2@npm.example.org/"}
    monkeypatch.setattr(registries, "answer_of", lambda argv, **_: says.get(argv[0], ""))
    monkeypatch.setattr(registries, "ROOT", tmp_path)
    return project


def name(project: Path, services: str) -> None:
    (project / POLICY).write_text(f"version: 1\nservices: [{services}]\n")
    trust(project)


def rules(project: Path) -> list[str]:
    return [str(rule) for rule in load_here(project / POLICY, {}).rules.rules]


def test_build_resolves_services_only_for_an_editor(
    npm: Path, up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    name(npm, "node")
    assert up_to_date.rules
    assert exit_code(lambda: build(quiet=True)) == 0
    assert rules(npm) == []
    assert exit_code(lambda: build(editor=True, quiet=True)) == 0
    assert capsys.readouterr().err == f"note: {IS}\n"
    assert rules(npm) == ["GET, HEAD https://npm.example.org"]
    assert unseen_in(npm, os.environ) == ()


@pytest.mark.parametrize("spelled", ["node", "npm", "{name: NPM}"])
def test_up_resolves_named_services_and_trusts_the_result(
    npm: Path, up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str], spelled: str
) -> None:
    name(npm, spelled)
    up_to_date.says("ps --all").says("up --detach")
    assert exit_code(up) == 0
    assert capsys.readouterr().err.startswith(f"note: {IS}\n")
    assert rules(npm) == ["GET, HEAD https://npm.example.org"]
    assert unseen_in(npm, os.environ) == ()
    assert "hunter2" not in (npm / NODE).read_text()
    assert exit_code(up) == 0
    assert IS not in capsys.readouterr().err


@pytest.mark.usefixtures("up_to_date")
def test_a_dry_run_resolves_nothing(npm: Path) -> None:
    name(npm, "node")
    assert exit_code(lambda: up(dry_run=True)) == 0
    assert not (npm / NODE).exists()


def test_reports_services_that_cannot_be_resolved_and_resolves_the_others(npm: Path) -> None:
    name(npm, "npm, pip, apt")
    unknown = (("debian", "apt"), ("python", "pip"))
    assert resolve_named(npm / POLICY) == (IS, *(NOTHING.format(one, tool, RESOLVE, one) for one, tool in unknown))
    assert rules(npm) == ["GET, HEAD https://npm.example.org"]


def test_does_not_resolve_registries_that_only_the_project_names(npm: Path) -> None:
    name(npm, "node")
    (npm / ".npmrc").write_text("registry=https://evil.example.org/\n//evil.example.org/:_authToken=npm_secret\n")
    assert resolve_named(npm / POLICY) == (
        IS,
        f".npmrc also names evil.example.org, which npm on this machine does not: to include it, {RESOLVE} node",
    )
    assert rules(npm) == ["GET, HEAD https://npm.example.org"]


def with_apt(docker: FakeDocker) -> FakeDocker:
    """Have an image of Debian, with apt and no other tool."""
    docker.says("os-release", out="ID=debian\n").says("/etc/apt/sources.list.d")
    return docker.says("/etc/apt/sources.list", out=SOURCES).says(ASK, code=127)


def test_up_asks_the_image_for_a_tool_that_this_machine_does_not_have(
    npm: Path, up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    name(npm, "node, apt")
    with_apt(up_to_date).says("ps --all").says("up --detach")
    assert exit_code(up) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        f"note: {IS}",
        "note: debian is http://deb.example.org, named by /etc/apt/sources.list in the image",
    ]
    assert sorted(rules(npm)) == ["GET, HEAD http://deb.example.org", "GET, HEAD https://npm.example.org"]
    asked = [call for call in up_to_date.calls if call.startswith("run ")]
    assert all(call.startswith(ASK) for call in asked)
    assert not any("npm" in call.rpartition("agent-sandbox/")[2] for call in asked)


def test_uses_the_image_built_on_the_projects_base_image(npm: Path, docker: FakeDocker) -> None:
    project = replace(read_project(npm), base_image="mirror.test/debian:13")
    there = agent_name(project.agents, project.owner, {}, project.base_image)
    docker.says("image inspect", out=json.dumps({"tags": [there], "labels": {}}))
    assert agent_image(project)
    assert agent_image(replace(project, base_image="")) is None


def test_builds_a_missing_image_before_reading_its_configuration(npm: Path, docker: FakeDocker) -> None:
    name(npm, "apt")
    docker.says("image inspect").says("build --progress").says("image prune")
    with_apt(docker).says("ps --all").says("up --detach")
    assert exit_code(lambda: up(quiet=True)) == 0
    assert rules(npm) == ["GET, HEAD http://deb.example.org"]
    first = {
        verb: next(n for n, call in enumerate(docker.calls) if f"{verb} " in call) for verb in ("build", "run", "up")
    }
    assert sorted(first, key=lambda verb: first[verb]) == ["build", "run", "up"]


def test_reports_a_service_without_a_registry_on_the_machine_or_in_the_image(
    npm: Path, up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    name(npm, "pip")
    with_apt(up_to_date).says("ps --all").says("up --detach")
    assert exit_code(up) == 0
    assert capsys.readouterr().err.splitlines()[0] == (
        "note: python allows nothing yet: no configuration of pip on this machine or in the image names a registry: "
        f"{RESOLVE} python --from FILE"
    )


def test_allow_reads_the_configuration_of_an_existing_image(
    npm: Path, up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    name(npm, "claude")
    with_apt(up_to_date)
    assert exit_code(lambda: allow("apt")) == 0
    assert "debian is http://deb.example.org, named by /etc/apt/sources.list in the image\n" in capsys.readouterr().err
    assert not any(call.startswith("build") for call in up_to_date.calls)


@pytest.mark.parametrize("said", ["", "Cannot connect to the Docker daemon"])
def test_allow_works_without_an_image_or_the_docker_engine(
    npm: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    name(npm, "claude")
    docker.says("image inspect", err=said, code=1)
    assert exit_code(lambda: allow("apt")) == 0
    assert NOTHING.format("debian", "apt", RESOLVE, "debian") in capsys.readouterr().err


def test_resolving_does_not_trust_an_untrusted_policy(npm: Path) -> None:
    name(npm, "node")
    (npm / POLICY).write_text("services: [node]\ndomains: [evil.example.org]\n")
    resolve_named(npm / POLICY)
    assert unseen_in(npm, os.environ) == (POLICY, NODE)


def test_does_not_overwrite_an_existing_service_file(npm: Path) -> None:
    name(npm, "node")
    (npm / NODE).parent.mkdir()
    (npm / NODE).write_text("domains: [{host: a.example.org, rules: [{methods: [GET]}]}]")
    resolve_named(npm / POLICY)
    assert rules(npm) == ["GET, HEAD a.example.org"]


def test_does_not_write_through_a_symbolic_link_of_the_project(npm: Path) -> None:
    name(npm, "node")
    (npm / "elsewhere").mkdir()
    (npm / NODE).parent.symlink_to(npm / "elsewhere")
    with pytest.raises(UserError, match="agent-sandbox does not follow symbolic links"):
        resolve_named(npm / POLICY)
    assert list((npm / "elsewhere").iterdir()) == []


def test_git_ignores_the_resolved_service_file(npm: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True, cwd=npm)
    name(npm, "node")
    resolve_named(npm / POLICY)
    shown = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], check=True, cwd=npm, capture_output=True, text=True
    )
    assert f"?? {POLICY}" in shown.stdout.splitlines()
    assert NODE not in shown.stdout


@pytest.mark.usefixtures("npm")
def test_allow_adds_a_resolved_service_by_its_alias_and_resolves_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name(project, "claude")
    assert exit_code(lambda: allow("npm")) == 0
    assert capsys.readouterr() == (
        f"{POLICY}:2: added `- node` under `services`\n",
        f"{IS}\nno sandbox runs: the next agent-sandbox up loads it\n",
    )
    assert "GET, HEAD https://npm.example.org" in rules(project)
    assert unseen_in(project, os.environ) == ()


@pytest.mark.usefixtures("npm")
def test_allow_adds_a_shipped_service_by_its_alias(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name(project, "claude")
    assert exit_code(lambda: allow("cargo")) == 0
    assert capsys.readouterr().out == f"{POLICY}:2: added `- rust` under `services`\n"
    assert "services: [claude, rust]" in (project / POLICY).read_text()


@pytest.mark.usefixtures("npm")
def test_allow_resolves_a_service_that_is_already_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name(project, "npm")
    assert exit_code(lambda: allow("node")) == 0
    assert capsys.readouterr().out == f"{POLICY}:2: `node` is already under `services`\n"
    assert (project / NODE).exists()


@pytest.mark.usefixtures("npm")
def test_the_users_layer_cannot_name_a_resolved_service(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = project / "config" / "agent-sandbox" / "policy.yaml"
    layer.parent.mkdir(parents=True)
    layer.write_text("version: 1\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(project / "config"))
    with pytest.raises(UserError) as error:
        allow("npm", policy=layer)
    assert str(error.value) == (
        "config/agent-sandbox/policy.yaml: only a project's policy can name node; "
        "its registries are resolved for each project: name it in .devcontainer/policy.yaml"
    )
    assert layer.read_text() == "version: 1\n"


def test_a_resolved_service_invalidates_the_policy_cache(npm: Path) -> None:
    name(npm, "node")
    environ = {"XDG_CACHE_HOME": str(npm.parent / "cache")}
    assert load_here(npm / POLICY, environ).rules.rules == ()
    resolve_named(npm / POLICY)
    assert [str(rule) for rule in load_here(npm / POLICY, environ).rules.rules] == rules(npm)
    (npm / NODE).unlink()
    assert load_here(npm / POLICY, environ).rules.rules == ()


def test_up_reports_a_registry_that_was_configured_since(
    npm: Path, up_to_date: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name(npm, "node")
    resolve_named(npm / POLICY)
    monkeypatch.setattr(
        registries, "answer_of", lambda argv, **_: "https://new.example.org/" if argv[0] == "npm" else ""
    )
    monkeypatch.setenv("npm_config_userconfig", "/other")
    up_to_date.says("ps --all").says("up --detach")
    assert exit_code(up) == 0
    stale = (
        "note: npm's configuration now names new.example.org, which the service `node` does not allow yet: "
        "agent-sandbox policy allow npm"
    )
    assert capsys.readouterr().err.splitlines()[0] == stale
    assert rules(npm) == ["GET, HEAD https://npm.example.org"]
    assert exit_code(lambda: allow("npm")) == 0
    assert rules(npm) == ["GET, HEAD https://new.example.org"]


def test_a_mirror_of_a_shipped_service_is_added_and_reported(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name(npm, "golang")
    before = rules(npm)
    assert resolve_named(npm / POLICY) == ()
    monkeypatch.setenv("GOPROXY", "https://me:hunter2@go.example.org,direct")
    assert resolve_named(npm / POLICY) == ("go-mirror is https://go.example.org, named by GOPROXY",)
    assert sorted(rules(npm)) == sorted([*before, "GET, HEAD https://go.example.org"])
    assert unseen_in(npm, os.environ) == ()
    monkeypatch.setenv("GOPROXY", "https://new.example.org")
    assert exit_code(lambda: allow("go")) == 0
    assert sorted(rules(npm)) == sorted([*before, "GET, HEAD https://new.example.org"])


def test_a_mirror_file_from_a_git_clone_needs_trust(npm: Path) -> None:
    name(npm, "go")
    (npm / NODE).parent.mkdir()
    mirror = npm / NODE.replace("node", "go-mirror")
    mirror.write_text("domains: [{host: evil.example.org, rules: [{methods: [GET]}]}]")
    assert unseen_in(npm, os.environ) == (".devcontainer/services/go-mirror.yaml",)
    before = open_store(os.environ).load(npm)
    assert before is not None
    assert reaches(look(npm, os.environ), before) == ("GET, HEAD evil.example.org",)
