import dataclasses
import io
import json
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.compose.execute import act, shown_text, tarball
from agent_sandbox.engines.events import Event, Finished, Progressed, Started, Unneeded
from agent_sandbox.engines.plan import BuildImage, RemoveImages, RunCommand
from agent_sandbox.engines.verbs import Freshness
from agent_sandbox.problems import Problem, UserError
from fake_docker import FakeDocker
from fake_stack import with_containers
from table_tests import each

TREE = {"lib/run": b"#!/bin/sh\n", "Dockerfile": b"FROM scratch\n"}


def build(name: str, freshness: Freshness = Freshness.OUTDATED) -> BuildImage:
    return BuildImage(
        name=name,
        target="x",
        labels={"agent-sandbox.digest": "new"},
        freshness=freshness,
        argv=("docker", "build", "--tag", name, "-"),
        environment={"DOCKER_BUILDKIT": "1"},
        context={"Dockerfile": b"FROM scratch AS x\nCOPY a b\n"},
    )


def labels(name: str, digest: str) -> str:
    return f'{{"tags": ["{name}"], "labels": {{"agent-sandbox.digest": "{digest}"}}}}\n'


def test_only_missing_and_outdated_images_are_built(docker: FakeDocker) -> None:
    docker.says(
        "image inspect", out=labels("current:1", "new") + labels("old:1", "x"), err="No such image: gone:1", code=1
    )
    docker.says("build", out="#1 [x 1/1] COPY a b\n#1 DONE 0.1s\n")
    events: list[Event] = []
    act(DOCKER, (build("current:1"), build("old:1"), build("gone:1")), tell=events.append)
    assert [line.split(" ")[-2] for line in docker.calls[1:]] == ["old:1", "gone:1"]
    assert events[:5] == [
        Unneeded(name="current:1"),
        Started(purpose="building old:1", total=2),
        Progressed(done=0, doing="[x 1/1] COPY a b"),
        Progressed(done=1, doing="finishing"),
        Finished(purpose="building old:1"),
    ]


MINE = "mirror.test/debian:13"


@pytest.mark.parametrize(
    ("base", "was", "built"),
    [
        ("", None, ""),
        ("", "", ""),
        (MINE, MINE, ""),
        (MINE, None, f"building i:1 on {MINE}"),
        (MINE, "debian:13", f"building i:1 on {MINE}, not debian:13 as before"),
        ("", MINE, f"building i:1 on plain Debian, not {MINE} as before"),
    ],
)
def test_rebuilds_an_image_whose_base_image_changed_and_reports_the_change(
    docker: FakeDocker, base: str, was: str | None, built: str
) -> None:
    step = dataclasses.replace(build("i:1"), labels={"agent-sandbox.digest": "new", "agent-sandbox.base": base})
    existing = {"agent-sandbox.digest": "new", **({} if was is None else {"agent-sandbox.base": was})}
    docker.says("image inspect", out=json.dumps({"tags": ["i:1"], "labels": existing})).says("build")
    events: list[Event] = []
    act(DOCKER, (step,), tell=events.append)
    assert [event for event in events if isinstance(event, Unneeded)] == ([] if built else [Unneeded(name="i:1")])
    assert [event.purpose for event in events if isinstance(event, Started)] == ([built] if built else [])


def test_builds_all_images_without_inspecting_them_first(docker: FakeDocker) -> None:
    docker.says("build")
    act(DOCKER, (build("a:1", Freshness.ALL),))
    assert docker.calls == ["build --tag a:1 -"]


REPLACED = RemoveImages(argv=("docker", "image", "prune"), once_built=True)


def test_removes_replaced_images_after_a_build_or_if_no_build_is_required(docker: FakeDocker) -> None:
    docker.says("image inspect", out=labels("current:1", "new")).says("build").says("image prune", code=1)
    act(DOCKER, (build("current:1"), REPLACED))
    assert len(docker.calls) == 1
    act(DOCKER, (build("a:1", Freshness.ALL), REPLACED))
    assert docker.calls[1:] == ["build --tag a:1 -", "image prune"]
    act(DOCKER, (replace(REPLACED, once_built=False),))
    assert docker.calls[3:] == ["image prune"]


def test_passes_the_build_context_on_stdin_and_sets_the_environment(docker: FakeDocker, tmp_path: Path) -> None:
    docker.says("build", script=f'echo "$DOCKER_BUILDKIT" >{tmp_path}/env; tar -t >{tmp_path}/files')
    act(DOCKER, (build("a:1", Freshness.ALL),))
    assert ((tmp_path / "env").read_text(), (tmp_path / "files").read_text()) == ("1\n", "Dockerfile\n")


def test_a_failed_build_stops_the_plan(docker: FakeDocker) -> None:
    docker.says("build", out="ERROR: no space left on device\n", code=1)
    with pytest.raises(UserError, match=r"^a:1: no space left on the disk"):
        act(DOCKER, (build("a:1", Freshness.ALL), build("b:1", Freshness.ALL)))
    assert len(docker.calls) == 1


def test_runs_a_command_in_its_directory_and_reports_its_output_as_progress(docker: FakeDocker, tmp_path: Path) -> None:
    docker.says("compose", script="pwd", err=" Container x-agent-1   Started\n Network x  Created\n")
    events: list[Event] = []
    act(
        DOCKER,
        (RunCommand(argv=("docker", "compose"), cwd=tmp_path, project="x", purpose="starting"),),
        tell=events.append,
    )
    expected = [
        Started(purpose="starting"),
        Progressed(done=0, doing=str(tmp_path)),
        Progressed(done=0, doing="agent started"),
        Finished(purpose="starting"),
    ]
    assert events == expected


def test_uses_the_callers_explanation_of_a_failed_command_if_there_is_one(docker: FakeDocker, tmp_path: Path) -> None:
    docker.says("compose", err="it broke\n", code=1)
    step = RunCommand(argv=("docker", "compose"), cwd=tmp_path, project="x", purpose="starting")
    with pytest.raises(UserError) as raised:
        act(DOCKER, (step,), explain=lambda step, said: [Problem(where=step.purpose, what=said, hint="")])
    assert raised.value.problems == (Problem(where="starting", what="it broke", hint=""),)
    with pytest.raises(UserError, match=r"^starting: docker failed: it broke; run agent-sandbox doctor"):
        act(DOCKER, (step,))


@each(
    ("created", "states", "verbs"),
    [
        (0, {"proxy": "healthy", "agent": "healthy"}, ["create"]),
        (0, {"proxy": "healthy", "db": "running"}, ["create"]),  # it has no health check
        (1, {"proxy": "healthy", "agent": "healthy"}, ["create", "up"]),
        (0, {}, ["create", "up"]),
        *(
            (0, {"proxy": "healthy", "agent": state}, ["create", "up"])
            for state in ("created", "dead", "exited", "paused", "restarting", "starting", "unchecked", "unhealthy")
        ),
    ],
)
def test_skips_the_start_only_if_create_succeeds_and_all_containers_are_ready(
    docker: FakeDocker, created: int, states: dict[str, str], verbs: list[str]
) -> None:
    docker.rules.clear()
    docker.says("compose create", err="it broke\n", code=created).says("compose up")
    with_containers(docker, **states)
    before, events = len(docker.calls), list[Event]()
    step = RunCommand(
        argv=("docker", "compose", "up"),
        cwd=docker.folder,
        project="app-1",
        purpose="starting",
        unless_ready=("docker", "compose", "create"),
    )
    act(DOCKER, (step,), tell=events.append)
    compose = [call for call in docker.calls[before:] if call.startswith("compose")]
    assert compose == [f"compose {verb}" for verb in verbs]
    ends = [event for event in events if not isinstance(event, Progressed)]
    skipped = [Unneeded(name="app-1")] if verbs == ["create"] else []
    assert ends == [Started(purpose="starting"), Finished(purpose="starting"), *skipped]


def test_reports_a_missing_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="the docker command was not found"):
        act(DOCKER, (build("a:1", Freshness.ALL),))


@each(
    ("line", "expected"),
    [
        (" Container app-1-proxy-1  Creating", None),
        (" Container app-1-proxy-1  Started", "proxy started"),
        (" Container app-1-agent-1  Recreated", "agent recreated"),
        (" Container app-1-agent-1  Recreate", None),
        (" Container app-1-agent-1  Healthy", "agent ready"),
        (" Container app-1-firewall-1  Error", "firewall failed"),
        (" Container other  Removed", "other removed"),
        (" Network app-1_sandbox  Created", None),
        (" Network app-1_sandbox  Removed", "sandbox removed"),
        (' Volume "app-1_state"  Removed', "state removed"),
        ("dependency failed   to start", "dependency failed to start"),
        ("", None),
        ("Deleted Volumes:", None),
        ("app-1_old", "old removed"),
        ("Total reclaimed space: 0B", None),
        ("Going to remove app-1-proxy-1", None),
    ],
)
def test_shortens_compose_output_to_the_lines_that_a_user_needs(line: str, expected: str | None) -> None:
    assert shown_text(line, "app-1") == expected


def test_contains_each_file_without_its_owner_and_modification_time() -> None:
    with tarfile.open(fileobj=io.BytesIO(tarball(TREE))) as archive:
        got = [(e.name, e.mode, e.mtime, e.uid, e.uname, _read(archive, e)) for e in archive.getmembers()]
    expected = [
        ("Dockerfile", 0o644, 0, 0, "", b"FROM scratch\n"),
        ("lib/run", 0o755, 0, 0, "", b"#!/bin/sh\n"),
    ]
    assert got == expected


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return file.read() if file else b""
