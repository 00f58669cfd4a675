"""proxy.sh: the variables that become firewall rules contain only numbers."""

import pytest

from bash_harness import Shell


def test_opens_only_the_port_of_the_address_by_default(shell: Shell) -> None:
    done = shell(
        "messages proxy",
        "check_proxy_variables; proxy_address; proxy_port; proxy_openings",
        AGENT_SANDBOX_PROXY="10.128.0.2:8080",
    )
    assert done.stdout == "10.128.0.2\n8080\ntcp 8080\n"


def test_opens_the_listed_ports(shell: Shell) -> None:
    done = shell(
        "messages proxy",
        "check_proxy_variables; proxy_openings",
        AGENT_SANDBOX_PROXY="10.128.0.2:8080",
        AGENT_SANDBOX_PROXY_PORTS="tcp/8080 tcp/443 udp/53",
    )
    assert done.stdout == "tcp 8080\ntcp 443\nudp 53\n"


@pytest.mark.parametrize(
    "where",
    [
        "",
        "proxy:8080",
        "10.128.0.2",
        "10.128.0.2:",
        "10.128.0.2:0",
        "10.128.0.2:65536",
        "10.128.0.2:08080",
        "10.128.0.256:8080",
        "010.128.0.2:8080",
        "10.128.0.0/8:8080",
        "0.0.0.0/0:8080",
        "10.128.0.2:8080\n-A OUTPUT -j ACCEPT",
        "10.128.0.2 -j ACCEPT:8080",
        "[::1]:8080",
    ],
)
def test_a_malformed_proxy_address_stops_the_start(shell: Shell, where: str) -> None:
    done = shell("messages proxy", "check_proxy_variables", check=False, AGENT_SANDBOX_PROXY=where)
    assert done.returncode == 78
    assert done.stderr == (
        f"agent-sandbox: AGENT_SANDBOX_PROXY is '{where}', not an address like 10.128.0.2:8080; "
        "regenerate the compose file: agent-sandbox init --force\n"
    )


@pytest.mark.parametrize("entry", ["8080", "tcp/", "icmp/8", "tcp/99999", "tcp/80,443", "tcp/80:90", "all/1"])
def test_a_malformed_proxy_port_stops_the_start(shell: Shell, entry: str) -> None:
    done = shell(
        "messages proxy",
        "check_proxy_variables",
        check=False,
        AGENT_SANDBOX_PROXY="10.128.0.2:8080",
        AGENT_SANDBOX_PROXY_PORTS=f"tcp/8080 {entry}",
    )
    assert done.returncode == 78
    assert ", not an entry like tcp/8080; correct it in the compose file\n" in done.stderr


def test_has_network_needs_a_route_on_another_device_than_nowhere(shell: Shell) -> None:
    (shell.home / "none").write_text("Iface Destination\n")
    (shell.home / "one").write_text("Iface\tDestination\nnowhere\t00000000\neth0\t0A800000\n")
    (shell.home / "nowhere").write_text("Iface\tDestination\nnowhere\t00000000\n")
    assert shell("messages proxy", "has_network one").returncode == 0
    assert shell("messages proxy", "has_network none", check=False).returncode == 1
    assert shell("messages proxy", "has_network nowhere", check=False).returncode == 1
