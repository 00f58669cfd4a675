"""The built images: their size, what they do not contain, and their messages if they do not start."""

import json
from collections.abc import Iterator

import pytest

from engine import agent_sandbox, run
from real_stacks import make_network, remove_network

pytestmark = pytest.mark.docker

MB = 1_000_000
# Print every file that could give another user's rights: setuid, setgid, or a capability in its attributes.
LENDERS = """
import os, stat
for top in ("/usr", "/etc", "/opt", "/home", "/root", "/var", "/state", "/workspace"):
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names):
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode) and (mode & 0o6000 or "security.capability" in os.listxattr(path)):
                print(path)
"""


@pytest.fixture(scope="module")
def version() -> str:
    """Build missing images as a user does; return their version."""
    agent_sandbox("build", "claude", "copilot")
    return agent_sandbox("--version").stdout.split()[-1]


def inside(image: str, *argv: str, options: tuple[str, ...] = (), check: bool = True) -> tuple[int, str, str]:
    """Run a command in a container without a network, and return (status, stdout, stderr)."""
    first, *rest = argv
    done = run(
        *("docker", "run", "--rm", "--network=none", *options, f"--entrypoint={first}", image, *rest), check=check
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("image", "megabytes"), [("proxy", 330), ("base", 350), ("claude", 860), ("copilot", 860)])
def test_image_size_is_within_its_limit(version: str, image: str, megabytes: int) -> None:
    (found,) = json.loads(run("docker", "image", "inspect", f"agent-sandbox/{image}:{version}").stdout)
    assert found["Size"] <= megabytes * MB


@pytest.mark.parametrize("image", ["proxy", "base", "claude", "copilot"])
def test_images_have_no_setuid_or_setgid_files_and_no_file_capabilities(version: str, image: str) -> None:
    as_root = ("--user=0:0",)
    assert inside(f"agent-sandbox/{image}:{version}", "python3", "-c", LENDERS, options=as_root) == (0, "", "")


@pytest.mark.parametrize("image", ["proxy", "claude", "copilot"])
def test_build_secrets_leave_no_files_in_the_images(version: str, image: str) -> None:
    look = (
        "sh",
        "-c",
        "ls -d /run/secrets /run/trust /run/npm ~root/.npm ~root/.cache 2>/dev/null; find / -xdev -name '*extra_ca*'",
    )
    assert inside(f"agent-sandbox/{image}:{version}", *look, options=("--user=0:0",)) == (0, "", "")


def test_the_proxy_runs_unprivileged_and_has_no_pip(version: str) -> None:
    script = "id -u; stat -c '%u %a' /state/private /state/secrets /state/ca /state/log /state/run; command -v pip"
    _, out, _ = inside(f"agent-sandbox/proxy:{version}", "sh", "-c", script, check=False)
    assert out == "10001\n10001 700\n10001 700\n10001 755\n10001 700\n10001 700\n"


def test_the_agent_image_has_the_tools_that_the_docs_name(version: str) -> None:
    tools = "zsh git git-lfs gh rg fd jq curl less vi ssh node python3 iptables ip6tables openssl ps"
    _, out, _ = inside(
        f"agent-sandbox/claude:{version}", "sh", "-c", f"for t in {tools}; do command -v $t >/dev/null || echo $t; done"
    )
    assert out == ""


def test_shell_snippets_run_before_own_dotfiles_which_cannot_disable_them(version: str) -> None:
    script = """
    mkdir -p ~/.config/agent-sandbox/shell.d
    echo 'export SEEN=$SEEN-b' >~/.config/agent-sandbox/shell.d/b.sh
    echo 'export SEEN=a' >~/.config/agent-sandbox/shell.d/a.sh
    echo 'setopt no_global_rcs; SEEN=$SEEN-zshenv' >~/.zshenv
    echo 'SEEN=$SEEN-zshrc' >~/.zshrc
    zsh -ic 'echo $SEEN $HISTFILE'
    """
    _, out, _ = inside(f"agent-sandbox/claude:{version}", "sh", "-c", script)
    assert out == "a-b-zshenv-zshrc /home/dev/.history/zsh\n"


def test_zsh_starts_without_its_prompt_for_new_users(version: str) -> None:
    _, out, err = inside(f"agent-sandbox/claude:{version}", "zsh", "-ic", "echo ready")
    assert (out, err) == ("ready\n", "")


def test_git_finds_its_remote_helper_without_the_path_variable(version: str) -> None:
    script = "env -i HOME=$HOME /usr/bin/git ls-remote git@host.test:owner/repo"
    _, _, err = inside(f"agent-sandbox/claude:{version}", "sh", "-c", script, check=False)
    assert err == "fatal: unable to access 'https://host.test/owner/repo/': Could not resolve host: host.test\n"


@pytest.mark.parametrize(("proxied", "code"), [("1", "ECONNREFUSED"), ("0", "EAI_AGAIN")])
def test_node_fetch_uses_the_proxy_without_warnings_if_node_use_env_proxy_is_set(
    version: str, proxied: str, code: str
) -> None:
    environment = (f"--env=NODE_USE_ENV_PROXY={proxied}", "--env=https_proxy=http://127.0.0.1:9")
    program = "fetch('https://host.test/').catch(e => console.log(e.cause.code))"
    done = inside(f"agent-sandbox/claude:{version}", "node", "-e", program, options=environment)
    assert done == (0, f"{code}\n", "")


def test_javas_trust_store_marks_all_certificates_as_trusted(version: str) -> None:
    script = """
    source /usr/local/lib/agent-sandbox/lib/messages.sh; source /usr/local/lib/agent-sandbox/lib/trust.sh
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=proxy -days 2 \
      -keyout /dev/null -out $AGENT_SANDBOX_CA 2>/dev/null
    write_trust_store
    for password in changeit ''; do
      openssl pkcs12 -in /etc/ssl/certs/java/cacerts -passin "pass:$password" -nokeys |
        awk '/Trusted key usage/ { trusted++ } /BEGIN/ { all++ } END { print (trusted == all), (all > 100) }'
    done
    """
    options = ("--user=0:0", "--env=AGENT_SANDBOX_CA=/tmp/ca.crt")
    assert inside(f"agent-sandbox/base:{version}", "bash", "-ec", script, options=options)[1] == "1 1\n" * 2


@pytest.fixture
def unlocked() -> Iterator[str]:
    """An internal network like that of a stack, with Docker's resolver and without a firewall."""
    name = "agent-sandbox-test-unlocked"
    make_network(name, "--internal", "--subnet=198.51.100.240/28")
    yield name
    remove_network(name)


def test_the_agent_does_not_start_without_its_firewall_and_proxy(version: str, unlocked: str) -> None:
    done = run(
        *("docker", "run", "--rm", f"--network={unlocked}", "--env=AGENT_SANDBOX_PROXY=198.51.100.242:8080"),
        "--env=AGENT_SANDBOX_PROXY_WAIT=0",
        *(f"agent-sandbox/claude:{version}", "echo", "started"),
        check=False,
    )
    assert (78, "") == (done.returncode, done.stdout)
    assert done.stderr == (
        "agent-sandbox: the proxy at 198.51.100.242:8080 does not deny a request that no policy allows "
        "(answer: '000 '); "
        "see: agent-sandbox logs proxy\n"
    )


def test_the_firewall_reports_that_it_cannot_load_its_rules_without_capabilities(version: str) -> None:
    options = ("--user=0:0", "--cap-drop=ALL", "--env=AGENT_SANDBOX_PROXY=10.128.0.2:8080")
    program = ("/usr/local/lib/agent-sandbox/firewall",)
    status, _, err = inside(f"agent-sandbox/claude:{version}", *program, options=options, check=False)
    assert status == 78
    assert "agent-sandbox: iptables-restore could not load the firewall; " in err


def test_firewall_drops_all_output_before_it_checks_its_variables(version: str) -> None:
    script = "/usr/local/lib/agent-sandbox/firewall; iptables -S OUTPUT; ip6tables -S OUTPUT"
    options = ("--user=0:0", "--cap-drop=ALL", "--cap-add=NET_ADMIN", "--env=AGENT_SANDBOX_PROXY=not-an-address")
    _, out, _ = inside(f"agent-sandbox/claude:{version}", "sh", "-c", script, options=options)
    assert out == "-P OUTPUT DROP\n-P OUTPUT DROP\n"
