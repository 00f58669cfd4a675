"""rules.sh: the text of the rules, and their effect on a real kernel in a namespace of the test."""

import pytest

from bash_harness import Shell

LOCK = "deny_everything; open_the_way_to_the_proxy; check_policies; "
PARTS = "messages proxy beside rules"

WANTED = """\
*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT DROP [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -s 198.51.100.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A OUTPUT -d 127.0.0.11/32 -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -d 127.0.0.11/32 -j REJECT --reject-with icmp-port-unreachable
-A OUTPUT -o lo -j ACCEPT
-A OUTPUT -d 198.51.100.2/32 -p tcp -m tcp --dport 8080 -j ACCEPT
-A OUTPUT -d 198.51.100.2/32 -p udp -m udp --dport 53 -j ACCEPT
-A OUTPUT -p tcp -j REJECT --reject-with tcp-reset
-A OUTPUT -j REJECT --reject-with icmp-port-unreachable
COMMIT
"""


def connect(address: str, port: int) -> str:
    """Return a script that prints whether a connection was made, refused at once, or not answered."""
    return f"""
    status=0
    timeout 2 bash -c 'exec 3<>/dev/tcp/{address}/{port}' 2>/dev/null || status=$?
    case $status in 0) echo connected;; 1) echo refused;; *) echo silence;; esac
    """


def test_allows_connections_to_the_proxy_and_its_replies(shell: Shell) -> None:
    done = shell(
        PARTS, "ipv4_rules", AGENT_SANDBOX_PROXY="198.51.100.2:8080", AGENT_SANDBOX_PROXY_PORTS="tcp/8080 udp/53"
    )
    assert done.stdout == WANTED


def test_allows_connections_to_declared_ports_of_services_and_their_replies(shell: Shell) -> None:
    done = shell(
        PARTS,
        "ipv4_rules",
        AGENT_SANDBOX_PROXY="198.51.100.2:8080",
        AGENT_SANDBOX_PROXY_PORTS="tcp/8080 udp/53",
        AGENT_SANDBOX_BESIDE="198.51.100.9:5432 198.51.100.10:6379",
    )
    assert [line for line in done.stdout.splitlines() if line not in WANTED.splitlines()] == [
        "-A INPUT -s 198.51.100.9/32 -p tcp --sport 5432 -m conntrack --ctstate ESTABLISHED -j ACCEPT",
        "-A INPUT -s 198.51.100.10/32 -p tcp --sport 6379 -m conntrack --ctstate ESTABLISHED -j ACCEPT",
        "-A OUTPUT -d 198.51.100.9/32 -p tcp --dport 5432 -j ACCEPT",
        "-A OUTPUT -d 198.51.100.10/32 -p tcp --dport 6379 -j ACCEPT",
    ]


def test_allows_only_loopback_over_ipv6(shell: Shell) -> None:
    rules = shell(PARTS, "ipv6_rules").stdout.splitlines()
    assert [rule for rule in rules if rule.endswith("ACCEPT")] == [
        "-A INPUT -i lo -j ACCEPT",
        "-A OUTPUT -o lo -j ACCEPT",
    ]
    assert rules[1:4] == [":INPUT DROP [0:0]", ":FORWARD DROP [0:0]", ":OUTPUT DROP [0:0]"]


def test_closes_ipv4_and_ipv6_before_it_opens_ports(shell: Shell) -> None:
    script = """
    load_rules() { echo "$1 $(grep -c ACCEPT)"; }
    has_ipv6() { true; }
    deny_everything; open_the_way_to_the_proxy
    """
    done = shell(PARTS, script, AGENT_SANDBOX_PROXY="198.51.100.2:8080", check=False)
    assert done.stdout.split("\n")[:2] == ["iptables-restore 0", "ip6tables-restore 0"]
    assert done.stdout.split("\n")[2:4] == ["iptables-restore 4", "ip6tables-restore 2"]


def test_loads_no_ipv6_rules_on_a_kernel_without_ipv6(shell: Shell) -> None:
    script = (
        "load_rules() { cat >/dev/null; echo $1; }; has_ipv6() { false; }; deny_everything; open_the_way_to_the_proxy"
    )
    done = shell(PARTS, script, AGENT_SANDBOX_PROXY="198.51.100.2:8080")
    assert done.stdout == "iptables-restore\niptables-restore\n"


def test_rules_that_do_not_load_stop_the_start(shell: Shell) -> None:
    done = shell(PARTS, "iptables-restore() { return 1; }; deny_everything", check=False)
    assert done.returncode == 78
    assert done.stderr.startswith(
        "agent-sandbox: iptables-restore could not load the firewall; the Docker host's kernel needs"
    )


def test_a_default_policy_of_accept_stops_the_start(shell: Shell) -> None:
    script = (
        "iptables() { printf '%s\\n' '-P INPUT DROP' '-P FORWARD DROP' '-P OUTPUT ACCEPT'; }; check_policy iptables"
    )
    done = shell(PARTS, script, check=False)
    assert done.returncode == 78
    assert done.stderr.startswith("agent-sandbox: iptables does not drop by default in OUTPUT; ")


@pytest.mark.docker
@pytest.mark.parametrize(
    ("address", "port", "before", "after"),
    [
        ("198.51.100.2", 8080, "connected", "connected"),
        ("198.51.100.2", 22, "connected", "refused"),
        ("203.0.113.131", 443, "connected", "refused"),
        ("2001:db8::1", 443, "connected", "refused"),
        ("127.0.0.11", 53, "connected", "refused"),
        ("198.51.100.2", 81, "refused", "refused"),
    ],
)
def test_a_real_kernel_allows_only_the_proxy(wired: Shell, address: str, port: int, before: str, after: str) -> None:
    probe = connect(address, port)
    assert f"{before}\n{after}\n" == wired(PARTS, f"{probe}{LOCK}{probe}").stdout


@pytest.mark.docker
def test_a_real_kernel_loads_the_rules_twice_and_refuses_datagrams(wired: Shell) -> None:
    send = """python3 - <<'X'
import socket
for address in ("203.0.113.131", "127.0.0.11", "2001:db8::1"):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect((address, 53))
        try:
            s.send(b"x")
            s.recv(1)
        except OSError as error:
            print(type(error).__name__)
X
"""
    got = wired(PARTS, f"{LOCK}{LOCK}\n{send}").stdout.split()
    # A rejected UDP datagram is EPERM or a port unreachable, by family; silence would be TimeoutError.
    assert set(got) <= {"ConnectionRefusedError", "PermissionError"}
    assert len(got) == 3


@pytest.mark.docker
def test_deny_everything_drops_connections_to_the_proxy(wired: Shell) -> None:
    got = wired(PARTS, "deny_everything; " + connect("198.51.100.2", 8080)).stdout
    assert got == "silence\n"


ASK_NOBODY = """python3 - <<'X'
import socket, time
started = time.monotonic()
try:
    socket.create_connection(("198.51.100.9", 8080), 5)
except OSError as error:
    print(error.strerror, time.monotonic() - started < 1.5)
X
"""


@pytest.mark.docker
def test_a_real_kernel_fails_connections_quickly_if_the_proxy_is_gone(wired: Shell) -> None:
    script = f"{LOCK}notice_soon_that_the_proxy_is_gone; {ASK_NOBODY}"
    done = wired(PARTS, script, AGENT_SANDBOX_PROXY="198.51.100.9:8080")
    assert (done.stdout, done.stderr) == ("No route to host True\n", "")


def test_warns_if_it_cannot_make_connections_fail_quickly(shell: Shell) -> None:
    done = shell(PARTS, "python3() { return 1; }; notice_soon_that_the_proxy_is_gone")
    assert done.stderr == "agent-sandbox: if the proxy is gone, requests fail after three seconds, not two\n"
