"""verify.sh: a hole in the firewall or a proxy that does not deny stops the start."""

import subprocess

import pytest

from bash_harness import Shell, StandInProxy

LOCK = "deny_everything; open_the_way_to_the_proxy; "
PARTS = "messages proxy beside rules verify"


@pytest.mark.docker
def test_a_namespace_with_the_firewall_passes(wired: Shell) -> None:
    done = wired(PARTS, LOCK + "check_direct_ways; check_proxy_denies; echo passed")
    assert ("passed\n", "") == (done.stdout, done.stderr)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("hole", "where"),
    [
        ("iptables -I OUTPUT -d 203.0.113.131 -j ACCEPT; iptables -I INPUT -j ACCEPT", "203.0.113.131 port 443"),
        ("ip6tables -I OUTPUT -j ACCEPT; ip6tables -I INPUT -j ACCEPT", "2001:db8::1 port 443"),
        ("iptables -I OUTPUT -d 127.0.0.11 -j ACCEPT", "127.0.0.11 port 53"),
        ("iptables -I OUTPUT -d 198.51.100.2 -j ACCEPT", "198.51.100.2 port 22"),
    ],
)
def test_any_hole_in_the_firewall_stops_the_start(wired: Shell, hole: str, where: str) -> None:
    done = wired(PARTS, f"{LOCK} {hole}; check_direct_ways", check=False)
    assert done.returncode == 78
    assert done.stderr == (
        f"agent-sandbox: {where} can be reached without the proxy; "
        "the firewall is not in force: agent-sandbox down, then agent-sandbox up\n"
    )


@pytest.mark.docker
def test_a_dropped_connection_does_not_count_as_refused(wired: Shell) -> None:
    done = wired(PARTS, "deny_everything; check_refused 203.0.113.131 443", check=False)
    assert done.returncode == 78
    assert done.stderr.startswith("agent-sandbox: 203.0.113.131 port 443 is not refused immediately; ")


@pytest.mark.parametrize("status", [403, 418])
def test_accepts_denials_with_another_block_status(shell: Shell, proxy: StandInProxy, status: int) -> None:
    proxy.answers.status = status
    assert shell(PARTS, "check_proxy_denies; echo passed", AGENT_SANDBOX_PROXY=proxy.address).stdout == "passed\n"


def test_asks_the_proxy_even_if_no_proxy_matches_all_hosts(shell: Shell, proxy: StandInProxy) -> None:
    shell(PARTS, "check_proxy_denies", AGENT_SANDBOX_PROXY=proxy.address, NO_PROXY="*", no_proxy="*")
    assert proxy.answers.asked == ("GET http://agent-sandbox.invalid/",)


def test_ignores_curlrc(shell: Shell, proxy: StandInProxy) -> None:
    (shell.home / ".curlrc").write_text("fail\nuser-agent = changed\n")
    assert shell(PARTS, "check_proxy_denies; echo passed", AGENT_SANDBOX_PROXY=proxy.address).stdout == "passed\n"
    (shell.home / ".curlrc").write_text(f"proxy = http://{proxy.address}\n")
    done = shell(PARTS, "ask_for_a_denial", check=False, AGENT_SANDBOX_PROXY="127.0.0.1:9")
    assert (done.returncode, done.stdout) == (7, "000 ")


@pytest.mark.parametrize(("status", "verdict"), [(200, "blocked"), (403, "other"), (502, "unreachable")])
def test_any_other_answer_stops_the_start(shell: Shell, proxy: StandInProxy, status: int, verdict: str) -> None:
    proxy.answers.status, proxy.answers.verdict = status, verdict
    done = shell(
        PARTS, "check_proxy_denies", check=False, AGENT_SANDBOX_PROXY=proxy.address, AGENT_SANDBOX_PROXY_WAIT="0"
    )
    assert done.returncode == 78
    assert done.stderr == (
        f"agent-sandbox: the proxy at {proxy.address} does not deny a request that no policy allows "
        f"(answer: '{f'{status} {verdict}'}'); see: agent-sandbox logs proxy\n"
    )


def test_waits_for_a_proxy_that_starts_late(shell: Shell, proxy: StandInProxy) -> None:
    script = """
    tries=0
    ask_for_a_denial() { [[ -e late ]] && echo '403 blocked' || { touch late; return 7; }; }
    check_proxy_denies; echo passed
    """
    assert shell(PARTS, script, AGENT_SANDBOX_PROXY=proxy.address).stdout == "passed\n"


def probe(shell: Shell, said: str, code: int) -> subprocess.CompletedProcess[str]:
    """Run `check_walls` with a probe that prints this."""
    script = shell.home / "probe.py"
    script.write_text(f"#!/bin/sh\nprintf '{said}'\nexit {code}\n")
    script.chmod(0o755)
    return shell(PARTS, f"here={shell.home}; check_walls; echo passed", check=False)


def test_prints_nothing_if_the_probe_finds_no_leak(shell: Shell) -> None:
    done = probe(shell, r"closed  direct  tcp\n1 tried, none got out\n", 0)
    assert (done.stdout, done.stderr) == ("passed\n", "")


def test_a_leak_is_printed_and_stops_the_start(shell: Shell) -> None:
    done = probe(shell, r"closed  direct  tcp\nLEAK    direct  udp\n2 tried, 1 got out\n", 1)
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == (
        "LEAK    direct  udp\n2 tried, 1 got out\nagent-sandbox: the container is not sealed; "
        "see the lines above; agent-sandbox down, then agent-sandbox up, recreates the stack\n"
    )
