import json

from msgspec.structs import replace

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.agents.mcp import McpServer
from agent_sandbox.agents.together import Agents
from agent_sandbox.resources import data_root
from agent_sandbox.stack.model import Mount
from agent_sandbox.stack.naming import addresses
from agent_sandbox.stack.recorded import Access, Ide, MountKind, Owner
from agent_sandbox.stack.services.agent import agent_service
from agent_sandbox.stack.workspace import Identity, Protected, Workspace

MANIFEST = load_manifest(data_root() / "templates", "claude")
AGENTS = Agents((MANIFEST,))
WORKSPACE = Workspace(path="/p", title="p", ide=Ide.NONE)
WHERE = addresses("/p")


def mounts(workspace: Workspace) -> dict[str, Mount]:
    return {mount.target: mount for mount in agent_service("agent:1", WHERE, AGENTS, workspace).mounts}


def test_runs_with_the_uid_and_gid_of_the_workspaces_owner() -> None:
    workspace = replace(WORKSPACE, owner=Owner(uid=501, gid=20))
    assert agent_service("agent:1", WHERE, AGENTS, workspace).user == "501:20"


def test_passes_the_users_git_name_and_email() -> None:
    workspace = replace(WORKSPACE, identity=Identity(name="Ann", email="ann@example.com"))
    plain = agent_service("agent:1", WHERE, AGENTS, WORKSPACE).environment
    assert agent_service("agent:1", WHERE, AGENTS, workspace).environment == {
        **plain,
        "AGENT_SANDBOX_GIT_NAME": "Ann",
        "AGENT_SANDBOX_GIT_EMAIL": "ann@example.com",
    }


def test_labels_name_the_directory_and_its_devcontainer_json() -> None:
    assert agent_service("agent:1", WHERE, AGENTS, replace(WORKSPACE, path="/home/me/my app")).labels == {
        "devcontainer.local_folder": "/home/me/my app",
        "devcontainer.config_file": "/home/me/my app/.devcontainer/devcontainer.json",
    }


def test_passes_the_mcp_servers_in_the_form_of_each_agent_that_supports_mcp() -> None:
    workspace = replace(WORKSPACE, mcp=(McpServer(name="a", command=("x", "$y")),))
    plain = agent_service("agent:1", WHERE, AGENTS, WORKSPACE).environment
    found = agent_service("agent:1", WHERE, AGENTS, workspace).environment
    assert json.loads(found["AGENT_SANDBOX_MCP"]) == [
        {
            "file": ".claude/.claude.json",
            "key": "mcpServers",
            "servers": {
                "a": {"type": "stdio", "command": "/usr/local/lib/agent-sandbox/mcp-server", "args": ["x", "$y"]}
            },
        }
    ]
    assert "AGENT_SANDBOX_MCP" not in plain
    silent = Agents((MANIFEST.model_copy(update={"mcp": None}),))
    assert agent_service("agent:1", WHERE, silent, workspace).environment == plain


def test_the_workspace_is_writable() -> None:
    assert mounts(WORKSPACE)["/workspace"] == Mount(
        kind=MountKind.BIND, source=".", target="/workspace", read_only=False
    )


def test_a_clone_is_in_a_volume_and_no_path_of_the_host_machine_is_mounted() -> None:
    found = mounts(replace(WORKSPACE, in_volume=True))
    assert found["/workspace"] == Mount(kind=MountKind.VOLUME, source="workspace", target="/workspace", read_only=False)
    assert {mount.kind for mount in found.values()} == {MountKind.VOLUME}


def test_protected_paths_are_mounted_read_only() -> None:
    workspace = replace(WORKSPACE, protected=(Protected(path=".git/hooks", why="run"),))
    assert mounts(workspace)["/workspace/.git/hooks"] == Mount(
        kind=MountKind.BIND, source=".git/hooks", target="/workspace/.git/hooks", read_only=True, why="run"
    )


def test_pinned_paths_are_mounted_writable() -> None:
    workspace = replace(WORKSPACE, protected=(Protected(path=".git", access=Access.PINNED, why="x"),))
    assert not mounts(workspace)["/workspace/.git"].read_only


def test_state_caches_and_history_are_in_volumes() -> None:
    kept = {mount.target: mount.source for mount in mounts(WORKSPACE).values() if mount.kind is MountKind.VOLUME}
    assert kept == {
        "/etc/ssl/certs": "trust",
        "/usr/local/share/agent-sandbox/ca": "ca-public",
        "/home/dev/.claude": "state-claude",
        "/home/dev/.local": "local-claude",
        "/home/dev/.cache": "home-cache",
        "/home/dev/.history": "history",
    }


def test_dotfiles_and_shell_snippets_of_the_user_are_read_only() -> None:
    workspace = replace(WORKSPACE, dotfiles="/h/dotfiles", shell_d="/h/shell.d")
    brought = {target: mount for target, mount in mounts(workspace).items() if mount.source.startswith("/h")}
    assert brought == {
        "/home/dev/.dotfiles": Mount(
            kind=MountKind.BIND, source="/h/dotfiles", target="/home/dev/.dotfiles", read_only=True
        ),
        "/home/dev/.config/agent-sandbox/shell.d": Mount(
            kind=MountKind.BIND,
            source="/h/shell.d",
            target="/home/dev/.config/agent-sandbox/shell.d",
            read_only=True,
        ),
    }


def test_variables_of_the_manifest_override_others() -> None:
    manifest = MANIFEST.model_copy(update={"env": {"NO_PROXY": "mine"}})
    assert agent_service("agent:1", WHERE, Agents((manifest,)), WORKSPACE).environment["NO_PROXY"] == "mine"


def test_the_trust_store_and_the_ca_are_mounted_read_only() -> None:
    found = mounts(WORKSPACE)
    assert found["/etc/ssl/certs"].read_only
    assert found["/usr/local/share/agent-sandbox/ca"].read_only


def test_passes_the_list_of_protected_paths() -> None:
    protected = (Protected(path=".git", access=Access.PINNED, why="x"), Protected(path=".git/config", why="y"))
    workspace = replace(WORKSPACE, protected=protected)
    environment = agent_service("agent:1", WHERE, AGENTS, workspace).environment
    assert environment["AGENT_SANDBOX_PROTECTED"] == "pinned .git\nread .git/config"


def test_each_state_directory_is_a_volume_with_the_agents_name() -> None:
    manifest = MANIFEST.model_copy(update={"name": "example", "state": (".example", ".config/example")})
    found = {
        mount.source: mount.target for mount in agent_service("agent:1", WHERE, Agents((manifest,)), WORKSPACE).mounts
    }
    assert found.items() >= {
        ("state-example", "/home/dev/.example"),
        ("state-example..config.example", "/home/dev/.config/example"),
        ("local-example", "/home/dev/.local"),
    }
