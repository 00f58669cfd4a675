"""beside.sh: the rules of a service's own firewall, and the handling of malformed variables."""

import pytest

from bash_harness import Shell

PARTS = "messages proxy beside rules names verify"
BOX, WEB, CACHE = "198.51.100.2", "198.51.100.4", "198.51.100.5"

WANTED = f"""\
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -s {CACHE}/32 -p tcp --sport 6379 -m conntrack --ctstate ESTABLISHED -j ACCEPT
-A INPUT -s {BOX}/32 -p tcp --dport 5432 -j ACCEPT
-A INPUT -s {WEB}/32 -p tcp --dport 5432 -j ACCEPT
-A OUTPUT -d 127.0.0.11/32 -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -d 127.0.0.11/32 -j REJECT --reject-with icmp-port-unreachable
-A OUTPUT -o lo -j ACCEPT
-A OUTPUT -d {BOX}/32 -p tcp --sport 5432 -m conntrack --ctstate ESTABLISHED -j ACCEPT
-A OUTPUT -d {WEB}/32 -p tcp --sport 5432 -m conntrack --ctstate ESTABLISHED -j ACCEPT
-A OUTPUT -d {CACHE}/32 -p tcp --dport 6379 -j ACCEPT
-A OUTPUT -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -j REJECT --reject-with icmp-port-unreachable
COMMIT
"""
CLIENTS = f"{BOX}:5432 {WEB}:5432"


def test_rules_allow_clients_in_and_replies_and_linked_services_out(shell: Shell) -> None:
    done = shell(PARTS, "service_rules", AGENT_SANDBOX_CLIENTS=CLIENTS, AGENT_SANDBOX_BESIDE=f"{CACHE}:6379")
    assert done.stdout == WANTED


def test_rules_allow_only_loopback_without_clients_and_links(shell: Shell) -> None:
    rules = shell(PARTS, "service_rules", AGENT_SANDBOX_CLIENTS="").stdout.splitlines()
    assert [rule for rule in rules if rule.endswith("ACCEPT")] == [
        "-A INPUT -i lo -j ACCEPT",
        "-A OUTPUT -o lo -j ACCEPT",
    ]


@pytest.mark.parametrize("variable", ["AGENT_SANDBOX_CLIENTS", "AGENT_SANDBOX_BESIDE"])
@pytest.mark.parametrize(
    "value", ["198.51.100.2", "198.51.100.2:0", "198.51.100.0/24:80", "db:80", "198.51.100.2:80;x", ":80", "*"]
)
def test_a_malformed_variable_stops_the_start(shell: Shell, variable: str, value: str) -> None:
    done = shell(PARTS, "check_beside_variables", check=False, **{variable: f"198.51.100.2:1 {value}"})
    assert done.returncode == 78
    assert done.stderr.startswith("agent-sandbox: AGENT_SANDBOX_BESIDE or AGENT_SANDBOX_CLIENTS contains '")


def test_accepts_valid_and_missing_variables(shell: Shell) -> None:
    assert shell(PARTS, "check_beside_variables; echo on", AGENT_SANDBOX_CLIENTS=CLIENTS).stdout == "on\n"
    assert shell(PARTS, "check_beside_variables; echo on").stdout == "on\n"


def test_removes_the_name_server_from_resolv_conf(shell: Shell) -> None:
    file = shell.home / "resolv.conf"
    file.write_text("nameserver 127.0.0.11\n")
    shell(PARTS, "leave_no_name_server", AGENT_SANDBOX_RESOLV=str(file))
    assert file.read_text() == "options timeout:1 attempts:1\n"


def test_stops_the_start_if_dockers_resolver_can_be_reached(shell: Shell) -> None:
    done = shell(PARTS, "connect() { [[ $1 != 127.0.0.11 ]] || return 0; return 1; }; check_closed", check=False)
    assert (done.returncode, done.stderr.split(";")[0]) == (
        78,
        "agent-sandbox: 127.0.0.11 port 53 can be reached without the proxy",
    )
