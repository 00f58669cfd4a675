"""Render devcontainer.json, with which an editor opens the same stack."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from agent_sandbox.agents.together import Agents
from agent_sandbox.project.render.editor_files import FILES, listed, with_added
from agent_sandbox.project.render.formats import jsonc
from agent_sandbox.project.render.formats.faithful import require_same
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.stack.build import VOLUMES
from agent_sandbox.stack.containers import ENTER, SETUP, WORKSPACE
from agent_sandbox.stack.engine import SHARED_FILE, STACK_FILE
from agent_sandbox.stack.recorded import Ide
from agent_sandbox.stack.services.agent import LOCAL, READY, state_volume
from agent_sandbox.stack.workspace import Workspace

FILE = "devcontainer.json"
START_SECONDS = 120
# The editor replaces it.
DIRECTORY_NAME = "${localWorkspaceFolderBasename}"
SETTINGS = {"terminal.integrated.defaultProfile.linux": "zsh"}


def render_devcontainer(templates: Templates, agents: Agents, workspace: Workspace) -> str:
    """Return the text of devcontainer.json, parsed back and compared."""
    document = devcontainer_document(agents, workspace)
    text = templates.render(f"_shared/{FILE}.j2", doc=document)
    require_same(FILE, expected=document, actual=jsonc.parse(text).values)
    return text


def devcontainer_document(agents: Agents, workspace: Workspace) -> dict[str, Any]:
    """Return the members of devcontainer.json."""
    document = {
        "name": workspace.title if workspace.is_titled else DIRECTORY_NAME,
        FILES: SHARED_FILE,
        "service": "agent",
        "workspaceFolder": WORKSPACE,
        "remoteUser": "dev",
        "overrideCommand": False,
        "updateRemoteUserUID": False,
        "shutdownAction": "stopCompose",
        "initializeCommand": ["agent-sandbox", "build", "--editor", "--path", "${localWorkspaceFolder}"],
        "postStartCommand": _post_start(workspace.setup),
        "waitFor": "postStartCommand",
        "customizations": _customizations(agents, workspace.ide),
    }
    return {key: value for key, value in document.items() if value != {}}


def _post_start(setup: str) -> list[str]:
    """Return the command that waits until the container is ready, and then runs the setup script."""
    waiting = ["timeout", str(START_SECONDS), "sh", "-c", f"until [ -e {READY} ]; do sleep 0.1; done"]
    return ["sh", "-ec", f"{shlex.join(waiting)}; exec {ENTER} {SETUP} {setup}"] if setup else waiting


def _customizations(agents: Agents, ide: Ide) -> dict[str, Any]:
    """Return the editor's settings, and the agents' extensions for it."""
    extensions = list(agents.extensions(ide.value))
    match ide:
        case Ide.VSCODE:
            return {"vscode": {"settings": SETTINGS} | ({"extensions": extensions} if extensions else {})}
        case Ide.JETBRAINS:
            return {"jetbrains": {"plugins": extensions}} if extensions else {}
        case Ide.NONE:
            return {}


def required_members(document: Mapping[str, Any], present: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that the sandbox needs in a user's devcontainer.json; its own `name` may stay."""
    needed = {key: with_added(present.get(key), value) if key == FILES else value for key, value in document.items()}
    return {
        key: value
        for key, value in needed.items()
        if not (key in present and (key in FREE or json.dumps(present[key]) == json.dumps(value)))
    }


def names_former_file(present: Mapping[str, Any]) -> bool:
    """Return whether a devcontainer.json names the file that an earlier version wrote there."""
    return STACK_FILE in listed(present.get(FILES))


# The user decides on these: the window's name and the editor's appearance.
FREE = frozenset({"name", "customizations"})

# Members of a devcontainer.json that weaken the sandbox, and how.
OPENERS: Mapping[str, str] = {
    "privileged": "gives the container the whole machine",
    "capAdd": "gives the agent capabilities, and so a way around the firewall",
    "securityOpt": "removes protections of the stack",
    "mounts": "mounts more of this machine into the container than volumes of its own",
}
# All that an entry of `mounts` may contain. The editor makes `SOURCE:TARGET` of it, whatever its type: a path as source
# or a colon in the target would mount a part of this machine, and an external volume may be another project's. The
# stack's volumes contain the CA's key, secrets, the audit log and the sign-ins of other agents.
OF_THE_STACK = "|".join((*VOLUMES, f"{LOCAL}.*", state_volume(".*")))
OWN_VOLUME = re.compile(
    rf"type=(volume|tmpfs)|(source|src)=(?!(?:{OF_THE_STACK})\Z)[A-Za-z0-9][A-Za-z0-9_.-]*"
    r"|(target|dst|destination)=/[A-Za-z0-9_./-]*|readonly"
)
# Members that may be harmless: reported, not rejected.
DOUBTFUL: Mapping[str, str] = {
    "features": "runs third-party installers as root during the image build",
    "forwardPorts": "makes the container's ports reachable from this machine",
    "appPort": "makes the container's ports reachable from this machine",
    "containerEnv": "sets variables in the container",
    "remoteEnv": "sets variables in the container",
}


def openers(present: Mapping[str, Any]) -> dict[str, str]:
    """Return the members that weaken the sandbox, and how each does.

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
