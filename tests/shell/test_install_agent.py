"""install-agent: a package with another hash than the pinned one is not installed."""

import base64
import hashlib
import os
from pathlib import Path

import pytest

from bash_harness import IMAGE, Shell

CONTENT = b"the package"
HASH = f"sha512-{base64.b64encode(hashlib.sha512(CONTENT).digest()).decode()}"
NPM = """#!/bin/sh
echo "$*" >>"$HOME/calls"
case "$*" in
  *" pack "*) printf %s 'the package' >./x-agent-1.2.3.tgz; echo x-agent-1.2.3.tgz ;;
  *) mkdir -p "$HOME/installed" ;;
esac
"""


@pytest.fixture
def build(tmp_path: Path, shell: Shell) -> Shell:
    """A shell with a stand-in for npm."""
    (tmp_path / "bin").mkdir()
    npm = tmp_path / "bin" / "npm"
    npm.write_text(NPM)
    npm.chmod(0o755)
    return shell.within(
        PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        AGENT_SANDBOX_SCRATCH=str(tmp_path),
        AGENT_SANDBOX_RECIPE=str(tmp_path / "recipe"),
    )


def install(build: Shell, tmp_path: Path, *lines: str) -> tuple[int, str, list[str]]:
    """Install from npm by this recipe; return the exit code, the messages and npm's arguments."""
    recipe = ("INSTALL=npm", "NPM_PACKAGE=@x/agent", "NPM_VERSION=1.2.3", *lines)
    (tmp_path / "recipe").write_text("\n".join(recipe) + "\n")
    # The script would remove files in a directory that does not exist here.
    done = build.run("bash", "-c", f"source {IMAGE}/install-agent; find() {{ :; }}; main x", check=False)
    calls = [call.partition("--no-update-notifier ")[2] for call in (build.home / "calls").read_text().splitlines()]
    return done.returncode, done.stderr, calls


def test_installs_a_package_with_the_pinned_hash_from_the_checked_file(build: Shell, tmp_path: Path) -> None:
    code, said, calls = install(build, tmp_path, f"NPM_INTEGRITY={HASH}")
    assert (code, said) == (0, "")
    flags = "install --global --prefix /opt/agents/x --no-fund --no-audit --loglevel http"
    assert calls == ["pack --silent @x/agent@1.2.3", f"{flags} {tmp_path}/x-agent-1.2.3.tgz"]


def test_a_package_with_another_hash_is_not_installed(build: Shell, tmp_path: Path) -> None:
    other = f"sha512-{'A' * 86}=="
    code, said, calls = install(build, tmp_path, f"NPM_INTEGRITY={other}")
    assert (code, calls) == (1, ["pack --silent @x/agent@1.2.3"])
    assert said == f"@x/agent 1.2.3 has the hash {HASH}, not the pinned {other}\n"
    assert not (build.home / "installed").exists()


def test_without_a_pinned_hash_npm_downloads_the_version(build: Shell, tmp_path: Path) -> None:
    code, _, calls = install(build, tmp_path)
    flags = "install --global --prefix /opt/agents/x --no-fund --no-audit --loglevel http"
    assert (code, calls) == (0, [f"{flags} @x/agent@1.2.3"])


def test_an_unknown_kind_of_installation_is_an_error(build: Shell, tmp_path: Path) -> None:
    (build.home / "calls").write_text("")
    code, said, calls = install(build, tmp_path, "INSTALL=elsewhere")
    assert (code, said, calls) == (1, "unknown kind of installation: elsewhere\n", [])
