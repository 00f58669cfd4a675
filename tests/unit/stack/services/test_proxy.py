from agent_sandbox.stack.naming import addresses
from agent_sandbox.stack.recorded import MountKind
from agent_sandbox.stack.services.proxy import proxy_service

WHERE = addresses("/p")
PROXY = proxy_service("proxy:1", WHERE, {})


def test_listens_only_on_its_sandbox_address_and_reads_the_projects_policy() -> None:
    assert PROXY.command == (
        *("run", "--policy", "/policy/policy.yaml", "--policy-name", ".devcontainer/policy.yaml"),
        *("--listen", f"{WHERE.proxy}:8080", "--state", "/state"),
        *("--tls", f"{WHERE.proxy}:443", "--http", f"{WHERE.proxy}:80", "--dns", f"{WHERE.proxy}:53"),
    )


def test_the_policys_directory_is_mounted_read_only() -> None:
    (policy,) = [mount for mount in PROXY.mounts if mount.kind is MountKind.BIND]
    assert (policy.source, policy.target, policy.read_only) == (".devcontainer", "/policy", True)


def test_layers_are_mounted_read_only_and_passed_in_order() -> None:
    layered = proxy_service("proxy:1", WHERE, {"user": "/home/me/x", "organisation": "/etc/x"})
    assert layered.command[-4:] == (
        *("--layer", "user=/layers/user/policy.yaml"),
        *("--layer", "organisation=/layers/organisation/policy.yaml"),
    )
    binds = [mount for mount in layered.mounts if mount.kind is MountKind.BIND]
    assert [(mount.source, mount.target, mount.read_only) for mount in binds[1:]] == [
        ("/home/me/x", "/layers/user", True),
        ("/etc/x", "/layers/organisation", True),
    ]


def test_has_a_read_only_root_file_system_and_two_tmpfs_mounts() -> None:
    assert PROXY.read_only
    assert [mount.target for mount in PROXY.mounts if mount.kind is MountKind.TMPFS] == ["/state/run", "/tmp"]  # noqa: S108 - a container's


def test_the_health_check_asks_the_proxy() -> None:
    assert PROXY.healthcheck is not None
    assert PROXY.healthcheck.test[1:5] == ("-P", "-m", "agent_sandbox.proxy", "health")
    assert PROXY.healthcheck.test[-2:] == ("--proxy", f"{WHERE.proxy}:8080")


def test_the_health_check_fails_within_30_seconds() -> None:
    check = PROXY.healthcheck
    assert check is not None
    assert check.start_period + check.interval * check.retries <= 30
