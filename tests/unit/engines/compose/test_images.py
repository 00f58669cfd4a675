import json
import platform

import pytest

from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.compose.images import download_size, images, own_images
from agent_sandbox.problems import UserError
from fake_docker import FakeDocker

ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
MANIFEST = {"layers": [{"size": 100}, {"size": 23}, {"size": "many"}, {"size": -9}]}


@pytest.fixture
def engine(docker: FakeDocker) -> FakeDocker:
    docker.says("image ls --filter label=agent-sandbox.digest", out="agent-sandbox/b:1\nagent-sandbox/a:1\nmine:1\n")
    return docker.says("ps --all", out="1 agent-sandbox/b:1\n")


def test_lists_images_with_our_name_and_label_that_no_container_uses(engine: FakeDocker) -> None:
    engine.says("df", out=json.dumps([{"Repository": "agent-sandbox/a", "Tag": "1", "UniqueSize": "1.5kB"}]))
    assert own_images(DOCKER) == {"agent-sandbox/a:1": 1500}
    assert own_images(DOCKER, leaving=["1"]) == {"agent-sandbox/a:1": 1500, "agent-sandbox/b:1": None}


@pytest.mark.parametrize("said", ["", "[1]", "[{}]", "null"])
def test_the_size_is_unknown_if_the_engine_does_not_report_a_valid_size(engine: FakeDocker, said: str) -> None:
    engine.says("df", out=said)
    assert own_images(DOCKER) == {"agent-sandbox/a:1": None}


def test_returns_the_digests_of_the_images_that_exist(docker: FakeDocker) -> None:
    built = '{"tags": ["agent-sandbox/a:1"], "labels": {"agent-sandbox.digest": "12"}}\n'
    unlabelled = '{"tags": ["agent-sandbox/b:1"], "labels": null}\n'
    docker.says("agent-sandbox/a:1 agent-sandbox/b:1", out=built + unlabelled)
    docker.says("-- db:1", out=f'["db@{ONE}", "mirror/db@{TWO}"]\n').says("-- built:1", out="[]\n")
    docker.says("-- none:1", err="Error response from daemon: No such image: none:1\n", code=1)
    others = {"db:1": {ONE, TWO}, "built:1": frozenset()}
    names = ("db:1", "agent-sandbox/a:1", "built:1", "none:1", "agent-sandbox/b:1")
    assert images(DOCKER, names) == {**others, "agent-sandbox/a:1": {"12"}, "agent-sandbox/b:1": frozenset()}
    assert (len(docker.calls), images(DOCKER, ())) == (4, {})
    docker.says("-- other:1", err="Cannot connect to the Docker daemon at unix:///x.sock. Is it?\n", code=1)
    with pytest.raises(UserError, match="the Docker daemon does not answer"):
        images(DOCKER, ("other:1",))


def test_adds_up_the_sizes_of_the_layers_for_this_machine(docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    arm, amd = ({"os": "linux", "architecture": name} for name in ("arm64", "amd64"))
    index = {"manifests": [{"digest": ONE, "platform": arm}, {"digest": TWO, "platform": amd}, "x", {"platform": 1}]}
    docker.says("-- one:1", out=json.dumps(MANIFEST)).says("-- reg.test:5000/many:1", out=json.dumps(index))
    docker.says(f"-- reg.test:5000/many@{TWO}", out=json.dumps(MANIFEST))
    assert [download_size(DOCKER, image) for image in ("one:1", "reg.test:5000/many:1")] == [123, 123]


@pytest.mark.parametrize(
    ("out", "code"), [("", 1), ("not JSON", 0), ("{}", 0), ('{"layers": 3}', 0), ('{"manifests": [3]}', 0)]
)
def test_the_download_size_is_unknown_if_the_registry_does_not_report_a_size(
    docker: FakeDocker, out: str, code: int
) -> None:
    docker.says("imagetools inspect", out=out, code=code)
    assert download_size(DOCKER, "db:1") is None
