from agent_sandbox.stack.naming import addresses
from agent_sandbox.stack.services.firewall import firewall_service

WHERE = addresses("/p")
FIREWALL = firewall_service("agent:1", WHERE)


def test_it_runs_the_one_script_that_locks_the_network() -> None:
    assert FIREWALL.entrypoint == ("/usr/local/lib/agent-sandbox/firewall",)
    assert FIREWALL.environment == {
        "AGENT_SANDBOX_PROXY": f"{WHERE.proxy}:8080",
        "AGENT_SANDBOX_PROXY_PORTS": "tcp/8080 tcp/443 tcp/80 tcp/53 udp/53",
    }


def test_it_sees_nothing_of_the_project_and_no_key() -> None:
    seen = {mount.source: mount.read_only for mount in FIREWALL.mounts if mount.source}
    assert seen == {"trust": False, "ca-public": True}


def test_it_can_write_the_file_that_names_the_resolver() -> None:
    assert not FIREWALL.read_only


def test_it_does_not_come_back_alone() -> None:
    assert FIREWALL.restart == "no"


def test_its_kernel_soon_gives_up_on_a_proxy_that_is_gone() -> None:
    assert FIREWALL.sysctls == {"net.ipv4.tcp_syn_retries": "1", "net.ipv4.tcp_retries2": "4"}
