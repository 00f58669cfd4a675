import sys
from importlib import util
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.proxy.commands import run as module


def test_replaces_the_process_with_the_program_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[tuple[str, ...]] = []
    monkeypatch.setattr(module, "find_spec", lambda name: util.spec_from_loader(name, None))
    monkeypatch.setattr(module, "become", became.append)
    module.run(
        policy=Path("p.yaml"),
        listen="127.0.0.1:0",
        state=Path("s"),
        layer=["user=u.yaml"],
        upstream_ca=Path("ca.pem"),
        resolve=["a:1:b:2", "c:1:d:2"],
    )
    expected = (
        *(sys.executable, "-P", "-m", "agent_sandbox.proxy", "run", "--policy", "p.yaml", "--listen", "127.0.0.1:0"),
        *(
            "--state",
            "s",
            "--layer",
            "user=u.yaml",
            "--upstream-ca",
            "ca.pem",
            "--resolve",
            "a:1:b:2",
            "--resolve",
            "c:1:d:2",
        ),
    )
    assert became == [expected]


def test_explains_how_to_install_the_proxy_if_mitmproxy_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    assert exit_code(lambda: module.run(policy=Path("p"), listen="x", state=Path("s"))) == 1
    expected = (
        "error: agent-sandbox-cli[proxy]: the proxy needs mitmproxy, which is not installed\n"
        "  hint: in a checkout of agent-sandbox: pipx install --force '.[proxy]'\n"
    )
    assert capsys.readouterr().err == expected
