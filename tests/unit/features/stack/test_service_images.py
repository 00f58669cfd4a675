import os
import sys
from pathlib import Path

import pytest

from agent_sandbox.features.stack.service_images import prepare_images, record_digests, record_images, recorded_digests
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import find_project
from agent_sandbox.project.project import Project
from fake_docker import FakeDocker
from fake_stack import trust
from fake_tty import Person

OLD, NEW = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
NONE = "Error response from daemon: No such image: db:1\n"
DIGEST = f"sha256:{'1' * 64}"


@pytest.fixture
def stack(project: Path) -> Project:
    """A project with two services that run `db:1`, one that is pinned and one that is built here."""
    file = project / ".devcontainer" / "docker-compose.yml"
    services = (
        f"a: {{image: 'db:1'}}, b: {{image: 'db:1'}}, pinned: {{image: 'x@{OLD}'}}, "
        "own: {image: 'agent-sandbox/beside:1'}, firewall.a: {image: 'agent-sandbox/x'}"
    )
    file.write_text(file.read_text().replace("services: {", f"services: {{{services}, ", 1))
    trust(project)
    return find_project(project, cwd=project)


def recorded(stack: Project) -> dict[str, str]:
    return recorded_digests(stack.root, os.environ)


def test_the_digest_of_the_first_start_is_recorded_and_kept(stack: Project, docker: FakeDocker) -> None:
    docker.says("image inspect", out=f'["db@{OLD}"]')
    record_images(stack)
    assert recorded(stack) == {"db:1": OLD}
    assert docker.calls == ["image inspect --format {{json .RepoDigests}} -- db:1"]
    docker.rules.clear()
    docker.says("image inspect", out=f'["db@{OLD}", "db@{NEW}"]')
    record_images(stack)
    assert recorded(stack) == {"db:1": OLD}


def test_an_image_that_was_built_here_has_no_digest(stack: Project, docker: FakeDocker) -> None:
    docker.says("image inspect", out="[]")
    record_images(stack)
    assert recorded(stack) == {}
    prepare_images(stack, quiet=False)


def test_an_image_with_another_digest_is_refused(stack: Project, docker: FakeDocker) -> None:
    record_digests(stack.root, os.environ, {"db:1": OLD})
    docker.says("image inspect", out=f'["db@{NEW}"]')
    with pytest.raises(UserError) as refused:
        prepare_images(stack, quiet=False)
    changed = f"a, b: db:1 is not the image that ran before: its digest was {OLD}"
    otherwise = "remove the image, and `agent-sandbox up` pulls the one from before"
    accept = f"to accept it, write `image: db:1@{NEW}` in .devcontainer/sandbox.yaml"
    assert str(refused.value) == f"{changed}; {accept}; otherwise {otherwise}"
    docker.rules.clear()
    docker.says("image inspect", out="[]")
    with pytest.raises(UserError) as refused:
        prepare_images(stack, quiet=False)
    assert str(refused.value) == f"{changed}; {otherwise}"


def test_a_missing_image_is_pulled_by_its_digest(
    stack: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    record_digests(stack.root, os.environ, {"db:1": OLD})
    docker.says("image inspect", err=NONE, code=1).says("imagetools", out='{"layers": [{"size": 1500}]}')
    docker.says("pull --quiet").says("tag")
    prepare_images(stack, quiet=False)
    assert docker.calls[1:] == [
        f"buildx imagetools inspect --raw -- db:1@{OLD}",
        f"pull --quiet db@{OLD}",
        f"tag db@{OLD} db:1",
    ]
    assert "pulling db:1, 1.5 kB, for a, b\n" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "goes_on"), [("y\n", True), ("n\n", False), ("", False)])
def test_asks_before_pulling_a_large_image_and_shows_its_size(
    stack: Project,
    docker: FakeDocker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    *,
    goes_on: bool,
) -> None:
    monkeypatch.setattr(sys, "stdin", Person(typed))
    docker.says("image inspect", err=NONE, code=1).says("imagetools", out='{"layers": [{"size": 2500000000}]}')
    if goes_on:
        prepare_images(stack, quiet=True)
    else:
        with pytest.raises(UserError, match=r"^a, b: db:1 was not pulled, so nothing was started$"):
            prepare_images(stack, quiet=True)
    assert capsys.readouterr().err == "Pull db:1, 2.5 GB? [y/N] "


def test_without_a_terminal_or_a_size_the_pull_is_only_reported(
    stack: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docker.says("image inspect", err=NONE, code=1).says("imagetools", out='{"layers": [{"size": 2500000000}]}')
    prepare_images(stack, quiet=False)
    monkeypatch.setattr(sys, "stdin", Person(""))
    docker.rules[-1:] = []
    docker.says("imagetools", code=1)
    prepare_images(stack, quiet=False)
    assert capsys.readouterr().err == ("pulling db:1, 2.5 GB, for a, b\npulling db:1, of unknown size, for a, b\n")


def test_a_stack_without_services_beside_the_sandbox_calls_no_docker_command(project: Path, docker: FakeDocker) -> None:
    found = find_project(project, cwd=project)
    prepare_images(found, quiet=False)
    record_images(found)
    assert docker.calls == []


def test_records_digests_for_a_project(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert recorded_digests(tmp_path, environ) == {}
    record_digests(tmp_path, environ, {"db:1": DIGEST})
    assert recorded_digests(tmp_path, environ) == {"db:1": DIGEST}
    assert recorded_digests(tmp_path / "state", environ) == {}
    (file,) = (tmp_path / "state" / "agent-sandbox" / "images").iterdir()
    before = file.stat()
    record_digests(tmp_path, environ, {"db:1": DIGEST})
    assert file.stat() == before


def test_a_damaged_record_counts_as_empty(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    record_digests(tmp_path, environ, {"db:1": DIGEST})
    (file,) = (tmp_path / "state" / "agent-sandbox" / "images").iterdir()
    for text in ("{", "[]", '{"digests": {"db:1": 3}}', '{"digests": {"a": "--x"}}'):
        file.write_text(text)
        assert recorded_digests(tmp_path, environ) == {}


def test_reports_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"^{tmp_path}/file/agent-sandbox/images: cannot be used: not a directory$"):
        record_digests(tmp_path, {**os.environ, "XDG_STATE_HOME": str(tmp_path / "file")}, {"db:1": DIGEST})
