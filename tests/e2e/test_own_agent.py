"""An agent that the user defines: its image is built from one manifest, and has no setuid file."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from engine import agent_sandbox, run

# npm's own parser of versions is a small package with a program. sudo's is setuid, as Debian packages it.
MANIFEST = """\
name: own-agent-of-a-test
title: Own agent
summary: An agent of the user's own
install:
  npm: {package: semver, version: 7.7.2}
  apt: [sudo]
command: [semver]
version_command: [semver, 7.7.2]
unattended:
  files: {.own/settings.json: "{}"}
state: [.own, .config/own]
services: [anthropic]
"""
LOOK = """
find / -xdev -type f -perm /6000
command -v sudo
cat /usr/local/lib/agent-sandbox/agents/own-agent-of-a-test/home/.own/settings.json; echo
stat -c '%U %n' ~/.own ~/.config/own
semver 1.2.3
"""


def checked(config: Path) -> str:
    """Write the manifest, and check it; return what that says."""
    folder = config / "agent-sandbox" / "agents" / "own-agent-of-a-test"
    folder.mkdir(parents=True)
    (folder / "agent.yaml").write_text(MANIFEST)
    return agent_sandbox("agents", "check", folder.name, cwd=config, env={"XDG_CONFIG_HOME": str(config)}).stderr


def prepare() -> None:
    with TemporaryDirectory() as config:
        checked(Path(config))


def test_an_agent_of_the_user_builds_passes_its_check_and_has_no_setuid_file(tmp_path: Path) -> None:
    folder, own = tmp_path / "agent-sandbox" / "agents" / "own-agent-of-a-test", {"XDG_CONFIG_HOME": str(tmp_path)}
    said = checked(tmp_path)
    assert said.endswith(
        f"{folder.name} works: its manifest is valid, its image was built, and its version command ran\n"
    )
    planned = agent_sandbox("agents", "check", folder.name, "--dry-run", cwd=tmp_path, env=own).stdout
    image = next(word for word in planned.split() if word.startswith(f"agent-sandbox/{folder.name}:"))
    inside = run("docker", "run", "--rm", "--network=none", "--entrypoint=sh", image, "-c", LOOK).stdout
    run("docker", "image", "rm", image)
    assert inside.splitlines() == ["/usr/bin/sudo", "{}", "dev /home/dev/.own", "dev /home/dev/.config/own", "1.2.3"]
    listed = json.loads(agent_sandbox("agents", "--json", env=own).stdout)["agents"]
    assert folder.name in [one["name"] for one in listed]
