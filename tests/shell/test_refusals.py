"""refusals.sh: the sets that count refused connections, and the route that leads other networks to them."""

import pytest

from bash_harness import Shell

PARTS = "messages proxy beside refusals"
ADDRESS, PORTS = "198.51.100.2:8080", "tcp/8080 udp/53"

# In the kernel's order: before the redirect to Docker's resolver, with the same exceptions as in rules.sh.
WANTED = """\
chain output {
type filter hook output priority -150; policy accept;
meta skgid 60990 return
ip daddr 198.51.100.2 tcp sport 61000-61999 tcp flags & (fin | syn | rst | ack) == syn drop
ip daddr 198.51.100.2 udp dport 1 add @started { meta nfproto } return
meta nfproto != @started return
ip protocol igmp return
ip daddr 127.0.0.11 goto refused
oif lo return
ip daddr 198.51.100.2 tcp dport 8080 return
ip daddr 198.51.100.2 udp dport 53 return
goto refused
}
}
"""


def rules(shell: Shell, *, group: str) -> str:
    """Return the rules for an image in which `dev` has this group; "" for one without `dev`."""
    id_ = f"id() {{ {'echo ' + group if group else 'false'}; }}; "
    return shell(PARTS, f"{id_}refusal_rules", AGENT_SANDBOX_PROXY=ADDRESS, AGENT_SANDBOX_PROXY_PORTS=PORTS).stdout


@pytest.mark.parametrize("group", ["1000", ""])
def test_counts_exactly_what_the_rules_refuse(shell: Shell, group: str) -> None:
    said = rules(shell, group=group)
    assert said[said.index("chain output") :] == WANTED


def test_ports_of_services_are_not_counted(shell: Shell) -> None:
    done = shell(PARTS, "refusal_rules", AGENT_SANDBOX_PROXY=ADDRESS, AGENT_SANDBOX_BESIDE="198.51.100.9:5432")
    assert "\nip daddr 198.51.100.9 tcp dport 5432 return\ngoto refused\n" in done.stdout


def test_agent_with_the_checkers_group_is_counted_like_any_other(shell: Shell) -> None:
    said = rules(shell, group="60990")
    assert "60990" not in said
    assert "drop" not in said


def test_every_set_that_the_agents_packets_fill_has_a_size(shell: Shell) -> None:
    sets = [line for line in rules(shell, group="").splitlines() if line.startswith("set ")]
    assert len(sets) == 4
    assert [line for line in sets if "size " not in line] == []


def test_a_kernel_that_cannot_count_does_not_stop_the_start(shell: Shell) -> None:
    script = "nft() { cat >/dev/null; return 1; }; python3() { return 1; }; lead_the_rest_nowhere; count_refusals"
    done = shell(PARTS, script, AGENT_SANDBOX_PROXY=ADDRESS)
    assert done.stderr.splitlines() == [
        "agent-sandbox: refused connections to other networks are not counted",
        "agent-sandbox: what the firewall refuses is not counted: nft could not load the sets",
    ]


def test_end_of_the_start_checks_fails_silently(shell: Shell) -> None:
    done = shell(PARTS, "end_start_checks; echo on", AGENT_SANDBOX_PROXY="300.1.1.1:1")
    assert (done.stdout, done.stderr) == ("on\n", "")


ROUTES = "cat /proc/net/route; cat /proc/net/if_inet6"


@pytest.mark.docker
def test_real_kernel_routes_other_networks_to_a_portless_device(wired: Shell) -> None:
    done = wired(PARTS, f"ip route del default; lead_the_rest_nowhere; {ROUTES}")
    found = [line.split() for line in done.stdout.splitlines()]
    assert done.stderr == ""
    assert [line[:3] for line in found if line[0] == "nowhere"] == [["nowhere", "00000000", "00000000"]]
    assert [line for line in found if line[-1] == "nowhere"] == []  # no IPv6 address


@pytest.mark.docker
def test_any_other_default_route_has_priority(wired: Shell) -> None:
    lines = wired(PARTS, "lead_the_rest_nowhere; ip route get 203.0.113.131").stdout
    assert "via 198.51.100.2 dev wire" in lines


@pytest.mark.docker
def test_reports_a_second_device_and_does_not_stop_the_start(wired: Shell) -> None:
    done = wired(PARTS, "lead_the_rest_nowhere; lead_the_rest_nowhere; echo on")
    assert (done.stdout, done.stderr.splitlines()) == (
        "on\n",
        [
            "agent-sandbox: the kernel rejected the device or its route: file exists",
            "agent-sandbox: refused connections to other networks are not counted",
        ],
    )
