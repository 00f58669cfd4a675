import json

import pytest

from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.compose.usage import parse_size, usage, volume_sizes
from agent_sandbox.engines.container import Container, Usage
from fake_docker import FakeDocker

RUNNING = Container(id="1" * 12, service="agent", image="x", state="running")
STOPPED = Container(id="2" * 12, service="proxy", image="x", state="exited")


@pytest.mark.parametrize(
    ("text", "size"), [("1kB", 1000), ("1KiB", 1024), ("2.5GiB", 5 << 29), ("0B", 0), ("N/A", 0), ("-1GB", 0), ("", 0)]
)
def test_parses_decimal_and_binary_sizes_and_counts_invalid_sizes_as_zero(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_only_running_containers_are_measured(docker: FakeDocker) -> None:
    rows = [{"ID": digit * 64, "MemUsage": size} for digit, size in (("1", "1MiB / 8GiB"), ("3", "-- / --"))]
    docker.says("stats", out="\n".join(map(json.dumps, rows))).says("system df", out="[]")
    assert usage(DOCKER, [RUNNING, STOPPED]) == Usage(memory={"1" * 12: 1 << 20}, disk={})
    # A question about certain containers gets no answer if one of them has stopped in the meantime.
    assert "stats --no-stream --no-trunc --format {{json .}}" in docker.calls
    assert usage(DOCKER, [STOPPED]) == Usage(memory={}, disk={})
    assert docker.calls[2:] == ["system df --verbose --format {{json .Volumes}}"]
    assert usage(DOCKER, [STOPPED], disk=False) == Usage(memory={}, disk=None)
    assert len(docker.calls) == 3


@pytest.mark.parametrize("out", ["", "{}x", '{"ID": "1"}', "[1]"])
def test_the_usage_is_unknown_after_an_invalid_answer(docker: FakeDocker, out: str) -> None:
    docker.says("stats", out=out or "?").says("system df", out=out)
    assert usage(DOCKER, [RUNNING]) == Usage(memory=None, disk=None)


def test_volumes_are_selected_by_label(docker: FakeDocker) -> None:
    rows = [{"Name": name, "Size": "1kB", "Labels": f"a=b,p={name}"} for name in ("one", "two")]
    docker.says("system df", out=json.dumps(rows))
    assert volume_sizes(DOCKER, seconds=1, label="p=two") == {"two": 1000}
