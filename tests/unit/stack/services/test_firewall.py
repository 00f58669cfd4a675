from agent_sandbox.stack.naming import addresses
from agent_sandbox.stack.services.firewall import firewall_service

WHERE = addresses("/p")
FIREWALL = firewall_service("agent:1", WHERE)


def test_runs_the_firewall_script_with_the_proxys_address_and_ports() -> None:
    assert FIREWALL.entrypoint == ("/usr/local/lib/agent-sandbox/firewall",)
    assert FIREWALL.environment == {
        "AGENT_SANDBOX_PROXY": f"{WHERE.proxy}:8080",
        "AGENT_SANDBOX_PROXY_PORTS": "tcp/8080 tcp/443 tcp/80 tcp/53 udp/53",
    }


def test_mounts_only_the_trust_store_and_the_public_ca() -> None:
    seen = {mount.source: mount.read_only for mount in FIREWALL.mounts if mount.source}
    assert seen == {"trust": False, "ca-public": True}


def test_has_a_writable_root_file_system() -> None:
    assert not FIREWALL.read_only


def test_is_not_restarted_automatically() -> None:
    assert FIREWALL.restart == "no"


def test_retries_tcp_connections_only_a_few_times() -> None:
    assert FIREWALL.sysctls == {"net.ipv4.tcp_syn_retries": "1", "net.ipv4.tcp_retries2": "4"}
