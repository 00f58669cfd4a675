import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.features.doctor import link_mtu as subject
from agent_sandbox.features.doctor.link_mtu import link_mtu
from capture_server import Capture
from certificates import make_authority

SRC = Path(subject.__file__).parents[3]
# A link that drops large packets silently, in its own network namespace; a frame is 14 bytes longer.
ALONE = ("unshare", "--user", "--map-root-user", "--net")
SMALL = "ip link set lo up mtu 1500; tc qdisc add dev lo root tbf rate 100mbit burst {} limit 1000000"
PROBING = """
import sys
from pathlib import Path
from agent_sandbox.features.doctor import link_mtu as subject
from capture_server import Capture
subject.why_forbidden = lambda _: None
with Capture(certificate=Path(sys.argv[1])) as server:
    print(subject.link_mtu("127.0.0.1", server.port))
"""


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        (lambda _: True, 0),
        (lambda _: False, 0),
        (lambda mtu: mtu <= 1420, 1420),
        (lambda mtu: mtu <= 1300, 1280),
        (lambda mtu: mtu <= 1000, 576),
    ],
)
def test_finds_the_largest_mtu_that_makes_a_difference(
    monkeypatch: pytest.MonkeyPatch, passes: Callable[[int], bool], expected: int
) -> None:
    monkeypatch.setattr(subject, "_answers", lambda _host, _port, mtu: passes(mtu))
    assert link_mtu("a.test", 443) == expected


@pytest.mark.parametrize(("burst", "expected"), [(1300, "1280"), (1600, "0")])
def test_finds_a_small_link_to_a_real_server(tmp_path: Path, burst: int, expected: str) -> None:
    make_authority(tmp_path, [f"{'x' * 60}.{number}.test" for number in range(100)])  # its handshake fills packets
    script = f'{SMALL.format(burst)}; exec "$@"'
    done = subprocess.run(
        (*ALONE, "sh", "-ec", script, "sh", sys.executable, "-c", PROBING, str(tmp_path / "leaf.pem")),
        env={"PYTHONPATH": ":".join((str(SRC), *sys.path)), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


def test_connects_to_no_address_that_the_proxy_refuses(tmp_path: Path) -> None:
    make_authority(tmp_path, ["a.test"])
    with Capture(certificate=tmp_path / "leaf.pem") as server:
        assert link_mtu("127.0.0.1", server.port) == 0
        assert server.connections == 0


def test_a_server_that_refuses_the_handshake_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "why_forbidden", lambda _: None)
    tried: list[int] = []
    real = subject._answers

    def answers(host: str, port: int, mtu: int) -> bool:
        tried.append(mtu)
        return real(host, port, mtu)

    monkeypatch.setattr(subject, "_answers", answers)
    make_authority(tmp_path, ["a.test"])
    with Capture() as plain:  # which answers no ClientHello with TLS
        plain.greeting = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        assert link_mtu("127.0.0.1", plain.port) == 0
    assert tried == [1500]
    assert link_mtu("127.0.0.1", plain.port) == 0  # it is closed now
    assert tried == [1500, 1500, 576]
