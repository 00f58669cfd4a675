"""probe.py: which results count as closed and which as a leak, on loopback and with fake files of /proc."""

import errno
import importlib.util
import socket
import sys
import threading
from collections.abc import Iterator
from fnmatch import fnmatch
from types import ModuleType

import pytest

from bash_harness import IMAGE

ROUTES = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
OWN = "eth0\t0053D90A\t00000000\t0001\t0\t0\t0\tF0FFFFFF\t0\t0\t0\n"
DEFAULT = "eth1\t00000000\t016433C6\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
NOWHERE = "nowhere\t00000000\t00000000\t0001\t0\t0\t2147483647\t00000000\t0\t0\t0\n"
LOOPBACK6 = "00000000000000000000000000000001 01 80 10 80       lo\n"


@pytest.fixture
def probe() -> ModuleType:
    """Load the program as a module."""
    spec = importlib.util.spec_from_file_location("probe", IMAGE / "probe.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def files(monkeypatch: pytest.MonkeyPatch, probe: ModuleType, **texts: str) -> None:
    """Replace files of `/proc`, named by the last part of their path."""
    monkeypatch.setattr(probe, "text", lambda path: texts.get(path.rpartition("/")[2], ""))


@pytest.mark.parametrize(
    ("number", "verdict"),
    [
        (errno.ECONNREFUSED, "closed"),
        (errno.ENETUNREACH, "closed"),
        (errno.EPERM, "closed"),
        (errno.EHOSTUNREACH, "LEAK"),
    ],
)
def test_only_an_immediate_refusal_counts_as_closed(probe: ModuleType, number: int, verdict: str) -> None:
    assert probe.of_error(OSError(number, "x")).verdict == verdict


def test_a_timeout_is_a_leak(probe: ModuleType) -> None:
    assert probe.of_error(TimeoutError("timed out")) == ("LEAK", "no refusal: timed out")


def test_an_open_port_is_a_leak_and_a_closed_port_is_not(probe: ModuleType) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert probe.connects("127.0.0.1", port) == ("LEAK", "connected")
    assert probe.connects("127.0.0.1", port) == ("closed", "connection refused")


def test_a_datagram_that_the_kernel_accepts_is_a_leak(probe: ModuleType) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        assert probe.sends("127.0.0.1", server.getsockname()[1]) == ("LEAK", "sent")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", ("closed", "403")),
        (b"", ("closed", "ended")),
        (b"HTTP/1.1 200 OK\r\n\r\n", ("LEAK", "it said b'HTTP/1.1 200 OK\\r\\n\\r\\n'")),
        (b"SSH-2.0-x", ("LEAK", "it said b'SSH-2.0-x'")),
    ],
)
def test_only_a_403_or_an_empty_answer_of_the_proxy_counts_as_closed(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch, answer: bytes, expected: tuple[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            talk, _ = server.accept()
            with talk:
                talk.recv(4096)
                talk.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setattr(probe, "PROXY", server.getsockname())
        assert probe.denied(probe.get("http://agent-sandbox.invalid/")) == expected


@pytest.mark.parametrize(
    ("routes", "way_out", "another"),
    [
        (ROUTES, ("closed", "no other route"), ("closed", "none")),
        (ROUTES + OWN, ("closed", "no other route"), ("closed", "eth0")),
        (ROUTES + NOWHERE + OWN, ("closed", "no other route"), ("closed", "eth0")),
        (ROUTES + OWN + DEFAULT, ("LEAK", "eth1 by 198.51.100.1"), ("LEAK", "connected by eth0, eth1")),
    ],
)
def test_reads_routes_and_networks_from_proc(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch, routes: str, way_out: tuple[str, str], another: tuple[str, str]
) -> None:
    files(monkeypatch, probe, route=routes, if_inet6=LOOPBACK6)
    assert (probe.has_a_way_out(), probe.has_other_networks()) == (way_out, another)


def test_a_nowhere_device_with_a_gateway_or_a_port_is_a_leak(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(monkeypatch, probe, route=ROUTES + NOWHERE.replace("\t00000000\t0001", "\t016433C6\t0003"))
    assert probe.has_a_way_out() == ("LEAK", "nowhere by 198.51.100.1")
    monkeypatch.setattr(probe.glob, "glob", lambda pattern: [pattern.replace("*", "eth1")])
    files(monkeypatch, probe, route=ROUTES + OWN + NOWHERE)
    assert probe.has_a_way_out() == ("LEAK", "nowhere by 0.0.0.0")
    assert probe.has_other_networks() == ("LEAK", "connected by eth0, nowhere")


@pytest.mark.parametrize(("group", "is_reserved"), [(60990, True), (1000, False)])
def test_checker_connects_from_its_reserved_ports(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch, group: int, *, is_reserved: bool
) -> None:
    monkeypatch.setattr(probe.os, "getegid", lambda: group)
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(probe, "PROXY", server.getsockname())
        with probe.connected_to_proxy() as talk:
            assert (talk.getsockname()[1] in probe.CHECKER_PORTS) is is_reserved


def test_checker_uses_another_port_if_all_reserved_ones_are_taken(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe.os, "getegid", lambda: 60990)
    monkeypatch.setattr(probe, "CHECKER_PORTS", range(61001, 61102))
    monkeypatch.setattr(probe.random, "sample", lambda ports, _count: ports[:1])
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("", 61001)):
        monkeypatch.setattr(probe, "PROXY", server.getsockname())
        with probe.connected_to_proxy() as talk:
            assert talk.getsockname()[1] != 61001


def test_tries_only_the_chosen_groups(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def walls() -> Iterator[tuple[object, ...]]:
        yield probe.quick("a wall", probe.closed, "read-only")

    def sockets() -> Iterator[tuple[object, ...]]:
        yield probe.quick("a socket", probe.leak, "open")

    monkeypatch.setattr(probe, "GROUPS", (walls, sockets))
    monkeypatch.setattr(sys, "argv", ["probe.py", "--group", "walls"])
    assert probe.main() == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 tried, none got out"
    monkeypatch.setattr(sys, "argv", ["probe.py", "--group", "wall"])
    with pytest.raises(SystemExit):
        probe.main()


def test_counts_the_addresses_and_ports_that_were_tried(probe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "connects", lambda *_: probe.closed("connection refused"))
    assert probe.reaches_any(["127.0.0.1"], (22, 80)).told == "1 address, 2 ports"
    assert probe.reaches_any([], (22,)).told == "0 addresses, 1 port"


def test_neighbours_are_the_other_addresses_of_a_small_network(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(monkeypatch, probe, route=ROUTES + OWN.replace("F0FFFFFF", "FCFFFFFF"))
    monkeypatch.setattr(probe, "own_address", lambda _peer: "10.217.83.1")
    assert probe.neighbours() == ["10.217.83.2"]


def test_expects_services_only_on_their_declared_ports(probe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    files(monkeypatch, probe, route=ROUTES + OWN.replace("F0FFFFFF", "FCFFFFFF"), if_inet6=LOOPBACK6)
    monkeypatch.setattr(probe, "own_address", lambda _peer: "10.217.83.1")
    monkeypatch.setattr(probe, "BESIDE", {("10.217.83.2", "5432")})
    tried: list[tuple[object, ...]] = []

    def connects(*where: object) -> object:
        tried.append(where)
        return probe.closed("refused")

    monkeypatch.setattr(probe, "connects", connects)
    assert (probe.neighbours(), probe.reaches_services()) == ([], ("closed", "1 service"))
    assert ("10.217.83.2", 6379) in tried
    assert ("10.217.83.2", 5432) not in tried
    monkeypatch.setattr(probe, "connects", lambda *_: probe.leak("connected"))
    assert probe.reaches_services().verdict == "LEAK"


def test_the_network_of_services_is_allowed_and_a_third_network_is_a_leak(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = OWN.replace("eth0", "eth1").replace("53D90A", "54D90A")
    monkeypatch.setattr(probe, "BESIDE", {("10.217.84.3", "5432")})
    files(monkeypatch, probe, route=ROUTES + OWN + beside, if_inet6=LOOPBACK6)
    assert probe.has_other_networks() == ("closed", "eth0, eth1")
    third = OWN.replace("eth0", "eth2").replace("53D90A", "55D90A")
    files(monkeypatch, probe, route=ROUTES + OWN + beside + third, if_inet6=LOOPBACK6)
    assert probe.has_other_networks() == ("LEAK", "connected by eth0, eth1, eth2")
    monkeypatch.setattr(probe, "BESIDE", set())
    files(monkeypatch, probe, route=ROUTES + OWN + beside, if_inet6=LOOPBACK6)
    assert probe.has_other_networks() == ("LEAK", "connected by eth0, eth1")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("CapEff:\t0000000000000000\n", ("closed", "none, and none to be gained")),
        ("CapBnd:\t0000000000002000\n", ("LEAK", "CapBnd=0000000000002000")),
    ],
)
def test_a_capability_in_any_set_is_a_leak(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch, status: str, expected: tuple[str, str]
) -> None:
    files(monkeypatch, probe, status=status)
    assert probe.has_capabilities() == expected


@pytest.mark.parametrize(
    ("status", "verdict"), [("NoNewPrivs:\t1\n", "closed"), ("NoNewPrivs:\t0\n", "LEAK"), ("", "note")]
)
def test_a_wrong_status_field_is_a_leak_and_a_missing_field_is_a_note(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch, status: str, verdict: str
) -> None:
    files(monkeypatch, probe, status=status)
    assert probe.field("NoNewPrivs", "1", "never").verdict == verdict


def test_attempts_name_no_com_net_or_org_domains(probe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    files(monkeypatch, probe, route=ROUTES + OWN)
    monkeypatch.setattr(probe, "own_address", lambda _peer: "10.217.83.3")
    monkeypatch.setattr(probe, "PROXY", ("10.217.83.2", 8080))
    tried = [one.what for group in probe.GROUPS for one in group()]
    assert len(tried) == len(set(tried)) > 80
    words = {word for what in tried for word in what.replace("/", " ").split()}
    assert [word for word in words if word.endswith((".com", ".net", ".org"))] == []


def test_reports_each_leak_with_its_fix(
    probe: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def walls() -> Iterator[tuple[object, ...]]:
        yield probe.quick("a wall", probe.leak, "it is gone")
        yield probe.quick("a route out", probe.leak, "eth1")
        yield probe.quick("another", probe.closed, "read-only")

    monkeypatch.setattr(probe, "GROUPS", (walls,))
    found = [one["mend"] for one in probe.results(full=False, listener="")]
    assert found == [probe.ANEW, probe.MEND["a route out"], ""]
    monkeypatch.setattr(sys, "argv", ["probe.py"])
    assert probe.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert (lines[1], lines[4:]) == (
        f"        fix:  {probe.ANEW}",
        ["closed  walls       another                               read-only", "3 tried, 2 got out"],
    )


def test_each_group_has_a_fix(probe: ModuleType) -> None:
    groups = {group.__name__ for group in probe.GROUPS}
    assert (groups | {"capture"}) - set(probe.MEND) == set()


@pytest.mark.parametrize("what", ["ipc", "ssh-auth", "git", "remote-containers-ipc", "wayland"])
def test_recognises_the_sockets_of_vs_code(probe: ModuleType, what: str) -> None:
    path = f"/tmp/vscode-{what}-0123abcd.sock"  # noqa: S108 - a container's
    assert any(fnmatch(path, pattern) for pattern in probe.EDITORS)
