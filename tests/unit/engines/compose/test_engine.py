from pathlib import Path

import pytest

from agent_sandbox.engines.compose.engine import DOCKER, json_lines
from agent_sandbox.problems import Problem, UserError
from fake_docker import FakeDocker


def test_answer_returns_what_docker_prints(docker: FakeDocker) -> None:
    docker.says("version", out="26.1\n")
    assert DOCKER.answer("version", doing="asking") == "26.1\n"


def test_answer_explains_a_failure_and_what_to_do(docker: FakeDocker) -> None:
    docker.says("info", err="Cannot connect to the Docker daemon at unix:///x.sock. Is it running?\n", code=1)
    with pytest.raises(
        UserError, match=r"^unix:///x.sock: the Docker daemon does not answer; sudo systemctl start docker"
    ):
        DOCKER.answer("info", doing="asking")


def test_reports_a_missing_docker_command_as_one_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError) as raised:
        DOCKER.ask("info")
    expected = Problem(
        where="docker",
        what="the docker command was not found",
        hint="sudo apt install docker.io docker-compose-v2 docker-buildx;"
        " then sudo usermod -aG docker $USER, then log out and in again",
    )
    assert raised.value.problems == (expected,)


def test_reports_a_docker_command_without_execute_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^docker: no permission to run the docker command; sudo apt install"):
        DOCKER.ask("info")


@pytest.mark.parametrize("text", ['{"a": 1}\n{"a": 2}\n', '[{"a": 1}, {"a": 2}]', '\n{"a": 1}\n\n{"a": 2}'])
def test_parses_json_objects_from_lines_or_from_one_list(text: str) -> None:
    assert list(json_lines(text)) == [{"a": 1}, {"a": 2}]


def test_returns_the_labels_of_the_images_that_exist(docker: FakeDocker) -> None:
    docker.says(
        "image inspect",
        out='{"tags": ["a:1", "also:1"], "labels": {"x": "12"}}\n{"tags": ["c:1"], "labels": null}\n',
        err="Error response from daemon: No such image: b:1\n",
        code=1,
    )
    assert DOCKER.labels_of(("a:1", "b:1", "c:1")) == {"a:1": {"x": "12"}, "c:1": {}}


def test_labels_of_raises_if_the_engine_is_down(docker: FakeDocker) -> None:
    docker.says("image inspect", err="Cannot connect to the Docker daemon at unix:///x.sock. Is it?\n", code=1)
    with pytest.raises(UserError, match="the Docker daemon does not answer"):
        DOCKER.labels_of(("a:1",))


def test_the_fake_docker_fails_for_an_unexpected_command(docker: FakeDocker) -> None:
    assert DOCKER.ask("surprise").code == 99
    assert docker.calls == ["surprise"]
