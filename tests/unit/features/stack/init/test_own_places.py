import os
import socket
from pathlib import Path

import pytest

from agent_sandbox.features.stack.init import own_places
from agent_sandbox.features.stack.init.own_places import own_masks, own_mounts, parents_of
from agent_sandbox.problems import UserError
from agent_sandbox.stack.recorded import Access
from agent_sandbox.stack.workspace import Mask, OwnMount, Protected
from repositories import repository
from table_tests import each

WALLS = (Protected(path=".devcontainer", why=""), Protected(path=".husky", why=""))


@pytest.fixture(autouse=True)
def _scratch_is_no_part_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scratch directories can be in /dev/shm."""
    system = tuple(place for place in own_places.SYSTEM if not tmp_path.is_relative_to(place))
    monkeypatch.setattr(own_places, "SYSTEM", system)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Return a project with neighbours."""
    for name in ("app/src", "home/.ssh", "home/data", "shared", "other/lib", "x/.devcontainer"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "app"


def at(*place: int) -> str:
    return ":".join(["f", *map(str, place)])


def mounts(app: Path, *asked: tuple[str, bool]) -> tuple[OwnMount, ...]:
    environ = {"HOME": str(app.parent / "home")}
    return own_mounts(app, asked, environ, others=[app.parent / "other"], at=at)


def refusal(app: Path, path: str, *, read_only: bool = True) -> str:
    with pytest.raises(UserError) as error:
        mounts(app, (path, read_only))
    return str(error.value)


def test_mounts_neighbours_at_their_relative_path_and_home_files_in_the_agents_home(app: Path) -> None:
    assert mounts(app, ("../shared", True), ("~/data", False)) == (
        OwnMount(source=str(app.parent / "shared"), target="/shared"),
        OwnMount(source=str(app.parent / "home" / "data"), target="/home/dev/data", read_only=False),
    )


@each(
    ("path", "why"),
    [
        ("../nothing", "there is no such file or directory"),
        ("../link", "leads through a symbolic link: write the path that it leads to"),
        ("../link/lib", "leads through a symbolic link: write the path that it leads to"),
        ("../pipe", "not a file or directory: a socket or device lends access to other programs"),
        ("../socket", "not a file or directory: a socket or device lends access to other programs"),
        ("../home", "contains a home directory"),
        ("..", "contains a home directory"),
        ("/", "contains a home directory"),
        ("~/.ssh", "in a hidden directory of your home, where programs keep settings and credentials"),
        ("~/data/../.ssh", "in a hidden directory of your home, where programs keep settings and credentials"),
        ("~/Library", "in a hidden directory of your home, where programs keep settings and credentials"),
        ("/etc", "belongs to this machine's system or one of its services"),
        ("/var/lib", "belongs to this machine's system or one of its services"),
        ("/srv", "belongs to this machine's system or one of its services"),
        ("../App", "overlaps the project, and would show it without its protections"),
        ("../OTHER/lib", "overlaps another project with a sandbox"),
        ("../HOME", "contains a home directory"),
        ("../app", "overlaps the project, and would show it without its protections"),
        ("../app/src", "overlaps the project, and would show it without its protections"),
        ("../other", "overlaps another project with a sandbox"),
        ("../other/lib", "overlaps another project with a sandbox"),
        ("../x/.devcontainer", "contains the settings of a sandbox"),
        ("../usr", "inside it would be at /usr, which the sandbox uses"),
        ("../workspace", "inside it would be at /workspace, which the sandbox uses"),
    ],
)
def test_rejects_mounts_that_would_weaken_the_sandbox(tmp_path: Path, path: str, why: str) -> None:
    root = tmp_path / str(abs(hash((path, why))))
    folders = ("app/src", "home/.ssh", "home/data", "home/Library", "other/lib", "x/.devcontainer", "usr", "workspace")
    for name in (*folders, "App", "OTHER/lib", "HOME"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "link").symlink_to(root / "other")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(root)  # the path of a socket is short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    assert refusal(root / "app", path) == f"f:0: `mounts`: {path}: {why}; mount another directory"


@pytest.mark.parametrize("variable", ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"])
def test_rejects_mounts_that_contain_files_of_agent_sandbox(app: Path, variable: str) -> None:
    own = app.parent / "shared" / "agent-sandbox"
    own.mkdir()
    environ = {"HOME": str(app.parent / "home"), variable: str(own.parent)}
    for path in ("../shared", "../shared/agent-sandbox"):
        with pytest.raises(UserError, match="contains files of agent-sandbox"):
            own_mounts(app, [(path, True)], environ, others=[], at=at)


def test_rejects_mounts_with_files_of_agent_sandbox_reached_through_a_link(app: Path) -> None:
    link = app.parent / "home" / "state"
    link.symlink_to(app.parent / "shared")
    environ = {"HOME": str(link.parent), "XDG_STATE_HOME": str(link)}
    with pytest.raises(UserError, match="contains files of agent-sandbox"):
        own_mounts(app, [("../shared", True)], environ, others=[], at=at)


def test_rejects_a_neighbour_called_home(app: Path) -> None:
    with pytest.raises(UserError, match="inside it would be at /home, which the sandbox uses"):
        own_mounts(app, [("../home", True)], {"HOME": str(app.parent / "shared")}, others=[], at=at)


def test_rejects_writable_mounts_of_a_directory_that_the_host_machine_acts_on(app: Path) -> None:
    repository(app.parent / "shared")
    assert mounts(app, ("../shared", True))[0].read_only
    assert "programs on this machine act on .git/" in refusal(app, "../shared", read_only=False)
    assert "programs on this machine act on .git, " in refusal(app, "../shared/.git/hooks", read_only=False)
    (app.parent / "shared" / ".git").rename(app.parent / "bare")
    assert "programs on this machine act on a git repository, " in refusal(app, "../bare/hooks", read_only=False)


def test_rejects_a_mount_inside_another_mount_that_the_agent_can_write(app: Path) -> None:
    (app.parent / "shared" / "a" / "b").mkdir(parents=True)
    assert len(mounts(app, ("../shared", True), ("../shared/a/b", False))) == 2
    with pytest.raises(UserError) as error:
        mounts(app, ("../shared/a/b", True), ("../shared", False))
    inner, outer = app.parent / "shared" / "a" / "b", app.parent / "shared"
    why = f"{inner} is in {outer}, where the agent could replace it by a link to another place"
    assert str(error.value) == f"f: `mounts`: {why}"


def test_rejects_two_mounts_with_the_same_target(app: Path) -> None:
    with pytest.raises(UserError, match="two of them would be at /shared"):
        mounts(app, ("../shared", True), ("../shared/", True))


def masks(app: Path, *paths: str) -> tuple[Mask, ...]:
    return own_masks(app, paths, WALLS, at=at)


def test_a_mask_is_a_directory_if_the_path_is_a_directory_or_ends_in_a_slash(app: Path) -> None:
    (app / "file").touch()
    assert masks(app, "src", "secrets/", ".env.local", "file") == (
        Mask(path="src", directory=True),
        Mask(path="secrets", directory=True),
        Mask(path=".env.local", directory=False),
        Mask(path="file", directory=False),
    )


@each(
    ("path", "why"),
    [
        (".husky", "overlaps a protected path, which stays visible"),
        (".husky/a", "overlaps a protected path, which stays visible"),
        (".HUSKY/", "overlaps a protected path, which stays visible"),
        ("link", "leads through a symbolic link, or is not a file or directory"),
        ("link/a", "leads through a symbolic link, or is not a file or directory"),
        ("pipe", "leads through a symbolic link, or is not a file or directory"),
        ("a/b/c", "there is no directory a: create it first"),
        ("file/", "not a directory: remove the `/`"),
    ],
)
def test_rejects_masks_that_could_be_undone_or_hide_a_protected_path(tmp_path: Path, path: str, why: str) -> None:
    root = tmp_path / str(abs(hash((path, why))))
    (root / ".husky").mkdir(parents=True)
    (root / "link").symlink_to("/etc")
    (root / "file").touch()
    os.mkfifo(root / "pipe")
    with pytest.raises(UserError) as error:
        masks(root, path)
    assert str(error.value) == f"f:0: `mask`: {path}: {why}"


def test_dotenv_can_be_masked_since_the_mask_is_read_only_too(app: Path) -> None:
    (app / ".env").touch()
    walls = (*WALLS, Protected(path=".env", why=""))
    assert own_masks(app, (".env",), walls, at=at) == (Mask(path=".env", directory=False),)
    for spelling in (".ENV", ".env/", ".env/x"):
        with pytest.raises(UserError):
            own_masks(app, (spelling,), walls, at=at)


@each("paths", [("src", "src/"), ("src", "SRC"), ("src/", "src/x")])
def test_rejects_a_path_that_is_masked_twice(tmp_path: Path, paths: tuple[str, str]) -> None:
    (tmp_path / "src").mkdir(exist_ok=True)
    with pytest.raises(UserError, match="masked twice; keep one of them"):
        masks(tmp_path, *paths)


def test_pins_the_directories_above_a_mask(app: Path) -> None:
    (app / "a" / "b" / "c").mkdir(parents=True)
    found = parents_of(masks(app, "a/b/c", "a/k"), (*WALLS, Protected(path="x", why="")))
    assert [(one.path, one.access) for one in found] == [("a", Access.PINNED), ("a/b", Access.PINNED)]
