"""Faults in a running stack: nothing gets out, and it recovers by itself or `status` shows what repairs it."""

import json
import time
from typing import Any

import pytest

from engine import run
from real_stacks import STANDIN_ADDRESS, Project, Projects, trust

# Use up the proxy's memory until the kernel kills a process, and make that the proxy.
HOG = """
import contextlib
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) not in (1, os.getpid()):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:  # a health check may end
            file.write("1000")
held = []
while True:
    held.append(b"x" * (1 << 24))
"""
FILL = "dd if=/dev/zero of=/state/log/filler bs=64k 2>&1; true"


@pytest.fixture(scope="module")
def stack(projects: Projects) -> Project:
    """A stack with a log volume of one megabyte and a health check every five seconds."""
    project = projects.make("faults", "claude")
    override = json.loads(project.override.read_text())
    small = {"type": "tmpfs", "device": "tmpfs", "o": "size=1m,uid=10001,gid=10001,mode=0700"}
    for service in ("proxy", "firewall", "agent"):
        override["services"].setdefault(service, {}).setdefault("healthcheck", {})["interval"] = "5s"
    project.override.write_text(json.dumps({**override, "volumes": {"log": {"driver_opts": small}}}))
    trust(project.path)
    project.allow("allowed.test")
    project.sandbox("up")
    return project


def status(project: Project) -> dict[str, Any]:
    """Return the JSON output of `status`."""
    found: dict[str, Any] = json.loads(project.sandbox("status", "--json").stdout)
    return found


def in_proxy(project: Project, script: str) -> None:
    """Run a script in the proxy container, as the proxy's user."""
    project.compose("exec", "-T", "proxy", "sh", "-c", script)


def pause(project: Project, *services: str) -> None:
    """Pause containers. If the machine is busy, the kernel may need several tries to freeze all processes of one."""
    deadline = time.monotonic() + 60
    for service in services:
        while (done := project.compose("pause", service, check=False)).returncode:
            assert "unable to freeze" in done.stderr, done.stderr
            assert time.monotonic() < deadline, done.stderr
            time.sleep(0.5)


def assert_closed(project: Project) -> None:
    """Nothing gets out, directly or through the proxy."""
    for url, options in ((f"http://{STANDIN_ADDRESS}/", ("--noproxy", "*")), ("http://denied.test/", ())):
        assert project.curl(url, "--max-time", "6", *options)[0] in {0, 403}
    assert project.internet.requests("denied.test") == []


def assert_well(project: Project) -> None:
    """Allowed requests succeed and others are denied."""
    project.wait_until_it_answers("https://allowed.test/", 200)
    assert project.curl("http://denied.test/")[0] == 403


def status_after_a_long_line(project: Project) -> str:
    project.curl(f"http://denied.test/{'x' * 1500}")
    time.sleep(0.2)
    return project.sandbox("status").stdout


def test_a_full_log_volume_opens_nothing_and_status_reports_lost_records(stack: Project) -> None:
    in_proxy(stack, FILL)
    assert_well(stack)
    # Long requests: a few short records, such as the health check's, still fit into the last page.
    stack.exec("sh", "-c", f"for n in $(seq 20); do curl -s -o /dev/null http://denied.test/{'x' * 1500}; done")
    time.sleep(0.2)  # lines are written in batches
    assert status(stack)["log"]["dropped"] > 0
    told = "records lost, and it still cannot be written: [Errno 28]"
    assert any(told in status_after_a_long_line(stack) for _ in range(5))
    in_proxy(stack, "rm /state/log/filler")
    stack.curl("http://denied.test/afterwards")
    time.sleep(0.2)
    assert stack.traffic()[-1]["path"] == "/afterwards"
    assert "records lost; it is written again" in stack.sandbox("status").stdout


def test_a_proxy_that_runs_out_of_memory_lets_nothing_out_and_restarts_by_itself(stack: Project) -> None:
    before = stack.containers()["proxy"]["RestartCount"]
    stack.compose("exec", "-T", "proxy", "/opt/agent-sandbox/venv/bin/python", "-c", HOG, check=False)
    assert_closed(stack)
    assert_well(stack)
    proxy = next(one for one in status(stack)["services"] if one["service"] == "proxy")
    assert proxy["restarts"] > before
    assert "restarted once" in stack.sandbox("status").stdout


def test_a_lost_ca_is_recreated_and_not_trusted_until_the_next_up(stack: Project) -> None:
    volume = next(
        one["Name"] for one in stack.containers()["proxy"]["Mounts"] if one["Destination"] == "/state/private"
    )
    stack.compose("rm", "--stop", "--force", "proxy")
    run("docker", "volume", "rm", volume)
    stack.compose("up", "--detach", "--no-deps", "--wait", "proxy")
    code, said = stack.curl("https://allowed.test/")
    assert (code, "certificate" in said) == (0, True), said
    told = "the agent does not trust the proxy, whose CA changed since the agent started"
    assert f"closed  {told}: agent-sandbox up" in stack.sandbox("status").stdout
    assert told in stack.sandbox("doctor", check=False).stdout
    stack.sandbox("up")
    assert_well(stack)
    assert status(stack)["cut_off"] == ""


def test_restarting_only_the_firewall_leaves_the_agent_without_a_network(stack: Project) -> None:
    run("docker", "restart", "--time", "1", stack.containers()["firewall"]["Id"])
    assert_closed(stack)
    told = "the agent has no network: the firewall restarted without it"
    assert f"closed  {told}: agent-sandbox up" in stack.sandbox("status").stdout
    stack.sandbox("up")
    assert_well(stack)


def test_a_killed_agent_container_cannot_start_again_before_its_firewall(stack: Project) -> None:
    found = {name: one["Id"] for name, one in stack.containers().items()}
    policies = {name: one["HostConfig"]["RestartPolicy"]["Name"] for name, one in stack.containers().items()}
    # The engine restarts the proxy by itself, but not the firewall or the agent.
    assert policies == {"proxy": "unless-stopped", "firewall": "no", "agent": "no"}
    run("docker", "kill", *found.values())
    # Started by hand in the wrong order, the agent container has no network to join.
    early = run("docker", "start", found["agent"], check=False)
    assert (early.returncode, "cannot join network of a non running container" in early.stderr) == (1, True)
    run("docker", "start", found["proxy"])
    assert run("docker", "start", found["agent"], check=False).returncode == 1
    run("docker", "start", found["firewall"], found["agent"])
    assert_closed(stack)
    stack.sandbox("up")
    assert_well(stack)


def test_denies_requests_and_names_the_policy_file_that_the_proxy_cannot_read(stack: Project) -> None:
    stack.policy.chmod(0o600)
    try:
        stack.compose("restart", "proxy")
        said = stack.wait_until_it_answers("http://allowed.test/", 403)
        assert "policy.yaml" in said
        assert "Permission denied" in said
        assert status(stack)["policy"]["state"] == "refused"
    finally:
        stack.policy.chmod(0o644)
    stack.sandbox("proxy", "reload")
    assert_well(stack)


def test_status_reports_a_foreign_container_that_the_agent_cannot_reach(stack: Project) -> None:
    network = f"{status(stack)['project']}_sandbox"
    run("docker", "network", "connect", network, stack.internet.name)
    try:
        found = json.loads(run("docker", "network", "inspect", network).stdout)[0]["Containers"].values()
        address = next(one["IPv4Address"].partition("/")[0] for one in found if one["Name"] == stack.internet.name)
        assert stack.curl(f"http://{address}/", "--noproxy", "*", "--max-time", "5")[0] == 0
        told = f"docker network disconnect {network} {stack.internet.name}"
        assert (status(stack)["strangers"], told in stack.sandbox("doctor", check=False).stdout) == ([told], True)
    finally:
        run("docker", "network", "disconnect", network, stack.internet.name)
    assert status(stack)["strangers"] == []


@pytest.mark.parametrize("service", ["firewall", "agent", "proxy"])
def test_status_doctor_and_verify_report_a_container_that_joins_a_network_namespace(
    stack: Project, service: str
) -> None:
    joined = stack.containers()[service]
    name = f"agent-sandbox-test-joins-{service}"
    image = stack.containers()["agent"]["Config"]["Image"]
    run(
        *("docker", "run", "--detach", "--rm", f"--name={name}", f"--network=container:{joined['Id']}"),
        *("--entrypoint=sleep", image, "600"),
    )
    try:
        assert status(stack)["sharing"] == [f"docker stop {name}"]
        assert f"docker stop {name}" in stack.sandbox("status").stdout
        assert f"docker stop {name}" in stack.sandbox("doctor", check=False).stdout
        done = stack.sandbox("verify", check=False)
        assert (
            done.returncode,
            f"LEAK    network     containers in one namespace          {name}\n" in done.stdout,
        ) == (
            1,
            True,
        )
    finally:
        run("docker", "stop", "--time", "0", name)
    assert status(stack)["sharing"] == []
    assert stack.sandbox("verify").stdout.splitlines()[-1].endswith(" tried, none got out")


def test_up_works_after_the_firewall_was_paused_and_unpaused(stack: Project) -> None:
    ids = {name: one["Id"] for name, one in stack.containers().items()}
    pause(stack, "firewall")
    stack.compose("unpause", "firewall")
    # The engine stops health checks during a pause, and has not run the next one yet.
    assert stack.containers()["firewall"]["State"]["Health"]["Status"] == "unhealthy"
    said = stack.sandbox("up").stderr
    assert "waiting for the next health check of firewall, which was paused" in said
    assert {name: one["Id"] for name, one in stack.containers().items()} == ids
    assert_well(stack)


def test_up_unpauses_a_paused_stack(stack: Project) -> None:
    ids = {name: one["Id"] for name, one in stack.containers().items()}
    pause(stack, *ids)
    assert "closed  proxy, firewall, agent: not running: agent-sandbox up" in stack.sandbox("status").stdout
    assert "unpausing proxy, firewall, agent" in stack.sandbox("up").stderr
    assert {name: one["Id"] for name, one in stack.containers().items()} == ids
    assert_well(stack)


def test_docker_refuses_to_connect_the_agent_container_to_another_network(stack: Project) -> None:
    agent = stack.containers()["agent"]["Id"]
    done = run("docker", "network", "connect", stack.internet.name, agent, check=False)
    assert (done.returncode, "sharing network namespace" in done.stderr) == (1, True), done.stderr
    assert_closed(stack)
