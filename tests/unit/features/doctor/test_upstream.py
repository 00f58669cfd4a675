from pathlib import Path

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.protocol import Machine
from agent_sandbox.engines.result import CheckResult, ok, warn
from agent_sandbox.features.doctor.upstream import OPEN, VARIABLES, upstream

SAID = "settings: {upstream: {proxy: 'http://proxy.corp.example:3128'}}\n"
COMPOSE = 'name: app-1\nx-agent-sandbox: {agent: example, dev: "1000:1000"}\n'


@pytest.fixture
def folder(fenced: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the user's policy."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    folder = fenced / ".config" / "agent-sandbox"
    folder.mkdir(parents=True)
    return folder


def examined(root: Path, policy: str = "") -> CheckResult:
    (root / ".devcontainer").mkdir()
    (root / ".devcontainer" / "docker-compose.yml").write_text(COMPOSE)
    (root / ".devcontainer" / "policy.yaml").write_text(policy)
    return upstream(Machine(path=root, cwd=root, driver=DRIVER))


def test_passes_without_an_upstream_proxy(folder: Path, tmp_path: Path) -> None:
    assert folder.exists()
    assert examined(tmp_path) == ok("upstream", "no upstream proxy")


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy"])
def test_warns_about_a_proxy_variable_if_the_policy_names_no_proxy_and_hides_its_password(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://me:hunter2@proxy.corp.example:3128")
    hint = (
        "if it is the only way out, write `settings: {upstream: {proxy: http://HOST:PORT}}` "
        f"into {folder}/policy.yaml"
    )
    assert examined(tmp_path) == warn("upstream", f"{name} is set here, but the policy names no upstream proxy", hint)


def test_without_a_home_directory_the_hint_names_no_user_policy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder.exists()
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.corp.example:3128")
    monkeypatch.delenv("HOME")
    assert examined(tmp_path).hint.endswith("into a policy")


@pytest.mark.parametrize("mode", [0o644, None])
def test_shows_the_upstream_proxy_that_the_policy_names(folder: Path, tmp_path: Path, mode: int | None) -> None:
    (folder / "policy.yaml").write_text(SAID)
    if mode is not None:
        (folder / "upstream-auth").touch(mode)
    expected = ok("upstream", "all allowed requests go through http://proxy.corp.example:3128")
    assert examined(tmp_path) == expected


def test_warns_about_upstream_credentials_that_the_proxy_cannot_read(folder: Path, tmp_path: Path) -> None:
    (folder / "policy.yaml").write_text(SAID)
    (folder / "upstream-auth").touch(0o600)
    expected = warn("upstream", f"{folder}/upstream-auth cannot be read by the proxy, which runs as another user", OPEN)
    assert examined(tmp_path) == expected


def test_ignores_upstream_credentials_of_another_layer(folder: Path, tmp_path: Path) -> None:
    (folder / "upstream-auth").touch(0o600)
    assert examined(tmp_path, SAID).what == "all allowed requests go through http://proxy.corp.example:3128"
