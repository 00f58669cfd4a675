from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.doctor.missing_parts import missing_parts, report_missing_engine, require_all_parts
from agent_sandbox.features.session.commands.run import run
from agent_sandbox.problems import UserError
from fake_docker import FakeDocker

APT = "sudo apt install docker.io docker-compose-v2 docker-buildx"
NO_COMMAND = (
    f"docker: the docker command was not found; {APT}; then sudo usermod -aG docker $USER, then log out and in again"
)
DOWN = "Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?"
ANSWERS = '{"Client": {"Version": "28.0.0"}, "Server": {"Version": "28.0.0"}}'


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty directory on a machine without docker."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plugins(docker: FakeDocker) -> FakeDocker:
    """Have both plugins."""
    docker.says("compose version", out="2.30.0\n")
    return docker.says("buildx version", out="github.com/docker/buildx v0.20.0 abc\n")


def missing() -> list[str]:
    return list(map(str, missing_parts()))


def test_everything_that_is_missing_is_reported_at_once(docker: FakeDocker) -> None:
    docker.says("version --format", out='{"Client": {}, "Server": null}', err=DOWN, code=1)
    docker.says("info", err=DOWN, code=1)
    docker.says("compose version", err="docker: 'compose' is not a docker command.", code=1)
    docker.says("buildx version", err="docker: 'buildx' is not a docker command.", code=1)
    assert missing() == [
        "unix:///x.sock: the Docker daemon does not answer; sudo systemctl start docker",
        "compose: the docker command has no compose v2; sudo apt install docker-compose-v2",
        "buildx: the docker command has no buildx, which builds the images; sudo apt install docker-buildx",
    ]
    with pytest.raises(UserError):
        require_all_parts()


def test_reports_nothing_on_a_machine_with_all_parts(docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    plugins(docker).says("version --format", out=ANSWERS)
    require_all_parts()
    report_missing_engine()
    assert capsys.readouterr() == ("", "")


def test_init_reports_missing_docker_below_the_next_steps(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nowhere.exists()
    report_missing_engine()
    what, _, hint = NO_COMMAND.partition("; ")
    assert capsys.readouterr().err == f"  before that, {what}\n    hint: {hint}\n"


def test_run_without_docker_fails_before_it_writes_anything(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: run(["claude"])) == 1
    what, _, hint = NO_COMMAND.partition("; ")
    assert capsys.readouterr().err == f"error: {what}\n  hint: {hint}\n"
    assert list(nowhere.iterdir()) == []
