import json
import re
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.doctor.commands.verify import CHECKER_GROUP, verify
from agent_sandbox.project.owners import owner_of
from agent_sandbox.proxy.audit.audit_log import CHECKER_PORTS
from bash_harness import ROOT
from fake_docker import FakeDocker
from fake_refusals import refusals_said
from fake_stack import with_containers

PROBE = "agent0000000 /usr/local/lib/agent-sandbox/probe.py --json"
OVER_NETWORK = " --group direct --group names --group network --group proxy"
INSIDE = " --group privileges --group sockets --group walls"
REFUSALS = "firewall0000 /usr/local/lib/agent-sandbox/refusals"


CLOSED = {"group": "direct", "tried": "tcp", "verdict": "closed", "told": "refused", "mend": "", "ms": 1}
OPEN = {"group": "names", "tried": "dns", "verdict": "LEAK", "told": "sent", "mend": "look", "ms": 2}
WALL = {**CLOSED, "group": "walls", "tried": "write", "told": "read-only"}
NONE_SHARES = {
    "group": "network",
    "tried": "containers in one namespace",
    "verdict": "closed",
    "told": "only the agent's own",
    "mend": "",
    "ms": 0,
}
AGENT, OTHER = "agent".ljust(64, "0"), "f" * 64


def said(*probes: object) -> str:
    return json.dumps({"ok": True, "probes": probes})


def probing(docker: FakeDocker, *, out: str = "", err: str = "", code: int = 0) -> None:
    """Fake this answer of the probe about the network, and one closed write inside."""
    docker.says(OVER_NETWORK, out=out, err=err, code=code).says(f"{PROBE}{INSIDE}", out=said(WALL))


def running(docker: FakeDocker, *rows: str) -> None:
    """Fake containers with these networks on the engine: `ID NAME MODE`."""
    docker.says("inspect --type container --format", out="".join(f"{row}\n" for row in rows))
    docker.says("ps --quiet --no-trunc", out="".join(f"{row.split()[0]}\n" for row in rows))


def test_prints_and_counts_the_results_of_the_probe(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    probing(docker, out=said(CLOSED, OPEN), code=1)
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert capsys.readouterr().out.splitlines() == [
        "closed  direct      tcp                                  refused",
        "LEAK    names       dns                                  sent",
        "        fix:  look",
        "closed  walls       write                                read-only",
        "closed  network     containers in one namespace          only the agent's own",
        "4 tried, 1 got out",
    ]


def test_also_probes_the_network_of_each_service_beside_the_sandbox(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    probing(docker, out=said(CLOSED))
    of_services = " --group direct --group names --group network"
    probe = "--user 65534:65534 firewall.db0 /usr/local/lib/agent-sandbox/probe.py --json"
    docker.says(f"{probe}{of_services}", out=said(OPEN), code=1)
    with_containers(docker, **{"agent": "healthy", "firewall.db": "healthy", "db": "healthy", "firewall.old": "exited"})
    assert exit_code(verify) == 1
    assert capsys.readouterr().out.splitlines() == [
        "closed  direct      tcp                                  refused",
        "closed  walls       write                                read-only",
        "LEAK    names       db: dns                              sent",
        "        fix:  look",
        "closed  network     containers in one namespace          only the agent's own",
        "4 tried, 1 got out",
    ]


def test_exits_with_0_if_nothing_got_out(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.exists()
    probing(docker, out=said(CLOSED, {**CLOSED, "verdict": "note"}))
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 tried, none got out"


@pytest.mark.parametrize("found", [(CLOSED,), ({**CLOSED, "verdict": "opened"},)])
def test_fails_on_an_unknown_verdict_or_a_failed_probe(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], found: tuple[object, ...]
) -> None:
    assert project.exists()
    probing(docker, out=said(*found), code=1)
    with_containers(docker, agent="healthy")
    assert exit_code(lambda: verify(json=True)) == 1
    assert json.loads(capsys.readouterr().out) == {"ok": False, "probes": [*found, WALL, NONE_SHARES]}


def test_another_container_in_the_agents_namespace_is_a_leak(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    probing(docker, out=said(CLOSED))
    running(docker, f"{AGENT} /app-1-agent-1 container:{'e' * 64}", f"{OTHER} /db container:{AGENT}")
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "LEAK    network     containers in one namespace          db",
        "        fix:  docker stop db",
        "3 tried, 1 got out",
    ]


def test_passes_its_options_to_the_probe(project: Path, docker: FakeDocker) -> None:
    docker.says(OVER_NETWORK, out=said(CLOSED)).says(INSIDE, out=said(WALL))
    with_containers(docker, agent="unhealthy")
    assert exit_code(lambda: verify(full=True, json=True, capture="198.51.100.9:9")) == 0
    owner = owner_of(project)
    assert [line for line in docker.calls if "probe.py" in line] == [
        f"exec --user {owner.uid}:60990 {PROBE} --full --capture 198.51.100.9:9{OVER_NETWORK}",
        f"exec {PROBE} --full{INSIDE}",
    ]


def test_escapes_control_characters_in_the_output_of_the_probe(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    probing(docker, out=said({**CLOSED, "told": "\x1b[2J\nclosed"}))
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("  \\x1b[2J\\x0aclosed")


@pytest.mark.parametrize(
    "out",
    [
        "",
        "[]",
        "all is well",
        '{"probes": 1}',
        '{"probes": []}',
        '{"probes": [{}]}',
        "[" * 100_000,
        said({**CLOSED, "ms": "1"}),
        f'{{"probes": [{"9" * 5000}]}}',
    ],
)
def test_rejects_malformed_output_of_the_probe(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    assert project.exists()
    probing(docker, out=out)
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert capsys.readouterr().err == (
        f"error: the probe: unexpected output: {out[:200]}\n"
        "  hint: agent-sandbox up recreates the agent container if it is damaged\n"
    )


def test_reports_an_agent_that_does_not_run(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    with_containers(docker, agent="exited")
    assert exit_code(verify) == 1
    assert capsys.readouterr().err.startswith("error: app-1: the agent is exited with code 1\n")


def test_reports_a_container_without_the_probe(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    probing(docker, err="OCI runtime exec failed: no such file or directory\n", code=126)
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert "no such file or directory" in capsys.readouterr().err


def told(docker: FakeDocker) -> list[str]:
    """Return the seconds passed to the proxy, and "" for each run of the probe."""
    lines = [line for line in docker.calls if "agent_sandbox.proxy verify" in line or "probe.py" in line]
    return [line.partition(" --seconds ")[2].partition(" ")[0] for line in lines]


def test_informs_the_proxy_when_verification_starts_and_ends(project: Path, docker: FakeDocker) -> None:
    assert project.exists()
    docker.says("agent_sandbox.proxy verify", out='{"ok": true}').says(REFUSALS, out=refusals_said())
    probing(docker, out="no json")
    with_containers(docker, firewall="healthy", agent="healthy")
    assert exit_code(verify) == 1
    assert told(docker) == ["120", "", "", "0"]


@pytest.mark.parametrize(("out", "code"), [("", 1), (refusals_said(started=False), 0)])
def test_does_not_inform_the_proxy_if_the_probe_cannot_be_recognised(
    project: Path, docker: FakeDocker, out: str, code: int
) -> None:
    assert project.exists()
    docker.says(REFUSALS, out=out, code=code)
    probing(docker, out=said(CLOSED))
    with_containers(docker, firewall="healthy", agent="healthy")
    assert exit_code(verify) == 0
    assert told(docker) == ["", ""]


def test_suggests_rebuilding_an_image_with_an_older_probe(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    probing(docker, err="probe.py: error: unrecognized arguments: --group", code=2)
    with_containers(docker, agent="healthy")
    assert exit_code(verify) == 1
    assert capsys.readouterr().err == (
        "error: the probe: the agent's image is of another version\n  hint: agent-sandbox up rebuilds it\n"
    )


def test_each_group_of_the_probe_is_run_once() -> None:
    groups = re.search(r"^GROUPS = \((.*)\)$", (ROOT / "images/agent/probe.py").read_text(), re.MULTILINE)
    assert groups is not None
    words = f"{OVER_NETWORK}{INSIDE}".split()
    assert sorted(groups[1].split(", ")) == sorted(words[1::2])


def test_firewall_probe_and_proxy_agree_on_how_the_probe_is_recognised() -> None:
    rules, probe = ((ROOT / "images/agent" / name).read_text() for name in ("lib/refusals.sh", "probe.py"))
    first, last = CHECKER_PORTS[0], CHECKER_PORTS[-1]
    assert f"readonly checker_group={CHECKER_GROUP} " in rules
    assert f"readonly checker_ports={first}-{last}\n" in rules
    assert f"CHECKER_GROUP, CHECKER_PORTS = {CHECKER_GROUP}, range({first}, {last + 1})\n" in probe
