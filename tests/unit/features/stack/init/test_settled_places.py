import stat
from pathlib import Path

import pytest

from agent_sandbox.features.stack.init import own_places
from agent_sandbox.features.stack.init.settled_places import make_masked
from agent_sandbox.host.agents import load_agents
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.render.paths import PROJECT_FILE, STACK
from agent_sandbox.stack.workspace import Mask
from init_project import Init


@pytest.fixture(autouse=True)
def _scratch_is_no_part_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch directories can be in /dev/shm."""
    system = tuple(place for place in own_places.SYSTEM if not tmp_path.is_relative_to(place))
    monkeypatch.setattr(own_places, "SYSTEM", system)


def write(root: Path, text: str) -> None:
    (root / PROJECT_FILE).parent.mkdir(parents=True, exist_ok=True)
    (root / PROJECT_FILE).write_text(text)


def test_adds_masks_to_the_stack_and_creates_missing_masked_files(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    (root / "config" / "keys").mkdir(parents=True)
    write(root, "mask: [.env.local, config/keys]\n")
    notes = init(root).notes
    assert ".env.local: created empty, because `mask` hides what is there" in notes
    text = (root / STACK).read_text()
    assert "{type: bind, source: /dev/null, target: /workspace/.env.local," in text
    assert "/workspace/config/keys:size=64m," in text
    assert "pinned config\\npinned .env.local\\npinned config/keys" in text
    assert (root / ".env.local").read_text() == ""
    assert ".env.local" not in read_facts(root).protected
    assert not init(root).protection.kept


def test_a_masked_dotenv_is_mounted_once_and_stays_protected(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    write(root, "mask: [.env]\n")
    (root / ".env").write_text("STRIPE_KEY=sk_live\n")
    notes = init(root).notes
    text = (root / STACK).read_text()
    assert text.count("target: /workspace/.env,") == 1
    assert "{type: bind, source: /dev/null, target: /workspace/.env," in text
    assert "pinned .env" in text
    assert ".env" in read_facts(root).protected
    assert read_facts(root).masked == {".env"}
    assert (root / ".env").read_text().startswith("STRIPE_KEY=sk_live\n")
    assert not [note for note in notes if "STRIPE_KEY" in note]
    write(root, "mask: []\n")
    assert "`.env` holds STRIPE_KEY, which the agent can read" in "\n".join(init(root).notes)
    assert "read .env" in (root / STACK).read_text()


def test_passes_variables_to_the_agent_and_rejects_those_that_the_sandbox_sets(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    write(root, "environment: {DATABASE_URL: postgres://db/$app, DEBUG: 1}\n")
    init(root)
    text = (root / STACK).read_text()
    assert ("postgres://db/$$app" in text, 'DEBUG: "1"' in text) == (True, True)
    write(root, "environment: {https_Proxy: http://x, SSL_CERT_FILE: /x}\n")
    with pytest.raises(UserError) as error:
        init(root)
    assert str(error.value).splitlines() == [
        f"{root / PROJECT_FILE}:1:{column}: `environment`: the sandbox sets {name}; use another name"
        for column, name in ((28, "https_Proxy"), (53, "SSL_CERT_FILE"))
    ]


def test_adds_mcp_servers_to_the_stack_only_if_the_project_file_lists_them(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    write(root, "mcp: {db: {command: uvx, args: [pg]}}\n")
    notes = init(root, agents=("claude", "aider", "pi")).notes
    assert 'AGENT_SANDBOX_MCP: "[{\\"file\\":' in (root / STACK).read_text()
    assert "Aider and Pi cannot use the MCP servers of .devcontainer/sandbox.yaml" in notes
    write(root, "name: app\n")
    init(root, agents=("claude", "aider", "pi"))
    assert "AGENT_SANDBOX_MCP" not in (root / STACK).read_text()


def test_reports_agent_versions_that_are_not_used(tmp_path: Path, init: Init) -> None:
    root = tmp_path / "app"
    write(root, "agent_versions: {claude: 0.0.1, aider: 99.0.0, pi: 99.0.0}\n")
    notes = [note for note in init(root, agents=("claude", "aider", "pi")).notes if note.startswith("agent_versions")]
    own = load_agents(["claude"]).manifests[0].version
    assert notes == [
        f"agent_versions: claude 0.0.1 is not used: {own} comes with agent-sandbox",
        "agent_versions: aider 99.0.0 is not used: only agents from npm can have another version",
    ]


def test_adds_mounts_to_the_stack(tmp_path: Path, init: Init) -> None:
    (tmp_path / "shared").mkdir()
    write(tmp_path / "app", "mounts: [{path: ../shared}]\n")
    init(tmp_path / "app")
    mount = (
        f"{{type: bind, source: {tmp_path}/shared, target: /shared, bind: {{create_host_path: false}}, read_only: true"
    )
    assert mount in (tmp_path / "app" / STACK).read_text()


def test_creates_only_missing_masked_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("kept")
    masks = (
        Mask(path="there", directory=False),
        Mask(path="file", directory=False),
        Mask(path="folder", directory=True),
    )
    make_masked(tmp_path, masks)
    assert (tmp_path / "there").read_text() == "kept"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700


@pytest.mark.parametrize("directory", [True, False])
def test_does_not_create_masked_paths_through_a_link(tmp_path: Path, *, directory: bool) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "config").symlink_to(tmp_path / "outside")
    with pytest.raises(UserError):
        make_masked(tmp_path / "app", [Mask(path="config/keys", directory=directory)])
    assert [*(tmp_path / "outside").iterdir()] == []
