"""devcontainer.json: the same stack, opened by an editor."""

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_sandbox.render import jsonc
from agent_sandbox.render.faithful import require_same
from agent_sandbox.render.template import Templates
from agent_sandbox.stack.build import VOLUMES
from agent_sandbox.stack.services.agent import READY, WORKSPACE, state_volume
from agent_sandbox.stack.workspace import Ide, Workspace

FILE = "devcontainer.json"
START_SECONDS = 120
CUSTOMIZATIONS: Mapping[Ide, dict[str, Any]] = {
    Ide.VSCODE: {"vscode": {"settings": {"terminal.integrated.defaultProfile.linux": "zsh"}}},
    Ide.JETBRAINS: {},
    Ide.NONE: {},
}


def render_devcontainer(templates: Templates, workspace: Workspace) -> str:
    """Return the text of devcontainer.json, read back and compared."""
    document = devcontainer_document(workspace)
    text = templates.render(f"_shared/{FILE}.j2", doc=document)
    require_same(FILE, expected=document, actual=jsonc.parse(text).values)
    return text


def devcontainer_document(workspace: Workspace) -> dict[str, Any]:
    """Return what devcontainer.json has to say."""
    ready = f"until [ -e {READY} ]; do sleep 0.1; done"
    document = {
        "name": workspace.title,
        "dockerComposeFile": "docker-compose.yml",
        "service": "agent",
        "workspaceFolder": WORKSPACE,
        "remoteUser": "dev",
        "overrideCommand": False,
        "updateRemoteUserUID": False,
        "shutdownAction": "stopCompose",
        "initializeCommand": ["agent-sandbox", "build", "--path", "${localWorkspaceFolder}"],
        "postStartCommand": ["timeout", str(START_SECONDS), "sh", "-c", ready],
        "waitFor": "postStartCommand",
        "customizations": CUSTOMIZATIONS[workspace.ide],
    }
    return {key: value for key, value in document.items() if value != {}}


def required_members(document: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a user's own devcontainer.json has to be given: the box's members; a name of its own may stay."""
    return {
        key: value
        for key, value in document.items()
        if not (key in present and (key in FREE or json.dumps(present[key]) == json.dumps(value)))
    }


# Where the user's word counts: what the window is called, and how the editor looks.
FREE = frozenset({"name", "customizations"})

# Members by which a devcontainer.json takes walls down again, and what each of them does.
OPENERS: Mapping[str, str] = {
    "privileged": "gives the container the whole machine",
    "capAdd": "gives the agent capabilities, and so a way past the firewall",
    "securityOpt": "takes away protections that the stack has set",
    "mounts": "puts more of this machine into the container than volumes of its own",
}
# All that an entry of `mounts` may say. The editor makes `SOURCE:TARGET` of it, whatever its type: a source that is a
# path, or a colon in the target, would be a piece of this machine, and an external volume another project's. Those of
# the stack hold the CA's key, secrets, the log, and what other agents have signed in with.
OF_THE_STACK = "|".join((*VOLUMES, state_volume(".*")))
OWN_VOLUME = re.compile(
    rf"type=(volume|tmpfs)|(source|src)=(?!(?:{OF_THE_STACK})\Z)[A-Za-z0-9][A-Za-z0-9_.-]*"
    r"|(target|dst|destination)=/[A-Za-z0-9_./-]*|readonly"
)
# Members that may be harmless: told, not refused.
DOUBTFUL: Mapping[str, str] = {
    "features": "runs other people's installers as root while the image is built",
    "forwardPorts": "makes the container's ports reachable from this machine",
    "appPort": "makes the container's ports reachable from this machine",
    "containerEnv": "sets variables in the container",
    "remoteEnv": "sets variables in the container",
}


def openers(present: Mapping[str, Any]) -> dict[str, str]:
    """Return the members that take a wall down, and what each of them does.

    >>> openers({"privileged": False, "mounts": ["source=cache,target=/cache,type=volume"]})
    {}
    """
    found = {key: why for key, why in OPENERS.items() if present.get(key)}
    mounts = present.get("mounts")
    if isinstance(mounts, list) and all(map(_is_own_volume, mounts)):
        found.pop("mounts", None)
    return found


def _is_own_volume(mount: Any) -> bool:  # noqa: ANN401 - whatever stands in a user's file
    said = [f"{key}={value}" for key, value in mount.items()] if isinstance(mount, dict) else str(mount).split(",")
    return all(map(OWN_VOLUME.fullmatch, said))
