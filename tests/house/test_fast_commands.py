"""Limits on imports of fast commands. Each of our modules costs 0.2 to 0.5 ms at each start, a large package 10 to 70.

A limit is what a command needs plus a few. Before you raise one, look at `python -X importtime`: often an import in a
function, or under TYPE_CHECKING, is enough.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.engines.compose.plan import BASE_LABEL
from agent_sandbox.images import DIGEST_LABEL
from agent_sandbox.project.installed import images_of, read_project
from fake_docker import FakeDocker
from fake_stack import inspected
from imports import brought_along

PRINTING = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from agent_sandbox.__main__ import main
main()
"""
INIT = ("init", "claude")
EXPLAIN = ("policy", "explain", "GET", "https://api.anthropic.com/")
CHECK = ("policy", "check")
# No fast command imports these: the engine, the proxy, what only a terminal needs.
PARSED = frozenset({"rich", "docker", "mitmproxy"})
# Nor these, except a command that reads an agent's manifest: pydantic, and what it imports.
NEVER = PARSED | {"pydantic", "asyncio", "importlib.resources"}
ENGINE = frozenset({f"agent_sandbox.engines.compose.{name}" for name in ("driver", "engine", "plan")})
# `init` needs YAML and templates; the other commands read caches.
NO_FILES = NEVER | ENGINE | {"yaml", "jinja2", "agent_sandbox.project.installed"}
LIMITS = {
    ("--version",): (20, NO_FILES),
    ("--help",): (20, NO_FILES),
    ("__complete", "po"): (20, NO_FILES),
    EXPLAIN: (115, NO_FILES),
    CHECK: (106, NO_FILES),
    INIT: (164, PARSED | ENGINE | {"agent_sandbox.policy.engine", "agent_sandbox.policy.compiler"}),
}
# On a running stack. Data classes of policies, agents and rendered files would make these commands slow.
POLICY, AGENTS = "agent_sandbox.policy.engine", "agent_sandbox.agents.manifest"
ON_A_STACK = {
    ("exec", "true"): (111, NEVER | {POLICY, AGENTS, "jinja2", "concurrent.futures"}),
    ("proxy", "reload"): (150, NEVER | {POLICY, AGENTS, "jinja2", "concurrent.futures"}),
    ("status",): (206, PARSED | {"jinja2"}),
    ("up",): (259, PARSED | {"jinja2", "agent_sandbox.features.secrets.secret_sources"}),
}
PROXY = 187  # modules of ours, at its start


def ours(modules: set[str]) -> set[str]:
    """Return the modules of agent_sandbox."""
    return {name for name in modules if name.startswith("agent_sandbox")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a stack, and with a cached policy."""
    path = tmp_path_factory.mktemp("fast") / "app"
    path.mkdir()
    for argv in (INIT, EXPLAIN, CHECK):
        imported(path, argv)
    return path


def imported(project: Path, argv: tuple[str, ...], **environ: str) -> set[str]:
    """Return the modules that a command has imported when it ends."""
    homes = {f"XDG_{name}_HOME": str(project.parent / name) for name in ("CACHE", "CONFIG", "STATE")}
    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", PRINTING, *argv],
        cwd=project,
        env={**os.environ, **homes, "HOME": str(project.parent), "PYTHONPATH": ":".join(sys.path), **environ},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("argv", LIMITS, ids=" ".join)
def test_a_fast_command_imports_no_more_than_it_needs(project: Path, argv: tuple[str, ...]) -> None:
    most, never = LIMITS[argv]
    modules = imported(project, argv)
    assert never & modules == set()
    assert len(ours(modules)) <= most, sorted(ours(modules))


@pytest.fixture(scope="module")
def docker(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a fake `docker` that reports running containers."""
    stack = read_project(project)
    found = [inspected(service, "healthy", f"{stack.name}_sandbox") for service in ("proxy", "firewall", "agent")]
    built = [{"tags": [one.name], "labels": {DIGEST_LABEL: one.digest, BASE_LABEL: ""}} for one in images_of(stack)]
    answered = {"ok": True, "digest": "0" * 64, "change": {}, "denials": []}
    fake = FakeDocker(tmp_path_factory.mktemp("docker"))
    fake.says("inspect --type container --format").says("inspect --type container", out=json.dumps(found))
    fake.says("image inspect", out="\n".join(map(json.dumps, built))).says("ps", out="1\n").says("info", out="{}")
    fake.says("agent_sandbox.proxy", out=json.dumps(answered)).says("exec").says("compose").says("network", out="{}")
    return fake.folder


@pytest.mark.parametrize("argv", ON_A_STACK, ids=" ".join)
def test_a_command_on_a_stack_imports_no_more_than_it_needs(project: Path, docker: Path, argv: tuple[str, ...]) -> None:
    most, never = ON_A_STACK[argv]
    path = f"{docker}:{os.environ['PATH']}"
    imported(project, argv, PATH=path)  # which caches the policy
    modules = imported(project, argv, PATH=path)
    assert never & modules == set()
    assert len(ours(modules)) <= most, sorted(ours(modules))


def test_the_first_init_in_a_repository_starts_git_three_times(tmp_path: Path) -> None:
    # for the user's settings, for the repository's, and for the name of the committer
    calls, program = tmp_path / "calls", tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> {calls}\nPATH={os.environ["PATH"]} exec git "$@"\n')
    program.chmod(0o755)
    (tmp_path / "app").mkdir()
    subprocess.run(["git", "init", "--quiet", tmp_path / "app"], check=True)
    modules = imported(tmp_path / "app", INIT, PATH=f"{program.parent}:{os.environ['PATH']}")
    assert PARSED & modules == set()
    assert len(calls.read_text().splitlines()) == 3


def test_the_proxy_starts_without_the_parsers_of_policies() -> None:
    modules = brought_along("import agent_sandbox.proxy.__main__, agent_sandbox.proxy.run")
    assert {"yaml", "pydantic", "typer", "jinja2"} & modules == set()
    assert len(ours(modules)) <= PROXY
