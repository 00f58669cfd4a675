"""names.sh: the proxy is the only name server."""

from bash_harness import Shell

PROXY = "AGENT_SANDBOX_PROXY=10.128.0.2:8080"


def test_the_proxy_is_the_only_name_server(shell: Shell) -> None:
    file = shell.home / "resolv.conf"
    file.write_text("nameserver 127.0.0.11\noptions ndots:0\n")
    shell("messages proxy names", f"{PROXY}; resolver_file={file}; ask_the_proxy_for_names")
    assert file.read_text() == "nameserver 10.128.0.2\noptions timeout:2 attempts:2\n"


def test_stops_the_start_if_resolv_conf_cannot_be_written(shell: Shell) -> None:
    file = shell.home / "nowhere" / "resolv.conf"
    script = f"{PROXY}; resolver_file={file}; ask_the_proxy_for_names"
    done = shell("messages proxy names", script, check=False)
    assert done.returncode == 78
    told = f"agent-sandbox: {file} cannot be written; regenerate the compose file: agent-sandbox init --force"
    assert done.stderr.splitlines()[-1] == told
