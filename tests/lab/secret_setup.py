"""A proxy that `secret setup` talks to, and the policy that it edits."""

import json
from pathlib import Path

from fake_docker import FakeDocker
from fake_stack import trust, with_containers

PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"


def accepting_proxy(docker: FakeDocker) -> FakeDocker:
    """Have a proxy that keeps the last value in the file `told`, and reloads its policy."""
    docker.says(f"{PROGRAM} secret set", script=f"cat >{docker.folder / 'told'}")
    change = {"counts": {"added": 0, "removed": 0}}
    docker.says("agent_sandbox.proxy reload", out=json.dumps({"ok": True, "digest": "0" * 64, "change": change}))
    return with_containers(docker, proxy="healthy")


def policy(project: Path, text: str = "") -> str:
    """Write the project's policy and trust it, if there is a text; return the policy."""
    file = project / ".devcontainer" / "policy.yaml"
    if text:
        file.write_text(text)
        trust(project)
    return file.read_text()


def told(docker: FakeDocker) -> list[str]:
    """Return the words of each `secret` command of the proxy."""
    return [call.partition(" secret ")[2] for call in docker.calls if " secret " in call]
