"""The protections of a running stack, each tested from inside and each on its own."""

import json
import os
import re
import struct

import pytest

from engine import run
from real_stacks import STANDIN_ADDRESS, Project


def process_status(project: Project, *, user: str | None = None) -> dict[str, str]:
    """Return /proc/self/status of a process that `exec` starts."""
    lines = project.exec("cat", "/proc/self/status", user=user).stdout.splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def test_these_tests_run_in_a_project_image_with_masks(claude: Project) -> None:
    assert claude.containers()["agent"]["Config"]["Image"].startswith("agent-sandbox/project:")
    assert claude.exec("sh", "-ec", "tree --version >/dev/null; cat masked.env; ls -A masked").stdout == ""
    mounts = {mount["Destination"] for mount in claude.containers()["agent"]["Mounts"]}
    assert "/workspace/masked.env" in mounts


def test_exec_runs_as_uid_1000(claude: Project) -> None:
    assert claude.exec("id", "-u").stdout == "1000\n"


@pytest.mark.parametrize("user", [None, "root"])
def test_exec_has_no_capability_and_cannot_gain_one(claude: Project, user: str | None) -> None:
    status = process_status(claude, user=user)
    caps = {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert caps == dict.fromkeys(caps, 0)
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"


def test_the_image_contains_no_setuid_setgid_or_capability_binary(claude: Project) -> None:
    found = claude.exec(
        "find", "/", "-xdev", "(", "-perm", "-4000", "-o", "-perm", "-2000", ")", "-type", "f", user="root"
    )
    assert found.stdout == ""
    scan = (
        "import os; [print(p) for d, _, fs in os.walk('/usr') for f in fs for p in [os.path.join(d, f)] "
        "if not os.path.islink(p) and 'security.capability' in os.listxattr(p)]"
    )
    assert claude.exec("python3", "-c", scan, user="root").stdout == ""


# Allowed capabilities. The firewall's first process has these; the process that then sleeps has none.
NEEDED = {"proxy": 0, "firewall": sum(1 << bit for bit in (6, 7, 12)), "agent": 0}


@pytest.mark.parametrize("service", NEEDED)
def test_no_process_has_more_capabilities_than_its_container_needs(claude: Project, service: str) -> None:
    script = "for f in /proc/[0-9]*/status; do grep -E '^(Cap|NoNew|Seccomp:)' $f && echo; done"
    said = run("docker", "exec", claude.containers()[service]["Id"], "sh", "-c", script).stdout
    found = [dict(line.split(":\t") for line in one.splitlines()) for one in said.strip().split("\n\n")]
    assert len(found) > 1
    for process in found:
        held = [int(process[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")]
        assert [caps & ~NEEDED[service] for caps in held] == [0] * 5
        assert (process["NoNewPrivs"], process["Seccomp"]) == ("1", "2")


def rights(project: Project, program: str, *, user: str | None) -> list[tuple[str, str]]:
    """Return the users, groups and capabilities of a process that runs `program`, which must print a file."""
    said = project.exec(program, "/proc/self/status", user=user, check=False).stdout
    return re.findall(r"^(Uid|Gid|Cap\w+):\t(.*)$", said, re.MULTILINE)


@pytest.mark.parametrize("user", [None, "root"])
def test_setuid_bits_and_file_capabilities_give_no_rights(claude: Project, user: str | None) -> None:
    claude.exec("cp", "/usr/bin/cat", "lent")
    lent = claude.path / "lent"
    os.chown(lent, 0, 0)
    lent.chmod(0o6755)
    own = rights(claude, "cat", user=user)
    assert (len(own), rights(claude, "./lent", user=user)) == (7, own)
    # As `setcap cap_net_admin+ep` writes it. The kernel can also refuse to run such a file.
    os.setxattr(lent, "security.capability", struct.pack("<5I", 0x0200_0001, 1 << 12, 0, 0, 0))
    assert rights(claude, "./lent", user=user) in ([], own)
    lent.unlink()


# Try each change to the network or the kernel. Print those that succeed, and errors other than a refusal.
TRIES = """
import ctypes, fcntl, os, socket, struct, subprocess
libc, inet = ctypes.CDLL(None, use_errno=True), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def call(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def run(*argv):
    if subprocess.run(argv, capture_output=True).returncode:
        raise PermissionError
def address(text):
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
route = bytes(8) + address("0.0.0.0") + address("10.0.0.1") + address("0.0.0.0") + struct.pack("=H54x", 3)
TRIES = {
    "flush the rules": lambda: run("iptables", "--flush"),
    "flush the rules for IPv6": lambda: run("ip6tables", "--flush"),
    "take the interface down": lambda: fcntl.ioctl(inet, 0x8914, struct.pack("16sH22x", b"eth0", 0)),
    "give it an address": lambda: fcntl.ioctl(inet, 0x8916, struct.pack("16s", b"eth0") + address("10.1.2.3")),
    "add a route": lambda: fcntl.ioctl(inet, 0x890B, route),
    "forward packets": lambda: open("/proc/sys/net/ipv4/ip_forward", "w"),
    "mark packets": lambda: inet.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 1),
    "a user namespace": lambda: os.unshare(os.CLONE_NEWUSER),
    "a network namespace": lambda: os.unshare(os.CLONE_NEWNET),
    "mount": lambda: call(165, b"none", b"/mnt", b"tmpfs", 0, None),
    "a device": lambda: os.mknod("/tmp/device", 0o60600, os.makedev(254, 0)),
    "load a program into the kernel": lambda: call(321, 5, bytes(128), 128),
    "another root": lambda: os.chroot("/tmp"),
    "the clock": lambda: __import__("time").clock_settime(0, 0),
}
for name, attempt in TRIES.items():
    try:
        attempt()
        print(name, "went through", sep=": ")
    except OSError as error:
        if error.errno not in (None, 1, 13, 30):
            print(name, error, sep=": ")
print(len(TRIES), "tried")
"""


@pytest.mark.parametrize("user", [None, "root"])
def test_dev_and_root_cannot_change_the_network_or_the_kernel(claude: Project, user: str | None) -> None:
    assert claude.exec("python3", "-c", TRIES, user=user).stdout == "14 tried\n"


def test_refuses_direct_connections_at_once(claude: Project) -> None:
    for url in (
        f"http://{STANDIN_ADDRESS}/",
        f"https://{STANDIN_ADDRESS}:22/",
        "http://10.255.255.1/",
        "http://[2001:db8::1]/",
    ):
        done = claude.exec(
            "curl",
            "--noproxy",
            "*",
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{time_total}",
            "--max-time",
            "9",
            url,
            check=False,
        )
        assert (7, True) == (done.returncode, float(done.stdout) < 2), url


def test_a_name_that_the_policy_does_not_allow_does_not_resolve(claude: Project) -> None:
    done = claude.exec("getent", "hosts", "allowed.test", check=False)
    assert done.returncode != 0
    assert done.stdout == ""


def test_only_the_proxy_leads_out_even_with_all_firewall_rules_flushed(claude: Project) -> None:
    before = len(claude.internet.events())
    flush = "iptables -P INPUT ACCEPT; iptables -P OUTPUT ACCEPT; iptables -F; ip6tables -P OUTPUT ACCEPT; ip6tables -F"
    claude.compose("exec", "-T", "--user", "root", "firewall", "sh", "-c", flush)
    try:
        for url in (f"http://{STANDIN_ADDRESS}/", f"http://{STANDIN_ADDRESS}:22/", "http://[2001:db8::1]/"):
            done = claude.exec("curl", "--noproxy", "*", "-sS", "--max-time", "3", url, check=False)
            assert done.returncode != 0, url
        assert claude.curl("https://api.anthropic.com/still-here")[0] == 200
    finally:
        claude.compose("up", "--detach", "--force-recreate", "--wait", "firewall", "agent")
    assert [event.get("path") for event in claude.internet.events()[before:]] == ["/still-here"]


def test_firewall_rules_alone_refuse_direct_connections_on_an_ordinary_network(claude: Project) -> None:
    firewall = claude.containers()["firewall"]["Id"]
    run("docker", "network", "connect", claude.internet.name, firewall)
    before = len(claude.internet.events())
    try:
        done = claude.exec(
            "curl", "--noproxy", "*", "-sS", "--max-time", "5", f"http://{STANDIN_ADDRESS}/", check=False
        )
        assert done.returncode == 7
    finally:
        run("docker", "network", "disconnect", claude.internet.name, firewall)
    assert claude.internet.events()[before:] == []


def test_no_private_key_is_in_the_agent_container(claude: Project) -> None:
    places = ("/", "(", "-path", "/proc", "-o", "-path", "/sys", ")", "-prune", "-o", "-type", "f", "-size", "-64k")
    keys = ("-exec", "grep", "-lE", "^-----BEGIN .*PRIVATE KEY", "{}", "+")
    assert claude.exec("find", *places, *keys, user="root", check=False).stdout == ""
    mounts = json.dumps(claude.containers()["agent"]["Mounts"])
    assert "ca-private" not in mounts
    assert "_secrets" not in mounts
    assert "docker.sock" not in mounts


@pytest.mark.parametrize("user", [None, "root"])
def test_the_ca_and_the_trust_store_are_read_only(claude: Project, user: str | None) -> None:
    for path in (
        "/usr/local/share/agent-sandbox/ca/ca.crt",
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/ssl/certs/new.pem",
    ):
        done = claude.exec("sh", "-c", f"echo >>{path}", user=user, check=False)
        assert done.returncode != 0
        assert done.stderr.strip().endswith(("Read-only file system", "Permission denied")), path
    mounts = {one["Destination"]: one["RW"] for one in claude.containers()["agent"]["Mounts"]}
    assert (mounts["/usr/local/share/agent-sandbox/ca"], mounts["/etc/ssl/certs"]) == (False, False)


@pytest.mark.parametrize(
    "path", [".devcontainer/policy.yaml", ".devcontainer/docker-compose.yml", ".devcontainer/devcontainer.json", ".env"]
)
def test_the_agent_cannot_change_the_files_that_configure_the_sandbox(claude: Project, path: str) -> None:
    before = (claude.path / path).read_bytes()
    for command in (f"echo x >> {path}", f"rm -f {path}", f"mv {path} elsewhere"):
        assert claude.exec("sh", "-c", command, check=False).returncode != 0
    assert before == (claude.path / path).read_bytes()


def test_the_agent_can_write_the_workspace_as_its_owner(claude: Project) -> None:
    claude.exec("sh", "-c", "echo done > made-inside")
    assert (1000, "done\n") == ((claude.path / "made-inside").stat().st_uid, (claude.path / "made-inside").read_text())
